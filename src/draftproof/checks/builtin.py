"""All built-in checks. One line here adds one."""

from __future__ import annotations

from draftproof.checks.check import AnyCheck
from draftproof.checks.logprobs import encoding, placeholder, presence, prompt, rescored, streaming, units, well_formed
from draftproof.checks.randomness import batch_mates, concurrency, history, seeds
from draftproof.checks.sampling import distribution, greedy_parity, parameters, structure, temperature, unchanged
from draftproof.checks.self_report import (
    acceptance_rule,
    accounting,
    silent_bypass,
    speculation_observed,
    speculation_reported,
    speculation_switch,
)
from draftproof.checks.stopping import budget, stop_string

CHECKS: tuple[AnyCheck, ...] = (
    placeholder.CHECK,
    presence.CHECK,
    well_formed.CHECK,
    rescored.CHECK,
    units.CHECK,
    prompt.CHECK,
    streaming.CHECK,
    encoding.CHECK,
    greedy_parity.CHECK,
    distribution.CHECK,
    parameters.CHECK,
    structure.CHECK,
    temperature.CHECK,
    unchanged.CHECK,
    seeds.CHECK,
    history.CHECK,
    concurrency.CHECK,
    batch_mates.CHECK,
    budget.CHECK,
    stop_string.CHECK,
    speculation_observed.CHECK,
    speculation_reported.CHECK,
    speculation_switch.CHECK,
    silent_bypass.CHECK,
    accounting.CHECK,
    acceptance_rule.CHECK,
)
"""In the order in which they are run: what is cheap and decisive comes first within its family."""
