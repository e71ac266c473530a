"""From what a request asks for to what it gets: drafter, rule, and the reason where the two differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftproof.core.sampling import Sampling
from draftproof.core.speculation import Speculation
from draftproof.engine.draft import kind
from draftproof.engine.draft.drafter import Drafter
from draftproof.engine.draft.kind import Kind, Setup
from draftproof.engine.draft.none import NoDrafter
from draftproof.engine.draft.pace import Costs, LengthPolicy, Paced
from draftproof.engine.draft.several import FirstOf
from draftproof.engine.verify import rule as rule_of
from draftproof.engine.verify.rule import Rule

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
    longest = setup.speculation.draft.n_max if kind_.cost(costs) else _UNBOUNDED
    policy = LengthPolicy(replace(costs, draft=kind_.cost(costs)), longest)
    return "" if policy.can_pay(longest) else "not even drafts that are accepted whole would pay here"


def standing(setup: Setup, costs: Costs | None = None) -> tuple[str, ...]:
    """The drafters that such requests have at their service, whatever rule fits their samplers."""
    asked = setup.speculation
    if not asked.wanted or _longest(setup) < 1:
        return ()
    return tuple(t for t in dict.fromkeys(asked.types) if t != "none" and not why_not(kind(t), setup, costs))


def _longest(setup: Setup) -> int:
    """The most tokens that may be drafted at once."""
    asked = setup.speculation
    n_max = _UNBOUNDED if asked.n_max is None else asked.n_max
    return min(n_max, setup.target.max_rows_exact - 1) if asked.strict else n_max


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
    n_max = _longest(setup)
    if n_max < (_UNBOUNDED if asked.n_max is None else asked.n_max):
        reasons.append(f"at most {n_max} drafted tokens: larger batches are not bit for bit like single tokens")
    if asked.wanted and (refusal := rule.refuses(sampling)):
        return Plan(asked, (), rule_of("rejection"), NoDrafter(), 0, refusal)
    if not usable or not n_max:
        plain = rule if not rule.refuses(sampling) else rule_of("rejection")
        return Plan(asked, (), plain, NoDrafter(), 0, "; ".join(reasons))
    setup = replace(setup, drawn=rule.draws_drafts)
    drafters = [k.open(setup) for k in usable]
    if asked.adaptive:
        known = costs or Costs()
        policies = [LengthPolicy(replace(known, draft=k.cost(known)), n_max) for k in usable]
        drafters = [Paced(d, policy) for d, policy in zip(drafters, policies, strict=True)]
    drafter = drafters[0] if len(drafters) == 1 else FirstOf(drafters)
    return Plan(asked, tuple(k.name for k in usable), rule, drafter, n_max, "; ".join(reasons))
