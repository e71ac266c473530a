"""Values of options as they are written: lists, files, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from draftproof.core.errors import UsageError


def by_commas(given: Iterable[str]) -> list[str]:
    """The parts of all of them; empty ones are left out."""
    return [part for text in given for part in text.split(",") if part.strip()]


def read_file(path: Path) -> str:
    """Raises UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error


def read_lines(path: Path) -> list[str]:
    """Without the space around them, and without empty ones. Raises UsageError."""
    return [line.strip() for line in read_file(path).splitlines() if line.strip()]


def read_object(text: str, what: str) -> dict[str, Any]:
    """A JSON object. Raises UsageError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{what} is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a JSON object.")
    return value
