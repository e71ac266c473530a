"""Does the server speculate, by what it does and not by what it says?"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import (
    Drafting,
    Reports,
    drafting,
    drafts,
    has_placeholder,
    tokens_per_step,
    why_inconclusive,
    without_drafts,
)
from draftproof.core.ask import Completion
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

BURST_GAP = 0.25
"""An event that comes after less than this share of the median gap belongs to the burst before it."""
BURST_SHARE = 0.3
LEAST_GAP_S = 0.002
"""Steps that are shorter are told apart by the machine's scheduling, not by the model: no bursts can be timed."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`answers` to prompts that force drafting, whole and streamed; `counters` are the server's own totals before and after."""

    reports: Reports
    answers: tuple[Completion, ...]
    counters: tuple[tuple[str, float, float], ...] = ()


def collect(probe: Probe) -> Evidence:
    before = _counters(probe)
    # What other checks have asked already moves no counter any more: one request here is always new.
    streams = common.streamed(probe)
    asks = [*common.forced(probe, 0.0), *common.forced(probe, 1.0), streams[0]]
    answers = [*probe.once(asks), probe.ask(streams[-1])]
    after = _counters(probe)
    counters = tuple((name, before.get(name, 0.0), value) for name, value in after.items())
    return Evidence(probe.facts.self_reports, tuple(answers), counters)


def _counters(probe: Probe) -> dict[str, float]:
    """Totals on speculation in the server's Prometheus metrics, by name without labels."""
    totals: dict[str, float] = {}
    for line in (probe.get("/metrics") or "").splitlines():
        name, _, value = line.partition(" ")
        if "spec_decode" in name and "_total" in name:
            key = name.partition("{")[0]
            totals[key] = totals.get(key, 0.0) + float(value)
    return totals


def burst_share(answer: Completion) -> float | None:
    """Share of text events that came right behind the one before: an accepted draft arrives at once.

    None below 8 events, and where steps are too short to be timed.
    """
    gaps = [b - a for a, b in zip(answer.arrivals, answer.arrivals[1:], strict=False)]
    if len(gaps) < 8:
        return None
    usual = statistics.quantiles(gaps, n=4)[2]
    if usual < LEAST_GAP_S:
        return None
    return sum(gap < BURST_GAP * usual for gap in gaps) / len(gaps)


def _signals(evidence: Evidence) -> list[tuple[str, str, bool | None]]:
    """Name, what was seen, and whether it speaks for speculation (None: cannot tell)."""
    answers = [a for a in evidence.answers if a.ok]
    drafted = sum(a.drafted or 0 for a in answers)
    accepted = sum(a.accepted or 0 for a in answers)
    counted = [a for a in answers if a.drafted is not None]
    moved = [f"{name} +{after - before:g}" for name, before, after in evidence.counters if after > before]
    marked = sum(has_placeholder(a) for a in answers if a.ask.alternatives)
    shares = [s for a in answers if a.ask.stream and (s := burst_share(a)) is not None]
    bursts = statistics.median(shares) if shares else None
    return [
        ("draft counts in answers", f"{accepted} of {drafted} drafts accepted", bool(drafted) if counted else None),
        ("totals in /metrics", ", ".join(moved) or "unmoved", bool(moved) if evidence.counters else None),
        ("tokens without alternatives", f"in {marked} answers", True if marked else None),
        (
            "bursts in streams",
            "none timed" if bursts is None else f"{bursts:.0%} of events right behind another",
            None if bursts is None or bursts < BURST_SHARE else True,
        ),
    ]


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """ON with one sure signal (a counter that moved, a token without alternatives); bursts alone only suggest it.

    Passes when this agrees with a live report of the server or speculation was seen; never says "off", only "not seen".
    """
    answers = [a for a in evidence.answers if a.ok]
    signals = _signals(evidence)
    table = Table("Signs of speculation", ("sign", "seen", "speaks for it"), tuple(map(_row, signals)))
    sure = [name for name, _, says in signals[:3] if says]
    steps = tokens_per_step(answers)
    measured = {"speculation": "on" if sure else "not seen", "tokens per step": steps}
    if not answers:
        return Judgement(Verdict.INCONCLUSIVE, "no answer", missing="an answer of 48 tokens")
    if sure:
        rate = f" ({steps:.1f} tokens per step)" if steps else ""
        rate += _condition(answers)
        finding = Finding("ON", f"seen by {', '.join(sure)}", tuple(a.exchange for a in answers if a.drafted)[:5])
        return Judgement(Verdict.PASS, f"on{rate}: {finding.text}", (finding,), measured=measured, tables=(table,))
    state = drafting(evidence.reports, answers)
    if state is Drafting.OFF:
        summary = f"not seen in {len(answers)} answers to prompts made to force it, and said to be off"
        return Judgement(Verdict.PASS, summary, measured=measured, tables=(table,))
    if signals[3][2]:
        text = f"streams come in bursts ({signals[3][1]}): drafting, or a buffer on the way"
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, tables=(table,), missing="a sure sign")
    text = why_inconclusive(state) or without_drafts(state)
    return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, tables=(table,), missing="a prompt that drafts")


