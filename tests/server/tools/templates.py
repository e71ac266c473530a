"""Chat templates that write calls of tools in the ways that are met most."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from draftproof.server.chat import ChatTemplate
from draftproof.server.schema import Message
from draftproof.server.tools.form import CallForm
from draftproof.server.vocabulary import Letters

_TOLD = "{% if tools %}{{ tools | tojson }}{% endif %}"


def _turns(calls: str, said: str = "{{ m.content }}") -> str:
    """A template of turns between marks; calls: what stands for the calls of the message `m`."""
    turn = "{% if m.tool_calls %}" + calls + "{% else %}" + said + "{% endif %}"
    opening = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    return _TOLD + "{% for m in messages %}<|{{ m.role }}|>" + turn + "<|end|>{% endfor %}" + opening


def _each(call: str, between: str = "") -> str:
    """calls: `call`, where the function is `f`, once for each."""
    separated = "{% if not loop.last %}{{ " + json.dumps(between) + " }}{% endif %}"
    return "{% for c in m.tool_calls %}{% set f = c.function %}" + call + separated + "{% endfor %}"


_OBJECT = '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}'
MARKED = _turns(_each("<tool_call>\n" + _OBJECT + "\n</tool_call>", "\n"))
"""As of Hermes and Qwen."""
THINKING = _turns(_each("<tool_call>\n" + _OBJECT + "\n</tool_call>"), "<think>\n\n</think>\n{{ m.content }}")
BARE = _turns(
    "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif %}"
    + _each('{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}')
)
"""As of Llama 3."""
LISTED = _turns(
    "[TOOL_CALLS] [" + _each('{{ {"name": f.name, "arguments": f.arguments, "id": c.id} | tojson }}', ", ") + "]",
    " {{ m.content }}",
)
"""As of Mistral."""
APART = _turns(_each("[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}"))
FENCED = _turns(
    "<|calls|>"
    + _each("<|call|>function<|sep|>{{ f.name }}\n```json\n{{ f.arguments }}{{ '\n' }}```<|over|>")
    + "<|done|>"
)
"""As of DeepSeek: the arguments are a text."""
TAGGED = _turns(
    _each("<tool_call><function={{ f.name }}>{% for k, v in f.arguments.items() %}<{{ k }}>{{ v }}{% endfor %}")
)
"""Arguments that are no JSON."""
UNTOLD = MARKED.removeprefix(_TOLD)
FORMS = {
    "marked": MARKED,
    "thinking": THINKING,
    "bare": BARE,
    "listed": LISTED,
    "apart": APART,
    "fenced": FENCED,
}


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, Letters((b"a", b"b")))


def form_of(source: str) -> CallForm:
    form = template(source).calls
    assert form is not None
    return form


def tool(name: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    function = {"name": name} if parameters is None else {"name": name, "parameters": parameters}
    return {"type": "function", "function": function}


def call(name: str, arguments: str, number: int = 0) -> dict[str, Any]:
    return {"id": f"idOfCall{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def written(source: str, calls: Sequence[tuple[str, str]]) -> str:
    """What a model that was taught by the template writes: its turn, by the template itself."""
    user = Message(role="user", content="hello")
    told = [call(name, arguments, i) for i, (name, arguments) in enumerate(calls)]
    chat = template(source)
    before = chat.render([user], opening=True)
    after = chat.render([user, Message(role="assistant", tool_calls=told)], opening=False)
    return after.removeprefix(before).removesuffix("<|end|>")
