"""The placeholders of one request's answers, found and re-scored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from draftproof import __version__
from draftproof.gateway.asks import CHAT, NATIVE, Wanted
from draftproof.gateway.contexts import Entry, Ids, Place, Tokenizer, Unknown, places
from draftproof.gateway.scoring import Scorer, in_lanes
from draftproof.gateway.upstream import Upstream
from draftproof.gateway.wire import HeaderList

HOW = "one-token requests to the same server, after the token ids before each token"
_LISTS = ("top_logprobs", "top_probs")


@dataclass(slots=True)
class Told:
    """One answer as the upstream told it. `ids`: of all its tokens; `count`: how many; `evaluated`: tokens of its prompt; None
    where it does not say. `pending`: the scores under way, by the number of the entry.
    """

    index: int
    entries: list[Entry]
    ids: Ids | None
    count: int | None
    evaluated: int | None
    slot: int | None = None
    pending: dict[int, asyncio.Task[Entry]] = field(default_factory=dict)

    async def entry(self, n: int) -> Entry:
        """Entry n, its values re-scored where they had to be."""
        task = self.pending.get(n)
        if task is not None:
            found = await task
            self.entries[n].update({k: v for k, v in found.items() if k not in ("id", "token", "bytes")})
        return self.entries[n]


def is_missing(entry: Entry) -> bool:
    """Whether no alternatives came though asked for: the mark of a drafted token."""
    return not any(entry.get(name) for name in _LISTS)


def told(wanted: Wanted, answer: Any) -> list[Told]:
    """The answers in a body, in its order; those without logprobs with no entries."""
    if wanted.route == NATIVE:
        answers = answer if isinstance(answer, list) else [answer]
        return [_native(a) for a in answers if isinstance(a, dict)]
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choices = [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
    usage = answer.get("usage") if isinstance(answer, dict) and len(choices) == 1 else None
    usage = usage if isinstance(usage, dict) else {}
    return [_of_choice(c, usage) for c in choices]


def _native(answer: dict[str, Any]) -> Told:
    if answer.get("truncated"):
        raise Unknown("its context was shifted while it was made")
    ids = answer.get("tokens")
    known = isinstance(ids, list) and bool(ids) and all(type(i) is int for i in ids)
    return Told(
        _whole(answer.get("index")) or 0,
        _entries(answer.get("completion_probabilities")),
        tuple(ids) if known and isinstance(ids, list) else None,
        _whole(answer.get("tokens_predicted")),
        _whole(answer.get("tokens_evaluated")),
        _whole(answer.get("id_slot")),
    )


def _of_choice(choice: dict[str, Any], usage: dict[str, Any]) -> Told:
    logprobs = choice.get("logprobs")
    entries = _entries(logprobs.get("content") if isinstance(logprobs, dict) else None)
    counts = _whole(usage.get("completion_tokens")), _whole(usage.get("prompt_tokens"))
    return Told(_whole(choice.get("index")) or 0, entries, None, *counts)


def _entries(found: object) -> list[Entry]:
    return [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


class Mender:
    """`async with Mender(...) as mender`: what is still under way at the end is cancelled.

    most_lanes: how many stretches of one answer are re-scored at once; 1 for the numeric path of plain decoding, bit for bit.
    """

    def __init__(self, upstream: Upstream, headers: HeaderList, wanted: Wanted, most_lanes: int) -> None:
        self.upstream = upstream
        self.wanted = wanted
        self.epoch = upstream.epoch
        self.most_lanes = most_lanes
        self.tokenizer = Tokenizer(upstream, headers)
        self.rescored: dict[int, list[int]] = {}
        self._headers = headers
        self._prompts: list[Ids] | None = None
        self._scorers: list[Scorer] = []
        self._tasks: list[asyncio.Task[Entry]] = []

    async def begin(self, answer: Told) -> None:
        """Starts to re-score what is missing of an answer. Raises Refusal where that cannot be done, Lost."""
        missing = [n for n, entry in enumerate(answer.entries) if is_missing(entry)]
        if not missing:
            return
        prompt = await self.prompt(answer.index, answer.evaluated)
        self.fits(len(prompt) + (answer.count or len(answer.entries)))
        spots = await places(prompt, answer.entries, ids=answer.ids, count=answer.count, cut=self.tokenizer.cut)
        scorer = self.scorer(max(map(_listed, answer.entries)))
        anchor = await self.anchor([s for s, e in zip(spots, answer.entries, strict=True) if e.get("token")])
        if not is_missing(answer.entries[0]):
            scorer.believe(answer.entries[0], await scorer.score(spots[0], anchor))
        tasks = await in_lanes(scorer, [spots[n] for n in missing], anchor, self.most_lanes, answer.slot)
        self.keep(*tasks)
        answer.pending = dict(zip(missing, tasks, strict=True))
        self.rescored[answer.index] = missing

    def scorer(self, listed: int) -> Scorer:
        """Of one answer. `listed`: the most alternatives that a real entry of it has; 0 if none is real."""
        made = Scorer(self.upstream, self._headers, self.wanted, listed or self.wanted.alternatives or 1, self.epoch)
        self._scorers.append(made)
        return made

    def keep(self, *tasks: asyncio.Task[Entry]) -> None:
        """Cancels these tasks too at the end."""
        self._tasks.extend(tasks)

    def fits(self, tokens: int) -> None:
        """Raises Unknown for an answer that is longer than the server's context: it was made after a shift."""
        if self.upstream.context is not None and tokens > self.upstream.context:
            raise Unknown("it is longer than the server's context")

    async def prompt(self, index: int, evaluated: int | None) -> Ids:
        """The ids of the prompt of answer `index`; `evaluated`: how many the server counted. Raises Unknown, Refusal, Lost."""
        await self.upstream.survey(self._headers)
        if self._prompts is None:
            self._prompts = await self.tokenizer.prompts(self.wanted)
        number = 0 if self.wanted.route == CHAT else index // self.wanted.answers
        if number >= len(self._prompts):
            raise Unknown("there are more answers than prompts")
        prompt = self._prompts[number]
        if evaluated is not None and evaluated != len(prompt):
            raise Unknown(
                f"the server counts {evaluated} tokens of the prompt, and the prompt by itself has {len(prompt)}"
            )
        return prompt

    async def anchor(self, spots: Sequence[Place]) -> int:
        """A token that is text by itself."""
        found = next((spot.token for spot in spots if spot.whole), None)
        return (await self.tokenizer.cut("a"))[-1] if found is None else found

    def mark(self, index: int | None = None) -> dict[str, Any]:
        """What was done, of one answer or of all."""
        rescored = {i: ns for i, ns in self.rescored.items() if index in (None, i)}
        told = [{"index": i, "rescored": _ranges(ns)} for i, ns in sorted(rescored.items())]
        return {
            "gateway": __version__,
            "upstream": self.upstream.name,
            "logprobs": "re-scored" if told else "as the upstream gave them",
            **({"how": HOW, "answers": told, "requests": sum(s.requests for s in self._scorers)} if told else {}),
        }

    def header(self) -> str:
        n = sum(map(len, self.rescored.values()))
        return f"rescored; tokens={n}; upstream={self.upstream.name}" if n else f"upstream={self.upstream.name}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


def _listed(entry: Entry) -> int:
    return max(len(entry.get(name) or ()) for name in _LISTS)


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Numbers of tokens as stretches [first, last]."""
    found: list[list[int]] = []
    for n in numbers:
        if found and found[-1][1] == n - 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return found
