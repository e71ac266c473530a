"""The placeholders of one request's answers, found and re-scored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from draftproof import __version__
from draftproof.gateway.answers import Told, is_missing, ranges
from draftproof.gateway.asks import CHAT, Wanted
from draftproof.gateway.contexts import Entry, Ids, Place, Tokenizer, Unknown, places
from draftproof.gateway.prompts import agree, score, way_of
from draftproof.gateway.retelling import is_retold
from draftproof.gateway.scoring import Scorer, in_lanes
from draftproof.gateway.upstream import Lost, Upstream
from draftproof.gateway.wire import HeaderList
from draftproof.server.errors import Refusal

HOW = "one-token requests to the same server, after the token ids before each token"


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
        self.how: set[str] = set()
        self.doubts: list[str] = []
        self.requests = 0
        self.headers = headers
        self._prompts: list[Ids] | None = None
        self._scorers: list[Scorer] = []
        self._tasks: list[asyncio.Task[Entry]] = []

    async def survey(self) -> None:
        """Learns what the upstream is, once per epoch. Raises Lost."""
        await self.upstream.survey(self.headers)
        self.epoch = self.upstream.epoch

    async def retells(self) -> bool:
        """Whether a stream is better asked for on the native route: token by token, unless one request scores it all.

        Raises Refusal, Lost.
        """
        if not is_retold(self.wanted, self.upstream):
            return False
        return await way_of(self.upstream, self.headers, self.wanted, await self.prompt(0, None)) is None

    @property
    def spent(self) -> int:
        """Requests beside that for the answer itself."""
        return self.requests + sum(s.requests for s in self._scorers)

    async def begin(self, answer: Told) -> None:
        """Starts to re-score what is missing of an answer. Raises Refusal where that cannot be done, Lost."""
        missing = answer.missing
        if not missing:
            return
        prompt = answer.prompt or await self.prompt(answer.index, answer.evaluated)
        self.fits(len(prompt) + (answer.count or len(answer.entries)))
        spots = await places(prompt, answer.entries, ids=answer.ids, count=answer.count, cut=self.tokenizer.cut)
        answer.pending = await self._by_prompt(answer, prompt, spots) or await self._one_by_one(answer, spots)
        self.rescored[answer.index] = missing

    async def _by_prompt(self, answer: Told, prompt: Ids, spots: Sequence[Place]) -> dict[int, asyncio.Future[Entry]]:
        """The scores by one request for the whole answer; none where the server offers that not, or not truthfully."""
        ids = (*spots[-1].context[len(prompt) :], spots[-1].token)
        way = await way_of(self.upstream, self.headers, self.wanted, prompt + ids)
        if way is None or len(ids) != len(spots):
            return {}
        try:
            listed = answer.listed or self.wanted.alternatives
            found = await score(way, self.upstream, self.headers, self.wanted, answer, (prompt, ids), max(1, listed))
            if self.upstream.has_oracle:
                await self._ask_one(answer, spots, found)
        except Lost:
            raise
        except Refusal as error:
            if not self.upstream.has_oracle:
                raise
            self.doubts.append(error.why if isinstance(error, Unknown) else error.message)
            return {}
        if self.upstream.epoch != self.epoch:
            raise Lost(f"{self.upstream.name} was lost while an answer of it was re-scored.")
        self.how.add(way.how)
        self.requests += 1
        pending = {n: asyncio.get_running_loop().create_future() for n in answer.missing}
        for n, future in pending.items():
            future.set_result(found[n] | {"top_logprobs": found[n]["top_logprobs"][:listed]})
        return pending

    async def _ask_one(self, answer: Told, spots: Sequence[Place], found: Sequence[Entry]) -> None:
        """Compares the last of the missing with what the server says when it is asked for that token alone."""
        n = answer.missing[-1]
        anchor = await self.anchor([s for s, e in zip(spots, answer.entries, strict=True) if e.get("token")])
        agree(await self.scorer(answer.listed).score(spots[n], anchor), found[n], n)

    async def _one_by_one(self, answer: Told, spots: Sequence[Place]) -> dict[int, asyncio.Future[Entry]]:
        scorer = self.scorer(answer.listed)
        anchor = await self.anchor([s for s, e in zip(spots, answer.entries, strict=True) if e.get("token")])
        if not is_missing(answer.entries[0]):
            scorer.believe(answer.entries[0], await scorer.score(spots[0], anchor))
        missing = answer.missing
        tasks = await in_lanes(scorer, [spots[n] for n in missing], anchor, self.most_lanes, answer.slot)
        self.keep(*tasks)
        self.how.add(HOW)
        return dict(zip(missing, tasks, strict=True))

    def scorer(self, listed: int) -> Scorer:
        """Of one answer. `listed`: the most alternatives that a real entry of it has; 0 if none is real."""
        made = Scorer(self.upstream, self.headers, self.wanted, listed or self.wanted.alternatives or 1, self.epoch)
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
        await self.upstream.survey(self.headers)
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
        told = [{"index": i, "rescored": ranges(ns)} for i, ns in sorted(rescored.items())]
        how = "; ".join(sorted(self.how)) or HOW
        return {
            "gateway": __version__,
            "upstream": self.upstream.name,
            "logprobs": "re-scored" if told else "as the upstream gave them",
            **({"how": how, "answers": told, "requests": self.spent} if told else {}),
            **({"not_believed": self.doubts} if self.doubts else {}),
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
