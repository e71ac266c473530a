"""Can a request switch speculation off, and if the server says that it did, did it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Drafting, Reports, drafting, drafts
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

NONSENSE = ("draftproof_no_such_field", 0)
SPELLINGS: tuple[tuple[str, Scalar], ...] = (
    ("speculative.n_max", 0),
    ("speculative", False),
    ("speculative.type", "none"),
    ("speculative.types", "none"),
    ("disable_spec_decode", True),
    ("disable_speculative_decoding", True),
    ("speculative_decoding", False),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """The same request with one extra field; `field` "" is the plain one."""

    field: str
    value: Scalar
    answer: Completion


@dataclass(frozen=True, slots=True)
class Evidence:
    """The plain request before and after, each known spelling of a switch, and a field that no server can know."""

    reports: Reports
    trials: tuple[Trial, ...]


def collect(probe: Probe) -> Evidence:
    asks = common.forced(probe, 0.0)
    ask = common.drafting_ask(asks, probe.once(asks))
    trials = [Trial("", None, probe.once([ask])[0])]
    if drafts(trials[0].answer):
        trials += [*_tried(probe, ask, (NONSENSE,)), *_spellings(probe, ask)]
        trials.append(Trial("", None, probe.ask(ask)))
    return Evidence(probe.facts.self_reports, tuple(trials))


def working(probe: Probe) -> tuple[str, Scalar] | None:
    """The first spelling of a switch that stops the drafting, where a field that no server knows does not."""
    asks = common.forced(probe, 0.0)
    ask = common.drafting_ask(asks, probe.once(asks))
    together = _together(probe, ask)
    if not drafts(probe.once([ask])[0]) or (together.ok and drafts(together)):
        return None
    if not all(drafts(t.answer) for t in _tried(probe, ask, (NONSENSE,))):
        return None
    stopped = (t for t in _spellings(probe, ask) if t.answer.ok and not drafts(t.answer))
    return next(((t.field, t.value) for t in stopped), None)


def _spellings(probe: Probe, ask: Ask) -> list[Trial]:
    """Every spelling in one request; each alone where that is refused, stops the drafting, or changes what the answer says."""
    answer, plain = _together(probe, ask), probe.once([ask])[0]
    known = dict(SPELLINGS).keys()
    told, told_before = ({name: v for name, v in a.claims if name in known} for a in (answer, plain))
    if answer.ok and drafts(answer) and told == told_before:
        return [Trial(field, value, answer) for field, value in SPELLINGS]
    return _tried(probe, ask, SPELLINGS)


def _together(probe: Probe, ask: Ask) -> Completion:
    """The answer to every spelling in one request."""
    return probe.once([replace(ask, extra=(*ask.extra, *SPELLINGS))])[0]


def _tried(probe: Probe, ask: Ask, fields: Sequence[tuple[str, Scalar]]) -> list[Trial]:
    asks = [replace(ask, extra=(*ask.extra, field)) for field in fields]
    return [Trial(*field, answer) for field, answer in zip(fields, probe.once(asks), strict=True)]


def _echo(trial: Trial) -> Scalar:
    """The value that the answer's own settings give for the field, None if they do not name it."""
    return dict(trial.answer.claims).get(trial.field)


