"""The server's own totals over all requests, as /metrics has them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from draftproof.core.probe import Probe

TOKENS, DRAFTED, ACCEPTED, DRAFTS, BY_POSITION = "tokens", "drafted", "accepted", "drafts", "accepted by position"
_NAMES = (
    (TOKENS, re.compile(r"(tokens_predicted|generation_tokens)_total$")),
    (DRAFTED, re.compile(r"spec_decode_num_draft_tokens_total$")),
    (ACCEPTED, re.compile(r"spec_decode_num_accepted_tokens_total$")),
    (DRAFTS, re.compile(r"spec_decode_num_drafts_total$")),
    (BY_POSITION, re.compile(r"spec_decode_num_accepted_tokens_per_pos_total$")),
)

Totals = Mapping[str, float]


def read_totals(probe: Probe) -> Totals:
    """Totals by the names above, summed over labels; {} where the server has none. One request."""
    totals: dict[str, float] = {}
    for line in (probe.get("/metrics") or "").splitlines():
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0]
        key = next((key for key, pattern in _NAMES if pattern.search(name)), None)
        if key is None or line.startswith("#"):
            continue
        try:
            number = float(value)
        except ValueError:
            continue
        if math.isfinite(number):
            totals[key] = totals.get(key, 0.0) + number
    return totals


def moved(before: Totals, after: Totals) -> dict[str, float]:
    """By how much each total of `after` has grown."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}
