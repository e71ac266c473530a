"""Does anything in a request switch speculation off without a word?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Drafting, Reports, drafting, drafts, is_on, states
from draftproof.checks.prompts import is_small, quoted
from draftproof.checks.self_report import totals as named
from draftproof.checks.self_report.totals import moved, read_totals
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

BUDGETS = {Effort.QUICK: (257,), Effort.STANDARD: (64, 256, 257), Effort.DEEP: (64, 256, 257)}
LONG = {Effort.QUICK: 512, Effort.STANDARD: 2048, Effort.DEEP: 4096}
"""Most tokens of the long prompt; half of the context where that is less."""
WORDS_PER_TOKEN = 0.5
MOST_CONFIRMED = 3
BASE, REPEATED = "the plain request", "the plain request, afterwards"
WARM = Sampling(temperature=0.7, top_k=1)
"""Above temperature 0 and still with one possible answer, so that a drafter meets the same text."""
PENALISED = Sampling(temperature=0.0, repeat_penalty=1.001, presence_penalty=0.001, frequency_penalty=0.001)
"""Penalties that are on, and too small to change the answer."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The answer under a condition. `total`: drafted tokens by the server's totals, where answers do not count them."""

    condition: str
    answer: Completion
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A request that drafts, the same under each condition, and what seemed to be off once more."""

    reports: Reports
    trials: tuple[Trial, ...]


def collect(probe: Probe) -> Evidence:
    asker = _Asker(probe)
    base = _base(probe, asker)
    trials = [base]
    if _drafted(base):
        trials += [asker.trial(condition, ask) for condition, ask in _conditions(probe, base.answer)]
        silent = [t for t in trials[1:] if _state(t, base) == SILENT][:MOST_CONFIRMED]
        if silent:
            trials.append(asker.trial(REPEATED, base.answer.ask))
            trials += [asker.trial(t.condition, t.answer.ask) for t in silent]
    return Evidence(probe.facts.self_reports, tuple(trials))


class _Asker:
    """Asks, and looks at the server's totals where its answers do not count drafts."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._totals: bool | None = None

    def trial(self, condition: str, ask: Ask) -> Trial:
        if self._probe.facts.reports_drafts or self._totals is False:
            return Trial(condition, self._probe.ask(ask))
        before = read_totals(self._probe)
        self._totals = named.DRAFTED in before
        answer = self._probe.ask(ask)
        after = moved(before, read_totals(self._probe)) if self._totals else {}
        return Trial(condition, answer, after.get(named.DRAFTED))


def _base(probe: Probe, asker: _Asker) -> Trial:
    """A greedy request without a grammar that drafts; with logprobs if it does so with them. The last one tried if none does."""
    plain = [ask for ask in common.forced(probe, 0.0) if not ask.grammar]
    if probe.facts.reports_drafts:
        trials = [Trial(BASE, answer) for answer in probe.once(plain)]
        found = next((t for t in reversed(trials) if _drafted(t)), None)
        if found:
            return found
        if drafting(probe.facts.self_reports, [t.answer for t in trials]) is Drafting.OFF:
            return trials[-1]
    trial = None
    for ask in (plain[-1], replace(plain[-1], alternatives=0), replace(plain[-1], alternatives=0, sampling=WARM)):
        trial = asker.trial(BASE, ask)
        if _drafted(trial):
            return trial
    assert trial is not None
    return trial


def _conditions(probe: Probe, base: Completion) -> Iterator[tuple[str, Ask]]:
    """The request with one thing changed each."""
    ask, most = base.ask, probe.facts.max_alternatives
    if ask.alternatives:
        yield "without logprobs", replace(ask, alternatives=0)
    elif most:
        yield "with logprobs", replace(ask, alternatives=min(1, most))
    if ask.sampling != WARM:
        yield "temperature 0.7", replace(ask, sampling=WARM)
    yield "penalties", replace(ask, sampling=PENALISED)
    if probe.facts.grammar and base.text and "\ufffd" not in base.text:
        yield "a grammar", replace(ask, grammar=quoted(base.text))
    for n in BUDGETS[probe.effort]:
        yield f"max_tokens {n}", replace(ask, max_tokens=n)
    yield "a long prompt", replace(ask, prompt=_long(probe, ask.prompt))


