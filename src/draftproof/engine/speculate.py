"""From what a request asks for to what it gets: drafter, rule, and the reason where the two differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from draftproof.core.sampling import Sampling
from draftproof.core.speculation import Speculation
from draftproof.engine.backend import Backend
from draftproof.engine.draft import kind
from draftproof.engine.draft.asked import Asked
from draftproof.engine.draft.drafter import Drafter
from draftproof.engine.draft.exact import Exact
from draftproof.engine.draft.kind import Kind, Setup
from draftproof.engine.draft.none import NoDrafter
from draftproof.engine.draft.pace import Costs, LengthPolicy, Paced, alone
from draftproof.engine.draft.several import FirstOf
from draftproof.engine.verify import rule as rule_of
from draftproof.engine.verify.rule import Rule

CANNOT_PAY = "not even drafts that are accepted whole would pay here"
_SHORT = 2
"""The first token is not drafted, and the last one alone never."""
_UNBOUNDED = 64
"""The longest draft where nothing else caps it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one answer is made. `effective` are the drafters in use, () for none; `reason` why it is not what was asked for.

    `n_max` is the longest draft that may be verified at once. The drafter belongs to the answer: close it at its end.
    """

    requested: Speculation
    effective: tuple[str, ...]
    rule: Rule
    drafter: Drafter
    n_max: int
    reason: str = ""
    asked: tuple[Asked, ...] = ()
    paced: tuple[Paced, ...] = ()

    def why_nothing(self, emitted: int) -> str:
        """Why no token was drafted for an answer of so many, by the drafters in use; "" where they do not know."""
        asked = [drafter for drafter in self.asked if drafter.was_asked]
        if asked:
            return (
                "nothing to look up" if all(d.looks_up for d in asked) else "the drafter found no token likely enough"
            )
        if refused := max((paced.longest_refused for paced in self.paced), default=0):
            return f"no draft of at most {refused} tokens pays here"
        return "too short to be drafted for" if self.effective and emitted <= _SHORT else ""


def _automatic(sampling: Sampling, kinds: Sequence[Kind]) -> str:
    """The rule for a request that names none."""
    if sampling.greedy:
        return "greedy"
    # which of several drafts would depend on other requests, and so would a seeded answer under rejection
    return "match" if len(kinds) > 1 and any(k.shared for k in kinds) else "rejection"


def why_not(kind_: Kind, setup: Setup, costs: Costs | None = None) -> str:
    """Why a drafter is not used for such a request, or ""."""
    missing = kind_.missing(setup)
    if missing or not setup.speculation.adaptive or costs is None:
        return missing
    longest = _UNBOUNDED if kind_.looks_up else setup.speculation.draft.n_max
    policy = LengthPolicy(replace(costs, draft=kind_.cost(costs)), longest)
    return "" if policy.can_pay(longest) else CANNOT_PAY


def _anything(length: int) -> int:
    return length


def _fits(target: Backend, *, drawn: bool) -> Callable[[int], int]:
    """The longest draft up to a given length whose rows are bit for bit those of single tokens.

    Where drafts are drawn they end where they like, so every shorter one must be exact too.
    """
    most = target.max_rows_exact if drawn else 2**31
    return lambda length: max(target.exact_rows(min(length + 1, most)) - 1, 0)


def make_plan(setup: Setup, costs: Costs | None = None) -> Plan:
    """Drafter and rule for a request.

    costs: what rows cost, for adaptive lengths; None: rows are free. An unknown drafter or rule, and a draft model with
    another vocabulary raise UsageError. What is known but cannot be done now (no draft model is loaded, the rule would
    change the law) is left out, and `reason` says so.
    """
    asked, sampling = setup.speculation, setup.sampling
    kinds = [kind(t) for t in dict.fromkeys(asked.types) if t != "none"]
    refused = {k.name: why for k in kinds if (why := why_not(k, setup, costs))}
    reasons = [f"{name}: {why}" for name, why in refused.items()]
    usable = [k for k in kinds if k.name not in refused]
    rule = rule_of(_automatic(sampling, usable) if asked.rule == "auto" else asked.rule)
    n_max = _UNBOUNDED if asked.n_max is None else asked.n_max
    fits = _fits(setup.target, drawn=rule.draws_drafts) if asked.strict else _anything
    if n_max > fits(n_max):
        n_max = fits(n_max)
        if asked.n_max is not None or not n_max:
            reasons.append(f"at most {n_max} drafted tokens: larger batches are not bit for bit like single tokens")
    if asked.wanted and (refusal := rule.refuses(sampling)):
        return Plan(asked, (), rule_of("rejection"), NoDrafter(), 0, refusal)
    if not usable or not n_max:
        plain = rule if not rule.refuses(sampling) else rule_of("rejection")
        return Plan(asked, (), plain, NoDrafter(), 0, "; ".join(reasons))
    setup = replace(setup, drawn=rule.draws_drafts)
    # What is drawn from a draft model depends on the draft's length, and on whether another drafter came before it: a seed
    # must give it in any company.
    company = alone if rule.draws_drafts and not all(k.looks_up for k in usable) else setup.company
    prices = costs or Costs()
    noting: list[Asked] = []
    paced: list[Paced] = []
    drafters: list[Drafter] = []
    for k in usable:
        unnoted = k.open(setup)
        noting.append(Asked(unnoted, looks_up=k.looks_up))
        drafter: Drafter = noting[-1]
        if asked.strict:
            unnoted, drafter = Exact(unnoted, fits), Exact(drafter, fits)
        if asked.adaptive:
            policy = LengthPolicy(replace(prices, draft=k.cost(prices)), n_max, lambda n: fits(n) == n)
            rehearses = unnoted if k.looks_up and not k.shared else None
            paced.append(Paced(drafter, policy, rehearses=rehearses, company=company))
            drafter = paced[-1]
        drafters.append(drafter)
    drafter = drafters[0] if len(drafters) == 1 else FirstOf(drafters)
    names = tuple(k.name for k in usable)
    return Plan(asked, names, rule, drafter, n_max, "; ".join(reasons), tuple(noting), tuple(paced))
