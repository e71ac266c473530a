"""Reading a prompt: in chunks that are always cut alike, with the numbers of its own tokens on request."""

from __future__ import annotations

from draftproof.engine.backend import Feed, Rows
from draftproof.engine.backend import Sequence as Memory
from draftproof.engine.emit import Emitted, Origin, Report

_MOST_SCORED_ROWS = 64


class PromptReader:
    """Feeds the tokens of `prompt` that the sequence does not hold yet. `records` grows by one for each scored token.

    batch: most tokens in one feed. scoring: every token but the first, which has no context, gets a record; the sequence
    is emptied for it. Raises ValueError for an empty prompt.
    """

    def __init__(self, sequence: Memory, prompt: tuple[int, ...], *, batch: int, scoring: bool, report: Report) -> None:
        if not prompt:
            raise ValueError("a prompt has at least one token")
        self.records: list[Emitted] = []
        self._sequence = sequence
        self._prompt = prompt
        self._batch = min(batch, _MOST_SCORED_ROWS) if scoring else batch
        self._scoring = scoring
        self._report = report
        self._fed = 0
        # the logits after the last token are needed, so a memory that holds all of the prompt reads it again
        keep = 0 if scoring else len(prompt) - 1
        if sequence.length > keep:
            sequence.truncate(keep)
        self.reading = sequence.length < len(prompt) - 1 or scoring

    def feed(self) -> Feed:
        """The next chunk."""
        start = self._sequence.length
        chunk = self._prompt[start : start + self._batch]
        self._fed = len(chunk)
        last = start + len(chunk) == len(self._prompt)
        return Feed(self._sequence, chunk, rows=len(chunk) if self._scoring else int(last))

    def take(self, rows: Rows) -> Rows | None:
        """The row after the whole prompt, float32[1, vocab], once it was read; None before."""
        start = self._sequence.length - self._fed + 1
        if self._scoring:
            for position, row in enumerate(rows, start):
                if position < len(self._prompt):
                    self.records.append(
                        self._report.describe(self._prompt[position], Origin.PROMPT, position, row, None)
                    )
        self.reading = self._sequence.length < len(self._prompt)
        return None if self.reading else rows[-1:]
