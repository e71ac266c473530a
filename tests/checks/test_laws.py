"""Which cell a token falls into, where the oracle tells a list and not the whole law."""

from __future__ import annotations

import math

import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.laws import LawBook, PrefixRow
from draftproof.checks.sampling.streams import Stream
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import NEUTRAL, Sampling


def row(*law: float) -> OracleRow:
    n = len(law)
    return OracleRow(tuple(range(n)), tuple("abcdefgh"[:n]), tuple(map(math.log, law)), 2, complete=False)


def book(*rows: OracleRow) -> LawBook:
    return LawBook(None, [PrefixRow(0, (n,) if n else (), r) for n, r in enumerate(rows)], 8, 1e-6)


def test_a_token_beyond_the_list_is_in_the_cell_of_the_rest() -> None:
    """As likely as all that is not listed; also where another list is longer."""
    stream = Stream(made.PROMPT, NEUTRAL, (), ())
    laws = book(row(0.6, 0.3), row(0.5, 0.2, 0.2)).laws(0, stream, [((), 0), ((), 1), ((), 7), ((1,), 2), ((1,), 7)])
    assert laws.usable.all()
    assert laws.p[range(5), laws.x].tolist() == pytest.approx([0.6, 0.3, 0.1, 0.2, 0.1])


def test_a_token_that_top_k_excludes_is_impossible() -> None:
    stream = Stream(made.PROMPT, Sampling(top_k=2), (), ())
    laws = book(row(0.5, 0.3, 0.1)).laws(0, stream, [((), 0), ((), 1), ((), 2), ((), 7)])
    assert laws.p[range(4), laws.x].tolist() == pytest.approx([0.625, 0.375, 0, 0])
