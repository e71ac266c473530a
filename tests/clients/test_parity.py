"""draftproof serve answers what llama-server answered, but for the differences that are meant and written down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients import bad_requests
from tests.clients.differences import NEVER_EQUAL, REASONS, found, page, unexplained
from tests.clients.replay import Difference, differences, recorded
from tests.clients.served import DRAFTING, TARGET, serve

pytestmark = pytest.mark.real
DOCS = Path(__file__).parents[2] / "docs" / "llama-server-differences.md"
GREEDY = recorded("plain", 0)


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with serve(*TARGET) as url:
        yield url


@pytest.fixture(scope="module")
def drafting() -> Iterator[str]:
    with serve(*DRAFTING) as url:
        yield url


def test_every_difference_has_its_reason_and_every_reason_its_difference() -> None:
    seen = list(found())
    assert unexplained(seen) == []
    assert [r.name for r in REASONS if not any(r.covers(difference) for _, _, difference in seen)] == []


@pytest.mark.parametrize("name", GREEDY)
def test_a_drafting_server_gives_the_numbers_of_a_llama_server_that_does_not(drafting: str, name: str) -> None:
    def is_meant(difference: Difference) -> bool:
        known = any(pattern.fullmatch(difference.where) for pattern in NEVER_EQUAL)
        return known or any(
            reason.covers(difference) and "logprobs of drafted" not in reason.name for reason in REASONS
        )

    counts = ("/timings/draft_n", "/timings/draft_n_accepted")
    left = [d for d in differences(drafting, GREEDY[name]) if not is_meant(d) and not d.where.endswith(counts)]
    assert left == []


@pytest.mark.parametrize("name", bad_requests.CASES)
def test_a_bad_request_is_refused_in_the_same_form(plain: str, name: str) -> None:
    theirs: Any = bad_requests.recorded()[name]
    status, error = bad_requests.ask(plain, bad_requests.CASES[name])
    assert status < 500, error
    if theirs[0] == status and error is not None:
        assert error.keys() == theirs[1].keys()
        assert error["type"] == theirs[1]["type"]
    elif theirs[0] == 400:
        assert name == "n: 9 on one slot"  # choices take turns here


def test_the_page_of_differences_is_up_to_date(plain: str) -> None:
    assert DOCS.read_text() == page(plain)
