"""Chat templates from model files: what they make of messages, and what they are kept from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.tools.templates import FENCED, MARKED, call, template

from draftproof.core.errors import UsageError
from draftproof.server.chat import PLAIN, ChatTemplate
from draftproof.server.errors import Refusal
from draftproof.server.schema import ApplyTemplate, Message
from draftproof.server.vocabulary import Letters

CHATML = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class WithSpecials(Letters):
    bos = 0
    adds_bos = True


def render(source: str, *messages: tuple[str, Any], **options: Any) -> str:
    template = ChatTemplate(source, WithSpecials(("⊂".encode(), "⊃".encode()), end=1))
    return template.render([Message(role=r, content=c) for r, c in messages], **options)


def test_chatml() -> None:
    text = render(CHATML, ("user", "hello"))
    assert text == "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert render(CHATML, ("system", "x"), ("user", "y"), opening=False).endswith("y<|im_end|>\n")


def test_a_begun_answer_is_carried_on() -> None:
    begun = "<|im_start|>assistant\nGood mor"
    talk = ("user", "hello"), ("assistant", "Good mor")
    assert render(CHATML, *talk).endswith("hello<|im_end|>\n" + begun)
    assert render(CHATML, *talk, opening=False, carried_on=True) == render(CHATML, *talk)
    assert render(CHATML, *talk, opening=False) == render(CHATML, *talk)
    assert render(CHATML, ("assistant", "Good mor")) == begun
    closed = f"{begun}<|im_end|>\n"
    assert render(CHATML, *talk, carried_on=False).endswith(closed + "<|im_start|>assistant\n")
    assert render(CHATML, *talk, opening=False, carried_on=False).endswith(closed)
    with pytest.raises(Refusal, match="continue_final_message"):
        render(CHATML, ("user", "hello"), carried_on=True)


def test_to_carry_on_and_to_begin_another_answer_are_not_asked_for_at_once() -> None:
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    both = {"add_generation_prompt": True, "continue_final_message": True}
    asked = ApplyTemplate.read({"messages": talk, **both})
    with pytest.raises(Refusal, match="Cannot set both"):
        template(CHATML).of(asked)


def test_fields_that_the_template_reads_are_told_from_others() -> None:
    known = "{% if day is not defined %}{% set day = 'Monday' %}{% endif %}{{ day }}"
    source = known + "{% for m in messages %}{{ tone or m }}{% endfor %}"
    options = {"day": "Sunday", "tone": "kind", "m": 1, "messages": [], "enable_thinking": True}
    asked = ApplyTemplate.read({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": options})
    unread = [f"chat_template_kwargs.{name}" for name in ("m", "messages", "enable_thinking")]
    assert template(source).unread(asked) == unread


def test_a_developer_speaks_as_the_system_to_templates_that_know_no_developer() -> None:
    assert render(CHATML, ("developer", "x"), ("user", "y")) == render(CHATML, ("system", "x"), ("user", "y"))
    assert render("{# developer #}{{ messages[0]['role'] }}", ("developer", "x")) == "developer"


def test_text_parts_are_joined_and_others_refused() -> None:
    assert render(PLAIN, ("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])) == "a\nb"
    with pytest.raises(Refusal, match="image_url"):
        render(PLAIN, ("user", [{"type": "image_url", "image_url": {"url": "x"}}]))
    with pytest.raises(Refusal, match="content"):
        render(PLAIN, ("user", None))
    with pytest.raises(Refusal, match="empty"):
        render(PLAIN)


def test_what_begins_a_text_is_not_there_twice() -> None:
    assert render("{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}", ("user", "hi")) == "hi⊃"


def test_a_template_can_refuse() -> None:
    with pytest.raises(Refusal, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}", ("user", "x"))


def test_extra_values_reach_the_template_but_replace_nothing() -> None:
    source = "{{ messages[0]['content'] }}{% if thinking %}!{% endif %}"
    assert render(source, ("user", "x"), extra={"thinking": True, "messages": []}) == "x!"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_template_is_kept_in_its_sandbox(source: str) -> None:
    with pytest.raises(Refusal):
        render(source, ("user", "x"))


def test_a_broken_template_is_told_when_it_is_compiled() -> None:
    broken = ChatTemplate("{% for %}", Letters((b"a", b"b")))
    with pytest.raises(UsageError, match="broken"):
        broken.compile()
    with pytest.raises(UsageError, match="broken"):
        broken.render([Message(role="user", content="a")])
    assert not broken.takes("system")


def test_roles_that_a_template_takes() -> None:
    assert ChatTemplate(CHATML, Letters((b"a", b"b"))).takes("system")
    assert not ChatTemplate("{{ messages[-1]['content'] }}", Letters((b"a", b"b"))).takes("system")


def test_what_a_message_has_besides_its_text_reaches_the_template() -> None:
    template = ChatTemplate("{% for m in messages %}{{ m | tojson }}\n{% endfor %}", Letters((b"a", b"b")))
    messages = [
        Message.read({"role": "user", "name": "Ada", "content": "x"}),
        Message.read({"role": "assistant", "reasoning_content": "hm", "content": "y"}),
        Message.read({"role": "tool", "tool_call_id": "1", "content": "z"}),
    ]
    assert [json.loads(line) for line in template.render(messages).splitlines()] == [
        {"role": "user", "content": "x", "name": "Ada"},
        {"role": "assistant", "content": "y", "reasoning_content": "hm"},
        {"role": "tool", "content": "z", "tool_call_id": "1"},
    ]
    assert template.render(messages[:1]) == '{"role": "user", "content": "x", "name": "Ada"}\n'


def test_a_template_that_asks_for_tools_finds_none() -> None:
    assert (
        render("{% if tools is not none %}{{ tools | length }}{% endif %}{{ messages[0].content }}", ("user", "x"))
        == "x"
    )


def test_calls_are_told_in_the_form_that_the_template_takes() -> None:
    user, called = Message(role="user", content="x"), Message(role="assistant", tool_calls=[call("f", '{"a": "ä"}')])
    texts = [template(source).render([user, called]) for source in (MARKED, FENCED)]
    assert (
        '<|assistant|><tool_call>\n{"name": "f", "arguments": {"a": "ä"}}\n</tool_call><|end|><|assistant|>' in texts[0]
    )
    assert 'function<|sep|>f\n```json\n{"a": "ä"}\n```' in texts[1]
    given = Message(role="assistant", tool_calls=[{"function": {"name": "f", "arguments": {"a": "ä"}}}])
    assert [template(source).render([user, given]) for source in (MARKED, FENCED)] == texts


@pytest.mark.parametrize(
    "told",
    [
        {"function": {}},
        {},
        {"function": {"name": "f", "arguments": "[]"}},
        {"function": {"name": "f", "arguments": "{"}},
        {"function": {"name": "f", "arguments": "[" * 9999}},
    ],
)
def test_calls_that_cannot_be_told_are_refused(told: dict[str, Any]) -> None:
    user, called = Message(role="user", content="x"), Message(role="assistant", tool_calls=[told])
    with pytest.raises(Refusal, match=r"tool_calls|arguments of the call"):
        template(MARKED).render([user, called])


def test_a_call_is_not_carried_on() -> None:
    talk = [Message(role="user", content="x"), Message(role="assistant", tool_calls=[call("f", "{}")])]
    assert template(MARKED).render(talk).endswith("</tool_call><|end|><|assistant|>")
    with pytest.raises(Refusal, match="continue_final_message"):
        template(MARKED).render(talk, carried_on=True)
