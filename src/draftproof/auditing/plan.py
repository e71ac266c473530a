"""What will be asked, at what price, and what cannot be asked of this server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftproof.checks import common as common_requests
from draftproof.checks.check import AnyCheck
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort

ANSWERS, TOKENS_PER_ANSWER = 24, 24
"""Of a check's requests so many are answers of some length, on average of so many tokens."""

PLAN_SPREAD = 3
"""Audits of real models took 1 to 3 times what their plan said: the first answers are short, and their prompts are cached."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One check of the plan. `not_applicable` is the reason why it will not run ("" when it will)."""

    check: str
    claim: str
    requests: int
    alpha: float
    not_applicable: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """`round_trip_s` is how long the server took to describe itself, per request; None when that is not known. `common` are the
    requests that checks share. `request_s`, `token_s`: as in `Facts`.
    """

    checks: tuple[Planned, ...]
    round_trip_s: float | None = None
    common: int = 0
    request_s: float | None = None
    token_s: float | None = None

    @property
    def requests(self) -> int:
        return self.common + sum(p.requests for p in self.checks)

    @property
    def seconds(self) -> float | None:
        """About how long it takes, one request after the other; None when the server's pace is not known.

        The first requests of a check are taken for answers of some length, what comes after them for single tokens.
        """
        if self.request_s is None or self.token_s is None:
            return None
        tokens = self.common * common_requests.TOKENS
        for planned in self.checks:
            answers = min(planned.requests, ANSWERS)
            tokens += answers * TOKENS_PER_ANSWER + planned.requests - answers
        return self.requests * self.request_s + tokens * self.token_s

    @property
    def seconds_at_least(self) -> float | None:
        """A lower bound: generation comes on top of the round trips."""
        return None if self.round_trip_s is None else self.requests * self.round_trip_s


def make_plan(
    checks: Sequence[AnyCheck],
    facts: Facts,
    effort: Effort,
    alphas: Mapping[str, float],
    round_trip_s: float | None = None,
) -> Plan:
    """The plan for these checks; `alphas` is each check's share of the error budget by name."""
    planned = []
    for check in checks:
        reason = check.applies(facts)
        requests = 0 if reason else check.requests(facts, effort)
        planned.append(Planned(check.name, check.claim, requests, alphas[check.name], reason))
    shared = any(check.shares and not check.applies(facts) for check in checks)
    shares = common_requests.requests(facts) if shared else 0
    return Plan(tuple(planned), round_trip_s, shares, facts.request_s, facts.token_s)
