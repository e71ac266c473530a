"""The auditor on a real llama-server, in every mode: what it must find, and what it must not.

The seeds of the audits are fixed; where draws cannot be replayed from them, most samples are drawn without a seed. By the audits'
error budget a sound aspect fails at most once in a million audits; a pass of a faulty one is bounded by each check's statement.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.real.modes import MODES

from draftproof.auditing import AuditConfig, Report, audit
from draftproof.core.probe import Effort
from draftproof.core.verdict import Verdict

pytestmark = pytest.mark.real

PASS, FAIL, NA, INCONCLUSIVE = Verdict.PASS, Verdict.FAIL, Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE
COLUMNS = (
    "logprobs/placeholder",
    "logprobs/rescored",
    "logprobs/streaming",
    "sampling/distribution",
    "sampling/greedy_parity",
    "sampling/parameters",
    "sampling/structure",
    "sampling/temperature",
    "sampling/unchanged",
    "self_report/speculation_reported",
    "self_report/speculation_switch",
    "self_report/silent_bypass",
    "self_report/accounting",
)
SAMPLED_TRULY = (PASS, PASS, PASS, PASS, PASS, NA)
COIN_TOSSED = (FAIL, FAIL, FAIL, FAIL, INCONCLUSIVE, NA)
"""Drafts are accepted by coin toss: the tokens follow no temperature at all."""
EXPECTED = {
    "no draft": (PASS, PASS, PASS, *SAMPLED_TRULY, PASS, NA, NA, PASS),
    "draft-simple": (FAIL, FAIL, FAIL, *SAMPLED_TRULY, FAIL, NA, PASS, PASS),
    "draft-simple, probabilistic": (FAIL, FAIL, FAIL, *SAMPLED_TRULY, FAIL, NA, PASS, PASS),
    "ngram-simple": (FAIL, FAIL, FAIL, *SAMPLED_TRULY, FAIL, NA, PASS, PASS),
    "ngram-mod": (FAIL, FAIL, FAIL, *SAMPLED_TRULY, FAIL, NA, PASS, FAIL),
    "synth_len": (FAIL, FAIL, FAIL, *COIN_TOSSED, FAIL, NA, PASS, FAIL),
    "synth_rates": (FAIL, FAIL, FAIL, *COIN_TOSSED, FAIL, NA, PASS, FAIL),
}


def audited(mode: str, pair: tuple[Path, Path], out: Path, effort: Effort, checks: tuple[str, ...] = ()) -> Report:
    with MODES[mode].server(*pair) as server:
        return audit(AuditConfig(server.url, effort=effort, checks=checks, seed=20, out=out / "evidence.jsonl.gz"))


def verdicts(report: Report) -> dict[str, Verdict]:
    return {o.check: o.judgement.verdict for o in report.outcomes}


def summary(report: Report, check: str) -> str:
    return next(o.judgement.summary for o in report.outcomes if o.check == check)


@pytest.mark.parametrize("mode", EXPECTED)
def test_every_mode_gets_its_verdicts(mode: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    report = audited(mode, pair, tmp_path, Effort.STANDARD)
    found = verdicts(report)
    assert tuple(found[c] for c in COLUMNS) == EXPECTED[mode], "\n".join(summary(report, c) for c in COLUMNS)
    observed = summary(report, "self_report/speculation_observed")
    assert found["self_report/speculation_observed"] is PASS
    assert observed.startswith("not seen" if mode == "no draft" else "on")
    assert report.exit_code == (0 if mode == "no draft" else 1)
    assert {found[name] for name in found if name.startswith("randomness/")} == {PASS}
    assert found["stopping/budget"] is PASS
    assert found["stopping/stop_string"] is PASS, summary(report, "stopping/stop_string")
    assert found["logprobs/encoding"] is PASS, summary(report, "logprobs/encoding")
    assert found["logprobs/prompt"] is NA
    assert summary(report, "logprobs/prompt").startswith("the request for the prompt's logprobs is ignored")


@pytest.mark.parametrize(
    ("mode", "rule"),
    [
        ("draft-simple", "the draft's likeliest token is proposed"),
        ("draft-simple, probabilistic", "verified by rejection sampling"),
        ("ngram-mod", ""),
    ],
)
def test_the_rule_of_acceptance_is_told(mode: str, rule: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    report = audited(mode, pair, tmp_path, Effort.QUICK, ("self_report/acceptance_rule",))
    assert rule in summary(report, "self_report/acceptance_rule")


@pytest.mark.parametrize("mode", ["synth_len", "synth_rates"])
def test_synthetic_acceptance_is_named_for_what_it_does(mode: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    report = audited(mode, pair, tmp_path, Effort.QUICK, ("sampling/distribution",))
    assert "they fit the rule: draft_top" in summary(report, "sampling/distribution")


@pytest.mark.parametrize("effort", [Effort.QUICK, Effort.STANDARD])
def test_a_small_bias_never_gets_a_certificate(effort: Effort, pair: tuple[Path, Path], tmp_path: Path) -> None:
    report = audited("p_min and n_min", pair, tmp_path, effort, ("sampling/distribution",))
    assert verdicts(report)["sampling/distribution"] in (FAIL, INCONCLUSIVE)


def test_a_small_bias_fails_at_deep_effort_with_its_rule_named(pair: tuple[Path, Path], tmp_path: Path) -> None:
    report = audited("p_min and n_min", pair, tmp_path, Effort.DEEP, ("sampling/distribution",))
    assert verdicts(report)["sampling/distribution"] is FAIL
    assert "short_drafts_dropped" in summary(report, "sampling/distribution")
