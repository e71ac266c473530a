"""Is a reported logprob the target's own value, as the same server gives it when asked for that one token alone?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import Scored, cache_noise, contexts, score
from draftproof.checks.drafting import RESTART, Reports, batches, drafting, why_inconclusive
from draftproof.checks.logprobs.explanations import explain
from draftproof.checks.logprobs.wrong import Rescored, error
from draftproof.checks.prompts import ordinary, repeating
from draftproof.checks.tolerance import exceeded, tolerances, too_noisy
from draftproof.core.ask import Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, OracleRow, Probe
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

FORCED_TOKENS = 16
SPOTS = 8
FEW_SHARE = 0.03
RETOKENISED = "the contexts are texts, which the server may have cut into other tokens than it generated"


@dataclass(frozen=True, slots=True)
class Spot:
    """One context's law as the server gives it for one token, and as it is."""

    asked: OracleRow
    exact: OracleRow


@dataclass(frozen=True, slots=True)
class Evidence:
    """`long` are 48 tokens at temperature 0 and at 1, for aggregates; `forced` answers to prompts that force drafting.

    `noise`: RMS difference in nats of the server's laws by one row and by a batch of rows. `cache_noise`: the same between
    contexts as long as those of the answers read from the cache and worked out anew. `spots`, where the rows are a known model's
    exact laws: some of them beside the server's own one-token answers.
    """

    reports: Reports
    noise: float
    long: tuple[Rescored, ...]
    forced: tuple[Rescored, ...] = ()
    cache_noise: float = 0.0
    spots: tuple[Spot, ...] = ()


def collect(probe: Probe) -> Evidence:
    greedy, neutral = common.forced(probe, 0.0), common.forced(probe, 1.0)
    long = probe.once([greedy[0], neutral[0]])
    if not any(answer.drafted for answer in long):
        long = probe.once([greedy[1], neutral[1]])
    forced = [answer for answer in probe.once(neutral) if answer not in long]
    rescored = [_rescored(probe, answer, common.TOKENS) for answer in long]
    others = [_rescored(probe, answer, FORCED_TOKENS) for answer in forced]
    prompts = [ordinary(probe, 1)[0], repeating(probe), ordinary(probe, 2)[-1]]
    return Evidence(
        probe.facts.self_reports,
        probe.noise(prompts, batches([*long, *forced])),
        tuple(rescored),
        tuple(others),
        cache_noise(probe, [(r.answer, r.tokens) for r in (*rescored, *others)]),
        _spots(probe, [*long, *forced]),
    )


