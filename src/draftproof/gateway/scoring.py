"""What a token's logprob is, asked of the same server for one token: which is never speculated.

The prompt of such a request is the context as token ids; a bias on the token has it drawn, whatever the samplers would draw.
Logprobs are those before the samplers, so that the bias does not change them. Probabilities after the samplers are asked for with
the samplers of the request and without a bias.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from draftproof.gateway.asks import Wanted
from draftproof.gateway.contexts import Entry, Ids, Place
from draftproof.gateway.upstream import KIND, Lost, Upstream
from draftproof.gateway.wire import HeaderList
from draftproof.server.errors import Refusal

_BIAS = 10_000.0
"""More than the logits of any model are apart, and still a number of float32 beside them."""
_SEEDS = 8
_MORE = 100
_SAME = 0.5
"""Nats, RMS over the listed tokens: two laws after other contexts differ by more, one law along two numeric paths by far less."""
_NOT_SAMPLERS = (
    *("prompt", "messages", "model", "stream", "stream_options", "n", "n_cmpl", "n_predict", "max_tokens", "stop"),
    *("max_completion_tokens", "logprobs", "top_logprobs", "n_probs", "return_tokens", "id_slot", "cache_prompt"),
    *("echo", "t_max_predict_ms", "chat_template_kwargs", "user", "timings_per_token", "return_progress"),
)


class Scorer:
    """Re-scores the tokens of one answer. `requests` counts what it took.

    alternatives: how many to list. epoch: the upstream's when the answer was asked for.
    """

    def __init__(self, upstream: Upstream, headers: HeaderList, wanted: Wanted, alternatives: int, epoch: int) -> None:
        self.requests = 0
        self.upstream = upstream
        self._headers = headers
        self._epoch = epoch
        self._listed = "top_probs" if wanted.post_sampling else "top_logprobs"
        self._value = "prob" if wanted.post_sampling else "logprob"
        self._n = alternatives
        self._lora = {name: wanted.body[name] for name in ("lora",) if name in wanted.body}
        self._samplers = (
            {k: v for k, v in wanted.body.items() if k not in _NOT_SAMPLERS} if wanted.post_sampling else None
        )

    async def score(self, place: Place, anchor: int | None, slot: int | None = None) -> Entry:
        """The entry of the token there. `anchor`: a token that is text by itself, for a place whose own is not.

        `slot`: of the server, to be used; None for the one that it finds best.

        Raises Refusal where the server does not tell, Lost.
        """
        if self._samplers is not None:
            return await self._after_samplers(place, slot)
        forced = place.token if place.whole else anchor
        if forced is None:
            raise Refusal("The answer has no token that is text by itself: it cannot be re-scored.", 502, KIND)
        bias = {"logit_bias": [[forced, _BIAS]]}
        entry = await self._ask(place, self._n, bias, slot)
        if entry is None or entry.get("id") != forced:
            raise Refusal(f"{self.upstream.name} did not draw the token that it was made to.", 502, KIND)
        if forced == place.token:
            return self.checked(entry)
        return await self._sought(place, entry, bias, slot)

    def believe(self, told: Entry, found: Entry) -> None:
        """Compares a real entry of the answer with the same one asked for. Raises Refusal where they are of two contexts."""
        distance = rms(self._law(told), self._law(found))
        if not distance <= (0.1 if self._samplers is not None else _SAME):
            raise Refusal(
                f"The first token's own logprob differs from the re-scored one ({distance:.2g}): the answer belongs to another "
                "context than the gateway believes, and its logprobs cannot be re-scored.",
                502,
                KIND,
            )

    async def _after_samplers(self, place: Place, slot: int | None) -> Entry:
        extra = {**(self._samplers or {}), "post_sampling_probs": True}
        for seed in range(_SEEDS):
            entry = await self._ask(place, self._n, extra, slot, seed)
            if entry is not None:
                is_it = entry.get("id") == place.token
                return self.checked(entry) if is_it else await self._sought(place, entry, extra, slot)
        raise Refusal("A token could not be re-scored: no draw there is text by itself.", 502, KIND)

    async def _sought(self, place: Place, entry: Entry, extra: Mapping[str, Any], slot: int | None) -> Entry:
        """The place's token out of the list beside another drawn token; of a longer list where it is not in this one."""
        listed = self.checked(entry)[self._listed]
        longer = listed
        for n in (_MORE, 100 * _MORE, 10_000 * _MORE):
            value = next((a.get(self._value) for a in longer if a.get("id") == place.token), None)
            if value is not None:
                return {"id": place.token, self._value: value, self._listed: listed}
            again = await self._ask(place, n, extra, slot)
            longer = [] if again is None else self.checked(again)[self._listed]
        raise Refusal("A token could not be re-scored: it is not among those that the server lists.", 502, KIND)

    async def _ask(
        self, place: Place, n: int, extra: Mapping[str, Any], slot: int | None, seed: int = 0
    ) -> Entry | None:
        """None where no entry came: the drawn token is a piece of a character."""
        body = {
            **({"temperature": 0.0, "samplers": ["temperature"]} if self._samplers is None else {}),
            **extra,
            **self._lora,
            "seed": seed,
            "n_probs": n,
            "cache_prompt": True,
            **({} if slot is None else {"id_slot": slot}),
        }
        answer = await self.one_token(place.context, body)
        entries = answer.get("completion_probabilities")
        return entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else None

    async def one_token(self, context: Ids, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the server answers to one token after a context. Raises Refusal where it does not keep to that, Lost."""
        scoring, answer = self.upstream.scoring, None
        if scoring is not None:
            async with scoring:
                self.requests += 1
                body = {**settings, "prompt": list(context), "n_predict": 1}
                answer = await self.upstream.post("/completion", body, self._headers, again=False)
        if self.upstream.epoch != self._epoch:
            raise Lost(f"{self.upstream.name} was lost while an answer of it was re-scored.")
        if not isinstance(answer, dict) or answer.get("truncated") or answer.get("tokens_evaluated") != len(context):
            raise Refusal("The context of a token does not fit into the server's: it cannot be re-scored.", 502, KIND)
        self._learn(answer)
        return answer

    def _learn(self, answer: Mapping[str, Any]) -> None:
        settings = answer.get("generation_settings")
        types = settings.get("speculative.types") if isinstance(settings, dict) else None
        if isinstance(types, str):
            self.upstream.types = types

    def checked(self, entry: Entry) -> Entry:
        """The entry. Raises Refusal for one without values."""
        value, listed = entry.get(self._value), entry.get(self._listed)
        if isinstance(value, int | float) and math.isfinite(value) and isinstance(listed, list) and listed:
            return entry
        raise Refusal(f"{self.upstream.name} gave no alternatives for a single token either.", 502, KIND)

    def _law(self, entry: Entry) -> dict[int, float]:
        return {a["id"]: a[self._value] for a in entry.get(self._listed) or [] if "id" in a and self._value in a}


def rms(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Of the differences of values that both list; infinite where they list none in common."""
    both = a.keys() & b.keys()
    return math.sqrt(math.fsum((a[i] - b[i]) ** 2 for i in both) / len(both)) if both else math.inf


def lanes(tokens: int, context: int, most: int) -> int:
    """In how many parts to re-score: each works out the context anew, in a batch, which costs less per token than decoding."""
    return max(1, min(most, tokens // max(8, context // 4)))


async def in_lanes(
    scorer: Scorer, todo: list[Place], anchor: int | None, most: int, slot: int | None
) -> list[asyncio.Task[Entry]]:
    """Tasks for the places in order. Each lane is a stretch of the answer, one token after the other: so each request
    adds one token to what a slot has cached, as plain decoding does.

    Several lanes have a slot each: a server that chose would give a lane's context to the slot of a later one, which begins
    with it, and work out the later one's anew. slot: that made the answer, if known; the first lane continues there.
    """
    if not todo:
        return []
    free = scorer.upstream.free
    n = lanes(len(todo), len(todo[-1].context), min(most, len(free)))
    taken = [slot] if slot is not None and slot in free else []
    taken += [s for s in sorted(free) if s not in taken]
    taken = taken[:n] if n > 1 else []
    size = math.ceil(len(todo) / n)
    tasks: list[asyncio.Task[Entry]] = []
    for lane in range(n):
        turn = _Turn(scorer.upstream.turns)
        before: asyncio.Task[Any] = asyncio.create_task(turn.take())
        own = taken[lane] if taken else None
        for place in todo[lane * size : (lane + 1) * size]:
            before = asyncio.create_task(after(before, scorer, place, anchor, own))
            tasks.append(before)
        before.add_done_callback(turn.give)
        if own is not None:
            free.discard(own)
            before.add_done_callback(partial(_give_back, free, own))
    return tasks


class _Turn:
    """One lane's turn at the server; given back also where it is not taken yet."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns = turns
        self._taken = self._over = False

    async def take(self) -> None:
        await self._turns.acquire()
        self._taken = True
        if self._over:
            self.give()

    def give(self, _: object = None) -> None:
        self._over = True
        if self._taken:
            self._taken = False
            self._turns.release()


def _give_back(free: set[int], slot: int, _: asyncio.Task[Entry]) -> None:
    free.add(slot)


async def after(
    before: asyncio.Task[Any] | None, scorer: Scorer, place: Place, anchor: int | None, slot: int | None = None
) -> Entry:
    """The score of a place, once its lane's last one is done. Fails with it."""
    if before is not None:
        await before
    return await scorer.score(place, anchor, slot)
