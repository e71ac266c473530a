"""What a check is held to: with how much certainty, and how closely."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """What a judgement is made at: `alpha`, this check's share of the audit's false-alarm probability; `target_tv`, the
    total variation that a pass must exclude, with error probability `pass_error`."""

    alpha: float = 1e-7
    target_tv: float = 0.15
    pass_error: float = 1e-3
