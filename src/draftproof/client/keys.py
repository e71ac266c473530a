"""An API key: sent in one header, kept out of everything else."""

from __future__ import annotations

import json
from urllib.parse import quote

from draftproof.core.errors import UsageError

HIDDEN = "[api key]"
SECRET_LENGTH = 8
"""Shorter keys are placeholders ("none", "EMPTY"): to hide them would damage the answers that hold the word."""


class ApiKey:
    """`key` may be "". Raises UsageError, without repeating it, for one that cannot be sent."""

    def __init__(self, key: str) -> None:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError(
                "The API key holds characters that cannot be sent in a header.",
                "Check the environment variable that holds it.",
            )
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._spellings = _spellings(key) if len(key) >= SECRET_LENGTH else ()

    def hide(self, text: str) -> str:
        """`text` with the key replaced, also where it is escaped as in JSON or in a URL."""
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, HIDDEN)
        return text


def _spellings(key: str) -> tuple[str, ...]:
    in_json = json.dumps(key)[1:-1]
    found = {key, in_json, in_json.replace("/", "\\/"), quote(key), quote(key, safe="")}
    return tuple(sorted(found, key=len, reverse=True))
