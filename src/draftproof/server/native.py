"""Answers of POST /completion, with llama-server's keys and a few more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from draftproof.engine.emit import Emitted
from draftproof.engine.stop import Finish
from draftproof.server.account import progress, speculation, timings
from draftproof.server.described import describe
from draftproof.server.entries import entry
from draftproof.server.jobs import Choice, Event, Ticket
from draftproof.server.served import Served

_STOP_TYPES = {Finish.EOG: "eos", Finish.STOP: "word", Finish.LENGTH: "limit", Finish.CONTEXT: "limit"}


class NativeForm:
    """How POST /completion words its answers: a list of them, but for a single one."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def whole(self, ticket: Ticket) -> Any:
        answers = [final(choice, self._served) for choice in ticket.choices]
        return answers if len(answers) > 1 else answers[0]

    def opening(self, choice: Choice) -> None:
        """There is none."""

    def parts(self, event: Event, now_s: float) -> Iterator[dict[str, Any]]:
        return _parts(event, self._served, now_s)

    def closing(self, choice: Choice) -> dict[str, Any]:
        return final(choice, self._served)

    def ending(self, ticket: Ticket) -> Iterator[bytes]:  # noqa: ARG002 - the last answer is the end
        return iter(())


def final(choice: Choice, served: Served) -> dict[str, Any]:
    """The answer of one choice; when it was streamed, its last event, without what went out before."""
    settings, run = choice.settings, choice.finished
    whole = not settings.stream
    answer: dict[str, Any] = {
        "index": choice.index,
        "content": choice.text.text if whole else "",
        "tokens": [t.token for t in choice.tokens] if whole and settings.return_tokens else [],
        "id_slot": run.slot,
        "stop": True,
        "model": served.name,
        "tokens_predicted": len(choice.tokens),
        "tokens_evaluated": len(choice.prompt),
        "generation_settings": describe(settings, run.plan.effective, private=True),
        "prompt": served.vocabulary.detokenize(choice.prompt).decode("utf-8", "replace"),
        "has_new_line": "\n" in choice.text.text,
        "truncated": choice.finish is Finish.CONTEXT,
        "stop_type": _STOP_TYPES[choice.finish],
        "stopping_word": choice.text.stopped_by,
        "tokens_cached": len(choice.prompt) + max(len(choice.tokens) - 1, 0),
        "timings": timings([run]),
        "speculation": speculation(choice),
        "ignored": list(settings.ignored),
    }
    if whole and settings.alternatives >= 0:
        answer["completion_probabilities"] = _entries(choice, choice.tokens, served)
    if whole and settings.return_origins:
        answer["origins"] = [str(t.origin) for t in choice.tokens]
    return _chosen(answer, settings.response_fields)


def _parts(event: Event, served: Served, now_s: float) -> Iterator[dict[str, Any]]:
    """The events of a stream for what became known: one for each token."""
    choice = event.choice
    settings = choice.settings
    first = choice.seen
    choice.seen += len(event.tokens)
    common = {"stop": False, "id_slot": -1}
    if event.read is not None:
        counts = {"tokens_predicted": 0, "tokens_evaluated": len(choice.prompt)}
        yield {
            "index": choice.index,
            "content": "",
            "tokens": [],
            **common,
            **counts,
            "prompt_progress": progress(choice, event.read, now_s),
        }
    for i, (token, piece) in enumerate(zip(event.tokens, event.pieces, strict=True), 1):
        part: dict[str, Any] = {"index": choice.index, "content": piece, "tokens": [token.token], **common}
        part |= {"tokens_predicted": first + i, "tokens_evaluated": len(choice.prompt)}
        if settings.alternatives >= 0:
            part["completion_probabilities"] = _entries(choice, [token], served)
        if settings.return_origins:
            part["origins"] = [str(token.origin)]
        if settings.timings_per_token:
            part["timings"] = timings([choice.finished], now_s)
        yield part


def _entries(choice: Choice, tokens: list[Emitted], served: Served) -> list[dict[str, Any]]:
    post = choice.settings.post_sampling
    return [entry(token, served.vocabulary, post_sampling=post) for token in tokens]


def _chosen(answer: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """Only the fields that were asked for, by paths like generation_settings/n_predict; all where none was."""
    if not paths:
        return answer
    chosen: dict[str, Any] = {}
    for path in paths:
        value: Any = answer
        for part in path.split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            chosen[path] = value
    return chosen
