"""What a token's logprob is, asked of the same server for one token: which is never speculated.

The prompt of such a request is the context as token ids; a bias on the token has it drawn, whatever the samplers would draw.
Logprobs are those before the samplers, so that the bias does not change them. Probabilities after the samplers are asked for with
the samplers of the request and without a bias.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from draftproof.gateway.asks import Wanted
from draftproof.gateway.contexts import Entry, Place
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
        self._upstream = upstream
        self._headers = headers
        self._epoch = epoch
        self._listed = "top_probs" if wanted.post_sampling else "top_logprobs"
        self._value = "prob" if wanted.post_sampling else "logprob"
        self._n = alternatives
        self._lora = {name: wanted.body[name] for name in ("lora",) if name in wanted.body}
        self._samplers = (
            {k: v for k, v in wanted.body.items() if k not in _NOT_SAMPLERS} if wanted.post_sampling else None
        )

    async def score(self, place: Place, anchor: int | None) -> Entry:
        """The entry of the token there. `anchor`: a token that is text by itself, for a place whose own is not.

        Raises Refusal where the server does not tell, Lost.
        """
        if self._samplers is not None:
            return await self._after_samplers(place)
        forced = place.token if place.whole else anchor
        if forced is None:
            raise Refusal("The answer has no token that is text by itself: it cannot be re-scored.", 502, KIND)
        entry = await self._ask(place, self._n, {"logit_bias": [[forced, _BIAS]]})
        if entry is None or entry.get("id") != forced:
            raise Refusal(f"{self._upstream.name} did not draw the token that it was made to.", 502, KIND)
        if forced == place.token:
            return self._checked(entry)
        return await self._sought(place, entry, {"logit_bias": [[forced, _BIAS]]})

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

    async def _after_samplers(self, place: Place) -> Entry:
        for seed in range(_SEEDS):
            entry = await self._ask(place, self._n, {**(self._samplers or {}), "post_sampling_probs": True}, seed)
            if entry is not None:
                extra = {**(self._samplers or {}), "post_sampling_probs": True}
                return (
                    self._checked(entry) if entry.get("id") == place.token else await self._sought(place, entry, extra)
                )
        raise Refusal("A token could not be re-scored: no draw there is text by itself.", 502, KIND)

    async def _sought(self, place: Place, entry: Entry, extra: Mapping[str, Any]) -> Entry:
        """The place's token out of the list beside another drawn token; of a longer list where it is not in this one."""
        listed = self._checked(entry)[self._listed]
        longer = listed
        for n in (_MORE, 100 * _MORE, 10_000 * _MORE):
            value = next((a.get(self._value) for a in longer if a.get("id") == place.token), None)
            if value is not None:
                return {"id": place.token, self._value: value, self._listed: listed}
            again = await self._ask(place, n, extra)
            longer = [] if again is None else self._checked(again)[self._listed]
        raise Refusal("A token could not be re-scored: it is not among those that the server lists.", 502, KIND)

    async def _ask(self, place: Place, n: int, extra: Mapping[str, Any], seed: int = 0) -> Entry | None:
        """None where no entry came: the drawn token is a piece of a character."""
        body = {
            **({"temperature": 0.0, "samplers": ["temperature"]} if self._samplers is None else {}),
            **extra,
            **self._lora,
            "seed": seed,
            "prompt": list(place.context),
            "n_predict": 1,
            "n_probs": n,
            "cache_prompt": True,
            "stream": False,
        }
        scoring, answer = self._upstream.scoring, None
        if scoring is not None:
            async with scoring:
                self.requests += 1
                answer = await self._upstream.post("/completion", body, self._headers)
        if self._upstream.epoch != self._epoch:
            raise Lost(f"{self._upstream.name} was lost while an answer of it was re-scored.")
        if (
            not isinstance(answer, dict)
            or answer.get("truncated")
            or answer.get("tokens_evaluated") != len(place.context)
        ):
            raise Refusal("The context of a token does not fit into the server's: it cannot be re-scored.", 502, KIND)
        self._learn(answer)
        entries = answer.get("completion_probabilities")
        return entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else None

    def _learn(self, answer: Mapping[str, Any]) -> None:
        settings = answer.get("generation_settings")
        types = settings.get("speculative.types") if isinstance(settings, dict) else None
        if isinstance(types, str):
            self._upstream.types = types

    def _checked(self, entry: Entry) -> Entry:
        value, listed = entry.get(self._value), entry.get(self._listed)
        if isinstance(value, int | float) and math.isfinite(value) and isinstance(listed, list) and listed:
            return entry
        raise Refusal(f"{self._upstream.name} gave no alternatives for a single token either.", 502, KIND)

    def _law(self, entry: Entry) -> dict[int, float]:
        return {a["id"]: a[self._value] for a in entry.get(self._listed) or [] if "id" in a and self._value in a}


def rms(a: Mapping[int, float], b: Mapping[int, float]) -> float:
    """Of the differences of values that both list; infinite where they list none in common."""
    both = a.keys() & b.keys()
    return math.sqrt(math.fsum((a[i] - b[i]) ** 2 for i in both) / len(both)) if both else math.inf


def lanes(tokens: int, context: int, most: int) -> int:
    """In how many parts to re-score: each works out the context anew, in a batch, which costs less per token than decoding."""
    return max(1, min(most, tokens // max(4, context // 8)))


async def in_lanes(scorer: Scorer, todo: list[Place], anchor: int | None, most: int) -> list[asyncio.Task[Entry]]:
    """Tasks for the places in order. Each lane is a stretch of the answer, one token after the other: so each request
    adds one token to what a slot has cached, as plain decoding does.
    """
    if not todo:
        return []
    n = lanes(len(todo), len(todo[-1].context), most)
    size = math.ceil(len(todo) / n)
    tasks: list[asyncio.Task[Entry]] = []
    for start in range(0, len(todo), size):
        before: asyncio.Task[Entry] | None = None
        for place in todo[start : start + size]:
            before = asyncio.create_task(after(before, scorer, place, anchor))
            tasks.append(before)
    return tasks


async def after(before: asyncio.Task[Entry] | None, scorer: Scorer, place: Place, anchor: int | None) -> Entry:
    """The score of a place, once its lane's last one is done. Fails with it."""
    if before is not None:
        await before
    return await scorer.score(place, anchor)