def _spots(probe: Probe, answers: Sequence[Completion]) -> tuple[Spot, ...]:
    """Contexts from all over the answers, asked of the server and worked out."""
    if probe.known is None:
        return ()
    places = [context for answer in answers for context in contexts(answer)]
    some = list(dict.fromkeys(places[:: max(1, len(places) // SPOTS)]))[:SPOTS]
    return tuple(map(Spot, probe.oracle_many(some, by_server=True), probe.oracle_many(some)))


def _rescored(probe: Probe, answer: Completion, limit: int) -> Rescored:
    draft: list[float] = []
    if probe.known is not None and isinstance(answer.ask.prompt, tuple):
        for context, token in zip(contexts(answer, limit), answer.tokens, strict=False):
            if isinstance(context, tuple) and token.id is not None:
                draft.append(float(probe.known.draft(context)[token.id]))
    return Rescored(answer, score(probe, answer, limit), tuple(draft))


def _errors(answers: Sequence[Rescored]) -> list[tuple[Scored, float]]:
    pairs = ((s, error(s)) for r in answers for s in r.tokens)
    return [(s, e) for s, e in pairs if e is not None]


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Compares value by value: 99 % within max(.01, 8 noise) nats and all within max(.05, 20 noise).

    Differences that are no larger against the noise between prompts from the cache and worked out anew are no fault, and no pass.
    No alpha is spent: the tolerance is a multiple of the measured noise, not a test.
    """
    answers = [r for r in (*evidence.long, *evidence.forced) if r.answer.ok]
    errors = _errors(answers)
    measured = {"tokens": len(errors), "noise (nat)": evidence.noise, **_aggregates(evidence.long)}
    off = max((_distance(spot) for spot in evidence.spots), default=0.0)
    if off > tolerances(evidence.noise)[1]:
        text = f"even one-token answers, which are never speculated, are off the exact laws of the model by up to {off:.2f} nat"
        finding = Finding("ONE_TOKEN", text, tuple(dict.fromkeys(spot.asked.exchange for spot in evidence.spots)))
        return Judgement(Verdict.FAIL, text, (finding,), measured=measured)
    if not errors:
        return Judgement(
            Verdict.INCONCLUSIVE, "no token could be asked again", measured=measured, missing="logprobs to compare"
        )
    worst = max(abs(e) for _, e in errors)
    measured["worst difference (nat)"] = worst
    differences = [e for _, e in errors]
    if own := exceeded(differences, evidence.noise):
        wide = max(evidence.noise, evidence.cache_noise)
        limit = exceeded(differences, wide)
        if any(abs(e) > own and s.token.alternatives == () for s, e in errors):
            limit = own  # no noise of rows explains a value that came without a row
        if limit and _may_be_cut_otherwise(answers, errors, limit):
            text = f"a few values differ from the one-token oracle's by up to {worst:.2f} nat; {RETOKENISED}"
            return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, missing="prompts of token ids")
        if limit:
            return _failed(answers, errors, limit, tolerances(wide)[0], measured)
        text = (
            f"values differ from the one-token oracle's by up to {worst:.2f} nat, which is no more than the prompt's way "
            f"into the cache explains ({wide:.3f} nat RMS)"
        )
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, missing="a server with less numerical noise")
    if too_noisy(differences, evidence.noise):
        text = f"the server differs from itself by {evidence.noise:.3f} nat (RMS), too much to judge single values"
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, missing="a server with less numerical noise")
    missing = why_inconclusive(drafting(evidence.reports, [r.answer for r in answers]))
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, measured=measured, missing="a prompt that drafts")
    summary = f"{len(errors)} values equal the one-token oracle's, worst difference {worst:.1e} nat"
    return Judgement(Verdict.PASS, summary, measured=measured)


def _distance(spot: Spot) -> float:
    """The largest difference in nats of a value that the server gave from the exact one."""
    exact = dict(zip(spot.exact.ids, spot.exact.logprobs, strict=True))
    return max(
        (abs(value - exact[i]) for i, value in zip(spot.asked.ids, spot.asked.logprobs, strict=True) if i in exact),
        default=0.0,
    )


def _may_be_cut_otherwise(answers: Sequence[Rescored], errors: Sequence[tuple[Scored, float]], limit: float) -> bool:
    """Whether the contexts were texts and so few values are wrong that single contexts may have been cut into other tokens."""
    texts = any(isinstance(r.answer.ask.prompt, str) for r in answers)
    return texts and sum(abs(e) > limit for _, e in errors) <= FEW_SHARE * len(errors)


def _failed(
    answers: Sequence[Rescored],
    errors: Sequence[tuple[Scored, float]],
    limit: float,
    tolerance: float,
    measured: dict[str, float | int | str | None],
) -> Judgement:
    wrong = [(s, e) for s, e in errors if abs(e) > limit]
    code, explanation = explain(answers, limit, tolerance)
    some = ", ".join(f"{s.true:.2f}" for s, _ in wrong[:4] if s.true is not None)
    told = ", ".join(f"{s.token.logprob:.2f}" for s, _ in wrong[:4])
    summary = (
        f"{len(wrong)} of {len(errors)} values are wrong: the one-token oracle gives {some or 'less'} "
        f"where the server reported {told} (worst {measured['worst difference (nat)']:.2f} nat); {explanation}"
    )
    exchanges = tuple(dict.fromkeys(r.answer.exchange for r in answers))
    rows = tuple((s.token.text, s.token.logprob, s.true, e) for s, e in wrong[:12])
    table = Table("Wrong values", ("token", "reported", "true", "difference"), rows)
    return Judgement(Verdict.FAIL, summary, (Finding(code, summary, exchanges),), measured=measured, tables=(table,))


def _aggregates(answers: Sequence[Rescored]) -> dict[str, float | int | str | None]:
    """Mean logprob, perplexity and mean confidence of the same tokens, as reported and as the oracle has them."""
    out: dict[str, float | int | str | None] = {}
    for r in answers:
        pairs = [(s.token.logprob, s.true) for s in r.tokens]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        if not both:
            continue
        name = f"t{r.answer.ask.sampling.temperature:g}"
        for side, values in zip(("reported", "true"), zip(*both, strict=True), strict=True):
            mean = math.fsum(values) / len(values)
            out[f"{name} mean logprob {side}"] = mean
            out[f"{name} perplexity {side}"] = math.exp(-mean)
            out[f"{name} mean confidence {side}"] = math.fsum(map(math.exp, values)) / len(values)
    return out


def requests(facts: Facts, effort: Effort) -> int:
    forced = 3 if facts.grammar else 1
    return 1 if facts.countable else 2 * common.TOKENS + forced * FORCED_TOKENS + 3 + forced


_LAWS = (made.LAW, (0.1, 0.6, 0.1, 0.1, 0.1), (0.3, 0.05, 0.25, 0.25, 0.15), (0.02, 0.08, 0.7, 0.15, 0.05))
_IDS = tuple(i * 7 % 5 for i in range(24))


def _row(law: Sequence[float]) -> OracleRow:
    entries = made.alternatives(law, 5)
    return OracleRow(
        tuple(e.id or 0 for e in entries),
        tuple(e.text for e in entries),
        tuple(e.logprob or 0.0 for e in entries),
        2,
        complete=True,
    )


def _made(report: Callable[[int], TokenRecord], *, drafted: int | None = 9, draft: bool = False) -> Rescored:
    tokens = [report(n) for n in range(len(_IDS))]
    scored = tuple(Scored(t, _row(_LAWS[n % 4])) for n, t in enumerate(tokens))
    own = tuple(math.log(_draft(n)[i]) for n, i in enumerate(_IDS)) if draft else ()
    return Rescored(made.answer(tokens, drafted=drafted, accepted=2 if drafted else None), scored, own)


def _draft(n: int) -> tuple[float, ...]:
    return _LAWS[n % 4][::-1]


def _true(n: int, lag: int = 0) -> TokenRecord:
    return made.true_token(_IDS[n], _LAWS[(n + lag) % 4])


def _next(n: int) -> TokenRecord:
    m = min(n + 1, len(_IDS) - 1)
    return replace(_true(n), logprob=math.log(_LAWS[m % 4][_IDS[m]]))


def _hot(n: int) -> TokenRecord:
    law = [x**0.5 for x in _LAWS[n % 4]]
    return _true(n) if n == 0 else made.true_token(_IDS[n], [x / sum(law) for x in law])


def _one_far(n: int) -> TokenRecord:
    return replace(_true(n), logprob=-9.0) if n == 9 else _true(n)


def _a_little_off(n: int) -> TokenRecord:
    return replace(_true(n), logprob=(_true(n).logprob or 0) - 0.1 * (n % 5 == 1))


def _as_text(rescored: Rescored) -> Rescored:
    answer = rescored.answer
    return replace(rescored, answer=replace(answer, ask=replace(answer.ask, prompt="bcdbc")))


def _far(n: int) -> TokenRecord:
    return replace(_true(n), logprob=(_true(n).logprob or 0) - (0.2 + n / 500) * (n % 5 == 1))


def _evidence(rescored: Rescored, noise: float = 1e-6, reports: Reports = made.LIVE_ON) -> Evidence:
    return Evidence(reports, noise, (rescored,))


CHECK = Check(
    name="logprobs/rescored",
    claim="Each reported logprob equals the target's own value for that token, asked again alone.",
    blind_to="A fault that also spoils one-token requests, which are the reference here.",
    remedy=RESTART,
    aspects=("logprobs",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    applies=lambda facts: "" if facts.routes and facts.max_alternatives else "this server gives no alternatives",
    examples=(
        Example(
            "placeholders",
            _evidence(_made(lambda n: _true(n) if n in (0, 23) else made.placeholder(_IDS[n]))),
            Verdict.FAIL,
            ("PLACEHOLDER",),
        ),
        Example("values of the next token", _evidence(_made(_next)), Verdict.FAIL, ("SHIFTED",)),
        Example("one position late", _evidence(_made(lambda n: _true(n, 1))), Verdict.FAIL, ("SHIFTED",)),
        Example(
            "the draft's own",
            _evidence(_made(lambda n: made.true_token(_IDS[n], _draft(n)), draft=True)),
            Verdict.FAIL,
            ("DRAFTS_OWN",),
        ),
        Example("another temperature after token 1", _evidence(_made(_hot)), Verdict.FAIL, ("CLASS_MIX",)),
        Example(
            "two of many off by half a nat",
            _evidence(
                _made(lambda n: replace(_true(n), logprob=(_true(n).logprob or 0) - (0.5 + n / 50) * (n % 11 == 5)))
            ),
            Verdict.FAIL,
            ("CORRUPT",),
        ),
        Example("true under speculation", _evidence(_made(_true)), Verdict.PASS),
        Example("no speculation", _evidence(_made(_true, drafted=None), reports=made.LIVE_OFF), Verdict.PASS),
        Example(
            "off by less than the server's own noise",
            _evidence(_made(_a_little_off), noise=0.02),
            Verdict.PASS,
        ),
        Example(
            "one-token answers that are not the known model's",
            replace(_evidence(_made(_true)), spots=(Spot(_row(_LAWS[0]), _row(_LAWS[1])),)),
            Verdict.FAIL,
            ("ONE_TOKEN",),
        ),
        Example(
            "one-token answers as the known model has them",
            replace(_evidence(_made(_true)), spots=(Spot(_row(_LAWS[0]), _row(_LAWS[0])),)),
            Verdict.PASS,
        ),
        Example("too noisy to judge", _evidence(_made(_a_little_off), noise=0.2), Verdict.INCONCLUSIVE),
        Example("noise that the values themselves do not show", _evidence(_made(_true), noise=0.2), Verdict.PASS),
        Example(
            "one of many off where contexts are texts",
            Evidence(made.LIVE_ON, 1e-6, (_as_text(_made(_one_far)), _as_text(_made(_true)))),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "placeholders where contexts are texts",
            _evidence(_as_text(_made(lambda n: made.placeholder(_IDS[n]) if n else _true(n)))),
            Verdict.FAIL,
            ("PLACEHOLDER",),
        ),
        Example(
            "off by as much as prompts from the cache are",
            replace(_evidence(_made(_far)), cache_noise=0.03),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "off by more than prompts from the cache are",
            replace(_evidence(_made(_far)), cache_noise=0.005),
            Verdict.FAIL,
            ("CORRUPT",),
        ),
        Example("nothing drafted", _evidence(_made(_true, drafted=None)), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, 0.0, ()), Verdict.INCONCLUSIVE),
    ),
)
