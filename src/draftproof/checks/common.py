"""The requests that checks have in common: each is asked once in an audit (`Probe.once`), and every check reads what came.

A check that can use one of these should, before it asks for something of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftproof.checks.drafting import Drafting, drafting
from draftproof.checks.prompts import forcing, on_route, ordinary, repeating
from draftproof.client.noise import CONTEXTS, noise_requests
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.facts import Facts
from draftproof.core.probe import MANY_ROWS, Probe
from draftproof.core.sampling import Sampling

TOKENS = 48
ALTERNATIVES = 5
SHORT = 12
SAMPLE_TOKENS = 16
SEEDS = 24
"""Samples that every audit takes (`sampled`)."""

WARPED = (Sampling(temperature=0.5), Sampling(temperature=2.0), Sampling(top_k=2))
"""Samplers whose law before, between and after them differ."""


def requests(facts: Facts) -> int:
    """How many requests the common ones are in all, noise included; each is sent when the first check wants it."""
    forced = 8 if facts.grammar else 4
    contexts = 1 if facts.countable else CONTEXTS
    seeded = -(-SEEDS // facts.batch_seeds)
    return forced + max(len(facts.routes) - 1, 0) + 1 + len(WARPED) + seeded + noise_requests(MANY_ROWS, contexts)


def alternatives(probe: Probe) -> int:
    """How many to ask for; of a server that gives logprobs and never an alternative as many as of others, to show it."""
    asked = min(ALTERNATIVES, probe.facts.max_alternatives)
    return asked or (ALTERNATIVES if probe.facts.routes else 0)


def plain(probe: Probe) -> tuple[tuple[str, Scalar], ...]:
    """`Ask.extra` of the common requests: their prompts are worked out anew, as what they are compared with is, and a server
    that drafts only where that pays is told to draft all the same.
    """
    return (*probe.facts.uncached, *probe.facts.drafting)


def forced(probe: Probe, temperature: float) -> list[Ask]:
    """Requests that make every known drafter draft, with alternatives: an ordinary prompt, one that repeats itself, and where the
    server takes a grammar a forced copy, twice.
    """
    asks = forcing(probe, tokens=TOKENS, alternatives=alternatives(probe), temperature=temperature)
    return [replace(ask, extra=(*plain(probe), *(x for x in ask.extra if x not in plain(probe)))) for ask in asks]


def elsewhere(probe: Probe) -> list[Ask]:
    """The repeating prompt at temperature 0 on every further route that can be given it."""
    ask = forced(probe, 0.0)[1]
    routed = (on_route(probe, ask, route) for route in probe.facts.routes[1:])
    return [ask for ask in routed if ask is not None]


def streamed(probe: Probe) -> list[Ask]:
    """What drafts most easily at temperature 0, as a stream without logprobs: the repeating prompt, the copy."""
    asks = forced(probe, 0.0)
    return [replace(ask, stream=True, alternatives=0) for ask in (asks[1], *asks[3:])]


def warped(probe: Probe) -> list[Completion]:
    """Short answers under `WARPED`; to the repeating prompt too where the ordinary one may not have drafted what is drafted."""
    answers: list[Completion] = []
    for prompt in (ordinary(probe, 1)[0], repeating(probe)):
        ask = Ask(prompt, SHORT, alternatives(probe), seed=13, extra=plain(probe))
        answers += probe.once([replace(ask, sampling=sampling) for sampling in WARPED])
        if drafting(probe.facts.self_reports, answers) in (Drafting.SEEN, Drafting.OFF):
            break
    return answers


def sampled(probe: Probe, n: int) -> list[Completion]:
    """n answers of the model's own law to one ordinary prompt, with logprobs, a seed each."""
    return probe.stream(sample(probe), n)


def sample(probe: Probe) -> Ask:
    alternatives = min(1, probe.facts.max_alternatives)
    return Ask(ordinary(probe, 1)[0], SAMPLE_TOKENS, alternatives, extra=probe.facts.drafting)


def drafting_ask(asks: Sequence[Ask], answers: Sequence[Completion]) -> Ask:
    """The first request whose answer drafted, or else the surest, the last."""
    drafted = (ask for ask, answer in zip(asks, answers, strict=True) if drafting((), [answer]) is Drafting.SEEN)
    return next(drafted, asks[-1])


def counts_of(answer: Completion) -> dict[str, int]:
    """Every count of the answer's tokens that the server gives, by name."""
    counts = {}
    if answer.token_ids is not None:
        counts["token ids"] = len(answer.token_ids)
    if answer.completion_tokens is not None:
        counts["usage"] = answer.completion_tokens
    if answer.ask.alternatives:
        counts["logprob entries"] = len(answer.tokens)
    return counts
