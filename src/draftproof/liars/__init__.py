"""Servers with exactly one defect each, and honest ones. One line here adds a family, one entry there a server."""

from __future__ import annotations

from collections.abc import Mapping

from draftproof.core.errors import UsageError
from draftproof.liars import (
    company,
    descriptions,
    encoding,
    honest,
    in_vllm,
    lists,
    parameters,
    placeholders,
    presence,
    prompts,
    rules,
    seeds,
    stopping,
    streams,
    texts,
    values,
)
from draftproof.liars.liar import Liar

HONEST: tuple[Liar, ...] = honest.FAMILY

LIARS: tuple[Liar, ...] = (
    *placeholders.FAMILY,
    *presence.FAMILY,
    *lists.FAMILY,
    *values.FAMILY,
    *streams.FAMILY,
    *encoding.FAMILY,
    *prompts.FAMILY,
    *texts.FAMILY,
    *rules.FAMILY,
    *parameters.FAMILY,
    *seeds.FAMILY,
    *company.FAMILY,
    *stopping.FAMILY,
    *descriptions.FAMILY,
    *in_vllm.FAMILY,
)


NOT_ALONE: Mapping[str, str] = {
    "self_report/speculation_observed": "it tells whether drafting was seen, and never fails",
    "sampling/structure": "without a grammar, which the tables lack, a doubled block is also no greedy choice",
    "sampling/unchanged": "what changes under speculation also departs from the one-token law, which other checks hold it against",
    "self_report/acceptance_rule": "it names the rule of acceptance, and never fails",
}
"""Why a check has no liar that it alone must fail on."""


def liar(name: str) -> Liar:
    """The server of that name, honest ones included. Raises UsageError that lists them."""
    for known in (*HONEST, *LIARS):
        if known.name == name:
            return known
    raise UsageError(f'There is no liar "{name}".', f"Known: {', '.join(k.name for k in (*HONEST, *LIARS))}.")
