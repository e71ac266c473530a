"""Do the server's own statements on speculation agree with each other and with what it does?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import DECLARED, Drafting, Reports, drafting, drafts, is_on, states
from draftproof.core.ask import Completion, Scalar
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the well-known endpoints say, and answers to prompts that force drafting (with their own settings and counts).

    `forced`: answers of a server that drafts only where that pays, to requests that had it draft all the same.
    """

    reports: Reports
    answers: tuple[Completion, ...]
    forced: tuple[Completion, ...] = ()


def collect(probe: Probe) -> Evidence:
    asks = common.forced(probe, 0.0)
    if not probe.facts.drafting:
        return Evidence(probe.facts.self_reports, tuple(probe.once(asks)))
    by_default = [replace(ask, extra=probe.facts.uncached) for ask in asks]
    return Evidence(probe.facts.self_reports, tuple(probe.once(by_default)), tuple(probe.once(asks)))


def _of_answers(answers: Sequence[Completion]) -> list[tuple[str, Scalar]]:
    """What answers say of their own speculation, once per value. One that says "off" of itself is right if nothing was drafted for
    it."""
    seen = any(map(drafts, answers))
    said = {
        (f"the answer's own settings, {name}", value): None
        for answer in answers
        for name, value in answer.claims
        if states(name, value) and (is_on(value) or drafts(answer) or not seen)
    }
    return list(said)


