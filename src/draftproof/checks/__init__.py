"""The questions put to a server: one file each, in five families. One line here adds a check."""

from __future__ import annotations

from draftproof.checks.check import AnyCheck
from draftproof.checks.logprobs import placeholder, presence, rescored, units, well_formed
from draftproof.checks.randomness import seeds
from draftproof.checks.sampling import distribution, greedy_parity, parameters, temperature
from draftproof.checks.self_report import speculation_observed, speculation_reported, speculation_switch
from draftproof.checks.stopping import budget

CHECKS: tuple[AnyCheck, ...] = (
    placeholder.CHECK,
    presence.CHECK,
    well_formed.CHECK,
    rescored.CHECK,
    units.CHECK,
    greedy_parity.CHECK,
    distribution.CHECK,
    parameters.CHECK,
    temperature.CHECK,
    seeds.CHECK,
    budget.CHECK,
    speculation_observed.CHECK,
    speculation_reported.CHECK,
    speculation_switch.CHECK,
)
"""In the order in which they are run: what is cheap and decisive comes first within its family."""
