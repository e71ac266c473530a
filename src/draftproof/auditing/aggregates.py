"""What a fault in single logprobs does to the numbers that people compute from them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from draftproof.auditing.outcome import Outcome
from draftproof.core.verdict import Cell, Table

_KEY = re.compile(r"t(?P<temperature>[0-9.]+) (?P<quantity>.+) (?P<side>reported|true)")

TITLE = "The same tokens, as reported and as one-token answers have them"


def aggregates(outcomes: Iterable[Outcome]) -> Table | None:
    """A table of all measured pairs "t<temperature> <quantity> reported" and "... true", or None when there is none."""
    pairs: dict[tuple[str, str], dict[str, Cell]] = {}
    for outcome in outcomes:
        for key, value in outcome.judgement.measured.items():
            if match := _KEY.fullmatch(key):
                pairs.setdefault((match["quantity"], match["temperature"]), {})[match["side"]] = _finite(value)
    rows = tuple(
        (quantity, f"temperature {temperature}", sides["reported"], sides["true"])
        for (quantity, temperature), sides in pairs.items()
        if sides.keys() == {"reported", "true"} and None not in sides.values()
    )
    return Table(TITLE, ("aggregate", "sampled at", "reported", "true"), rows) if rows else None


def _finite(value: Cell) -> Cell:
    return None if isinstance(value, float) and not math.isfinite(value) else value
