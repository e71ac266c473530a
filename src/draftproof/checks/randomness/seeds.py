"""Is a seed a seed: the same one gives the same answer, different ones independent answers, none a fresh one each time?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import score
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.checks.prompts import is_chat, ordinary, repeating
from draftproof.checks.randomness.repeats import Repeat, noise_if_needed, weigh
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Statement, Verdict
from draftproof.stats.goodness import goodness_of_fit

TOKENS = 32
SAME = {Effort.QUICK: 2, Effort.STANDARD: 3, Effort.DEEP: 5}
MORE = 6
"""Answers to one seed that were not all equal are followed by so many more."""
SEEDS = {Effort.QUICK: 24, Effort.STANDARD: 64, Effort.DEEP: 200}
UNSEEDED = {Effort.QUICK: 4, Effort.STANDARD: 12, Effort.DEEP: 12}
COPYING = Sampling(temperature=0.6)
"""Cool enough to copy what repeats itself, so that n-gram drafters draft."""
LAW_MASS = 1e-6
CONTROL = 1e-3
"""Where few answers are different, the chance of a coincidence must be below this for a pass."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers at temperature above 0.

    `same`: groups of one seed each, asked several times, one group per route and prompt (an ordinary one, one that repeats
    itself), more often where they differ; without the prompt cache, whose numerics are a matter of `randomness/history`.
    `seeded`: one answer per consecutive seed. `unseeded`: no seed given. By the one-token oracle: `law`, token id to
    probability of token 1; `chance`, an upper bound for the probability of the first seeded answer (None: not known), and
    `unseeded_chance` of the first one without a seed, where those are all the same.
    `noise`: of the server's laws in nats, None where it was not needed.
    """

    reports: Reports
    same: tuple[tuple[Completion, ...], ...]
    seeded: tuple[Completion, ...]
    unseeded: tuple[Completion, ...]
    law: tuple[tuple[int, float], ...] = ()
    chance: float | None = None
    noise: float | None = None
    unseeded_chance: float | None = None


def collect(probe: Probe) -> Evidence:
    prompt = ordinary(probe, 1)[0]
    first = probe.seeds(1)[0]
    routes = [route for route in probe.facts.routes if not is_chat(route)]
    extra = common.plain(probe)
    same = tuple(
        _asked_again(probe, Ask(text, TOKENS, 0, sampling, first, route, extra=extra))
        for n, route in enumerate(routes)
        for text, sampling in ((prompt, NEUTRAL), (repeating(probe), COPYING))[
            : 1 if n and probe.effort is Effort.QUICK else 2
        ]
    )
    noise = noise_if_needed(probe, [r for group in same for r in _repeats(group)], [prompt, repeating(probe)])
    seeded = tuple(common.sampled(probe, SEEDS[probe.effort]))
    unseeded = tuple(probe.ask(common.sample(probe)) for _ in range(UNSEEDED[probe.effort]))
    if not probe.facts.max_alternatives:
        return Evidence(probe.facts.self_reports, same, seeded, unseeded, noise=noise)
    row = probe.oracle(prompt)
    law = tuple((i, math.exp(x)) for i, x in zip(row.ids, row.logprobs, strict=True) if i >= 0)
    came = [a for a in unseeded if a.ok]
    chance, unseeded_chance = (
        _probability(probe, seeded[0]),
        _probability(probe, came[0]) if _distinct(came) == 1 else None,
    )
    return Evidence(probe.facts.self_reports, same, seeded, unseeded, law, chance, noise, unseeded_chance)


def _asked_again(probe: Probe, ask: Ask) -> tuple[Completion, ...]:
    """A few answers to one request; more where they differ, to tell a fault from an accident of rounding."""
    answers = [probe.ask(ask) for _ in range(SAME[probe.effort])]
    if _distinct([a for a in answers if a.ok]) > 1:
        answers += [probe.ask(ask) for _ in range(MORE)]
    return tuple(answers)


def _repeats(group: Sequence[Completion]) -> list[Repeat]:
    """Each answer of a group beside the most common one."""
    answers = [a for a in group if a.ok]
    if not answers:
        return []
    usual, _ = Counter(a.text for a in answers).most_common(1)[0]
    first = next(a for a in answers if a.text == usual)
    return [Repeat("same", first, a) for a in answers if a is not first]


def _probability(probe: Probe, answer: Completion) -> float | None:
    """An upper bound for the probability of an answer, token by token from the oracle; None where its contexts are not known."""
    scored = score(probe, answer)
    if not scored:
        return None
    return math.exp(math.fsum(s.ceiling if s.true is None else s.true for s in scored))


def _distinct(answers: Sequence[Completion]) -> int:
    return len({a.text for a in answers})


def _same_seed(evidence: Evidence) -> tuple[list[Finding], bool]:
    """What contradicts "one seed, one answer", and whether there are differences that noise may explain."""
    found, excused = [], False
    for group in evidence.same:
        weighed = weigh("same", _repeats(group), evidence.noise)
        if weighed.faults:
            text = f"one seed asked {len(group)} times gave {_distinct(group)} different answers ({group[0].route})"
            found.append(Finding("IRREPRODUCIBLE", text, tuple(a.exchange for a in group)))
        excused = excused or bool(weighed.unclear)
    return found, excused


def _other_seeds(evidence: Evidence, alpha: float) -> tuple[list[Finding], bool]:
    """Equal answers where they should differ, and whether there are some that may be a coincidence.

    n equal answers of probability p: p**(n - 1) < alpha happens on a sound server with a probability below alpha, summed
    over all answers that there are.
    """
    found, excused = [], False
    for code, answers, chance, what in (
        ("IGNORED", evidence.seeded, evidence.chance, "different seeds"),
        ("SHARED_STREAM", evidence.unseeded, evidence.unseeded_chance, "requests without a seed"),
    ):
        if len(answers) < 3 or _distinct(answers) > 1:
            continue
        if chance is None or chance ** (len(answers) - 1) >= alpha:
            excused = True
        else:
            text = f"{len(answers)} {what} gave one and the same answer"
            found.append(Finding(code, text, tuple(a.exchange for a in answers)))
    return found[:1], excused


def _first_tokens(evidence: Evidence, alpha: float) -> tuple[Statement, Finding | None] | None:
    """Token 1 of consecutive seeds against the oracle's law (tokens beyond the law's list share a rest cell)."""
    seen = [a.token_ids[0] for a in evidence.seeded if a.ok and a.token_ids]
    if len(seen) < 20 or not evidence.law:
        return None
    ids, law = zip(*evidence.law, strict=True)
    if math.fsum(law) > 1 + LAW_MASS:  # no law: logprobs/well_formed says so
        return None
    counts = Counter(seen)
    observed = [counts[i] for i in ids]
    rest = max(0.0, 1 - math.fsum(law))
    beyond = len(seen) - sum(observed)
    counted = [*observed, beyond] if rest > 1e-9 or beyond else observed
    result = goodness_of_fit(counted, [*law, rest][: len(counted)])
    if len(result.counts) < 2:
        return None
    text = f"token 1 of {len(seen)} consecutive seeds against the one-token oracle: p = {result.p_value:.2g}"
    statement = Statement(text, len(seen), result.method, alpha, {"p_value": result.p_value})
    if result.p_value >= alpha:
        return statement, None
    return statement, Finding("CORRELATED_SEEDS", text, tuple(a.exchange for a in evidence.seeded[:5]))


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails on unequal answers to one seed, one answer to all seeds, or seeds whose token 1 does not follow the law.

    Unequal answers count if the measured noise of batches flips so many draws with a probability below 1e-9. The others
    are tests of chance, each at a third of `terms.alpha`: equal answers with seeds, equal ones without (both by the oracle's
    probability of the answer), and token 1. Answers that may be equal by coincidence leave the check undecided.
    """
    seeded, unseeded = (tuple(a for a in answers if a.ok) for answers in (evidence.seeded, evidence.unseeded))
    evidence = replace(evidence, seeded=seeded, unseeded=unseeded)
    alpha = terms.alpha / 3
    tested = _first_tokens(evidence, alpha)
    statements = (tested[0],) if tested else ()
    chance = _coincidence(evidence)
    measured = {
        "different answers to different seeds": f"{_distinct(seeded)} of {len(seeded)}",
        "different answers without a seed": f"{_distinct(evidence.unseeded)} of {len(evidence.unseeded)}",
        "chance of a coincidence": chance,
        "noise (nat)": evidence.noise,
    }
    same, excused = _same_seed(evidence)
    other, coincident = _other_seeds(evidence, alpha)
    findings = (*same, *other, *((tested[1],) if tested and tested[1] else ()))
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, statements, measured)
    if excused:
        text = "one seed gave different answers, which numerical noise may explain or not"
        return Judgement(Verdict.INCONCLUSIVE, text, (), statements, measured, missing="less numerical noise")
    if min(len(seeded), len(unseeded)) < 3 or not evidence.same:
        return Judgement(Verdict.INCONCLUSIVE, "too few answers", measured=measured, missing="answers with seeds")
    if coincident or ((chance is None or chance >= CONTROL) and _distinct(seeded) < 3):
        text = "the prompt leaves too little to chance to tell seeds apart"
        return Judgement(Verdict.INCONCLUSIVE, text, (), statements, measured, missing="a prompt of more entropy")
    missing = why_inconclusive(
        drafting(evidence.reports, [*seeded, *evidence.unseeded, *(a for group in evidence.same for a in group)])
    )
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, (), statements, measured, missing="a prompt that drafts")
    summary = (
        f"one seed repeats exactly ({len(evidence.same)} routes and prompts); {_distinct(seeded)} of {len(seeded)} seeds and "
        f"{_distinct(evidence.unseeded)} of {len(evidence.unseeded)} unseeded requests differ"
    )
    return Judgement(Verdict.PASS, summary, (), statements, measured)


