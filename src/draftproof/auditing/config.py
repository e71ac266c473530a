"""What an audit is asked to do, and which checks a person means by the names given."""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from draftproof.checks.check import AnyCheck
from draftproof.core.errors import UsageError
from draftproof.core.probe import TARGET_TV, Effort
from draftproof.core.terms import Terms

PASS_ERROR = Terms().pass_error


class Expectation(StrEnum):
    """What the caller knows of the server: does it speculate?"""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that an audit may spend; None is no limit."""

    requests: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str, called: str = "--budget") -> Self:
        """From "requests=500,seconds=60", either part alone too. Raises UsageError that names what the caller calls it."""
        remedy = f'Write it as {called}{" " if called.startswith("-") else "="}"requests=500,seconds=60".'
        limits: dict[str, float] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, _, value = part.partition("=")
            if name not in {"requests", "seconds"} or name in limits:
                raise UsageError(f"{called}: {part!r} is not understood.", remedy)
            try:
                limits[name] = float(int(value)) if name == "requests" else float(value)
            except ValueError:
                raise UsageError(f"{called}: {value!r} is not a number of {name}.", remedy) from None
            if not (math.isfinite(limits[name]) and limits[name] > 0):
                raise UsageError(f"{called}: {name} must be positive, not {value}.", remedy)
        requests = limits.get("requests")
        return cls(None if requests is None else int(requests), limits.get("seconds"))


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """All that an audit needs to know.

    `alpha` is the false-alarm probability of the whole audit. `checks` are names ("logprobs/placeholder"), families
    ("logprobs") or globs ("*/spec*"); () means all. `samples` is the number of samples for sampling checks, where the
    caller wants one. `seed` None draws one, which the report tells. `api_key_env` names the environment variable that
    holds the key; the key itself is never kept. `law` is a folder with a known countable pair. `timeout` is the longest
    silence of the server, in seconds. `out` is the evidence file; None lets the audit name one. `resume` is the evidence file of an
    audit to go on from.
    Raises UsageError for values that cannot be.
    """

    url: str
    effort: Effort = Effort.QUICK
    alpha: float = 1e-6
    checks: tuple[str, ...] = ()
    budget: Budget = Budget()
    seed: int | None = None
    samples: int | None = None
    api_key_env: str | None = None
    law: Path | None = None
    timeout: float = 30.0
    out: Path | None = None
    expect_speculation: Expectation = Expectation.UNKNOWN
    resume: Path | None = None

    def __post_init__(self) -> None:
        _check_url(self.url)
        if not 0 < self.alpha <= 0.1:
            raise UsageError(f"alpha must be above 0 and at most 0.1, not {self.alpha}.", "The default is 1e-6.")
        if self.samples is not None and self.samples < 1:
            raise UsageError(f"samples must be at least 1, not {self.samples}.")
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise UsageError(f"timeout must be a positive number of seconds, not {self.timeout}.")
        if self.seed is not None and not 0 <= self.seed < 2**31:
            raise UsageError(f"seed must be from 0 to 2147483647, not {self.seed}.")

    def terms(self, alpha: float, continued: int = 0) -> Terms:
        """What one check is judged at, given its share of `alpha`.

        After `continued` earlier looks at a part of the same evidence both error probabilities are halved so many times: all
        looks together are then wrong with less than twice the probability of the first.
        """
        part = 0.5**continued
        return Terms(alpha=alpha * part, target_tv=TARGET_TV[self.effort], pass_error=PASS_ERROR * part)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is no URL: {error}.", _URL_REMEDY) from None
    if parts.scheme not in {"http", "https"}:
        what = (
            f"the scheme {parts.scheme!r} is not HTTP"
            if parts.scheme and "://" in url
            else "it has no http:// in front"
        )
        raise UsageError(f"{url!r} cannot be asked: {what}.", _URL_REMEDY)
    if not host:
        raise UsageError(f"{url!r} names no host.", _URL_REMEDY)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            "The URL carries a user name, a password or a query, which would end up in the evidence.",
            "Give the bare address, and a key with --api-key-env NAME.",
        )


_URL_REMEDY = "Give the server's address as in http://127.0.0.1:8080 ."


def select(checks: Sequence[AnyCheck], patterns: Iterable[str]) -> tuple[AnyCheck, ...]:
    """The checks that are meant, in their own order. No pattern means all.

    Raises UsageError for a pattern that matches nothing, with the names nearest to it.
    """
    wanted = [p.strip().strip("/") for p in patterns]
    if not wanted:
        return tuple(checks)
    names = [c.name for c in checks]
    chosen: set[str] = set()
    for pattern in wanted:
        matched = [n for n in names if _matches(n, pattern)]
        if not matched:
            raise UsageError(f"No check is called {pattern!r}.", _nearest(pattern, names))
        chosen.update(matched)
    return tuple(c for c in checks if c.name in chosen)


def _matches(name: str, pattern: str) -> bool:
    family, _, short = name.partition("/")
    return pattern in {name, family, short} or fnmatch.fnmatchcase(name, pattern)


def _nearest(pattern: str, names: Sequence[str]) -> str:
    by_word = {word: n for n in names for word in (n, n.partition("/")[2])}
    families = list(dict.fromkeys(n.partition("/")[0] for n in names))
    close = difflib.get_close_matches(pattern, [*by_word, *families], n=3, cutoff=0.5)
    near = list(dict.fromkeys(by_word.get(word, word) for word in close))
    if near:
        return f"Did you mean {' or '.join(near)}? `draftproof explain` lists all."
    return f"There are the families {', '.join(families)}; `draftproof explain` lists all checks."
