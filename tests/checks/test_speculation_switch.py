from __future__ import annotations

from dataclasses import replace

from draftproof.checks import examples as made
from draftproof.checks.self_report.speculation_switch import NONSENSE, Evidence, Trial, judge
from draftproof.core.ask import Completion, Scalar
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

TOKENS = [made.true_token(n % 3) for n in range(6)]
ON = made.answer(TOKENS, drafted=9, accepted=3)
OFF = made.answer(TOKENS)
REFUSED = made.answer((), status=400, error="unknown field")
FIELD: tuple[str, Scalar] = ("speculative.n_max", 0)


def judged(
    switched: Completion, nonsense: Completion = ON, before: Completion = ON, after: Completion = ON
) -> Judgement:
    trials = (Trial("", None, before), Trial(*NONSENSE, nonsense), Trial(*FIELD, switched), Trial("", None, after))
    return judge(Evidence(made.LIVE_ON, trials), Terms())


def claiming(value: Scalar) -> Completion:
    return replace(ON, claims=((FIELD[0], value),))


def test_a_field_is_taken_where_its_own_value_is_shown_and_was_not_before() -> None:
    assert judged(claiming(0)).codes == ("IGNORED",)
    assert judged(claiming(8)).verdict is Verdict.NOT_APPLICABLE
    assert judged(claiming(0), before=claiming(0)).verdict is Verdict.NOT_APPLICABLE
    assert judged(claiming(0), before=claiming(8)).codes == ("IGNORED",)


def test_a_plain_request_that_drafts_only_sometimes_tells_nothing() -> None:
    assert judged(OFF, after=OFF).verdict is Verdict.INCONCLUSIVE
    assert judged(ON, after=OFF).verdict is Verdict.INCONCLUSIVE
    assert judged(OFF).verdict is Verdict.PASS


def test_a_refusal_is_told_unless_every_unknown_field_is_refused() -> None:
    assert "speculative.n_max is refused with a clear error" in judged(REFUSED).summary
    assert NONSENSE[0] not in judged(REFUSED).summary
    strict = judged(REFUSED, nonsense=REFUSED)
    assert strict.verdict is Verdict.NOT_APPLICABLE
    assert "is refused with a clear error" not in strict.summary
    assert judged(ON).summary.endswith("accepted and ignored, as any unknown field is")
    assert judged(ON, nonsense=REFUSED).summary.endswith("accepted and ignored")
