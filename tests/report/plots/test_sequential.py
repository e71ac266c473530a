from __future__ import annotations

import math

import pytest
from tests.report.reports import judged

from draftproof.checks.sampling import distribution
from draftproof.checks.sampling.assessment import Assessment
from draftproof.checks.sampling.collecting import Evidence
from draftproof.checks.sampling.laws import LawBook
from draftproof.report.plots.sequential import plots, running


def evidence(control: str) -> Evidence:
    return next(e.evidence for e in distribution.CHECK.examples if e.name == control)


def test_evidence_against_a_broken_server_crosses_the_threshold_and_the_control_does_not() -> None:
    later, first = running(evidence("the target's top after token 1"))
    threshold = math.log(2 / 1e-7)
    assert max(later.log_e) > threshold > max(first.log_e)
    assert list(later.tokens) == sorted(later.tokens)


def test_evidence_against_an_honest_server_stays_low() -> None:
    later, first = running(evidence("the law, by counts"))
    assert max(*later.log_e, *first.log_e) < math.log(100)


def test_replay_looks_at_every_token_that_the_judge_did() -> None:
    seen = evidence("the law, by counts")
    whole = Assessment(LawBook(None, seen.rows, seen.vocabulary, seen.noise), "")
    whole.observe(seen.streams)
    later, first = running(seen)
    assert (later.tokens[-1], first.tokens[-1]) == (whole.later.tokens, whole.first.tokens)
    assert first.log_e[-1] == pytest.approx(whole.first.log_e, abs=0.5)


def test_alt_text_tells_where_it_ended() -> None:
    (plot,) = plots(judged(("sampling/distribution", "the law, by counts")))
    assert plot.alt.startswith("later tokens: ")
    assert plot.alt.endswith("The threshold is 16.8 nats.")


def test_evidence_without_samples_has_no_curve() -> None:
    assert running(evidence("nothing came")) == ()
    assert running(None) == ()
    assert list(plots(judged(("sampling/distribution", "nothing came")))) == []
