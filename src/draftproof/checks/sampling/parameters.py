"""Does every sampling parameter act at drafted positions too, as it does in a request for one token?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import CHAIN_ALTERNATIVES, after, contexts
from draftproof.checks.drafting import Reports, batches, drafting, why_inconclusive
from draftproof.checks.sampling.greedy_parity import FAULT, FAULT_NOISE, TIE, TIE_NOISE
from draftproof.checks.sampling.laws import known_model
from draftproof.checks.sampling.obeyed import Place, Token, Trial, chance_of_best, places, sequence
from draftproof.checks.sampling.settings import BY_NAME, HOT, OPENAI, SETTINGS, WITHOUT_IDS, Kind, Setting, banning
from draftproof.core.ask import Ask, Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, KnownModel, OracleRow, Probe
from draftproof.core.sampling import GREEDY, Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

TOKENS = 32
CHAIN = {Effort.QUICK: 8, Effort.STANDARD: 16, Effort.DEEP: 32}
"""One-token requests per setting that moves tokens, where no law is known."""
AGAIN = 8
"""Seeds of a one-token request that must show whether a truncation acts there."""
CONTROL = 1e-3
"""The chance of the right tokens without the setting must be below this before they say anything for it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`greedy`: the answer without any setting; `control`: one at temperature 2 without a truncation.

    `known` names the countable model ("" = none). `noise`: RMS difference in nats of laws by one row and by a batch of rows.
    """

    reports: Reports
    noise: float
    vocabulary: int | None
    known: str
    greedy: Completion | None
    control: Completion | None
    trials: tuple[Trial, ...]


def _wanted(facts: Facts, effort: Effort) -> list[Setting]:
    if not (facts.token_prompts and facts.token_ids):
        return [s for s in SETTINGS if s.name in WITHOUT_IDS.get(facts.dialect, OPENAI)]
    return [s for s in SETTINGS if s.core or effort is not Effort.QUICK]


def collect(probe: Probe) -> Evidence:
    plain = common.forced(probe, 0.0)[1]
    greedy = probe.once([plain])[0]
    ask = replace(plain, max_tokens=TOKENS, alternatives=min(1, plain.alternatives), extra=probe.facts.drafting)
    control = probe.ask(replace(ask, sampling=Sampling(temperature=HOT)))
    trials = [_trial(probe, setting, ask, greedy) for setting in _wanted(probe.facts, probe.effort)]
    answers = [greedy, control, *(t.answer for t in trials)]
    noise = probe.noise([plain.prompt], batches(answers))
    known = probe.known.name if probe.known else ""
    evidence = Evidence(probe.facts.self_reports, noise, probe.facts.vocabulary, known, greedy, control, tuple(trials))
    return replace(evidence, trials=tuple(_followed_up(probe, evidence, t) for t in trials))


def _trial(probe: Probe, setting: Setting, ask: Ask, greedy: Completion) -> Trial:
    sampling = banning(_frequent(greedy)) if setting.kind is Kind.BAN else setting.sampling
    answer = probe.ask(replace(ask, sampling=sampling))
    if not answer.ok or probe.known is not None:
        return Trial(setting.name, answer)
    if setting.kind is Kind.MOVES:
        places = contexts(answer, CHAIN[probe.effort])
        return Trial(setting.name, answer, tuple(probe.ask(_one(probe, answer.ask, c)) for c in places))
    at = _first_difference(answer, greedy) if setting.kind is Kind.BEST else None
    place = None if at is None else after(answer.ask.prompt, answer, at)
    return Trial(setting.name, answer, row=None if place is None else probe.oracle(place))


def _one(probe: Probe, ask: Ask, context: str | tuple[int, ...]) -> Ask:
    alternatives = min(probe.facts.max_alternatives, CHAIN_ALTERNATIVES)
    return replace(ask, prompt=context, max_tokens=1, alternatives=alternatives)


def _frequent(greedy: Completion) -> int:
    """The token that comes most often after the first."""
    ids = (greedy.token_ids or (0,))[1:] or (0,)
    return Counter(ids).most_common(1)[0][0]


def _first_difference(answer: Completion, greedy: Completion) -> int | None:
    pairs = zip(sequence(answer), sequence(greedy), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), None)


def _followed_up(probe: Probe, evidence: Evidence, trial: Trial) -> Trial:
    """Asks for one token at the first place that is wrong, where that was not asked: is the setting ignored there too?"""
    outcome = _Outcomes.of(evidence).outcome(trial)
    if not outcome.wrong or trial.own_at(outcome.wrong[0].position):
        return trial
    context = after(trial.answer.ask.prompt, trial.answer, outcome.wrong[0].position)
    if context is None:
        return trial
    ask = _one(probe, trial.answer.ask, context)
    own = [replace(ask, seed=seed) for seed in probe.seeds(AGAIN if BY_NAME[trial.name].kind is Kind.BEST else 1)]
    return replace(trial, own=(*trial.own, *probe.ask_many(own)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a setting. `telling`: tokens after the first that would be others without it."""

    trial: Trial
    state: str
    telling: int = 0
    wrong: tuple[Place, ...] = ()
    unclear: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class _Outcomes:
    evidence: Evidence
    known: KnownModel | None
    tie: float
    fault: float

    @classmethod
    def of(cls, evidence: Evidence) -> _Outcomes:
        sigma = evidence.noise * math.sqrt(2)
        known = known_model(evidence.known) if evidence.known else None
        return cls(evidence, known, max(TIE, TIE_NOISE * sigma), max(FAULT, FAULT_NOISE * sigma))

    def outcome(self, trial: Trial) -> Outcome:
        answer, greedy = trial.answer, self.evidence.greedy
        if greedy is None or not greedy.ok:
            return Outcome(trial, "UNTOLD")
        if not answer.ok:
            return Outcome(trial, "BROKEN" if answer.status >= 500 else "REFUSED")
        found = places(trial, greedy, self.known, self.evidence.vocabulary)
        if BY_NAME[trial.name].kind is Kind.BAN and not found:
            return self._banned(trial, greedy)
        different = [p for p in found if p.differs]
        wrong = [p for p in different if p.gap is not None and p.gap > self.fault]
        unknown = [p for p in different if p.gap is None]
        if len(unknown) > 1 and all(p.emitted == p.plain for p in unknown):
            wrong += unknown
        unclear = [p for p in different if p not in wrong and (p.gap is None or p.gap > self.tie)]
        telling = self._telling(trial, found)
        if wrong:
            as_without = BY_NAME[trial.name].kind is Kind.BEST or all(p.emitted == p.plain for p in wrong)
            return Outcome(trial, "IGNORED" if as_without else "MISAPPLIED", telling, tuple(wrong))
        if unclear:
            return Outcome(trial, "UNCLEAR", telling, (), tuple(unclear))
        return Outcome(trial, "OBEYED" if telling else "UNTOLD", telling)

    def _banned(self, trial: Trial, greedy: Completion) -> Outcome:
        """Without a law: the banned token must not come."""
        banned = trial.answer.ask.sampling.logit_bias[0][0]
        ids = trial.answer.token_ids or ()
        wrong = tuple(Place(n, x, "another token", banned, None) for n, x in enumerate(ids) if x == banned)
        telling = sum(x == banned for x in (greedy.token_ids or ())[1:])
        state = "IGNORED" if wrong else "OBEYED" if telling and ids else "UNTOLD"
        return Outcome(trial, state, telling, wrong)

    def _telling(self, trial: Trial, found: Sequence[Place]) -> int:
        if BY_NAME[trial.name].kind is not Kind.BEST:
            return sum(p.position > 0 and p.choice != p.plain for p in found)
        later = len(found) - 1
        if self.known is not None:
            return later if chance_of_best(trial, self.known, HOT) < CONTROL else 0
        control, greedy = self.evidence.control, self.evidence.greedy
        if control is None or greedy is None or not control.ok:
            return 0
        pairs = list(zip(sequence(control), sequence(greedy), strict=False))[1:]
        return sum(a != b for a, b in pairs)

    def where(self, outcome: Outcome) -> str:
        """Whether a one-token request obeys at a place where the longer answer does not."""
        for place in outcome.wrong:
            chosen = {o.token_ids[0] for o in outcome.trial.own_at(place.position) if o.token_ids}
            if chosen:
                right = place.plain not in chosen if isinstance(place.choice, str) else chosen == {place.choice}
                return "though a one-token request obeys it there" if right else "as in a request for one token too"
        return "which was not tried in a request for one token"


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails on a token that is more than max(6 noise, .05) nats from the one that the setting must give, or that is banned.

    What a setting must give is worked out from the known law, or taken from one-token requests with the same setting. A refusal
    with a clear error is no fault. Passes if at least half of the settings were seen to act after the first token.
    """
    judged = _Outcomes.of(evidence)
    outcomes = [judged.outcome(t) for t in evidence.trials]
    named = {state: [o for o in outcomes if o.state == state] for state in (*_SAID, *_FAULTS)}
    rows = tuple((o.trial.name, _value(o.trial), o.state, o.telling, len(o.wrong)) for o in outcomes)
    tables = (Table("Settings tried", ("setting", "value", "result", "telling tokens", "wrong tokens"), rows),)
    measured = {"noise (nat)": evidence.noise, **{state.lower(): len(found) for state, found in named.items() if found}}
    findings = tuple(_finding(judged, o) for o in outcomes if o.state in _FAULTS)
    if findings:
        others = [o.trial.name for o in outcomes if o.state in _FAULTS][1:]
        text = findings[0].text + (f"; wrong too: {', '.join(others)}" if others else "")
        return Judgement(Verdict.FAIL, text, findings, measured=measured, tables=tables)
    if outcomes and len(named["REFUSED"]) == len(outcomes):
        text = "every setting is refused with a clear error"
        return Judgement(Verdict.NOT_APPLICABLE, text, measured=measured, tables=tables)

    def undecided(text: str, missing: str) -> Judgement:
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, tables=tables, missing=missing)

    if named["UNCLEAR"]:
        names = ", ".join(o.trial.name for o in named["UNCLEAR"])
        return undecided(
            f"{names}: tokens that differ by more than noise and less than a fault", "less numerical noise"
        )
    obeyed, untold = (", ".join(o.trial.name for o in named[s]) for s in ("OBEYED", "UNTOLD"))
    if len(named["OBEYED"]) * 2 < len(outcomes) - len(named["REFUSED"]) or not obeyed:
        return undecided(
            f"no effect to be seen here of {untold or 'any setting'}", "a prompt on which they change tokens"
        )
    missing = why_inconclusive(drafting(evidence.reports, list(_answers(evidence))))
    if missing:
        return undecided(missing, "a prompt that drafts")
    rest = [f"not known of {untold}: no token here would change by it"] if untold else []
    rest += [f"refused: {', '.join(o.trial.name for o in named['REFUSED'])}"] if named["REFUSED"] else []
    told = sum(o.telling for o in named["OBEYED"])
    summary = "; ".join([f"{obeyed} act on tokens after the first too ({told} tokens show it)", *rest])
    return Judgement(Verdict.PASS, summary, measured=measured, tables=tables)


_SAID = ("OBEYED", "REFUSED", "UNTOLD", "UNCLEAR")
_FAULTS = ("IGNORED", "MISAPPLIED", "BROKEN")


def _answers(evidence: Evidence) -> Iterator[Completion]:
    yield from (a for a in (evidence.greedy, evidence.control) if a is not None and a.ok)
    yield from (t.answer for t in evidence.trials if t.answer.ok)


def _value(trial: Trial) -> str:
    sampling = trial.answer.ask.sampling
    value = sampling.logit_bias[0] if BY_NAME[trial.name].kind is Kind.BAN else getattr(sampling, trial.name)
    return f"{value} at temperature {sampling.temperature:g}"


def _finding(judged: _Outcomes, outcome: Outcome) -> Finding:
    trial = outcome.trial
    if outcome.state == "BROKEN":
        text = f"{trial.name} is answered with status {trial.answer.status}"
        return Finding("BROKEN", text, (trial.answer.exchange,))
    first = outcome.wrong[0]
    tokens = len(sequence(trial.answer))
    how = "is ignored" if outcome.state == "IGNORED" else "acts otherwise"
    text = (
        f"{trial.name} {_value(trial)} {how} at {len(outcome.wrong)} of {tokens} tokens, {judged.where(outcome)}: "
        f"token {first.position + 1} is {_shown(trial.answer, first.position, first.emitted)}"
    )
    return Finding(outcome.state, text, (trial.answer.exchange,))


def _shown(answer: Completion, n: int, token: Token) -> str:
    return repr(answer.tokens[n].text) if n < len(answer.tokens) else f"#{token}"


def requests(facts: Facts, effort: Effort) -> int:
    settings = _wanted(facts, effort)
    moving = sum(s.kind is Kind.MOVES for s in settings)
    chain = 0 if facts.countable else moving * CHAIN[effort]
    return 1 + len(settings) + chain


def applies(facts: Facts) -> str:
    return "" if facts.routes and facts.max_alternatives else "the one-token oracle needs alternatives"


_N = 12
_BEST = tuple(n % 3 for n in range(_N))


def _one_token(context: tuple[int, ...], chosen: int, best: int) -> Completion:
    """A one-token answer whose law favours `best` by a factor of 8."""
    law = [0.05] * 5
    law[best] = 0.8
    ask = Ask(context, 1, 5, GREEDY)
    return replace(made.answer([made.true_token(chosen, law, 5)]), ask=ask)


def _moved(ids: Sequence[int], chosen: Sequence[int], name: str = "repeat_penalty", drafted: int = 9) -> Trial:
    """An answer under a setting, beside the tokens that one-token requests with the setting choose; without it `_BEST` comes."""
    answer = made.answer((), ids=ids, sampling=BY_NAME[name].sampling, drafted=drafted)
    own = (_one_token(made.PROMPT + tuple(ids[:n]), c, _BEST[n]) for n, c in enumerate(chosen))
    return Trial(name, answer, tuple(own))


def _banned(ids: Sequence[int]) -> Trial:
    return Trial("logit_bias", made.answer((), ids=ids, sampling=banning(1), drafted=9))


def _best(ids: Sequence[int], gap: float = 1.0) -> Trial:
    row = OracleRow((0, 1, 2, 3), tuple("abcd"), (-0.5, -0.5 - gap, -0.5 - gap, -0.5 - gap), 4)
    return Trial("top_k", made.answer((), ids=ids, sampling=BY_NAME["top_k"].sampling, drafted=9), row=row)


def _made(*trials: Trial, drafted: int | None = 9, noise: float = 1e-4) -> Evidence:
    greedy = made.answer((), ids=_BEST, sampling=GREEDY, drafted=drafted)
    control = made.answer((), ids=[3] * _N, sampling=Sampling(temperature=HOT), drafted=drafted)
    answers = tuple(replace(t, answer=replace(t.answer, drafted=drafted)) for t in trials)
    return Evidence(made.LIVE_ON, noise, 5, "", greedy, control, answers)


_OTHER = tuple((b + 1) % 3 for b in _BEST)
_FREE_OF_1 = tuple(3 if b == 1 else b for b in _BEST)
_REFUSED = Trial("top_k", made.answer((), ids=(), status=400, error="HTTP 400: unknown field top_k"))

CHECK = Check(
    name="sampling/parameters",
    claim="A sampling parameter that is accepted acts on drafted tokens as it does on a single one.",
    blind_to="Values other than those tried; parameters together; settings that leave the token to chance.",
    remedy="Do not use the named parameters on this server while it speculates.",
    aspects=("text",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=applies,
    examples=(
        Example("the banned token comes", _made(_banned(_BEST)), Verdict.FAIL, ("IGNORED",)),
        Example("it does not come", _made(_banned(_FREE_OF_1)), Verdict.PASS),
        Example("a penalty that is ignored", _made(_moved(_BEST, _OTHER)), Verdict.FAIL, ("IGNORED",)),
        Example(
            "a penalty that lags",
            _made(_moved((0, 2, *_BEST[2:]), _OTHER, "frequency_penalty")),
            Verdict.FAIL,
            ("MISAPPLIED",),
        ),
        Example("a penalty obeyed", _made(_moved(_OTHER, _OTHER)), Verdict.PASS),
        Example("top-k 1 gives other tokens", _made(_best((0, 3, 1, 2))), Verdict.FAIL, ("IGNORED",)),
        Example("top-k 1 is greedy", _made(_best(_BEST)), Verdict.PASS),
        Example("a near-tie", _made(_best((0, 2, *_BEST[2:]), gap=1e-4)), Verdict.PASS),
        Example("noise that explains it", _made(_best((0, 2, *_BEST[2:])), noise=0.3), Verdict.PASS),
        Example("between noise and fault", _made(_best((0, 2, *_BEST[2:]), gap=0.01)), Verdict.INCONCLUSIVE),
        Example("a penalty without effect", _made(_moved(_BEST, _BEST)), Verdict.INCONCLUSIVE),
        Example("all refused", _made(_REFUSED), Verdict.NOT_APPLICABLE),
        Example(
            "a crash", _made(replace(_REFUSED, answer=replace(_REFUSED.answer, status=500))), Verdict.FAIL, ("BROKEN",)
        ),
        Example(
            "crashes without a setting too",
            replace(_made(_banned(_FREE_OF_1)), greedy=replace(_REFUSED.answer, status=500)),
            Verdict.INCONCLUSIVE,
        ),
        Example("nothing drafted", _made(_banned(_FREE_OF_1), drafted=None), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, 0.0, 5, "", None, None, ()), Verdict.INCONCLUSIVE),
    ),
)
