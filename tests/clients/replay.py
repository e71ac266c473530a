"""Requests that were recorded from a real llama-server, asked again, and how the answers differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

RECORDED = Path(__file__).parent.parent / "data" / "llama-server-b11434"
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Difference:
    """`kind`: added or missing (a key), type, value, length (of a list). `where`: the way to it, [] for any member of a list."""

    kind: str
    where: str
    theirs: Any
    ours: Any


def compare(theirs: Any, ours: Any, where: str = "") -> Iterator[Difference]:
    """Numbers are equal to 1e-5; whether one is written with a point is no difference."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs.keys() | ours.keys():
            at = f"{where}/{key}"
            if key not in ours:
                yield Difference("missing", at, theirs[key], None)
            elif key not in theirs:
                yield Difference("added", at, None, ours[key])
            else:
                yield from compare(theirs[key], ours[key], at)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            yield Difference("length", where, theirs, ours)
        for one, other in zip(theirs, ours, strict=False):
            yield from compare(one, other, f"{where}[]")
    elif _kind(theirs) is not _kind(ours):
        yield Difference("type", where, theirs, ours)
    elif abs(theirs - ours) > TOLERANCE if _kind(theirs) is float else theirs != ours:
        yield Difference("value", where, theirs, ours)


def _kind(value: Any) -> type:
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)


def recorded(mode: str, temperature: int) -> dict[str, Any]:
    """Every recording of a mode: the request and the answer by name."""
    files = sorted((RECORDED / "logprobs" / mode).glob(f"*_t{temperature}_*.json"))
    return {file.stem: json.loads(file.read_text()) for file in files}


def differences(url: str, recording: Any) -> list[Difference]:
    """Between a recorded answer and the one that the server gives now."""
    answer = httpx2.post(url + recording["path"], json=recording["request"], timeout=30)
    assert answer.status_code == recording["status"]
    streamed = recording["request"]["stream"]
    return list(compare(events(recording["body"]), events(answer.text if streamed else answer.json())))


def events(body: Any) -> Any:
    """The objects of a stream, with the sign of its end; another body as it is."""
    if not isinstance(body, str):
        return body
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def of_itself(url: str, mode: str) -> list[tuple[str, Difference]]:
    """What the two say of themselves before the first request, by path."""
    told = json.loads((RECORDED / "meta" / f"{mode}.json").read_text())["fresh"]
    found = []
    for path, recording in told.items():
        answer = httpx2.get(url + path)
        theirs, ours = recording["body"], answer.text if isinstance(recording["body"], str) else answer.json()
        if isinstance(theirs, str):
            theirs, ours = _names(theirs), _names(ours)
        found += [(path, difference) for difference in compare(theirs, ours)]
    return found


def _names(metrics: str) -> dict[str, str]:
    return {line.split()[0]: "" for line in metrics.splitlines() if line and not line.startswith("#")}
