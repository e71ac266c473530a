"""A whole answer scored by one request, where the upstream offers that; believed only where it agrees with what is known."""

from __future__ import annotations

from draftproof.gateway.answers import Told
from draftproof.gateway.asks import Wanted
from draftproof.gateway.contexts import Entry, Ids, Unknown
from draftproof.gateway.upstream import Lost, Upstream
from draftproof.gateway.ways import WAYS, Echo, Way, distance
from draftproof.gateway.wire import HeaderList
from draftproof.server.errors import Refusal

_PROBE = 3
"""Tokens: echoed they give two entries, and a server that does not echo gives one at most."""
_LIKELY = 0.1
_ANY = 0.5
"""Nats, RMS: with the weight of the probabilities, and without. Batches of other shapes stay below, in bfloat16 too, where logits
between 16 and 32 are an eighth apart."""


async def way_of(upstream: Upstream, headers: HeaderList, wanted: Wanted, ids: Ids) -> Way | None:
    """How this upstream scores prompts; None if it does not. Tried out once per epoch, on the first of these ids. Raises Lost."""
    await upstream.survey(headers)
    way = WAYS.get(upstream.kind)
    if way is None or wanted.post_sampling or len(ids) < _PROBE:
        return None
    if not isinstance(way, Echo):
        return way  # there is no other: it is tried, and an answer of another shape is an error
    async with upstream.asking:
        if upstream.echoes is None:
            epoch, echoes = upstream.epoch, True
            try:
                await _entries(way, upstream, headers, wanted, ids[:_PROBE], 1, 1)
            except Lost:
                raise
            except Refusal:
                echoes = False
            upstream.echoes = echoes if upstream.epoch == epoch else None
    return way if upstream.echoes else None


async def score(
    way: Way, upstream: Upstream, headers: HeaderList, wanted: Wanted, answer: Told, contexts: tuple[Ids, Ids], n: int
) -> list[Entry]:
    """One entry per token of the answer. `contexts`: the ids of its prompt and its own; `n`: alternatives.

    Raises Unknown where an entry that the answer had itself differs, or where it had none; Refusal, Lost.
    """
    prompt, ids = contexts
    if why := way.why_not(wanted.body):
        raise Unknown(why)
    found = await _entries(way, upstream, headers, wanted, prompt + ids, len(prompt), n)
    missing = set(answer.missing)
    real = [m for m in range(len(answer.entries)) if m not in missing]
    if not real:
        raise Unknown("none of its tokens has a value of its own, with which those of the prompt could be compared")
    for m in real:
        agree(answer.entries[m], found[m], m)
    return found


def agree(told: Entry, found: Entry, place: int) -> None:
    """Raises Unknown where they differ by more than numerics."""
    likely, all_alike = distance(told, found)
    if not (likely <= _LIKELY and all_alike <= _ANY):
        raise Unknown(
            f"as part of a prompt, token {place} has other logprobs than by itself ({likely:.2g} nats, RMS by probability)"
        )


async def _entries(
    way: Way, upstream: Upstream, headers: HeaderList, wanted: Wanted, ids: Ids, first: int, n: int
) -> list[Entry]:
    answer = await upstream.post(way.path, way.body(ids, first, n, wanted.body), headers, again=False)
    return way.entries(answer, ids, first)
