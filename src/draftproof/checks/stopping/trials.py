"""What is wrong with one answer to a request with a stop string?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from draftproof.checks import common
from draftproof.core.ask import Completion


@dataclass(frozen=True, slots=True)
class Trial:
    """An answer with a stop string, and the answer to the same request without it, in which the string was found."""

    stop: str
    free: Completion
    answer: Completion


def diverged(trial: Trial) -> bool:
    """Whether the answer's text leaves that of the free one before the stop string, where nothing can be said of the stop."""
    cut = trial.free.text.find(trial.stop)
    n = min(cut, len(trial.answer.text))
    return trial.answer.text[:n] != trial.free.text[:n]


def kept(trial: Trial) -> bool:
    """Whether the text ends with the stop string itself, which some servers' APIs promise."""
    return trial.answer.text == trial.free.text[: trial.free.text.find(trial.stop)] + trial.stop


def limits(trial: Trial) -> tuple[int, int]:
    """How many tokens stand before the stop string, and how many there are when it is complete."""
    cut = trial.free.text.find(trial.stop)
    ends = [len("".join(t.text for t in trial.free.tokens[: n + 1])) for n in range(len(trial.free.tokens))]
    return sum(e <= cut for e in ends), sum(e < cut + len(trial.stop) for e in ends) + 1


def faults(trial: Trial, *, keeps: bool) -> Iterator[tuple[str, str]]:
    """Codes and texts of what is wrong with one answer. `keeps`: it is this server's habit to leave the stop string in the text."""
    answer, stop = trial.answer, trial.stop
    if not answer.ok:
        if answer.status >= 500:
            yield "BROKEN", f"HTTP {answer.status} for a request with a stop string: {answer.error}"
        return
    if diverged(trial):
        return
    before = trial.free.text[: trial.free.text.find(stop)]
    if answer.text == before or (keeps and kept(trial)):
        yield from _miscounts(trial)
        if answer.finish == "length":
            yield (
                "WRONG_FINISH",
                f"the answer ended at its stop string {stop!r} and says that it was cut for its length",
            )
    elif len(answer.text) > len(before):
        yield "STOP_PASSED", f"the text goes on after {before!r}, where the stop string {stop!r} begins"
    else:
        yield (
            "TEXT_LOST",
            f"of the text before the stop string {stop!r} the end is missing: {before[len(answer.text) :]!r}",
        )


def _miscounts(trial: Trial) -> Iterator[tuple[str, str]]:
    least, most = limits(trial)
    for name, n in common.counts_of(trial.answer).items():
        where = f"{name} {n}, where {least} tokens stand before the stop string {trial.stop!r} and {most} complete it"
        if n > most:
            yield ("MISCOUNT" if name == "usage" else "STOP_PASSED"), where
        elif n < least:
            yield "MISCOUNT", where
