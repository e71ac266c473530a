"""Known models by name: the pairs of `kinds`, and tables that sit on the edges of what a verification rule must get right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TypeAlias

import numpy as np

from draftproof.core.errors import UsageError
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.countable import kinds, story
from draftproof.countable.oracle import CountablePair
from draftproof.countable.table import Table, TablePair, random_table

Pair: TypeAlias = CountablePair | TablePair


def builtin() -> CountablePair:
    """The built-in pair, in memory: what `draftproof countable write` writes. Its name is "countable-8"."""
    return kinds.pair("letters")


def servable(vocabulary: int | None = None) -> Iterator[CountablePair]:
    """The pairs that there are as files, the built-in one first; only those with so many tokens."""
    for name in kinds.KINDS:
        pair = kinds.pair(name)
        if vocabulary in {None, pair.vocabulary}:
            yield pair


@cache
def named(name: str) -> Pair:
    """The model `name` of CATALOGUE. Raises UsageError that lists the names."""
    if name not in CATALOGUE:
        raise UsageError(f'There is no countable model "{name}".', f"Known: {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]()


def story_table() -> TablePair:
    """The story as a table of order 2: after b, c comes f (.84 of the three likeliest), after c, f the law of the story.

    The draft takes e for the likeliest after c, f.
    """
    b, c, f = story.ids("bcf")
    told = list(story.ids("egh"))
    target = random_table(8, 2, seed=8)
    draft = target.noisy(0.7, seed=3).law.copy()
    law = target.law.copy()
    law[b, c] = [0.02, 0.02, 0.02, 0.07, 0.02, 0.9 * story.FIRST_SHARE, 0.02, 0.074]
    law[c, f] = draft[c, f] = (1 - story.LAW_MASS) / (len(story.ALPHABET) - len(told))
    law[c, f, told] = story.LAW_MASS * np.array([story.LAW[letter] for letter in "egh"])
    draft[c, f, told] = story.LAW_MASS * np.array([0.60, 0.25, 0.15])
    return TablePair("story", Table(law), Table(draft), story.ids(story.PROMPT), story.SAMPLING)


def _constant(name: str, p: list[float], q: list[float], sampling: Sampling = NEUTRAL) -> TablePair:
    return TablePair(name, Table(np.array(p)), Table(np.array(q)), (0,), sampling)


def _chain(name: str, p: Table, q: Table) -> TablePair:
    return TablePair(name, p, q, (0, 1))


def _cycle(*successors: int) -> Table:
    return Table(np.eye(len(successors))[list(successors)])


def _nearly_deterministic() -> TablePair:
    target = random_table(4, 1, seed=4, spread=25)
    return _chain("near-deterministic", target, target.noisy(1.0, seed=5))


def _zeros() -> TablePair:
    p = np.array([[0.5, 0.5, 0, 0], [0, 0.25, 0.75, 0], [0, 0, 0.1, 0.9], [0.3, 0, 0, 0.7]])
    q = np.array([[0.25, 0, 0.75, 0], [0.2, 0.8, 0, 0], [0.5, 0, 0.5, 0], [0.3, 0.3, 0.2, 0.2]])
    return _chain("zeros", Table(p), Table(q))


def _reversed() -> TablePair:
    """The draft likes best what the target likes least."""
    target = random_table(4, 1, seed=9)
    draft = np.empty_like(target.law)
    order = np.argsort(target.law, axis=1)
    np.put_along_axis(draft, order, np.take_along_axis(target.law, order[:, ::-1], axis=1), axis=1)
    return _chain("reversed", target, Table(draft))


CATALOGUE: Mapping[str, Callable[[], Pair]] = {
    **{kind.model_name: partial(kinds.pair, kind.name) for kind in kinds.KINDS.values()},
    "story": story_table,
    "near-deterministic": _nearly_deterministic,
    "uniform": lambda: _constant("uniform", [0.25] * 4, [0.1, 0.2, 0.3, 0.4]),
    "point-masses": lambda: _chain("point-masses", _cycle(1, 2, 3, 0), _cycle(1, 2, 0, 0)),
    "one-hot-draft": lambda: _chain("one-hot-draft", random_table(4, 1, seed=6), _cycle(2, 0, 3, 1)),
    "ties": lambda: _constant("ties", [0.4, 0.3, 0.3, 0], [0.3, 0.4, 0.3, 0], Sampling(top_k=2)),
    "tied-draft": lambda: _constant("tied-draft", [0.5, 0.3, 0.2, 0], [0.25] * 4),
    "zeros": _zeros,
    "disjoint": lambda: _constant("disjoint", [0.5, 0.5, 0, 0], [0, 0, 0.4, 0.6]),
    "equal": lambda: _chain("equal", random_table(4, 1, seed=7), random_table(4, 1, seed=7)),
    "reversed": _reversed,
}