def _statements(evidence: Evidence) -> list[tuple[str, Scalar]]:
    """Every statement on speculation, by place."""
    said = dict.fromkeys(r for r in evidence.reports if r[0] != DECLARED and states(*r))
    return list(said | dict.fromkeys(_of_answers(evidence.answers)))


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails, naming the field, when speculation was seen and a statement denies it, or when statements contradict each other.

    Statements on the server are held against requests that say nothing of speculation; an answer's own ones against itself.
    """
    forced = [a for a in evidence.forced if a.ok]
    drafted = [a for a in forced if drafts(a)]
    lies = [(place, value) for place, value in _of_answers(drafted) if not is_on(value)]
    judgement = _by_default(evidence)
    if judgement.verdict is Verdict.FAIL or not forced:
        return judgement
    if lies:
        return _against(lies, drafted, judgement.tables)
    if not drafted:
        return judgement
    text = f"{sum(a.drafted or 0 for a in drafted)} tokens were drafted where a request demanded it, and the answers say so"
    said = _statements(evidence)
    if judgement.verdict is Verdict.INCONCLUSIVE and said and all(is_on(value) for _, value in said):
        return Judgement(Verdict.PASS, f"{_listed(said)}; {text}", tables=judgement.tables)
    return replace(judgement, summary=f"{judgement.summary}; {text}")


def _by_default(evidence: Evidence) -> Judgement:
    """Of requests that say nothing of speculation."""
    answers = [a for a in evidence.answers if a.ok]
    said = _statements(evidence)
    state = drafting(evidence.reports, answers)
    rows = (*((place, _shown(value)) for place, value in said), ("seen", state.value))
    tables = (Table("Statements on speculation", ("where", "says"), rows),)
    if not said:
        return Judgement(Verdict.NOT_APPLICABLE, "the server says nothing of speculation", tables=tables)
    if state is Drafting.SEEN:
        return _against(said, answers, tables)
    if state is Drafting.OFF:
        wrong = [(place, value) for place, value in said if is_on(value)]
        if not wrong:
            return Judgement(Verdict.PASS, f"{_listed(said)}; none was seen", tables=tables)
        text = f"{_listed(wrong)}, but nothing was drafted and the live report says off"
        return Judgement(Verdict.INCONCLUSIVE, text, tables=tables, missing="a prompt that drafts")
    text = f"{_listed(said)}, but nothing was drafted to compare it with"
    return Judgement(Verdict.INCONCLUSIVE, text, tables=tables, missing="a prompt that drafts")


def _against(said: Sequence[tuple[str, Scalar]], answers: Sequence[Completion], tables: tuple[Table, ...]) -> Judgement:
    drafted = sum(a.drafted or 0 for a in answers)
    right = [(place, value) for place, value in said if is_on(value)]
    wrong = [(place, value) for place, value in said if not is_on(value)]
    seen = f"{drafted} drafted tokens were counted in the answers" if drafted else "drafting was seen"
    if not wrong:
        return Judgement(Verdict.PASS, f"{_listed(right)}; {seen}", tables=tables)
    but = f"; {_listed(right)}" if right else ""
    summary = f"{_listed(wrong)}, but {seen}{but}"
    exchanges = tuple(a.exchange for a in answers if a.drafted)
    findings = tuple(Finding("MISREPORT", f"{place} says {_shown(value)}", exchanges) for place, value in wrong)
    return Judgement(Verdict.FAIL, summary, findings, tables=tables)


def _shown(value: Scalar) -> str:
    if isinstance(value, str):
        return '"' + value.strip("[]").replace('"', "") + '"'  # a list is told as JSON
    return {True: "yes", False: "no"}.get(bool(value), str(value))


def _listed(said: Sequence[tuple[str, Scalar]]) -> str:
    return ", ".join(f"{place} says {_shown(value)}" for place, value in said)


def requests(facts: Facts, effort: Effort) -> int:
    return 4 if facts.drafting else 0


_TOKENS = [made.true_token(n % 3) for n in range(6)]
_PLAIN = made.answer(_TOKENS, claims=(("speculative.types", "none"),))
_DRAFTED = made.answer(_TOKENS, drafted=9, accepted=3, claims=(("speculative.types", "none,draft-simple"),))
_ADAPTED = replace(_DRAFTED, drafted=0, accepted=0)
_HONEST = (("/props speculative.types", "draft-simple"), ("/slots speculative", True))

CHECK = Check(
    name="self_report/speculation_reported",
    claim="What the server says of speculation, in all places, agrees with what it does.",
    blind_to="Settings that it does not report at all.",
    remedy="Do not go by what it says of speculation in the places found wrong; look at the draft counts of an answer instead.",
    aspects=("self-report",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    examples=(
        Example("/props denies it", Evidence(made.LIVE_ON, (_DRAFTED,)), Verdict.FAIL, ("MISREPORT",)),
        Example("every place says it", Evidence(_HONEST, (_DRAFTED,)), Verdict.PASS),
        Example(
            "settings of a draft that are null or 0 deny nothing",
            Evidence((*_HONEST, ("/props speculative.p_min", 0), ("/props speculative.model", None)), (_DRAFTED,)),
            Verdict.PASS,
        ),
        Example(
            "an answer says that nothing was drafted for it, which is right",
            Evidence(_HONEST, (_DRAFTED, _PLAIN)),
            Verdict.PASS,
        ),
        Example("off everywhere, nothing seen", Evidence(made.LIVE_OFF, (_PLAIN,)), Verdict.PASS),
        Example(
            "a drafter was configured, but nothing drafts and the live report says off",
            Evidence(made.LIVE_OFF, (made.answer(_TOKENS, claims=(("speculative.types", "none,draft-simple"),)),)),
            Verdict.INCONCLUSIVE,
        ),
        Example("said to be on, nothing drafted", Evidence(_HONEST, (_PLAIN,)), Verdict.INCONCLUSIVE),
        Example(
            "off by default, drafts where it is told to, and says so",
            Evidence(made.LIVE_OFF, (_PLAIN,), (_DRAFTED,)),
            Verdict.PASS,
        ),
        Example(
            "said to be on, drafts only where it is told to", Evidence(_HONEST, (_ADAPTED,), (_DRAFTED,)), Verdict.PASS
        ),
        Example(
            "denies the drafts that it was told to make",
            Evidence(made.LIVE_OFF, (_PLAIN,), (replace(_DRAFTED, claims=_PLAIN.claims),)),
            Verdict.FAIL,
            ("MISREPORT",),
        ),
        Example(
            "says that it is off by default, but drafts",
            Evidence(made.LIVE_OFF, (_DRAFTED,), (_DRAFTED,)),
            Verdict.FAIL,
            ("MISREPORT",),
        ),
        Example("nothing said", Evidence((), (made.answer(_TOKENS),)), Verdict.NOT_APPLICABLE),
    ),
)
