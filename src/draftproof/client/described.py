"""What several kinds of server say of themselves in the same places."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from draftproof.client.dialect import Survey
from draftproof.core.ask import Scalar

_COUNTS_DRAFTS = ("spec_decode", "spec_accept", "request_skipped_tokens")
"""In the names of vLLM's and llama-server's, SGLang's and TGI's metrics."""
_NO_COUNT = ("_bucket", "_count", "_created")
"""Ends of names that tell how a metric is kept, not what was counted."""


def served_models(survey: Survey, path: str = "/v1/models") -> list[dict[str, Any]]:
    """The models listed there, as far as they are objects."""
    data = survey.obj(path).get("data")
    return [m for m in data if isinstance(m, dict)] if isinstance(data, list) else []


def model_names(survey: Survey) -> list[str]:
    return [m["id"] for m in served_models(survey) if isinstance(m.get("id"), str)]


def owner(survey: Survey) -> str:
    """`owned_by` of the first listed model, "" where there is none."""
    owned = next((m.get("owned_by") for m in served_models(survey)), None)
    return owned if isinstance(owned, str) else ""


def draft_metrics(survey: Survey) -> Iterator[tuple[str, Scalar]]:
    """The lines of /metrics that count drafts, as self-reports."""
    for line in (survey.text("/metrics") or "").splitlines():
        name, _, value = line.rpartition(" ")
        bare = name.partition("{")[0]
        if line.startswith("#") or not any(word in bare for word in _COUNTS_DRAFTS) or bare.endswith(_NO_COUNT):
            continue
        try:
            number = float(value)
        except ValueError:
            continue
        if math.isfinite(number):
            yield f"/metrics {name}", number


def whole(value: object) -> int | None:
    """A positive whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def text(value: object) -> str | None:
    """Text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def scalar(value: object) -> Scalar:
    """A value as a self-report can hold it; what is no scalar is told as its kind."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return type(value).__name__
