"""What the words of a report mean: codes of findings, words in tables, terms. They stand in meanings.toml beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Meanings:
    """By word, a sentence or two. `findings` are codes, `states` words in the tables of checks, `terms` of the trade."""

    findings: Mapping[str, str]
    states: Mapping[str, str]
    terms: Mapping[str, str]


@cache
def meanings() -> Meanings:
    """All of them."""
    return Meanings(**tomllib.loads(files(__package__).joinpath("meanings.toml").read_text(encoding="utf-8")))
