from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

import pytest

from draftproof.auditing import codec
from draftproof.core.errors import EvidenceError


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    values: tuple[float | None, ...]
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True)
class Outer:
    inner: tuple[Inner, ...]
    pairs: tuple[tuple[str, int | bool | str | None], ...] = ()
    text: str = ""


def test_every_value_comes_back_as_it_was() -> None:
    value = Outer(
        (Inner((-0.1, None, float("-inf"), 0.0)), Inner(())),
        (("a", True), ("b", 1), ("c", "1"), ("d", None)),
        "ä\u202e",
    )
    assert codec.from_json(Outer, codec.to_json(value)) == value


def test_not_a_number_comes_back() -> None:
    back = codec.from_json(Inner, codec.to_json(Inner((float("nan"),))))
    assert back.values[0] != back.values[0]


def test_what_is_written_is_strict_json() -> None:
    json.dumps(codec.to_json(Inner((float("inf"), float("nan")))), allow_nan=False)


def test_half_a_surrogate_pair_from_a_server_survives() -> None:
    value = Outer((), text="a\ud800b")
    assert codec.from_json(Outer, codec.to_json(value)) == value


def test_other_shape_is_an_error_that_says_where() -> None:
    with pytest.raises(EvidenceError, match=r"inner\.0\.values\.0"):
        codec.from_json(Outer, {"inner": [{"values": ["x"]}]})
