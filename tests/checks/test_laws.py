"""Which cell a token falls into, where the oracle tells a list and not the whole law."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.laws import LawBook, PrefixRow, known_model
from draftproof.checks.sampling.streams import Stream
from draftproof.core.law import Law
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.countable.catalogue import servable


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


def test_of_a_cut_law_at_another_temperature_only_what_is_listed_counts() -> None:
    cut = Stream(made.PROMPT, Sampling(top_k=2, temperature=0.5), (), ())
    laws = book(row(0.5, 0.3, 0.1)).laws(0, cut, [((), 0), ((), 1), ((), 2)])
    assert laws.p[range(3), laws.x].tolist() == pytest.approx([0.25 / 0.34, 0.09 / 0.34, 0], abs=1e-3)
    warm = Stream(made.PROMPT, Sampling(temperature=0.5), (), ())
    assert not book(row(0.5, 0.3, 0.1)).laws(0, warm, [((), 0)]).usable.any()
    wide = Stream(made.PROMPT, Sampling(top_k=3), (), ())
    assert not book(row(0.5, 0.3, 0.1)).laws(0, wide, [((), 0)]).usable.any(), "the list ends where the cut is"


def test_without_a_row_nothing_is_said_and_others_are() -> None:
    stream = Stream(made.PROMPT, NEUTRAL, (), ())
    laws = book(row(0.6, 0.3)).laws(0, stream, [((), 0), ((5,), 1)])
    assert laws.usable.tolist() == [True, False]
    assert laws.p[1].sum() == pytest.approx(1.0)
    assert laws.q is None
    assert not laws.by_id


def complete(*law: float) -> OracleRow:
    return replace(row(*law), complete=True)


def test_complete_rows_are_told_by_id_with_any_sampler() -> None:
    rows = [PrefixRow(0, (), complete(0.5, 0.3, 0.2)), PrefixRow(1, (), complete(0.5, 0.25, 0.2475))]
    told = LawBook(None, rows, 4, 1e-6)
    assert told.by_id
    warm = told.laws(0, Stream(made.PROMPT, Sampling(temperature=0.5), (), ()), [((), 1), ((), 3)])
    assert warm.p[0].tolist() == pytest.approx([0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38, 0])
    assert warm.x.tolist() == [1, 3]
    cut = Stream(made.PROMPT, Sampling(top_k=2), (), ())
    assert not told.laws(1, cut, [((), 0)]).usable.any(), "the edge is not clear"
    assert LawBook(None, rows, 4, 1e-6).laws(0, cut, [((), 0)]).usable.all()
    assert not LawBook(None, rows, 4, 0.1).laws(0, cut, [((), 0)]).usable.any(), "nor is it with so much noise"
    assert not LawBook(None, rows, None, 1e-6).by_id
    assert not LawBook(None, [], 4, 1e-6).by_id
    assert not LawBook(None, [*rows, PrefixRow(0, (1,), row(0.6, 0.3))], 4, 1e-6).by_id


def test_texts_are_looked_up_by_name() -> None:
    stream = Stream("x", NEUTRAL, (), (), names=("b", "a", "z"))
    laws = book(row(0.6, 0.3)).laws(0, stream, [((), 0), ((), 1), ((), 2)])
    assert laws.p[range(3), laws.x].tolist() == pytest.approx([0.3, 0.6, 0.1])


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_known_model_tells_target_draft_and_what_the_draft_does_next(temperature: float) -> None:
    known = known_model(next(iter(servable())).name)
    stream = Stream(made.PROMPT, Sampling(temperature=temperature), (), ())
    laws = LawBook(known, [], None, 1e-6).laws(0, stream, [((), 2), ((3,), 1)])

    def law(logprobs: Law) -> Law:
        hot = np.exp(logprobs / temperature)
        return np.asarray(hot / hot.sum())

    assert laws.q is not None
    assert laws.next_top is not None
    for i, c in enumerate((made.PROMPT, (*made.PROMPT, 3))):
        np.testing.assert_allclose(laws.p[i], law(known.target(c)), atol=1e-9)
        np.testing.assert_allclose(laws.q[i], law(known.draft(c)), atol=1e-9)
        tops = [law(known.draft((*c, x))).max() for x in range(known.vocabulary)]
        np.testing.assert_allclose(laws.next_top[i], tops, atol=1e-9)
    assert laws.x.tolist() == [2, 1]
    assert laws.by_id
