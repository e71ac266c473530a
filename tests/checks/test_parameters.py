from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.laws import known_model
from draftproof.checks.sampling.obeyed import Trial
from draftproof.checks.sampling.parameters import Evidence, judge
from draftproof.checks.sampling.settings import BY_NAME, HOT, banning
from draftproof.core.ask import Ask, Completion
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import GREEDY, Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict
from draftproof.countable.catalogue import servable

BEST = tuple(n % 3 for n in range(12))
OTHER = tuple((b + 1) % 3 for b in BEST)
FREE_OF_1 = tuple(3 if b == 1 else b for b in BEST)


def answer(ids: Sequence[int], sampling: Sampling = GREEDY, **more: object) -> Completion:
    whole = made.answer((), ids=ids, sampling=sampling, drafted=9)
    return replace(whole, **more)  # type: ignore[arg-type]


def one(context: tuple[int, ...], chosen: int | None, best: int, *, listed: bool = True) -> Completion:
    """A one-token answer of the same setting; its list is the model's own law, which favours `best`."""
    law = [0.05] * 5
    law[best] = 0.8
    whole = made.answer([made.true_token(0 if chosen is None else chosen, law, 5 if listed else 0)])
    if chosen is None:
        whole = replace(whole, token_ids=())
    return replace(whole, ask=Ask(context, 1, 5, GREEDY))


def moved(
    ids: Sequence[int], chosen: Sequence[int | None], name: str = "repeat_penalty", best: Sequence[int] = BEST
) -> Trial:
    own = (one(made.PROMPT + tuple(ids[:n]), c, best[n]) for n, c in enumerate(chosen))
    return Trial(name, answer(ids, BY_NAME[name].sampling), tuple(own))


def banned(ids: Sequence[int], token: int = 1) -> Trial:
    return Trial("logit_bias", answer(ids, banning(token)))


def top_k(ids: Sequence[int], gap: float = 1.0, own: Sequence[Completion] = ()) -> Trial:
    row = OracleRow((0, 1, 2, 3), tuple("abcd"), (-0.5, -0.5 - gap, -0.5 - gap, -0.5 - gap), 4)
    return Trial("top_k", answer(ids, BY_NAME["top_k"].sampling), tuple(own), row)


REFUSED = Trial("top_k", made.answer((), ids=(), status=400, error="HTTP 400: unknown field top_k"))
UNTOLD = moved(BEST, BEST)


def evidence(*trials: Trial, noise: float = 1e-6, **more: object) -> Evidence:
    control = answer([3] * 12, Sampling(temperature=HOT))
    return replace(Evidence(made.LIVE_ON, noise, 5, "", answer(BEST), control, trials), **more)  # type: ignore[arg-type]


def judged(*trials: Trial, noise: float = 1e-6, **more: object) -> Judgement:
    return judge(evidence(*trials, noise=noise, **more), Terms())


def result(trial: Trial, **more: Any) -> tuple[object, ...]:
    """State, telling tokens, wrong tokens."""
    return judged(trial, **more).tables[0].rows[0][2:]


@pytest.mark.parametrize(
    ("gap", "noise", "verdict"),
    [
        (0.84, 0.1, Verdict.INCONCLUSIVE),
        (0.86, 0.1, Verdict.FAIL),
        (0.42, 0.1, Verdict.PASS),
        (0.43, 0.1, Verdict.INCONCLUSIVE),
        (0.0009, 0.0, Verdict.PASS),
        (0.04, 0.0, Verdict.INCONCLUSIVE),
        (0.06, 0.0, Verdict.FAIL),
    ],
)
def test_the_noise_of_a_gap_is_that_of_two_values(gap: float, noise: float, verdict: Verdict) -> None:
    """Six and three times sqrt(2) .1 are .849 and .424."""
    assert judged(top_k((0, 3, 0), gap), noise=noise).verdict is verdict


def test_without_a_plain_answer_nothing_is_told() -> None:
    assert result(top_k((0, 3, 1)), greedy=None)[0] == "UNTOLD"
    assert result(top_k((0, 3, 1)), greedy=answer(BEST, status=500, error="broken"))[0] == "UNTOLD"


def test_a_ban_without_a_law_is_told_by_the_tokens_that_the_plain_answer_has_of_it() -> None:
    """Of the plain answer's twelve tokens the second, fifth, eighth and eleventh are the banned one."""
    assert result(banned(FREE_OF_1)) == ("OBEYED", 4, 0)
    assert result(banned(BEST)) == ("IGNORED", 4, 4)
    assert result(banned((0, 2, 1, 3))) == ("IGNORED", 4, 1)
    assert result(banned(FREE_OF_1), greedy=answer((1, 0, 2)))[0] == "UNTOLD", "the first token is not drafted"
    assert result(banned(FREE_OF_1), greedy=answer((1, 1, 0))) == ("OBEYED", 1, 0)


def test_a_ban_is_held_against_laws_where_one_token_requests_give_them() -> None:
    ids = FREE_OF_1
    own = tuple(one(made.PROMPT + ids[:n], ids[n], BEST[n]) for n in range(12))
    assert result(replace(banned(ids), own=own))[:2] == ("OBEYED", 4)


