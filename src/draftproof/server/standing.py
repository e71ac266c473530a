"""What speculates where a request says nothing of it, and why what the server was started for does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from draftproof.core.speculation import Speculation
from draftproof.engine.draft import kind
from draftproof.engine.speculate import CANNOT_PAY, why_not
from draftproof.server.served import Served

_LEAST_ROWS, _MOST_ROWS = 2, 64
"""Of a batch that verifies a draft."""
_INEXACT = "no batch of several rows is bit for bit like single tokens here"
_REMEDIES = {
    CANNOT_PAY: 'start with --no-spec-adaptive, or ask with "speculative.adaptive": false',
    _INEXACT: 'start with --no-strict, or ask with "speculative.strict": false',
}


@dataclass(frozen=True, slots=True)
class Standing:
    """The drafters that a request gets which says nothing of speculation, and why others that were asked for are not used."""

    types: tuple[str, ...]
    refused: Mapping[str, str]


def standing(served: Served) -> Standing:
    """May have to measure what rows cost."""
    asked = served.defaults.speculation
    if not asked.wanted:
        return Standing((), {})
    names = [t for t in asked.types if t != "none"]
    if asked.strict and served.models.target.exact_rows(_MOST_ROWS) < _LEAST_ROWS:
        return Standing((), dict.fromkeys(names, _INEXACT))
    setup, costs = served.models.setup(asked, served.defaults.sampling), served.models.costs_of(asked)
    refused = {name: why for name in names if (why := why_not(kind(name), setup, costs))}
    return Standing(tuple(name for name in names if name not in refused), refused)


def lines(served: Served) -> list[str]:
    """For whoever starts the server: what speculates, and what does not and what to do about it."""
    asked, found = served.defaults.speculation, standing(served)
    if not asked.wanted:
        return ["speculation: none, unless a request asks for it"]
    told = [f"speculation: {_how(asked, found.types, served)}"]
    for name, why in found.refused.items():
        remedy = f"; to draft all the same, {_REMEDIES[why]}" if why in _REMEDIES else ""
        told.append(f"{name} is not used: {why}{remedy}")
    return told


def _how(asked: Speculation, types: tuple[str, ...], served: Served) -> str:
    if not types:
        return "none by default"
    rule = (
        "rule auto (greedy at temperature 0, else as drafters allow)" if asked.rule == "auto" else f"rule {asked.rule}"
    )
    lengths = "lengths as they pay" if asked.adaptive else "lengths fixed"
    at = "always" if asked.strict else "at temperature 0" if served.strict_greedy else "never"
    return f"{', '.join(types)}; {rule}; {lengths}; only rows that are exact: {at}"
