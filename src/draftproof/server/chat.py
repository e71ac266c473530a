"""Chat templates: messages become the text that the model was trained to see. The template comes from the model's file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from draftproof.core.errors import UsageError
from draftproof.server.errors import Refusal
from draftproof.server.schema import Conversation, Message
from draftproof.server.tools.asked import read_tools
from draftproof.server.tools.form import CallForm, Told, learn
from draftproof.server.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jinja2 import Template

PLAIN = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
"""Messages one after the other, for models that were never taught to chat."""
_RESERVED = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
_MARK = "a sentence that no template has"


class ChatTemplate:
    """A Jinja template, run in a sandbox: it sees the messages and nothing of this program. It is compiled at its first use."""

    def __init__(self, source: str, vocabulary: Vocabulary, options: Mapping[str, Any] = MappingProxyType({})) -> None:
        """options: what the template is told beside the messages, where a request does not say otherwise."""
        self.source = source
        self._vocabulary = vocabulary
        self._options = options

    def compile(self) -> None:
        """Raises UsageError for a broken template."""
        _ = self._template

    @cached_property
    def _template(self) -> Template:
        from jinja2 import TemplateError  # an eighth of the time to start, for what many servers never need
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def raise_exception(message: str) -> NoReturn:
            raise TemplateError(message)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], autoescape=False
        )
        environment.filters["tojson"] = _tojson
        environment.globals.update(raise_exception=raise_exception, strftime_now=_strftime_now)
        try:
            return environment.from_string(self.source)
        except TemplateError as error:
            raise UsageError(
                f"The chat template is broken: {error}.", "Start the server with another: --chat-template-file."
            ) from error

    def unread(self, asked: Conversation) -> list[str]:
        """Names of the fields of a request that the template does not read."""
        options = [name for name, value in (asked.chat_template_kwargs or {}).items() if value is not None]
        return [f"chat_template_kwargs.{name}" for name in options if name not in self._options_read]

    @cached_property
    def _options_read(self) -> set[str]:
        from jinja2 import meta

        return meta.find_undeclared_variables(self._template.environment.parse(self.source)) - _RESERVED

    @cached_property
    def calls(self) -> CallForm | None:
        """How the model writes calls of tools; None where the template does not tell, or tells it in no form that is known."""
        return learn(lambda messages, tools: self._filled(messages, tools, {}, opening=False))

    def render(
        self,
        messages: Sequence[Message],
        extra: Mapping[str, Any] | None = None,
        *,
        opening: bool = True,
        carried_on: bool | None = None,
        tools: Sequence[Told] = (),
    ) -> str:
        """The text of a conversation. opening: with what comes before the model's own turn.

        carried_on: whether the model carries on the last message, which must be the assistant's then, rather than begin another
        one; None: if it is the assistant's and calls nothing. Raises Refusal for messages that the template, or this server,
        does not take, UsageError for a broken template.
        """
        if not messages:
            raise Refusal("'messages' must not be empty")
        told = [self._told(message) for message in messages]
        last = told[-1]
        open_ended = last["role"] == "assistant" and not last.get("tool_calls")
        if carried_on and not open_ended:
            without = ", without tool_calls" if last["role"] == "assistant" else ""
            raise Refusal(f"continue_final_message needs a last message of the assistant{without}")
        begun = ""
        if carried_on is not False and open_ended:
            begun, opening = told.pop()["content"], True
        try:
            text = self._filled(told, tools, extra or {}, opening=opening)
        except UsageError:
            raise
        except Exception as error:  # a template is a program of somebody else's
            raise Refusal(f"The chat template does not take these messages: {error}") from error
        bos = self._special(self._vocabulary.bos)
        if bos and self._vocabulary.adds_bos:
            text = text.removeprefix(bos)
        return text + begun

    def _filled(self, told: Sequence[Told], tools: Sequence[Told], extra: Told, *, opening: bool) -> str:
        """What the template makes of it. Raises UsageError for a broken template, anything for one that does not take it."""
        options = {name: value for name, value in {**self._options, **extra}.items() if name not in _RESERVED}
        return self._template.render(
            **options,
            messages=told,
            tools=tools or None,  # so templates are written: none, where there are none
            add_generation_prompt=opening,
            bos_token=self._special(self._vocabulary.bos),
            eos_token=self._special(self._vocabulary.eos),
        )

    def _told(self, message: Message) -> dict[str, Any]:
        """A message as templates want it; what it does not say is not there."""
        told: dict[str, Any] = {"role": self._role(message.role), "content": _text(message)}
        for name in ("name", "reasoning_content", "tool_call_id"):
            if getattr(message, name) is not None:
                told[name] = getattr(message, name)
        if message.tool_calls:
            objects = self.calls is None or self.calls.objects
            told["tool_calls"] = list(_calls(message.tool_calls, objects=objects))
        return told

    def of(self, asked: Conversation) -> str:
        """The text of the conversation of a request. Raises Refusal."""
        if asked.add_generation_prompt and asked.continue_final_message:
            raise Refusal("Cannot set both add_generation_prompt and continue_final_message to true.")
        return self.render(
            asked.messages,
            asked.chat_template_kwargs,
            opening=asked.add_generation_prompt is not False,
            carried_on=asked.continue_final_message,
            tools=read_tools(asked),
        )

    def takes(self, role: str) -> bool:
        """Whether the text of a message of that role gets into the conversation."""
        told = [Message.read({"role": role, "content": _MARK}), Message.read({"role": "user", "content": "a"})]
        try:
            return _MARK in self.render(told)
        except (Refusal, UsageError):
            return False

    def _role(self, role: str) -> str:
        """OpenAI's newer name of the system role is for templates that know it."""
        return "system" if role == "developer" and role not in self.source else role

    def _special(self, token: int | None) -> str:
        return "" if token is None else self._vocabulary.piece(token, special=True).decode("utf-8", "replace")


def _text(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    if message.content is None:
        if message.role == "assistant":
            return ""
        raise Refusal("All non-assistant messages must contain 'content'")
    texts = []
    for part in message.content:
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise Refusal(f"Content of type {part.get('type')!r} is not supported; only text is.")
        texts.append(part["text"])
    return "\n".join(texts)


def _calls(calls: Sequence[Mapping[str, Any]], *, objects: bool) -> Iterator[dict[str, Any]]:
    """Calls of an earlier answer, with their arguments as an object or as a text. Raises Refusal."""
    for call in calls:
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Refusal("Each of 'tool_calls' must have a function with a name and arguments.")
        arguments = function.get("arguments", "{}")
        try:
            read = json.loads(arguments) if isinstance(arguments, str) else arguments
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            raise Refusal(f"The arguments of the call of {function['name']} must be a JSON object.")
        wanted = read if objects else arguments if isinstance(arguments, str) else _tojson(read)
        yield {**call, "type": "function", "function": {**function, "arguments": wanted}}


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _strftime_now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)