def _coincidence(evidence: Evidence) -> float | None:
    """The chance that a fair server gives the first seeded answer to all others too: its probability to the power of n - 1."""
    n = min(len(evidence.seeded), len(evidence.unseeded))
    return None if evidence.chance is None or n < 2 else float(evidence.chance ** (n - 1))


def requests(facts: Facts, effort: Effort) -> int:
    same = 2 * SAME[effort] * max(len(facts.routes), 1)
    chain = 0 if facts.countable else 1 + common.SAMPLE_TOKENS
    more = math.ceil((SEEDS[effort] - common.SEEDS) / facts.batch_seeds)
    return same + more + UNSEEDED[effort] + chain


def _made(ids: Sequence[int], drafted: int | None = 4) -> Completion:
    return made.answer((), n=0, ids=ids, drafted=drafted, accepted=1 if drafted else None)


def _declined(answer: Completion) -> Completion:
    return replace(answer, drafted=None, accepted=None, claims=made.DECLINED)


_IDS = [(n * 7 % 32, n * 3 % 5, n % 3) for n in range(32)]
_LAW_CELLS = [0] * 16 + [1] * 8 + [2] * 4 + [3] * 2 + [4] * 2
_SEEDED = tuple(_made((_LAW_CELLS[a], b, c)) for a, b, c in _IDS)
_LAW = tuple(enumerate(made.LAW))
_UNSEEDED = tuple(_made((n % 4, n % 3, n % 5)) for n in range(12))
_SAME = ((_made((0, 1, 2)),) * 3,)
_UNEQUAL = ((_made((0, 1, 2)), _made((0, 1, 3)), _made((0, 1, 2))),)
_SOUND = Evidence(made.LIVE_ON, _SAME, _SEEDED, _UNSEEDED, _LAW, 0.04)

