"""`assert_sound`: what it lets pass, and what it says of the rest."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes import FAULTY, NOT_APPLICABLE, SOUND, UNDECIDED, URL, FakeTarget, Seen, check, raising

from draftproof.auditing import AuditConfig, Report, audit
from draftproof.auditing.limits import Limit
from draftproof.checks.check import AnyCheck
from draftproof.checks.logprobs import placeholder
from draftproof.core.errors import BudgetSpent, UsageError
from draftproof.core.verdict import Judgement, Verdict
from draftproof.launch.llama_wheel import LlamaWheel
from draftproof.testing import Servers, StartsLlamaServer, assert_sound

PLACEHOLDER = replace(FAULTY, name="logprobs/placeholder")
BROKEN = check("a/broken", raising(ZeroDivisionError("1/0")))


def report(*checks: AnyCheck, **changes: Any) -> Report:
    return audit(AuditConfig(URL, **{"seed": 5, **changes}), checks=checks, open_target=FakeTarget().open)


def complaint(report: Report, *allow: str, allow_inconclusive: bool = False) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_sound(report, allow, allow_inconclusive=allow_inconclusive)
    return str(caught.value)


def test_sound_server_passes() -> None:
    assert_sound(report(SOUND, NOT_APPLICABLE))


def test_message_says_what_failed_why_and_what_to_do(tmp_path: Path) -> None:
    out = tmp_path / "evidence.jsonl.gz"
    head, failure, finding, remedy, evidence, explain = complaint(report(PLACEHOLDER, SOUND, out=out)).splitlines()
    assert head == f"1 of 2 checks failed: llama-server b1 at {URL}"
    assert failure == "FAIL logprobs/placeholder: all 3 logprobs are 0.0"
    assert finding == "    PLACEHOLDER: 0.0 without alternatives (1 found, first in exchange 1)"
    assert remedy == f"to do: {placeholder.CHECK.remedy}"
    assert f"{out} (seed 5)" in evidence
    assert explain == "see also: draftproof explain logprobs/placeholder"


def test_text_of_a_server_cannot_move_the_cursor() -> None:
    def judge(_evidence: Seen, _terms: object) -> Judgement:
        return Judgement(Verdict.FAIL, "it said \x1b[2J\n")

    made = report(SOUND)
    bad = replace(made.outcomes[0], judgement=judge(Seen(()), None))
    assert r"it said \x1b[2J\n" in complaint(replace(made, outcomes=(bad,)))


@pytest.mark.parametrize("allow", ["logprobs/faulty", "logprobs/faulty:PLACEHOLDER"])
def test_known_fault_may_be_allowed(allow: str) -> None:
    assert_sound(report(FAULTY, SOUND), allow=[allow])
    assert_sound(report(FAULTY), allow=[allow])


def test_allowed_code_does_not_allow_another() -> None:
    told = complaint(report(FAULTY), "logprobs/faulty:SHIFTED")
    assert "FAIL logprobs/faulty" in told
    assert "allow: 'logprobs/faulty:SHIFTED' is not found any more; take it out" in told


@pytest.mark.parametrize("allow", ["logprobs/sound", "logprobs/sound:PLACEHOLDER"])
def test_stale_allowance_is_an_error(allow: str) -> None:
    assert f"allow: {allow!r} is not found any more; take it out" in complaint(report(SOUND), allow)


def test_allowance_for_a_check_that_did_not_run_is_an_error() -> None:
    assert "'logprobs/sond' is no check of this audit" in complaint(report(SOUND), "logprobs/sond")


def test_undecided_check_is_no_proof_that_an_allowance_is_stale() -> None:
    assert_sound(report(SOUND, UNDECIDED), allow=["sampling/undecided"], allow_inconclusive=True)


def test_allowances_are_a_list() -> None:
    with pytest.raises(UsageError, match=r"allow=\['logprobs/faulty'\]"):
        assert_sound(report(FAULTY), allow="logprobs/faulty")


def test_undecided_is_not_sound_unless_it_is_allowed() -> None:
    made = report(SOUND, UNDECIDED)
    told = complaint(made)
    assert told.startswith("not shown to be sound: ")
    assert "INCONCLUSIVE sampling/undecided: no logprob was seen" in told
    assert "to do: To decide sampling/undecided: tokens with logprobs" in told
    assert_sound(made, allow_inconclusive=True)


@pytest.mark.parametrize("checks", [(UNDECIDED,), (NOT_APPLICABLE,), ()])
def test_nothing_decided_is_never_sound(checks: tuple[AnyCheck, ...]) -> None:
    assert "nothing was decided" in complaint(report(*checks), allow_inconclusive=True)


def test_check_that_broke_is_never_allowed() -> None:
    assert "ERROR a/broken" in complaint(report(SOUND, BROKEN), "a/broken", allow_inconclusive=True)


def test_audit_cut_short_is_not_sound() -> None:
    made = report(SOUND, check("a/dear", raising(BudgetSpent("the budget of 5 requests is spent"))), SOUND)
    assert "stopped early: the budget of 5 requests is spent" in complaint(made)
    assert_sound(made, allow_inconclusive=True)


def test_more_than_one_server_is_not_sound() -> None:
    mixed = replace(report(SOUND), limits=(Limit("this is more than one server", "audit each", mixed=True),))
    assert "this is more than one server: audit each" in complaint(mixed)


def test_server_that_is_not_as_expected_is_not_sound() -> None:
    told = complaint(replace(report(SOUND), notes=("You said that this server does not speculate. It does.",)))
    assert "It does." in told


def test_failure_without_a_code_is_not_covered_by_one() -> None:
    made = report(FAULTY)
    bare = replace(made.outcomes[0], judgement=Judgement(Verdict.FAIL, "without a code"))
    assert "FAIL logprobs/faulty" in complaint(replace(made, outcomes=(bare,)), "logprobs/faulty:PLACEHOLDER")


def test_a_draft_may_be_given_by_its_place() -> None:
    for start in (Servers.llama_server, StartsLlamaServer.__call__, LlamaWheel.__init__):
        names = [n for n, p in inspect.signature(start).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert names[2:] == ["draft"]
