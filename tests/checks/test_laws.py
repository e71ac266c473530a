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
    assert laws.p[range(4), laws.x].tolist() == pytest.approx([0.625, 0.375, 0, 0], abs=0.001)


@pytest.mark.parametrize(
    ("third", "p"),
    [
        (0.29, 0.375),  # 0.03 nat behind the second: as likely as the second is
        (0.2, 0.001),  # 0.4 nat behind: a slip of numerics, seldom
        (0.1, 0.0),  # 1.1 nat behind: never
    ],
)
def test_which_of_two_near_tokens_top_k_keeps_is_a_matter_of_rounding(third: float, p: float) -> None:
    """A server without speculation drew a token 0.03 nat behind: other requests in the batch move a quantised model's values."""
    stream = Stream(made.PROMPT, Sampling(top_k=2), (), ())
    known = book(row(0.5, 0.3, third))
    laws = known.laws(0, stream, [((), 2)])
    assert laws.p[0, laws.x[0]] == pytest.approx(p, abs=2e-3 if p else 0)
    assert known.below(0, stream, (), 2) == f"{math.log(0.3 / third):.2f} nat below the last that top-k 2 keeps"


def test_cells_have_names() -> None:
    stream = Stream(made.PROMPT, Sampling(top_k=2), (), ())
    known = book(row(0.5, 0.3, 0.1))
    cells = [known.name(0, stream, (), cell) for cell in (0, 1, known.cells - 2, known.cells - 1)]
    assert cells == ["'a'", "'b'", "excluded by top-k", "at the edge of top-k"]
    assert known.spell(0, stream, (), 2) == "'c'"
    assert known.spell(0, stream, (), 7) == "token id 7"
