"""Which token ids stood before each token of an answer: what it was drawn after, and is re-scored after.

llama-server gives one logprob entry per piece of text. A character of several tokens is one entry, with the id of its last token;
the ids before it are in `tokens` of a native answer, and else found by cutting the entry's text into tokens, which is believed
only where the last id and the number of tokens agree.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftproof.gateway.asks import CHAT, GENERATE, Wanted
from draftproof.gateway.upstream import KIND, Upstream
from draftproof.gateway.wire import HeaderList
from draftproof.server.errors import Refusal

Ids = tuple[int, ...]
Cut = Callable[[str], Awaitable[Ids]]
Entry = dict[str, Any]


class Unknown(Refusal):
    """What was drawn after what, or how likely it was, cannot be known for certain."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"The logprobs of this answer cannot be re-scored: {why}.", 502, KIND)


@dataclass(frozen=True, slots=True)
class Place:
    """A token in an answer. `whole`: it is text by itself, not the end of a character of several tokens."""

    context: Ids
    token: int
    whole: bool


class Tokenizer:
    """The upstream's own."""

    def __init__(self, upstream: Upstream, headers: HeaderList) -> None:
        self._upstream = upstream
        self._headers = headers

    async def prompts(self, wanted: Wanted) -> list[Ids]:
        """The ids of the prompts, as the server makes them of texts and chats. Raises Refusal, Lost."""
        if wanted.route == GENERATE:
            return [await self._of_sglang(p) for p in wanted.prompts]
        if wanted.route == CHAT:
            body = {k: v for k, v in wanted.body.items() if k not in ("stream", "stream_options")}
            told = await self._upstream.post("/apply-template", body, self._headers)
            if not isinstance(told, dict) or not isinstance(told.get("prompt"), str):
                raise Unknown("the server does not say what its chat template makes of the messages")
            return [await self._ids(told["prompt"], special=True)]
        return [await self._prompt(p) for p in wanted.prompts]

    async def cut(self, text: str) -> Ids:
        """The ids of a piece of generated text."""
        return await self._ids(text, special=False)

    async def text(self, ids: Ids) -> str:
        """What the ids spell. Raises Unknown, Refusal, Lost."""
        told = await self._upstream.post("/detokenize", {"tokens": list(ids)}, self._headers)
        text = told.get("content") if isinstance(told, dict) else None
        if not isinstance(text, str):
            raise Unknown("the server does not spell token ids")
        return text

    async def _prompt(self, prompt: Any) -> Ids:
        return await self._ids(prompt, special=True) if isinstance(prompt, str) else tuple(prompt)

    async def _of_sglang(self, prompt: Any) -> Ids:
        return await self._told({"prompt": prompt}) if isinstance(prompt, str) else tuple(prompt)

    async def _ids(self, text: str, *, special: bool) -> Ids:
        return await self._told({"content": text, "add_special": special, "parse_special": special})

    async def _told(self, body: dict[str, Any]) -> Ids:
        told = await self._upstream.post("/tokenize", body, self._headers)
        ids = told.get("tokens") if isinstance(told, dict) else None
        if not isinstance(ids, list) or not all(type(i) is int for i in ids):
            raise Unknown("the server gives no token ids")
        return tuple(ids)


async def places(prompt: Ids, entries: Sequence[Entry], *, ids: Ids | None, count: int | None, cut: Cut) -> list[Place]:
    """Where each entry's token stands. `ids`: of all tokens of the answer, if known; `count`: how many there are, if known.

    Raises Unknown, and Refusal where the server cannot tokenize.
    """
    if ids is not None and len(ids) == len(entries) and not any("id" in entry for entry in entries):
        return [Place(prompt + ids[:n], token, whole=True) for n, token in enumerate(ids)]
    if ids is not None:
        return _among(prompt, entries, ids)
    found: list[Place] = []
    context = prompt
    joined = count is None or count != len(entries)
    for entry in entries:
        before = await pieces_before(entry, cut) if joined and not _text(entry).isascii() else ()
        context += before
        found.append(Place(context, entry_id(entry), not before))
        context += (entry_id(entry),)
    if count is not None and len(context) - len(prompt) > count:
        raise Unknown("its text has more tokens than were made")
    return found


def _among(prompt: Ids, entries: Sequence[Entry], ids: Ids) -> list[Place]:
    found: list[Place] = []
    at = 0
    for entry in entries:
        start = at
        while at < len(ids) and ids[at] != entry_id(entry):
            at += 1
        if at == len(ids):
            raise Unknown("its logprob entries do not agree with its token ids")
        if at > start and _text(entry).isascii() and _text(entry):
            raise Unknown("token ids stand between two entries of plain text")
        found.append(Place(prompt + ids[:at], ids[at], at == start))
        at += 1
    return found


async def pieces_before(entry: Entry, cut: Cut, count: int | None = None) -> Ids:
    """The ids of the tokens that the entry's character begins with. `count`: how many tokens it has, if that is known.

    Raises Unknown where the text cannot be cut so that the entry's own token is its last.
    """
    ids = await cut(_text(entry))
    if not ids or ids[-1] != entry_id(entry) or (count is not None and len(ids) != count):
        raise Unknown(f"it is not known which tokens make up {_text(entry)!r}")
    return ids[:-1]


def entry_id(entry: Mapping[str, Any]) -> int:
    """Raises Unknown for an entry without one: no other kind of server can be re-scored by ids."""
    found = entry.get("id")
    if type(found) is not int:
        raise Unknown("the server gives no token ids beside its logprobs")
    return found


def _text(entry: Mapping[str, Any]) -> str:
    text = entry.get("token")
    return text if isinstance(text, str) else ""
