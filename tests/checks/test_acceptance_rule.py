from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftproof.checks import examples as made
from draftproof.checks.self_report.acceptance_rule import ENOUGH, Evidence, judge
from draftproof.core.ask import Completion, Scalar
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict
from draftproof.countable.catalogue import builtin

FAVOURITE = (
    ("354725557565465327456027777437377455567035374513", 102, 11),
    ("732572555755446556556335551337356666773745657456", 96, 13),
    ("547332330573365657373737745532657334732354573377", 108, 9),
)
DRAWN = (
    ("354513567573257273353025567360365773565651565673", 61, 26),
    ("725573755373765556535655157473513656732565720256", 67, 24),
    ("547565565677456577457450355551745737355551255577", 72, 22),
)
"""Answers of a real llama-server to `bcdbc`, by token ids, with its counts: argmax drafts, and drawn ones by rejection sampling."""


def answer(
    ids: str, drafted: int | None, accepted: int | None, claims: tuple[tuple[str, Scalar], ...] = ()
) -> Completion:
    return made.answer((), n=0, ids=list(map(int, ids)), drafted=drafted, accepted=accepted, claims=claims)


def judged(*answers: Completion) -> Judgement:
    return judge(Evidence(made.LIVE_ON, builtin().name, answers), Terms())


def of(texts: Sequence[tuple[str, int, int]], shift: int = 0) -> list[Completion]:
    """With so many more accepted in the first."""
    return [answer(ids, d, a + shift * (n == 0)) for n, (ids, d, a) in enumerate(texts)]


def test_the_counts_of_a_rule_without_chance_must_be_just_those() -> None:
    exact = judged(*of(FAVOURITE))
    assert exact.verdict is Verdict.PASS
    assert "favourite" in exact.findings[0].text
    assert abs(exact.statements[0].values["z"]) < 1e-6
    off = judged(*of(FAVOURITE, shift=1))
    assert off.verdict is Verdict.INCONCLUSIVE


def test_rounding_may_decide_what_the_drafts_favourite_is() -> None:
    """After `...5655` of this answer two tokens of the draft are 0.0005 nat apart: one more was accepted than the law foretells."""
    near_tie = answer("5656745256502552", 26, 6)
    for n in (1, 3):
        exact = judged(*of(FAVOURITE[:n]), near_tie)
        assert exact.verdict is Verdict.PASS
        assert "favourite" in exact.findings[0].text
        assert judged(*of(FAVOURITE[:n], shift=1), near_tie).verdict is Verdict.INCONCLUSIVE
    alone = judged(near_tie, near_tie)
    assert alone.verdict is Verdict.INCONCLUSIVE, "nothing is exact where no answer is clear"
    assert alone.missing == "more answers"


def test_the_fit_of_every_rule_is_shown() -> None:
    judgement = judged(*of(DRAWN))
    assert judgement.measured == {"drafted": 200, "accepted": 72}
    rows = {row[0]: row for row in judgement.tables[0].rows}
    assert abs(rows["rejection sampling"][4]) < 4  # type: ignore[arg-type]
    assert rows["rejection sampling"][1] == "1 - TV(p, q)"
    assert rows["rejection sampling"][2] == 3, "that server drafted up to three tokens"
    assert judgement.statements[0].error_probability == pytest.approx(6.334e-5, rel=1e-3)


def test_few_drafts_tell_nothing() -> None:
    few = [answer(ids[:12], 20, 4) for ids, _, _ in DRAWN[:2]]
    assert ENOUGH == 40
    assert "too few" not in judged(*few).summary
    assert "39 drafted tokens are too few" in judged(replace(few[0], drafted=19), few[1]).summary


def test_answers_that_do_not_count_are_left_out() -> None:
    uncounted = answer(DRAWN[0][0], None, None)
    half = answer(DRAWN[0][0], 30, None)
    assert judged(*of(DRAWN), uncounted, half).measured == {"drafted": 200, "accepted": 72}
    undrafted = answer(DRAWN[0][0], 0, 0)
    assert judged(*of(DRAWN), undrafted).measured == {"drafted": 200, "accepted": 72}
    silent = judged(uncounted, half)
    assert silent.verdict is Verdict.INCONCLUSIVE
    assert silent.missing == "answers that count their drafts"
    assert judged(replace(of(DRAWN)[0], drafted=0, accepted=0)).missing == "a prompt that drafts"


def test_answers_without_ids_or_that_failed_are_left_out() -> None:
    nameless = replace(of(DRAWN)[0], token_ids=None)
    failed = replace(of(DRAWN)[0], status=500, error="broken")
    assert judged(*of(DRAWN), nameless, failed).measured == {"drafted": 200, "accepted": 72}


def test_rules_that_both_fit_are_both_named() -> None:
    """Of few tokens several rules would accept about as many."""
    few = [answer(ids[:16], 22, 7) for ids, _, _ in DRAWN[:2]]
    judgement = judged(*few)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "which fits: " in judgement.summary
    assert judgement.summary.count(";") >= 1


def test_a_field_that_says_nothing_of_kinds_names_no_drafter() -> None:
    claims: tuple[tuple[str, Scalar], ...] = (("speculative.ngram_size_n", "ngram"), ("speculative.types", "none"))
    assert judged(*(replace(a, claims=claims) for a in of(DRAWN))).verdict is Verdict.PASS
    off: tuple[tuple[str, Scalar], ...] = (("speculative.types", "draft-simple,ngram-mod"),)
    assert "ngram" in judged(*(replace(a, claims=off) for a in of(DRAWN))).summary
