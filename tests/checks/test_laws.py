"""Which cell a token falls into, where the oracle tells a list and not the whole law."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from draftproof.checks import examples as made
from draftproof.checks.sampling.laws import LawBook, PrefixRow, known_model
from draftproof.checks.sampling.streams import Stream
from draftproof.core.probe import OracleRow
from draftproof.core.law import Law
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
    assert laws.p[range(4), laws.x].tolist() == pytest.approx([0.625, 0.375, 0, 0])


def test_a_token_near_the_edge_of_top_k_shares_the_last_cell() -> None:
    """Top-k 2 of a list whose second and third are nearly alike: which is kept cannot be told."""
    stream = Stream(made.PROMPT, Sampling(top_k=2), (), ())
    laws = book(row(0.5, 0.2, 0.199, 0.05)).laws(0, stream, [((), 0), ((), 1), ((), 2), ((), 3), ((), 7)])
    assert laws.usable.all()
    assert laws.x[1] == laws.x[2]
    assert laws.x[3] == laws.x[4] != laws.x[1]
    assert laws.p[range(5), laws.x].tolist() == pytest.approx([5 / 7, 2 / 7, 2 / 7, 0, 0])


def test_of_a_cut_law_at_another_temperature_only_what_is_listed_counts() -> None:
    cut = Stream(made.PROMPT, Sampling(top_k=2, temperature=0.5), (), ())
    laws = book(row(0.5, 0.3, 0.1)).laws(0, cut, [((), 0), ((), 1), ((), 2)])
    assert laws.p[range(3), laws.x].tolist() == pytest.approx([0.25 / 0.34, 0.09 / 0.34, 0])
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
