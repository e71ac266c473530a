"""Audits through the dialect of SGLang: of an honest server, and of ones with a defect.

The streams of the interpreter come all at once, as through a proxy that buffers them: no fault.
"""

from __future__ import annotations

import pytest
from tests.client.interpreters import SGLang, interpreted

from draftproof.auditing import AuditConfig, Report, audit
from draftproof.core.verdict import Verdict
from draftproof.liars import liar
from draftproof.liars.hosting import hosted

CHECKS = (
    "logprobs/placeholder",
    "logprobs/presence",
    "logprobs/well_formed",
    "logprobs/rescored",
    "logprobs/prompt",
    "logprobs/streaming",
    "sampling/greedy_parity",
    "stopping/stop_string",
    "self_report/speculation_observed",
    "self_report/speculation_reported",
    "self_report/accounting",
)


def audited(name: str, checks: tuple[str, ...] = CHECKS) -> Report:
    with hosted(liar(name)) as url, interpreted(url, SGLang) as spoken:
        return audit(AuditConfig(spoken, checks=checks, seed=1))


def verdicts(report: Report) -> dict[str, Verdict]:
    return {outcome.check: outcome.judgement.verdict for outcome in report.outcomes}


def test_an_honest_server_that_speculates_is_found_sound() -> None:
    found = verdicts(audited("honest-rejection"))
    assert not {Verdict.FAIL, Verdict.ERROR} & set(found.values()), found
    assert found["logprobs/placeholder"] is found["self_report/speculation_observed"] is Verdict.PASS
    assert found["logprobs/rescored"] is found["sampling/greedy_parity"] is Verdict.PASS


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("placeholder", ("logprobs/placeholder",)),
        ("placeholder-null", ("logprobs/presence",)),
    ],
)
def test_a_server_with_a_defect_fails(name: str, checks: tuple[str, ...]) -> None:
    found = verdicts(audited(name, checks))
    assert set(found.values()) == {Verdict.FAIL}
