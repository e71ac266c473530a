from __future__ import annotations

import pytest
from tests.fakes import FAULTY, NOT_APPLICABLE, SOUND, UNDECIDED, URL

from draftproof.auditing.config import AuditConfig, Budget, select
from draftproof.core.errors import UsageError

CHECKS = (SOUND, FAULTY, UNDECIDED, NOT_APPLICABLE)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("", Budget()),
        ("requests=500", Budget(500)),
        (" seconds=1.5 , requests=2", Budget(2, 1.5)),
    ],
)
def test_budget_is_read(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize(
    "text",
    ["500", "requests", "requests=0", "seconds=-1", "seconds=nan", "requests=1.5", "a=1", "requests=1,requests=2"],
)
def test_budget_that_cannot_be_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="requests=500,seconds=60"):
        Budget.parse(text)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:8080", "http://"),
        ("127.0.0.1:8080", "http://"),
        ("ftp://host", "'ftp'"),
        ("http://", "no host"),
        ("http://host:port", "no URL"),
        ("http://me:secret@host", "password"),
        ("http://host/?key=secret", "query"),
    ],
)
def test_url_that_cannot_be_asked_is_refused(url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        AuditConfig(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [{"alpha": 0.0}, {"alpha": 0.5}, {"samples": 0}, {"timeout": 0.0}, {"timeout": float("inf")}, {"seed": -1}],
)
def test_numbers_out_of_range_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        AuditConfig(URL, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], [c.name for c in CHECKS]),
        (["logprobs"], ["logprobs/sound", "logprobs/faulty"]),
        (["logprobs/"], ["logprobs/sound", "logprobs/faulty"]),
        (["sampling/undecided", "logprobs/sound"], ["logprobs/sound", "sampling/undecided"]),
        (["faulty"], ["logprobs/faulty"]),
        (["*/*und*"], ["logprobs/sound", "sampling/undecided"]),
    ],
)
def test_checks_are_chosen_by_name_family_and_glob_in_their_own_order(patterns: list[str], names: list[str]) -> None:
    assert [c.name for c in select(CHECKS, patterns)] == names


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("logprobs/sond", "logprobs/sound"),
        ("fualty", "logprobs/faulty"),
        ("samplig", "sampling"),
        ("zzz", "families logprobs, sampling, self_report"),
    ],
)
def test_unknown_check_is_an_error_with_the_nearest_names(pattern: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"'{pattern}'") as caught:
        select(CHECKS, ["logprobs", pattern])
    assert near in caught.value.remedy
