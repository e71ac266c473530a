"""From tokens to text that may be shown: no half characters, no half stop strings. Knows nothing of HTTP."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence


class StopStrings:
    """Finds the stop string that is complete first, however the text is cut into pieces; of two that end together the longer."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(s for s in stops if s))

    def first(self, text: str) -> tuple[int, str] | None:
        """(where it begins, which one), or None."""
        found = [(text.find(s) + len(s), -len(s), s) for s in self._stops if s in text]
        if not found:
            return None
        end, _, stop = min(found)
        return end - len(stop), stop

    def begun(self, text: str) -> int:
        """Length of the longest end of `text` that could grow into a stop string."""
        return max(overlap(text, s) for s in self._stops) if self._stops else 0


def overlap(text: str, stop: str) -> int:
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)


class TextStream:
    """The text of an answer as its tokens come, also from within an accepted block: a `Stop` of the engine.

    `pieces[i]` is the text that the i-th token set free: "" while it is held back because it ends in half a character or may be
    the beginning of a stop string. Bytes that are no UTF-8 become U+FFFD. The text before a stop string is all that is ever shown.
    `starts[i]` is how many characters the tokens before the i-th made, held back or not.
    """

    def __init__(self, bytes_of: Callable[[int], bytes], stops: Sequence[str] = ()) -> None:
        self.pieces: list[str] = []
        self.starts: list[int] = []
        self.stopped_by = ""
        self._bytes_of = bytes_of
        self._stops = StopStrings(stops)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._made = 0

    @property
    def text(self) -> str:
        """What has been set free so far."""
        return "".join(self.pieces)

    def ends(self, token: int) -> bool:
        """Takes the next token. True when a stop string is complete."""
        made = self._decoder.decode(self._bytes_of(token))
        self.starts.append(self._made)
        self._made += len(made)
        self._held += made
        found = self._stops.first(self._held)
        if found:
            start, self.stopped_by = found
            self.pieces.append(self._held[:start])
            self._held = ""
            return True
        keep = self._stops.begun(self._held)
        self.pieces.append(self._held[: len(self._held) - keep])
        self._held = self._held[len(self._held) - keep :]
        return False

    def finish(self) -> None:
        """No further token comes: what was held back goes to the last one."""
        if self.pieces and not self.stopped_by:
            self.pieces[-1] += self._held + self._decoder.decode(b"", final=True)
        self._held = ""
