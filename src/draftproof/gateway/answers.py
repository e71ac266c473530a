"""The logprobs in an answer, whatever its shape: read as llama-server's entries, and written back."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftproof.gateway.asks import GENERATE, NATIVE, Wanted
from draftproof.gateway.contexts import Entry, Ids, Unknown
from draftproof.gateway.ways import from_triples

LISTS = ("top_logprobs", "top_probs")
_NAMES = ("id", "token", "bytes")


@dataclass(slots=True)
class Told:
    """One answer as the upstream told it. `ids`: of all its tokens; `prompt`: of its prompt; `count`: how many tokens it has;
    `evaluated`: tokens of its prompt; None where it does not say.

    `lists`: OpenAI's older form, kept in step with the entries; `triples`: SGLang's. `bare`: the client asked for no alternatives,
    and gets none. `pending`: the scores under way, by the number of the entry.
    """

    index: int
    entries: list[Entry]
    ids: Ids | None
    count: int | None
    evaluated: int | None
    slot: int | None = None
    prompt: Ids | None = None
    lists: dict[str, Any] | None = None
    triples: dict[str, Any] | None = None
    bare: bool = False
    pending: dict[int, asyncio.Future[Entry]] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """The entries without values."""
        return [n for n, entry in enumerate(self.entries) if is_missing(entry)]

    @property
    def listed(self) -> int:
        """The most alternatives that an entry has."""
        return max((len(entry.get(name) or ()) for entry in self.entries for name in LISTS), default=0)

    async def entry(self, n: int) -> Entry:
        """Entry n, its values re-scored where they had to be."""
        score = self.pending.get(n)
        if score is not None:
            found = await score
            self._write(n, {k: v for k, v in found.items() if k not in _NAMES}, found)
        if self.bare:
            self.entries[n]["top_logprobs"] = []
            if self.triples is not None:
                self.triples.pop("output_top_logprobs", None)
        return self.entries[n]

    def _write(self, n: int, values: Mapping[str, Any], found: Entry) -> None:
        entry = self.entries[n]
        named = "id" in entry or self.lists is not None
        entry.update(values)
        if not named and "top_logprobs" in entry:
            entry["top_logprobs"] = [{k: v for k, v in one.items() if k != "id"} for one in entry["top_logprobs"]]
        if self.lists is not None:
            _put(self.lists, "token_logprobs", n, _log(entry))
            _put(self.lists, "top_logprobs", n, _by_text(entry, itself="content" not in self.lists))
        if self.triples is not None:
            rows = [[one["logprob"], one["id"], one["token"]] for one in values["top_logprobs"]]
            _put(self.triples, "output_token_logprobs", n, [values["logprob"], entry["id"], found["token"]])
            _put(self.triples, "output_top_logprobs", n, rows)


def is_missing(entry: Entry) -> bool:
    """Whether no alternatives came though asked for: the mark of a drafted token."""
    return not any(entry.get(name) for name in LISTS)


def told(wanted: Wanted, answer: Any) -> list[Told]:
    """The answers in a body, in its order; those without logprobs with no entries."""
    if wanted.route in (NATIVE, GENERATE):
        answers = answer if isinstance(answer, list) else [answer]
        read = _native if wanted.route == NATIVE else _of_sglang
        return [read(a, n) for n, a in enumerate(answers) if isinstance(a, dict)]
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choices = [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []
    usage = answer.get("usage") if isinstance(answer, dict) and len(choices) == 1 else None
    return [_of_choice(c, usage if isinstance(usage, dict) else {}, answer) for c in choices]


def _native(answer: dict[str, Any], _: int) -> Told:
    if answer.get("truncated"):
        raise Unknown("its context was shifted while it was made")
    return Told(
        _whole(answer.get("index")) or 0,
        _entries(answer.get("completion_probabilities")),
        _ids(answer.get("tokens")),
        _whole(answer.get("tokens_predicted")),
        _whole(answer.get("tokens_evaluated")),
        _whole(answer.get("id_slot")),
    )


def _of_choice(choice: dict[str, Any], usage: Mapping[str, Any], answer: Mapping[str, Any]) -> Told:
    logprobs = choice.get("logprobs")
    logprobs = logprobs if isinstance(logprobs, dict) else {}
    lists = logprobs if isinstance(logprobs.get("tokens"), list) else None
    entries = _entries(logprobs.get("content")) or (_of_lists(lists) if lists else [])
    return Told(
        _whole(choice.get("index")) or 0,
        entries,
        _ids(choice.get("token_ids")),
        _whole(usage.get("completion_tokens")),
        _whole(usage.get("prompt_tokens")),
        prompt=_ids(choice.get("prompt_token_ids")) or _ids(answer.get("prompt_token_ids")),
        lists=lists,
    )


def _of_lists(lists: Mapping[str, Any]) -> list[Entry]:
    texts, values, tops = lists["tokens"], lists.get("token_logprobs"), lists.get("top_logprobs")
    values = values if isinstance(values, list) else [None] * len(texts)
    tops = tops if isinstance(tops, list) else [None] * len(texts)
    if not len(texts) == len(values) == len(tops):
        raise Unknown("its lists of logprobs differ in length")
    return [
        {
            "token": text,
            "logprob": value,
            "top_logprobs": [{"token": t, "logprob": v} for t, v in top.items()] if isinstance(top, dict) else [],
        }
        for text, value, top in zip(texts, values, tops, strict=True)
    ]


def _of_sglang(answer: dict[str, Any], index: int) -> Told:
    meta = answer.get("meta_info")
    meta = meta if isinstance(meta, dict) else {}
    own, tops = meta.get("output_token_logprobs"), meta.get("output_top_logprobs")
    own = own if isinstance(own, list) else []
    tops = tops if isinstance(tops, list) and len(tops) == len(own) else [None] * len(own)
    ids = _ids(answer.get("output_ids"))
    if ids is not None and len(ids) != len(own):
        raise Unknown("it has not as many logprobs as tokens")
    return Told(
        index,
        [from_triples(mine, top) for mine, top in zip(own, tops, strict=True)],
        ids,
        _whole(meta.get("completion_tokens")),
        _whole(meta.get("prompt_tokens")),
        triples=meta,
    )


def _put(lists: dict[str, Any], name: str, n: int, value: Any) -> None:
    found = lists.get(name)
    if isinstance(found, list) and n < len(found):
        found[n] = value


def _by_text(entry: Entry, *, itself: bool) -> dict[str, float]:
    """OpenAI's older list of alternatives. Of equal texts the first, the likelier one. itself: vLLM lists the token before all."""
    listed: list[Entry] = next((entry[name] for name in LISTS if entry.get(name)), [])
    found: dict[str, float] = {}
    for one in (entry, *listed) if itself else listed:
        value = _log(one)
        if value is not None:
            found.setdefault(_spelled(one), value)
    return found


def _log(entry: Mapping[str, Any]) -> float | None:
    if "prob" not in entry:
        return entry.get("logprob")
    return math.log(entry["prob"]) if entry["prob"] else None


def _spelled(entry: Mapping[str, Any]) -> str:
    """Bytes that are no UTF-8 spelled out, so that no two tokens look alike."""
    raw = entry.get("bytes")
    if isinstance(raw, list):
        try:
            bytes(raw).decode()
        except ValueError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
    return str(entry.get("token") or "")


def _entries(found: object) -> list[Entry]:
    return [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []


def _ids(found: object) -> Ids | None:
    known = isinstance(found, list) and bool(found) and all(type(i) is int for i in found)
    return tuple(found) if known and isinstance(found, list) else None


def _whole(value: object) -> int | None:
    return value if type(value) is int else None


def ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Numbers of tokens as stretches [first, last]."""
    found: list[list[int]] = []
    for n in numbers:
        if found and found[-1][1] == n - 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return found
