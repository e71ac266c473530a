"""What is learned from chat templates of how calls are written."""

from __future__ import annotations

import pytest
from tests.server.tools.templates import APART, BARE, FENCED, FORMS, LISTED, MARKED, TAGGED, UNTOLD, form_of, template

from draftproof.server.tools.form import CallForm, Part

NAME, ARGUMENTS, ID = Part.NAME, Part.ARGUMENTS, Part.ID
NAME_LAST = (
    "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.arguments | tojson }} to {{ c.function.name }}{% endfor %}{% endfor %}"
)


def test_forms() -> None:
    assert form_of(MARKED) == CallForm(
        '<tool_call>\n{"name": "',
        (NAME, '", "arguments": ', ARGUMENTS),
        '}\n</tool_call>\n<tool_call>\n{"name": "',
        "}\n</tool_call>",
        objects=True,
    )
    assert form_of(BARE) == CallForm('{"name": "', (NAME, '", "parameters": ', ARGUMENTS), None, "}", objects=True)
    assert form_of(LISTED) == CallForm(
        '[TOOL_CALLS] [{"name": "',
        (NAME, '", "arguments": ', ARGUMENTS, ', "id": "', ID),
        '"}, {"name": "',
        '"}]',
        objects=True,
    )
    assert form_of(APART) == CallForm("[TOOL_CALLS]", (NAME, "[ARGS]", ARGUMENTS), "[TOOL_CALLS]", "", objects=True)
    assert form_of(FENCED) == CallForm(
        "<|calls|><|call|>function<|sep|>",
        (NAME, "\n```json\n", ARGUMENTS),
        "\n```<|over|><|call|>function<|sep|>",
        "\n```<|over|><|done|>",
        objects=False,
    )


def test_where_a_marker_stands_before_calls_text_may_be_before_it() -> None:
    triggers = {name: (form_of(source).trigger, form_of(source).anywhere) for name, source in FORMS.items()}
    assert triggers == {
        "marked": ("<tool_call>", True),
        "thinking": ("<tool_call>", True),
        "bare": ('{"name": "', False),
        "listed": ("[TOOL_CALLS]", True),
        "apart": ("[TOOL_CALLS]", True),
        "fenced": ("<|calls|>", True),
    }


@pytest.mark.parametrize(
    "source",
    [
        TAGGED,
        UNTOLD,
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ tools }}{{ m.content }}{% endfor %}",
        "{{ raise_exception('no') }}",
        "{% for %}",
        "{{ tools | tojson }}{% for m in messages %}{{ m.tool_calls or m.content }}{% endfor %}",
        NAME_LAST,
    ],
    ids=["tags", "untold", "no calls", "no call of its own", "refuses", "broken", "Python", "name last"],
)
def test_nothing_is_learned_where_there_is_nothing_to_learn(source: str) -> None:
    assert template(source).calls is None
