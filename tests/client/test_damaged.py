"""Whatever a server sends: an answer, or a TargetError, and nothing else."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.client.recorded import exchange, load, recorded

from draftproof.client.dialect import Survey
from draftproof.client.dialects import DIALECTS
from draftproof.core.ask import Completion
from draftproof.core.errors import TargetError

SPOKEN = (DIALECTS[0], DIALECTS[-1])
"""Those that read these shapes; the others have bodies of their own (test_dialects)."""

SHAPES = (
    "completion_t1_stream{}_post0",
    "completion_t1_stream{}_post1",
    "chat_t1_stream{}",
    "v1completions_t1_stream{}",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e300,
    "",
    "x",
    [],
    [1],
    ["x"],
    [{}],
    [None],
    {},
    {"x": 1},
    {"error": "x"},
    "\ud800",
)
BYTES = ('"', "{", "]", "\n", "\n\n", "\x00", "é", "9", ":", "e999")


def spots(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values in a JSON document."""
    found = [path]
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found += spots(value, (*path, key))
    return found


def damage(document: Any, chance: random.Random) -> Any:
    """A copy with one value replaced or removed."""
    copy = json.loads(json.dumps(document))
    path = chance.choice(spots(copy))
    if not path:
        return chance.choice(VALUES)
    node = copy
    for key in path[:-1]:
        node = node[key]
    if chance.random() < 0.3:
        del node[path[-1]]
    else:
        node[path[-1]] = chance.choice(VALUES)
    return copy


@pytest.mark.parametrize("dialect", SPOKEN, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_damaged_value_in_an_answer(dialect: Any, shape: str) -> None:
    chance = random.Random(shape)
    ask, answer = recorded(f"draft-simple/{shape.format(0)}")
    document = json.loads(answer.answer)
    for _ in range(1500):
        check(dialect, ask, json.dumps(damage(document, chance)), answer.path)


@pytest.mark.parametrize("dialect", SPOKEN, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_damaged_value_in_a_stream(dialect: Any, shape: str) -> None:
    chance = random.Random(shape)
    ask, answer = recorded(f"draft-simple/{shape.format(1)}")
    events = [line.removeprefix("data: ") for line in answer.answer.split("\n\n") if line]
    for _ in range(400):
        changed = list(events)
        i = chance.randrange(len(events))
        changed[i] = events[i][:5] if events[i] == "[DONE]" else json.dumps(damage(json.loads(events[i]), chance))
        check(dialect, ask, "".join(f"data: {e}\n\n" for e in changed), answer.path)


@pytest.mark.parametrize("stream", [0, 1])
def test_damaged_bytes(stream: int) -> None:
    chance = random.Random(stream)
    ask, answer = recorded(f"plain/completion_t1_stream{stream}_post0")
    for _ in range(500):
        at = chance.randrange(len(answer.answer))
        text = answer.answer[:at] + chance.choice(BYTES) + answer.answer[at + chance.randrange(40) :]
        check(DIALECTS[0], ask, text, answer.path)


def check(dialect: Any, ask: Any, text: str, path: str) -> None:
    try:
        answers = dialect.parse(ask, exchange(text, path))
    except TargetError as e:
        if e.exchange != 7:
            raise
        return
    assert len(answers) == 1
    assert isinstance(answers[0], Completion)
    assert isinstance(answers[0].text, str)
    assert answers[0].finish is None or isinstance(answers[0].finish, str)
    for token in answers[0].tokens:
        assert isinstance(token.text, str)
        assert token.logprob is None or isinstance(token.logprob, float)
    hash(answers[0].claims)
    json.dumps(answers[0].claims, allow_nan=False)


def test_damaged_descriptions_are_read_as_far_as_they_go() -> None:
    chance = random.Random(1)
    fresh = {path: a["body"] for path, a in load("meta/draft-simple")["fresh"].items() if "body" in a}
    for _ in range(3000):
        path = chance.choice(["/props", "/slots", "/v1/models", "/metrics", "/version", "/info"])
        changed = fresh | {path: damage(fresh.get(path, {"version": "1"}), chance)}
        survey = Survey({p: exchange(body, p) for p, body in changed.items()})
        for dialect in DIALECTS:
            dialect.recognise(survey)
            said = dialect.adapted(survey).describe(survey)
            assert said.slots is None or said.slots > 0
            assert said.build is None or isinstance(said.build, str)
            json.dumps(said.self_reports, allow_nan=False)
