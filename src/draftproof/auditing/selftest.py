"""The instrument on its own controls, before it is pointed at anybody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from draftproof.auditing import codec
from draftproof.checks.check import AnyCheck, Example
from draftproof.core.errors import InstrumentError
from draftproof.core.terms import Terms


@dataclass(frozen=True, slots=True)
class Controls:
    """How many examples were judged, and each one that was not judged as it must be, in words."""

    total: int
    wrong: tuple[str, ...] = ()

    @property
    def right(self) -> int:
        return self.total - len(self.wrong)


def run_controls(checks: Sequence[AnyCheck], terms: Terms) -> Controls:
    """Judges every example of every check, each after a trip through JSON, as `rejudge` would see it."""
    wrong = [trouble for check in checks for example in check.examples for trouble in _judge(check, example, terms)]
    return Controls(sum(len(c.examples) for c in checks), tuple(wrong))


def require_sound(checks: Sequence[AnyCheck], terms: Terms) -> Controls:
    """`run_controls`, raising InstrumentError when a control is misjudged or a check comes without any."""
    bare = [c.name for c in checks if not c.examples]
    if bare:
        raise InstrumentError(f"No controls for {', '.join(bare)}: nothing shows that it can fail.", _REMEDY)
    controls = run_controls(checks, terms)
    if controls.wrong:
        listed = "; ".join(controls.wrong[:3]) + ("; ..." if len(controls.wrong) > 3 else "")
        raise InstrumentError(
            f"The instrument failed its own test: {controls.right} of {controls.total} controls judged as they must be. "
            f"{listed}.",
            _REMEDY,
        )
    return controls


_REMEDY = (
    "No request was sent. This is a fault of draftproof or of its installation, not of the server: please report it."
)


def _judge(check: AnyCheck, example: Example[Any], terms: Terms) -> Iterable[str]:
    try:
        evidence = codec.from_json(check.evidence, codec.to_json(example.evidence))
        judgement = check.judge(evidence, terms)
    except Exception as error:  # whatever goes wrong in a control is a finding about the instrument
        yield f"{check.name} on {example.name!r}: {type(error).__name__}: {error}"
        return
    if judgement.verdict is not example.verdict:
        yield f"{check.name} on {example.name!r}: {judgement.verdict} instead of {example.verdict}"
    elif missing := set(example.codes) - set(judgement.codes):
        yield f"{check.name} on {example.name!r}: without the finding {', '.join(sorted(missing))}"