def _long(probe: Probe, prompt: Prompt) -> Prompt:
    size = LONG[probe.effort]
    if probe.facts.context:
        size = min(size, probe.facts.context // 2)
    if isinstance(prompt, str):
        return " ".join(str(n) for n in range(int(size * WORDS_PER_TOKEN))) + "\n" + prompt
    before = tuple(n * n % 7 for n in range(size)) if is_small(probe) else probe.tokenize(_FILLER * size) or prompt
    return before[: max(0, size - len(prompt))] + prompt


_FILLER = "The road went on through fields and woods. "

DRAFTED, SILENT, SAID, OTHER_TEXT = "drafted", "off without a word", "off, and said so", "other text: cannot tell"


def _drafted(trial: Trial) -> bool:
    return drafts(trial.answer) or bool(trial.total)


def _state(trial: Trial, base: Trial) -> str:
    """What a trial shows beside the plain request that drafted."""
    if _drafted(trial):
        return DRAFTED
    if not trial.answer.ok or _admits(trial.answer, base.answer):
        return SAID
    shared = min(len(trial.answer.text), len(base.answer.text))
    same = shared > 0 and trial.answer.text[:shared] == base.answer.text[:shared]
    return SILENT if same else OTHER_TEXT


def _admits(answer: Completion, base: Completion) -> bool:
    """Whether the answer says itself that speculation was off for it: where the plain one says on, or by a reason."""
    before = dict(base.claims)
    for name, value in answer.claims:
        if states(name, value) and not is_on(value) and is_on(before.get(name)):
            return True
        if name == "speculation.reason" and value:
            return True
    return False


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when a request that drafts does not draft under a condition, on the same text, twice, and the answer does not say
    so; the plain request must draft afterwards too. A refusal, or settings in the answer that say "off", are honest.
    """
    base, trials = (evidence.trials or (None,))[0], evidence.trials[1:]
    if base is None or not _drafted(base):
        return _nothing(evidence)
    states_ = [(t, _state(t, base)) for t in trials]
    rows = tuple(
        (t.condition, t.total if t.answer.drafted is None else t.answer.drafted, state)
        for t, state in ((base, DRAFTED), *states_)
    )
    tables = (Table("Drafting under conditions", ("condition", "drafted tokens", "state"), rows),)
    conditions = [t.condition for t in trials if t.condition != REPEATED]
    silent = [
        c
        for c in dict.fromkeys(conditions)
        if conditions.count(c) > 1 and all(state == SILENT for t, state in states_ if t.condition == c)
    ]
    steady = all(state == DRAFTED for t, state in states_ if t.condition == REPEATED)
    suspected = any(state == SILENT for _, state in states_)
    if silent and steady:
        findings = tuple(_finding(c, trials) for c in silent)
        summary = f"speculation is off without a word under: {', '.join(silent)}"
        return Judgement(Verdict.FAIL, summary, findings, tables=tables)
    if suspected:
        text = "the same request drafts only sometimes, so that a condition cannot be told from chance"
        return Judgement(Verdict.INCONCLUSIVE, text, tables=tables, missing="a prompt that drafts every time")
    told = [(t.condition, state) for t, state in states_ if t.condition != REPEATED]
    by_state = {s: [c for c, state in told if state == s] for s in (DRAFTED, SAID, OTHER_TEXT)}
    if 2 * len(by_state[OTHER_TEXT]) > len(told):
        text = f"most conditions changed the answer, so that nothing can be told of {', '.join(by_state[OTHER_TEXT])}"
        return Judgement(Verdict.INCONCLUSIVE, text, tables=tables, missing="a prompt with one likely answer")
    summary = f"drafts under {', '.join(by_state[DRAFTED]) or 'no other condition'}"
    summary += f"; off and said so: {', '.join(by_state[SAID])}" if by_state[SAID] else ""
    summary += f"; could not be told: {', '.join(by_state[OTHER_TEXT])}" if by_state[OTHER_TEXT] else ""
    return Judgement(Verdict.PASS, summary, tables=tables)


def _finding(condition: str, trials: Sequence[Trial]) -> Finding:
    exchanges = tuple(t.answer.exchange for t in trials if t.condition == condition)
    return Finding("SILENT_BYPASS", f"nothing is drafted under: {condition}", exchanges)


def _nothing(evidence: Evidence) -> Judgement:
    state = drafting(evidence.reports, [t.answer for t in evidence.trials])
    if state is Drafting.OFF:
        return Judgement(Verdict.NOT_APPLICABLE, "the server does not speculate")
    return Judgement(Verdict.INCONCLUSIVE, f"speculation {state.value}", missing="a prompt that drafts")


def requests(facts: Facts, effort: Effort) -> int:
    trials = 4 + len(BUDGETS[effort]) + (1 if facts.grammar else 0)
    return 2 + (trials if facts.reports_drafts else 3 * trials)


_IDS = [n % 3 for n in range(12)]
_ON = made.answer((), n=0, ids=_IDS, drafted=9, accepted=3, claims=(("speculation.drafter", "draft-simple"),))
_OFF = made.answer((), n=0, ids=_IDS, claims=(("speculation.drafter", "draft-simple"),))
_ADMITTED = made.answer((), n=0, ids=_IDS, claims=(("speculation.drafter", "none"),))
_OTHER = made.answer((), n=0, ids=[n % 2 for n in range(12)])


def _made(**changed: Completion) -> Evidence:
    """Three conditions; those in `changed` answer so, also the second time."""
    answers = {"logprobs": _ON, "temperature": _ON, "penalties": _ON, **changed}
    trials = [Trial(BASE, _ON), *(Trial(c, a) for c, a in answers.items() if c != "plain")]
    trials += [Trial(REPEATED, changed.get("plain", _ON))]
    trials += [Trial(c, a) for c, a in changed.items() if c != "plain" and a == _OFF]
    return Evidence(made.LIVE_ON, tuple(trials))


CHECK = Check(
    name="self_report/silent_bypass",
    claim="What switches speculation off for a request is said in its answer.",
    blind_to="Conditions that were not tried; conditions that change the text; fewer drafts instead of none.",
    remedy="Do not count on speculation, nor on measurements of it, under the conditions named.",
    aspects=("self-report",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    examples=(
        Example("drafts everywhere", _made(), Verdict.PASS),
        Example("logprobs switch it off", _made(logprobs=_OFF), Verdict.FAIL, ("SILENT_BYPASS",)),
        Example("the same, and the answer says so", _made(logprobs=_ADMITTED), Verdict.PASS),
        Example(
            "refused with a clear error",
            _made(logprobs=made.answer((), status=400, error="not with a draft")),
            Verdict.PASS,
        ),
        Example("a condition changes the text", _made(penalties=_OTHER), Verdict.PASS),
        Example(
            "most conditions do", _made(logprobs=_OTHER, temperature=_OTHER, penalties=_OTHER), Verdict.INCONCLUSIVE
        ),
        Example("drafts only sometimes", _made(logprobs=_OFF, plain=_OFF), Verdict.INCONCLUSIVE),
        Example("nothing drafted", Evidence(made.LIVE_ON, (Trial(BASE, _OFF),)), Verdict.INCONCLUSIVE),
        Example("no speculation", Evidence(made.LIVE_OFF, (Trial(BASE, _ADMITTED),)), Verdict.NOT_APPLICABLE),
    ),
)
