from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from draftproof.client.evidence import JsonLinesSink, exchange_from_record, read_records
from draftproof.core.errors import EvidenceError, InstrumentError
from draftproof.core.exchange import Attempt, Exchange

ATTEMPTS = (Attempt(0.25, 0.5, "503"), Attempt(1.0, 0.1, "200"))
EXCHANGE = Exchange(
    3,
    "POST",
    "/completion",
    '{"prompt": "é"}',
    200,
    '{"content": "\\u2028"}',
    (Attempt(0.25, 0.5, "503"), Attempt(1.0, 0.1, "200")),
    ((0.1, 7),),
)


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with JsonLinesSink(path) as sink:
        sink.record("header", {"version": 1})
        sink.write(EXCHANGE)
    records = read_records(path)
    header, exchange = records
    assert header == {"kind": "header", "version": 1}
    assert exchange_from_record(exchange) == EXCHANGE
    assert records.cut_short == ""


def test_an_exchange_without_an_answer_is_read_back(tmp_path: Path) -> None:
    lost = Exchange(1, "GET", "/health", "", None, "", (Attempt(0.0, 30.0, "silence for 30 s"),))
    with JsonLinesSink(tmp_path / "e.jsonl") as sink:
        sink.write(lost)
    assert [exchange_from_record(r) for r in read_records(tmp_path / "e.jsonl")] == [lost]


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
def test_a_file_cut_short_gives_what_is_whole_and_says_so(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with JsonLinesSink(path, flush_s=60) as sink:
        for i in range(100):
            sink.record("row", {"i": i, "noise": os.urandom(40).hex()})
            sink.flush()
    whole = path.read_bytes()
    for length in (len(whole) - 1, len(whole) - 30, len(whole) // 2, 40):
        path.write_bytes(whole[:length])
        records = read_records(path)
        found = [r["i"] for r in records]
        assert found == list(range(len(found)))
        # A file without gzip that lacks only its last line end is cut too.
        assert records.cut_short
        assert len(found) >= 98 * length // len(whole) - 2


def test_other_files_are_no_evidence(tmp_path: Path) -> None:
    for content in (b"hello\n", b"[1]\n", b'{"a": 1}\n', b'{"kind": 3}\n', b"\x1f\x8bgarbage garbage garbage"):
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(EvidenceError):
            list(read_records(path))
    with pytest.raises(EvidenceError, match="Cannot read the evidence file"):
        list(read_records(tmp_path / "missing"))


def test_evidence_zipped_by_others_is_read_too(tmp_path: Path) -> None:
    line = b'{"kind": "a"}\n'
    path = tmp_path / "two.gz"
    path.write_bytes(gzip.compress(line) + gzip.compress(line * 2))
    assert len(list(read_records(path))) == 3


def test_data_that_is_no_json_is_our_own_fault(tmp_path: Path) -> None:
    with JsonLinesSink(tmp_path / "e.jsonl") as sink:
        for bad in ({"x": float("nan")}, {"x": object()}):
            with pytest.raises(InstrumentError, match="kind 'row'"):
                sink.record("row", bad)
        sink.record("row", {"x": 1})
    assert list(read_records(tmp_path / "e.jsonl")) == [{"kind": "row", "x": 1}]


def test_a_folder_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match=r"Cannot write the evidence file .*/no/e\.jsonl: No such file"):
        JsonLinesSink(tmp_path / "no" / "e.jsonl")


def test_a_closed_file_takes_nothing_more(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "e.jsonl")
    sink.close()
    sink.close()
    with pytest.raises(EvidenceError, match="closed"):
        sink.write(EXCHANGE)


def test_records_of_many_threads_stay_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl.gz"
    with JsonLinesSink(path, flush_s=0.01) as sink:

        def many(n: int) -> None:
            for i in range(500):
                sink.record("row", {"n": n, "i": i, "pad": "x" * (i % 97)})

        threads = [threading.Thread(target=many, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = [(r["n"], r["i"]) for r in read_records(path)]
    assert sorted(rows) == [(n, i) for n in range(8) for i in range(500)]


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
def test_a_killed_process_loses_no_more_than_the_last_moment(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    writer = (
        "import sys, time; from pathlib import Path; from draftproof.client.evidence import JsonLinesSink\n"
        "sink = JsonLinesSink(Path(sys.argv[1]), flush_s=0.2)\n"
        "for i in range(50): sink.record('row', {'i': i})\n"
        "print('written', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", writer, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"written\n"
    time.sleep(0.6)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    records = read_records(path)
    assert [r["i"] for r in records] == list(range(50))
    assert bool(records.cut_short) == (path.suffix == ".gz")


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
def test_a_full_disk_is_told_and_what_was_written_is_kept(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    script = (
        "import os, resource, signal, sys; from pathlib import Path\n"
        "from draftproof.client.evidence import JsonLinesSink; from draftproof.core.errors import EvidenceError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "sink = JsonLinesSink(Path(sys.argv[1]), flush_s=0.05)\n"
        "try:\n"
        "    while True: sink.record('row', {'noise': os.urandom(500).hex()})\n"
        "except EvidenceError as e: print(e)\n"
        "try: sink.record('row', {})\n"
        "except EvidenceError as e: print('again')\n"
        "sink.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    first, again = done.stdout.splitlines()
    assert f"The evidence file {path} could not be continued after 200,000 bytes: File too large" in first
    assert "Free some space" in first
    assert again == "again"
    assert len(list(read_records(path))) > 150


def test_memory_does_not_grow_with_the_number_of_exchanges(tmp_path: Path) -> None:
    answer = json.dumps(
        {"content": "abcdefgh", "tokens": list(range(8)), "generation_settings": {str(i): i for i in range(60)}}
    )
    path = tmp_path / "e.jsonl.gz"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with JsonLinesSink(path) as sink:
        for number in range(25_000):
            sink.write(Exchange(number, "POST", "/completion", "{}", 200, answer, (Attempt(0.0, 0.1, "200"),)))
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 30_000
    assert path.stat().st_size < 5_000_000


def test_a_record_that_is_no_exchange_is_refused() -> None:
    bad: list[dict[str, Any]] = [{}, {"number": "x"}, {"number": 1, "attempts": [1]}]
    for record in bad:
        with pytest.raises(EvidenceError, match="cannot be read"):
            exchange_from_record(record)


def test_an_earlier_file_of_that_name_is_moved_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl.gz"
    for number in range(3):
        with JsonLinesSink(path) as sink:
            sink.record("row", {"i": number})
    assert sink.displaced == tmp_path / "evidence.2.jsonl.gz"
    kept = {p.name: [r["i"] for r in read_records(p)] for p in tmp_path.iterdir()}
    assert kept == {"evidence.1.jsonl.gz": [0], "evidence.2.jsonl.gz": [1], "evidence.jsonl.gz": [2]}


def test_an_empty_file_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.touch()
    with JsonLinesSink(path) as sink:
        assert sink.displaced is None
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_another_audit_writes_is_left_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    with JsonLinesSink(path) as sink:
        sink.record("row", {"i": 1})
        with pytest.raises(EvidenceError, match="being written by another audit"):
            JsonLinesSink(path)
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_withdrawn_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text("before\n")
    sink = JsonLinesSink(path)
    sink.write(Exchange(1, "GET", "/health", "", None, "", (Attempt(0.0, 0.1, "refused"),)))
    assert sink.answers == 0
    sink.withdraw()
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("e.jsonl", "before\n")]
