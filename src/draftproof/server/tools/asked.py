"""What a request says of tools: which there are, whether one must be called, and what holds the answer to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftproof.engine.guidance import HEADER, rule_of
from draftproof.engine.shape import Constraint
from draftproof.server.errors import Refusal
from draftproof.server.schema import ChatCompletion, Conversation
from draftproof.server.served import Served
from draftproof.server.structure import of_schema, sparing
from draftproof.server.tools.form import CallForm, Part
from draftproof.server.tools.lazy import Lazily
from draftproof.server.vocabulary import Vocabulary

NO_TOOLS = (
    "Field 'tools': the chat template of this model has no calls of tools, or writes them in a way that is not supported; "
    "start the server with a template that has: --chat-template-file."
)
_NAME = re.compile(r"[^\s\"\\<>{}\[\]]{1,256}")
_NO_ARGUMENTS = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Calling:
    """How an answer may call tools. `grammar`: of its calls; `at_once`: it holds from the first token on.

    `shown`: control tokens that calls are written with, which therefore are part of the text.
    """

    form: CallForm
    names: tuple[str, ...]
    grammar: str
    at_once: bool = False
    shown: frozenset[int] = frozenset()

    def constraint(self, served: Served) -> Constraint | None:
        """What the tokens of one answer are held to. Raises UsageError for a schema that cannot be served."""
        constraint = served.constraint(self.grammar)
        if self.at_once or constraint is None:
            return constraint
        words = served.vocabulary
        return Lazily(
            constraint,
            self.form.trigger,
            at_start=not self.form.anywhere,
            bytes_of=lambda token: words.piece(token, special=token in self.shown),
            tokenize=lambda text: words.tokenize(text, add_special=False, parse_special=True),
        )


def read_tools(asked: Conversation) -> list[dict[str, Any]]:
    """The tools of a request, as they are. Raises Refusal for what is no function, or two of one name."""
    tools = asked.tools or []
    names = [_name_of(tool) for tool in tools]
    if len(set(names)) < len(names):
        raise Refusal("Field 'tools': two of them have the same name.")
    return tools


def _name_of(tool: Mapping[str, Any]) -> str:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        raise Refusal('Field \'tools\': each must be {"type": "function", "function": {...}}.')
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refusal(f"Field 'tools': the name of a function must be letters, digits, - and _, but is {name!r}.")
    if parameters is not None and not isinstance(parameters, dict):
        raise Refusal(f"Field 'tools': the parameters of {name} must be a JSON schema.")
    return name


def read_calling(
    asked: ChatCompletion, form: CallForm | None, vocabulary: Vocabulary, grammar: str = ""
) -> Calling | None:
    """None where nothing may be called. form: how the model writes calls, None if that is not known.

    grammar: what an answer that calls nothing is held to. Raises Refusal.
    """
    tools = read_tools(asked)
    choice, chosen = _choice(asked)
    if not tools:
        if choice == "required":
            raise Refusal("Field 'tool_choice': there are no tools to choose from.")
        return None
    if form is None:
        raise Refusal(NO_TOOLS)
    if choice == "none":
        return None
    if chosen is not None:
        tools = [tool for tool in tools if tool["function"]["name"] == chosen]
        if not tools:
            raise Refusal(f"Field 'tool_choice': there is no tool {chosen!r}.")
    control = _control_tokens(form, vocabulary)
    several = chosen is None if asked.parallel_tool_calls is None else asked.parallel_tool_calls
    must = choice == "required"
    otherwise = rule_of(grammar)
    if grammar and not otherwise:
        raise Refusal("Ask for tools or for a grammar of your own, not for both.")
    written = write_grammar(form, tools, control, several=several, otherwise="" if must else otherwise)
    names = tuple(tool["function"]["name"] for tool in tools)
    return Calling(form, names, written, must or bool(otherwise), frozenset(control.values()))


def _choice(asked: ChatCompletion) -> tuple[str, str | None]:
    """none, auto or required, and the only tool that may be called, if one is named."""
    choice = asked.tool_choice
    if choice is None:
        return "auto", None
    if choice in ("none", "auto", "required"):
        return str(choice), None
    function = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise Refusal('Field \'tool_choice\': must be "none", "auto", "required" or name a function.')
    return "required", name


def write_grammar(
    form: CallForm,
    tools: Sequence[Mapping[str, Any]],
    control: Mapping[str, int],
    *,
    several: bool,
    otherwise: str = "",
) -> str:
    """The grammar of calls of these tools, in llguidance's notation. control: control tokens by the texts that stand for them.

    several: whether there may be more than one call. otherwise: the rule of what may stand in place of calls; "": nothing.
    Raises Refusal for a schema that is nested too deeply.
    """
    more = [f"({_literal(form.between, control)} call)*"] if several and form.between is not None else []
    lines = [f"{HEADER} {{}}", "start: calls | document" if otherwise else "start: calls"]
    lines += [f"document: {otherwise}"] if otherwise else []
    lines.append(" ".join(["calls:", _literal(form.before, control), "call", *more, _literal(form.after, control)]))
    lines.append("call: " + " | ".join(f"call_{i}" for i in range(len(tools))))
    for i, tool in enumerate(tools):
        function = tool["function"]
        values = {Part.NAME: _literal(function["name"], {}), Part.ARGUMENTS: f"arguments_{i}", Part.ID: "ID"}
        body = [values[part] if isinstance(part, Part) else _literal(part, control) for part in form.body]
        lines.append(f"call_{i}: " + " ".join(body))
        arguments = of_schema(sparing(function.get("parameters") or _NO_ARGUMENTS))
        lines.append(f"arguments_{i}: {rule_of(arguments)}")
    if Part.ID in form.body:
        lines.append("ID: /[a-zA-Z0-9]{9}/")
    return "\n".join(lines)


def _literal(text: str, control: Mapping[str, int]) -> str:
    return " ".join(
        f"<[{control[piece]}]>" if piece in control else json.dumps(piece, ensure_ascii=False)
        for piece in _pieces(text, control)
    )


def _pieces(text: str, control: Mapping[str, int]) -> Iterator[str]:
    """The text cut at control tokens, those included."""
    if not control:
        yield from [text] if text else []
        return
    pattern = "|".join(re.escape(name) for name in sorted(control, key=len, reverse=True))
    yield from filter(None, re.split(f"({pattern})", text))


def _control_tokens(form: CallForm, vocabulary: Vocabulary) -> dict[str, int]:
    literal = [form.before, form.between or "", form.after, *(part for part in form.body if isinstance(part, str))]
    tokens = {t for text in literal for t in vocabulary.tokenize(text, add_special=False, parse_special=True)}
    found = {t: vocabulary.piece(t, special=True) for t in tokens if not vocabulary.piece(t, special=False)}
    return {piece.decode("utf-8", "replace"): token for token, piece in found.items() if piece}