def _condition(answers: Sequence[Completion]) -> str:
    """What had to be asked for so that anything was drafted: the field of a server that drafts only where that pays."""
    fields = [pair for a in answers if drafts(a) for pair in a.ask.extra if pair[0].startswith("speculative")]
    return "".join(f" with {name}={json.dumps(value)}" for name, value in dict(fields).items())


def _row(signal: tuple[str, str, bool | None]) -> tuple[str, str, str]:
    name, seen, says = signal
    return name, seen, "cannot tell" if says is None else "yes" if says else "no"


def requests(facts: Facts, effort: Effort) -> int:
    return 3


_TEXT = [made.true_token(n % 3) for n in range(12)]
_STEADY = replace(made.answer(_TEXT, stream=True), arrivals=tuple(n * 0.02 for n in range(12)))
_BURSTS = replace(_STEADY, arrivals=tuple(n // 3 * 0.06 + n % 3 * 1e-4 for n in range(12)))
_FAST = tuple(at / 100 for at in _BURSTS.arrivals)
_METRIC = "llamacpp:spec_decode_num_draft_tokens_total"

CHECK = Check(
    name="self_report/speculation_observed",
    claim="Whether the server speculates can be told from what it does.",
    blind_to="A server that drafts only on prompts of another kind, and hides it well: it never proves that speculation is off.",
    remedy="Ask the operator how the server was started.",
    aspects=(),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    examples=(
        Example(
            "counts of drafts",
            Evidence(made.LIVE_ON, (made.answer(_TEXT, drafted=9, accepted=4),)),
            Verdict.PASS,
            ("ON",),
        ),
        Example("a moving total", Evidence((), (made.answer(_TEXT),), ((_METRIC, 5, 20),)), Verdict.PASS, ("ON",)),
        Example(
            "tokens without alternatives",
            Evidence((), (made.answer([*_TEXT, made.placeholder(0), made.placeholder(1)]),)),
            Verdict.PASS,
            ("ON",),
        ),
        Example("bursts only", Evidence((), (_BURSTS,)), Verdict.INCONCLUSIVE),
        Example("steps too short to time", Evidence((), (replace(_BURSTS, arrivals=_FAST),)), Verdict.INCONCLUSIVE),
        Example("not seen and said to be off", Evidence(made.LIVE_OFF, (_STEADY,), ((_METRIC, 0, 0),)), Verdict.PASS),
        Example("not seen and said to be on", Evidence(made.LIVE_ON, (_STEADY,)), Verdict.INCONCLUSIVE),
        Example("not seen, nothing said", Evidence((), (_STEADY,)), Verdict.INCONCLUSIVE),
        Example("no answer", Evidence(made.LIVE_OFF, ()), Verdict.INCONCLUSIVE),
    ),
)