def test_a_truncation_is_told_by_how_other_an_answer_without_it_is() -> None:
    assert result(top_k(BEST)) == ("OBEYED", 11, 0)
    assert result(top_k(BEST), control=None)[0] == "UNTOLD"
    assert result(top_k(BEST), control=answer(OTHER, status=500, error="broken"))[0] == "UNTOLD"
    assert result(top_k(BEST), control=answer((3, *BEST[1:])))[0] == "UNTOLD", "the first token is not drafted"
    assert result(top_k(BEST), control=answer((0, 2, *BEST[2:]))) == ("OBEYED", 1, 0)


def test_a_penalty_is_told_by_the_tokens_after_the_first_that_it_moves() -> None:
    assert result(moved(OTHER, OTHER)) == ("OBEYED", 11, 0)
    assert result(moved((1, *BEST[1:]), (1, *BEST[1:])))[0] == "UNTOLD"


def test_one_place_of_an_unknown_gap_is_unclear_and_two_that_ignore_the_setting_are_wrong() -> None:
    def but(*places: int) -> tuple[int, ...]:
        return tuple(BEST[n] if n in places else OTHER[n] for n in range(12))

    assert result(moved(but(4), OTHER))[0] == "UNCLEAR"
    assert result(moved(but(4, 7), OTHER)) == ("IGNORED", 11, 2)
    strange = (*but(4)[:7], 4, *OTHER[8:])
    assert result(moved(strange, OTHER))[0] == "UNCLEAR"


@pytest.mark.parametrize(
    ("own", "said"), [(3, "as in a request for one token too"), (1, "obeys it there"), (None, "not tried")]
)
def test_where_a_setting_is_ignored_is_held_against_one_token_requests(own: int | None, said: str) -> None:
    """Token 1 of the answer is 3 in place of 1, which the setting must give."""
    requests = () if own is None else (one((*made.PROMPT, 0), own, 1), one(made.PROMPT, 3, 1))
    assert said in judged(top_k((0, 3, 2), own=requests)).summary


def test_one_token_requests_that_give_several_tokens_do_not_obey() -> None:
    requests = (one((*made.PROMPT, 0), 1, 1), one((*made.PROMPT, 0), 2, 1))
    assert "as in a request for one token too" in judged(top_k((0, 3, 2), own=requests)).summary


@pytest.mark.parametrize(("comes", "said"), [(1, "as in a request for one token too"), (2, "obeys it there")])
def test_a_ban_obeyed_by_one_token_requests_is_not_obeyed_after_drafts(comes: int, said: str) -> None:
    trial = replace(banned((0, 1, 2)), own=(one((*made.PROMPT, 0), comes, 1, listed=False),))
    assert said in judged(trial).summary


def test_half_of_the_settings_that_are_not_refused_must_be_seen_to_act() -> None:
    obeyed = banned(FREE_OF_1)
    assert judged(obeyed, UNTOLD).verdict is Verdict.PASS
    assert judged(obeyed, UNTOLD, UNTOLD).verdict is Verdict.INCONCLUSIVE
    assert judged(obeyed, UNTOLD, REFUSED, REFUSED).verdict is Verdict.PASS
    assert judged(obeyed, UNTOLD, UNTOLD, REFUSED).verdict is Verdict.INCONCLUSIVE
    assert judged(UNTOLD, REFUSED).verdict is Verdict.INCONCLUSIVE
    assert "not known of repeat_penalty" in judged(obeyed, UNTOLD).summary
    assert "not known" not in judged(obeyed).summary
    assert "(4 tokens show it)" in judged(obeyed).summary


def test_a_setting_without_any_place_to_judge_is_untold() -> None:
    assert result(moved(OTHER, [])) == ("UNTOLD", 0, 0)


def test_all_that_is_wrong_is_named() -> None:
    summary = judged(banned(BEST), banned(FREE_OF_1), top_k((0, 3, 1))).summary
    assert summary.endswith("wrong too: top_k")
    assert "wrong too" not in judged(banned(BEST), banned(FREE_OF_1)).summary


def test_drafts_of_failed_answers_show_nothing() -> None:
    quiet = replace(banned(FREE_OF_1), answer=replace(banned(FREE_OF_1).answer, drafted=None))
    failed = replace(REFUSED, answer=replace(REFUSED.answer, drafted=5))
    plain = replace(answer(BEST), drafted=None)
    control = answer(OTHER, status=500, error="broken")
    assert judged(quiet, failed, greedy=plain, control=control).verdict is Verdict.INCONCLUSIVE
    assert judged(quiet, greedy=plain, control=None).verdict is Verdict.INCONCLUSIVE
    assert judged(quiet, greedy=plain, control=answer(OTHER)).verdict is Verdict.PASS


def test_with_a_known_law_a_long_answer_is_needed_to_tell_a_truncation() -> None:
    name = next(iter(servable())).name
    known = known_model(name)
    ids: tuple[int, ...] = ()
    for _ in range(24):
        ids = (*ids, int(known.target(made.PROMPT + ids).argmax()))
    assert result(top_k(ids), known=name) == ("OBEYED", 23, 0)
    assert result(top_k(ids[:3]), known=name)[0] == "UNTOLD"
