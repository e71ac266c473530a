"""The answers in the evidence, whichever check asked for them; each once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from draftproof.auditing.outcome import Report
from draftproof.checks.sampling.streams import Stream
from draftproof.core.ask import Completion


def answers(report: Report) -> list[Completion]:
    """All answers that came, in the order of the checks. Those that checks share are there once."""
    found = {id(a): a for outcome in report.outcomes for a in _in(outcome.evidence)}
    return list(dict.fromkeys(a for a in found.values() if a.ok))


def _in(value: object) -> Iterator[Completion]:
    match value:
        case Completion():
            yield value
        case Stream() | (str() | int() | float(), *_):
            pass  # samples and rows of numbers, which may be many
        case tuple() | list():
            for item in value:
                yield from _in(item)
        case Mapping():
            yield from _in(tuple(value.values()))
        case _ if dataclasses.is_dataclass(value):
            for f in dataclasses.fields(value):
                yield from _in(getattr(value, f.name))
        case _:
            pass
