"""The contract of a check: `collect` talks to the server, `judge` decides from what was collected and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Example(Generic[E]):
    """Evidence with the verdict that it must get: unit test, documentation, and self-test at run time."""

    name: str
    evidence: E
    verdict: Verdict
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check(Generic[E]):
    """One question.

    `claim` is what holds on a sound server. `blind_to` is what the check cannot see. `aspects` are the rows of the
    "safe to use" table that a failure spoils: "text", "first logprob", "logprobs", "seeds", "counters", "self-report".
    `spoils` narrows that for the findings of a code; one that spoils none costs speed only. `moot_after` are checks whose failure
    makes the remedy of this one pointless.
    `applies` returns "" or the reason why the check is not applicable. `requests` estimates the cost; `shares` says that the
    requests of `checks.common` come on top, once for all checks.
    """

    name: str
    claim: str
    blind_to: str
    remedy: str
    aspects: tuple[str, ...]
    evidence: type[E]
    collect: Callable[[Probe], E]
    judge: Callable[[E, Terms], Judgement]
    requests: Callable[[Facts, Effort], int]
    applies: Callable[[Facts], str] = lambda _facts: ""
    shares: bool = False
    statistical: bool = False
    examples: tuple[Example[E], ...] = ()
    spoils: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    moot_after: tuple[str, ...] = ()

    def spoilt_by(self, codes: Iterable[str]) -> frozenset[str]:
        """The aspects that a failure with findings of these codes spoils; all of them where there is no finding."""
        narrowed = [self.spoils.get(code, self.aspects) for code in codes]
        return frozenset().union(*narrowed) if narrowed else frozenset(self.aspects)


AnyCheck = Check[Any]
