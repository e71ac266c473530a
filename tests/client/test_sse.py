from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.recorded import exchange

from draftproof.client import sse
from draftproof.client.sse import Event, read_stream
from draftproof.core.errors import TargetError


def events(text: str, *reads: tuple[float, int]) -> list[Event]:
    return list(read_stream(exchange(text, events=reads)).events)


def test_an_event_ends_at_an_empty_line_whatever_the_line_ends_are() -> None:
    for end in ("\n", "\r\n", "\r"):
        text = f"data: 1{end}{end}data:2{end}{end}"
        assert [e.data for e in events(text)] == ["1", "2"]


def test_several_data_lines_are_one_event() -> None:
    assert events('data: {"a":\ndata: 1}\n\n')[0].data == '{"a":\n1}'


def test_comments_ids_and_retries_are_no_data() -> None:
    assert events(": ping\n\nid: 4\nretry: 10\n\ndata: x\n\n") == [Event("x", "message", None)]


def test_named_events_and_error_lines_keep_their_name() -> None:
    assert [e.name for e in events("event: error\ndata: x\n\nerror: y\n\n")] == ["error", "error"]


def test_separators_that_are_no_line_ends_stay_in_the_data() -> None:
    assert events("data: a\u2028b\x0bc\n\n")[0].data == "a\u2028b\x0bc"


def test_an_unfinished_event_is_the_rest() -> None:
    stream = read_stream(exchange('data: 1\n\ndata: {"con'))
    assert [e.data for e in stream.events] == ["1"]
    assert stream.rest == 'data: {"con'


def test_an_event_arrives_with_the_read_that_completes_it() -> None:
    text = "data: 1\n\ndata: 2\n\ndata: 3\n\n"
    assert [e.at_s for e in events(text, (0.1, 5), (0.2, 13), (0.3, 9))] == [0.2, 0.2, 0.3]


def test_arrival_counts_bytes_not_characters() -> None:
    text = "data: é\n\ndata: x\n\n"
    assert [e.at_s for e in events(text, (0.1, 10), (0.2, 9))] == [0.1, 0.2]


def test_an_oversized_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_CHARACTERS", 100)
    with pytest.raises(TargetError, match="larger than"):
        events("data: " + "x" * 101 + "\n\n")


PAYLOADS = st.lists(st.text(min_size=1).map(lambda s: s.replace("\r", "").replace("\n", "")).filter(bool))


@given(PAYLOADS, st.integers(1, 9))
def test_what_is_sent_is_what_is_read_however_it_is_cut(payloads: list[str], size: int) -> None:
    text = "".join(f"data: {p}\n\n" for p in payloads)
    raw = text.encode()
    reads = [(i / 10, len(raw[i : i + size])) for i in range(0, len(raw), size)]
    found = events(text, *reads)
    assert [e.data for e in found] == payloads
    offset = 0
    for event, payload in zip(found, payloads, strict=True):
        offset += len(f"data: {payload}\n\n".encode())
        assert event.at_s == reads[(offset - 1) // size][0]
