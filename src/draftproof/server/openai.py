"""Answers of /v1/completions and /v1/chat/completions: OpenAI's keys, with llama-server's additions and a few more."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from draftproof import __version__
from draftproof.engine.emit import Emitted
from draftproof.engine.stop import Finish
from draftproof.server.account import progress, speculation, timings, usage
from draftproof.server.entries import entry, legacy
from draftproof.server.jobs import Choice, Event, Ticket
from draftproof.server.served import Served
from draftproof.server.tools.reply import Reply
from draftproof.server.wire import DONE, event

FINGERPRINT = f"draftproof-{__version__}"
_FINISH = {Finish.EOG: "stop", Finish.STOP: "stop", Finish.LENGTH: "length", Finish.CONTEXT: "length"}


class OpenAIForm:
    """What the two routes do differently: the keys of a choice."""

    def __init__(self, served: Served, *, chat: bool) -> None:
        self.served = served
        self.chat = chat
        self._streamed: dict[int, Reply] = {}
        self.identity = {
            "created": int(time.time()),
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_urlsafe(24)}",
            "model": served.name,
            "system_fingerprint": FINGERPRINT,
        }

    def body(self, choices: list[dict[str, Any]], *, part: bool = False) -> dict[str, Any]:
        """A whole answer, or one event of a stream."""
        kind = ("chat.completion.chunk" if part else "chat.completion") if self.chat else "text_completion"
        return {"choices": choices, **self.identity, "object": kind}

    def whole(self, ticket: Ticket) -> dict[str, Any]:
        """The answer of a request that is not streamed."""
        choices = ticket.choices
        runs = [choice.finished for choice in choices]
        body = self.body([self._choice(choice) for choice in choices])
        body |= {"usage": usage(choices), "timings": timings(runs), "ignored": list(choices[0].settings.ignored)}
        if len(choices) == 1:
            body["speculation"] = speculation(choices[0])
        else:
            for told, choice in zip(body["choices"], choices, strict=True):
                told["speculation"] = speculation(choice)
        return body

    def _choice(self, choice: Choice) -> dict[str, Any]:
        settings = choice.settings
        text, finish = choice.text.text, _FINISH[choice.finish]
        logprobs = self._logprobs(choice, choice.tokens, 0) if settings.alternatives >= 0 else None
        told: dict[str, Any]
        if self.chat:
            reply = Reply(settings.calling)
            message = reply.whole(text)
            told = {"finish_reason": reply.finish(finish), "index": choice.index, "message": message}
            if logprobs is not None:
                told["logprobs"] = logprobs
        else:
            text = choice.prompt_text.text + text if settings.echo else text
            told = {"text": text, "index": choice.index, "logprobs": logprobs, "finish_reason": finish}
        if settings.return_tokens:
            told["tokens"] = [t.token for t in choice.tokens]
        if settings.return_origins:
            told["origins"] = [str(t.origin) for t in choice.tokens]
        return told

    def _logprobs(self, choice: Choice, tokens: Sequence[Emitted], first: int) -> dict[str, Any]:
        """Of `tokens`, of which the first is the `first`-th of the answer; with the prompt's where they were asked for."""
        settings, vocabulary = choice.settings, self.served.vocabulary
        post = settings.post_sampling
        content = [entry(t, vocabulary, post_sampling=post) for t in tokens]
        if self.chat:
            return {"content": content}
        starts = choice.text.starts[first : first + len(tokens)]
        if not settings.echo:
            return {"content": content, **legacy(tokens, starts, vocabulary, post_sampling=post)}
        before = choice.prompt_starts
        starts = [before[-1] + start for start in starts]
        if first:
            return {"content": content, **legacy(tokens, starts, vocabulary, post_sampling=post)}
        scored = choice.finished.generation.prompt_records
        content = [entry(t, vocabulary, post_sampling=False) for t in scored] + content
        listed = legacy([choice.prompt[0], *scored], before[:-1], vocabulary, post_sampling=False)
        made = legacy(tokens, starts, vocabulary, post_sampling=post)
        return {"content": content, **{name: listed[name] + made[name] for name in listed}}

    def opening(self, choice: Choice) -> dict[str, Any] | None:
        """The first event of a choice in a stream, if the route has one of its own."""
        self._streamed[choice.index] = Reply(choice.settings.calling)
        return self._empty(choice) if self.chat else None

    def _empty(self, choice: Choice) -> dict[str, Any]:
        """An event without a token."""
        told: dict[str, Any] = {"finish_reason": None, "index": choice.index}
        told |= {"delta": {"role": "assistant", "content": None}} if self.chat else {"text": "", "logprobs": None}
        return self.body([told], part=True)

    def parts(self, event: Event, now_s: float) -> Iterator[dict[str, Any]]:
        """The events of a stream for what became known: one for each token that has something to tell."""
        choice = event.choice
        if event.read is not None:
            yield self._empty(choice) | {"prompt_progress": progress(choice, event.read, now_s)}
        for token, piece in zip(event.tokens, event.pieces, strict=True):
            told = self._part(choice, token, piece)
            if told is None:
                continue
            body = self.body([told], part=True)
            if choice.settings.timings_per_token:
                body["timings"] = timings([choice.finished], now_s)
            yield body

    def _part(self, choice: Choice, token: Emitted, piece: str) -> dict[str, Any] | None:
        settings, first = choice.settings, choice.seen
        choice.seen += 1
        text = choice.prompt_text.text + piece if settings.echo and not first else piece
        delta = self._streamed[choice.index].part(piece) if self.chat else {}
        with_numbers = settings.alternatives >= 0 or settings.return_tokens or settings.return_origins
        if not with_numbers and not any(delta.values() if self.chat else text):
            return None
        logprobs = self._logprobs(choice, [token], first) if settings.alternatives >= 0 else None
        told: dict[str, Any]
        if self.chat:
            told = {"finish_reason": None, "index": choice.index, "delta": delta}
            if logprobs is not None:
                told["logprobs"] = logprobs
        else:
            told = {"text": text, "index": choice.index, "logprobs": logprobs, "finish_reason": None}
        if settings.return_tokens:
            told["tokens"] = [token.token]
        if settings.return_origins:
            told["origins"] = [str(token.origin)]
        return told

    def closing(self, choice: Choice) -> dict[str, Any]:
        """The last event of a choice in a stream."""
        settings, finish = choice.settings, _FINISH[choice.finish]
        told: dict[str, Any]
        if self.chat:
            reply = self._streamed[choice.index]
            told = {"finish_reason": reply.finish(finish), "index": choice.index, "delta": reply.last()}
        else:
            only_prompt = settings.echo and not choice.tokens
            text = choice.prompt_text.text if only_prompt else ""
            logprobs = self._logprobs(choice, [], 0) if only_prompt and settings.alternatives >= 0 else None
            told = {"text": text, "index": choice.index, "logprobs": logprobs, "finish_reason": finish}
        run = choice.finished
        body = self.body([told], part=True)
        if not self.chat:
            body["usage"] = usage([choice])
        extra = {"timings": timings([run]), "speculation": speculation(choice), "ignored": list(settings.ignored)}
        return body | extra

    def ending(self, ticket: Ticket) -> Iterator[bytes]:
        """The usage of the whole request, if it was asked for, and the sign that nothing follows."""
        if ticket.settings.include_usage:
            runs = [choice.finished for choice in ticket.choices]
            yield event(self.body([], part=True) | {"usage": usage(ticket.choices), "timings": timings(runs)})
        yield DONE