CHECK = Check(
    name="randomness/seeds",
    claim="One seed gives one answer, different seeds independent ones that follow the law, and no seed a fresh one.",
    blind_to="Correlations beyond token 1; other temperatures; seeds under load.",
    remedy="Do not rely on seeds of this server for reproduction or for independent samples.",
    aspects=("seeds",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    statistical=True,
    examples=(
        Example("sound", _SOUND, Verdict.PASS),
        Example(
            "one seed, different answers",
            replace(_SOUND, same=_UNEQUAL, noise=0.0),
            Verdict.FAIL,
            ("IRREPRODUCIBLE",),
        ),
        Example(
            "the same, and noise that may explain it", replace(_SOUND, same=_UNEQUAL, noise=0.05), Verdict.INCONCLUSIVE
        ),
        Example("seeds without effect", replace(_SOUND, seeded=_SAME[0] * 8), Verdict.FAIL, ("IGNORED",)),
        Example(
            "no answer without a seed",
            replace(_SOUND, unseeded=tuple(replace(a, status=500, error="broken") for a in _SAME[0] * 4)),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "one seed for all unseeded",
            replace(_SOUND, unseeded=_SAME[0] * 4, unseeded_chance=0.04),
            Verdict.FAIL,
            ("SHARED_STREAM",),
        ),
        Example(
            "equal answers without a seed, of which no one knows how likely they are",
            replace(_SOUND, unseeded=_SAME[0] * 4),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "a likely answer four times without a seed, an unlikely one with",
            replace(_SOUND, unseeded=(_SAME[0][0],) * 4, chance=1e-5, unseeded_chance=0.6),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "consecutive seeds that give consecutive tokens",
            replace(_SOUND, seeded=tuple(_made((n % 5, n % 2, n % 3)) for n in range(90))),
            Verdict.FAIL,
            ("CORRELATED_SEEDS",),
        ),
        Example(
            "a prompt with one likely answer",
            replace(_SOUND, seeded=_SAME[0] * 8, law=((0, 0.999), (1, 0.001)), chance=0.99),
            Verdict.INCONCLUSIVE,
        ),
        Example("nothing came", Evidence(made.LIVE_ON, (), (), ()), Verdict.INCONCLUSIVE),
        Example(
            "nothing drafted",
            Evidence(
                made.LIVE_ON,
                (tuple(replace(a, drafted=None) for a in _SAME[0]),),
                tuple(replace(a, drafted=None) for a in _SEEDED),
                tuple(replace(a, drafted=None) for a in _UNSEEDED),
                _LAW,
                0.04,
            ),
            Verdict.INCONCLUSIVE,
        ),
        Example(
            "speculation declined for these requests",
            Evidence(
                made.LIVE_ON,
                (tuple(map(_declined, _SAME[0])),),
                tuple(map(_declined, _SEEDED)),
                tuple(map(_declined, _UNSEEDED)),
                _LAW,
                0.04,
            ),
            Verdict.PASS,
        ),
    ),
)