def _state(trial: Trial, plain_echo: dict[str, Scalar]) -> str:
    if not trial.answer.ok:
        return "REFUSED"
    if not drafts(trial.answer):
        return "WORKS"
    echo = _echo(trial)
    obeyed = echo is not None and echo == trial.value and echo != plain_echo.get(trial.field)
    return "ECHOED" if obeyed else "NOT_OFFERED"


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails only when the answer's own settings show the switch as taken and it drafts all the same.

    A server that ignores a field that it never offered is not at fault: not applicable.
    """
    plain = [t.answer for t in evidence.trials if not t.field]
    answers = [t.answer for t in evidence.trials]
    state = drafting(evidence.reports, plain)
    if state is not Drafting.SEEN:
        verdict = Verdict.NOT_APPLICABLE if state is Drafting.OFF else Verdict.INCONCLUSIVE
        return Judgement(verdict, f"nothing to switch off: speculation {state.value}", missing="a prompt that drafts")
    if not all(map(drafts, plain)):
        text = "the plain request drafts only sometimes, so that a switch cannot be told from chance"
        return Judgement(Verdict.INCONCLUSIVE, text, missing="a prompt that drafts every time")
    echoes = dict(plain[0].claims)
    states = [(t, _state(t, echoes)) for t in evidence.trials if t.field]
    rows = tuple((f"{t.field}={t.value}", said, t.answer.drafted) for t, said in states)
    tables = (Table("Switches tried", ("field", "result", "drafted"), rows),)
    nonsense = next((said for t, said in states if t.field == NONSENSE[0]), "")
    return _judged(states, nonsense, answers, tables)


def _judged(
    states: Sequence[tuple[Trial, str]], nonsense: str, answers: Sequence[Completion], tables: tuple[Table, ...]
) -> Judgement:
    echoed = [t for t, said in states if said == "ECHOED"]
    works = [t.field for t, said in states if said == "WORKS"]
    if nonsense == "WORKS":
        text = "drafting also stopped for a field that no server knows, so the trials show nothing"
        return Judgement(Verdict.INCONCLUSIVE, text, tables=tables, missing="a prompt that drafts every time")
    if echoed:
        names = ", ".join(t.field for t in echoed)
        summary = f"{names} is shown as taken in the answer's own settings, and {echoed[0].answer.drafted} tokens were drafted"
        finding = Finding("IGNORED", summary, tuple(t.answer.exchange for t in echoed))
        return Judgement(Verdict.FAIL, summary, (finding,), tables=tables)
    if works:
        return Judgement(Verdict.PASS, f"{', '.join(works)} switches drafting off", tables=tables)
    refused = [t.field for t, said in states if said == "REFUSED" and t.field != NONSENSE[0]]
    if refused and nonsense != "REFUSED":
        text = f"no per-request switch: {', '.join(refused)} is refused with a clear error"
    else:
        text = f"no per-request switch: {SPELLINGS[0][0]}=0 is accepted and ignored"
        text += ", as any unknown field is" if nonsense == "NOT_OFFERED" else ""
    return Judgement(Verdict.NOT_APPLICABLE, text, tables=tables)


def requests(facts: Facts, effort: Effort) -> int:
    return 3


_TOKENS = [made.true_token(n % 3) for n in range(6)]
_ON = made.answer(_TOKENS, drafted=9, accepted=3)
_OFF = made.answer(_TOKENS)


def _made(switched: Completion, nonsense: Completion = _ON) -> Evidence:
    field, value = SPELLINGS[0]
    tried = (Trial(*NONSENSE, nonsense), Trial(field, value, switched))
    return Evidence(made.LIVE_ON, (Trial("", None, _ON), *tried, Trial("", None, _ON)))


CHECK = Check(
    name="self_report/speculation_switch",
    claim="A per-request switch that the server takes does switch speculation off.",
    blind_to="Switches under other names than those tried.",
    remedy="Do not use the named field; run a second server without speculation for requests that need it.",
    aspects=("self-report",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    examples=(
        Example(
            "echoed, and drafts all the same",
            _made(replace(_ON, claims=(("speculative.n_max", 0),))),
            Verdict.FAIL,
            ("IGNORED",),
        ),
        Example("ignored like any unknown field", _made(_ON), Verdict.NOT_APPLICABLE),
        Example("works", _made(_OFF), Verdict.PASS),
        Example(
            "refused",
            _made(made.answer((), status=400, error="unknown field speculative.n_max")),
            Verdict.NOT_APPLICABLE,
        ),
        Example("drafting stops by itself", _made(_OFF, nonsense=_OFF), Verdict.INCONCLUSIVE),
        Example("no speculation", Evidence(made.LIVE_OFF, (Trial("", None, _OFF),)), Verdict.NOT_APPLICABLE),
        Example(
            "said to be on, nothing drafted", Evidence(made.LIVE_ON, (Trial("", None, _OFF),)), Verdict.INCONCLUSIVE
        ),
    ),
)
