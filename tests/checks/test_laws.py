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
    ("third", "p", "slip"),
    [
        (0.29, 0.375, 0.0),  # 0.03 nat behind the second: as likely as the second is
        (0.3 * math.exp(-0.19), 0.375, 0.0),
        (0.3 * math.exp(-0.21), 0.0, 0.001),  # a slip of numerics, seldom
        (0.3 * math.exp(-0.99), 0.0, 0.001),
        (0.3 * math.exp(-1.01), 0.0, 0.0),  # never
    ],
)
def test_which_of_two_near_tokens_top_k_keeps_is_a_matter_of_rounding(third: float, p: float, slip: float) -> None:
    """A server without speculation drew a token 0.03 nat behind: other requests in the batch move a quantised model's values."""
    stream = Stream(made.PROMPT, Sampling(top_k=2), (), ())
    known = book(row(0.5, 0.3, third))
    laws = known.laws(0, stream, [((), 2), ((), 1)])
    assert laws.p[0, laws.x[0]] == pytest.approx(p, rel=1e-9)
    assert laws.p[0].sum() == pytest.approx(1.0)
    assert laws.x[0] == known.cells - 2 or laws.slip[0] == pytest.approx(slip)
    assert laws.x[1] == (known.cells - 1 if p == 0.375 else 1), "and so is the second"
    assert laws.x[0] == (known.cells - 1 if p or slip else known.cells - 2)
    assert known.below(0, stream, (), 2) == f"{math.log(0.3 / third):.2f} nat below the last that top-k 2 keeps"


def test_cells_have_names() -> None:
    stream = Stream(made.PROMPT, Sampling(top_k=2), (), ())
    known = book(row(0.5, 0.3, 0.1))
    cells = [known.name(0, stream, (), cell) for cell in (0, 1, known.cells - 2, known.cells - 1)]
    assert cells == ["'a'", "'b'", "excluded by top-k", "at the edge of top-k"]
    assert known.spell(0, stream, (), 2) == "'c'"
    assert known.spell(0, stream, (), 7) == "token id 7"


def test_names_are_those_that_are_known() -> None:
    """By the list, by the model's alphabet, by the names of a text's tokens, else by number."""
    plain = Stream(made.PROMPT, NEUTRAL, (), ())
    some = book(row(0.5, 0.3), row(0.4, 0.3, 0.2))
    assert some.cells == 5, "two more than the longest list"
    assert [some.name(0, plain, (), cell) for cell in (1, 2, 4)] == ["'b'", "any other", "any other"]
    assert some.name(0, plain, (1,), 2) == "'c'"
    assert some.name(0, plain, (7,), 1) == "token id 1", "no list is known there"
    one = Stream(made.PROMPT, Sampling(top_k=1), (), ())
    assert some.name(0, one, (), 4) == "at the edge of top-k"
    whole = Stream(made.PROMPT, Sampling(top_k=3), (), ())
    assert some.name(0, whole, (1,), 4) == "any other"
    named = Stream("x", NEUTRAL, (), (), names=("b", "a", "z"))
    assert some.spell(0, named, (), 2) == "'z'"
    told = LawBook(None, [PrefixRow(0, (), complete(0.5, 0.3, 0.2))], 4, 1e-6)
    assert [told.name(0, plain, (), cell) for cell in (1, 3)] == ["'b'", "token id 3"]
    known = LawBook(next(iter(servable())), [], None, 1e-6)
    assert [known.spell(0, plain, (), token) for token in (0, 1, 99)] == ["a", "b", "#99"]
    assert known.name(0, plain, (), 1) == "b"


def test_how_far_a_token_is_below_the_cut_is_told_where_the_list_has_the_cut() -> None:
    some = book(row(0.5, 0.25, 0.125))

    def below(top_k: int, token: int = 2, prefix: tuple[int, ...] = ()) -> str:
        return some.below(0, Stream(made.PROMPT, Sampling(top_k=top_k), (), ()), prefix, token)

    assert below(1) == "1.39 nat below the last that top-k 1 keeps"
    assert below(3, 7) == "at least 0.00 nat below the last that top-k 3 keeps"
    assert below(0) == below(4) == below(2, prefix=(5,)) == ""
    named = Stream("x", Sampling(top_k=2), (), (), names=("a", "b", "c"))
    assert some.below(0, named, (), 2) == ""


def test_a_cut_to_one_token_leaves_one() -> None:
    alone = Stream(made.PROMPT, Sampling(top_k=1), (), ())
    laws = book(row(0.6, 0.3)).laws(0, alone, [((), 0), ((), 1), ((), 7)])
    assert laws.usable.all()
    assert laws.p[range(3), laws.x].tolist() == [1, 0, 0]
    assert laws.slip.tolist() == [0.001] * 3
    assert laws.x.tolist() == [0, 3, 2]
    near = LawBook(None, [PrefixRow(0, (), complete(0.5, 0.495, 0.005))], 3, 1e-6)
    assert not near.laws(0, alone, [((), 0)]).usable.any()


@pytest.mark.parametrize(
    ("apart", "noise", "usable"),
    [(0.019, 1e-6, False), (0.021, 1e-6, True), (1.99, 0.1, False), (2.01, 0.1, True)],
)
def test_the_edge_is_clear_from_a_fiftieth_of_a_nat_or_twenty_times_the_noise_on(
    apart: float, noise: float, usable: bool
) -> None:
    near = complete(0.5, 0.25, 0.25 * math.exp(-apart))
    cut = Stream(made.PROMPT, Sampling(top_k=2), (), ())
    assert LawBook(None, [PrefixRow(0, (), near)], 3, noise).laws(0, cut, [((), 0)]).usable.all() is np.bool_(usable)


def test_what_the_draft_does_next_is_told_of_all_tokens_or_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes long, so it ends after so many contexts."""
    monkeypatch.setattr("draftproof.checks.sampling.laws.LOOK_AHEAD", 2)
    stream = Stream(made.PROMPT, NEUTRAL, (), ())
    some = LawBook(next(iter(servable())), [], None, 1e-6)
    assert some.laws(0, stream, [((), 2), ((3,), 1)]).next_top is not None
    mixed = some.laws(0, stream, [((), 2), ((4,), 1)])
    assert mixed.next_top is None
    assert mixed.q is not None
    assert some.laws(0, stream, [((), 2), ((3,), 1)]).next_top is not None


def test_a_known_model_is_found_by_its_name() -> None:
    assert [known_model(pair.name).name for pair in servable()] == [pair.name for pair in servable()]


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
    uncut = Stream(made.PROMPT, Sampling(top_k=3), (), ())
    assert LawBook(None, rows, 4, 1e-6).laws(0, uncut, [((), 0)]).usable.all(), "all that is listed is kept"
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


def test_slips_are_allowed_for_where_top_k_cuts_up_to_what_tokens_at_the_edge_have_anyway() -> None:
    cut = Stream(made.PROMPT, Sampling(top_k=3), (), ())
    faint = book(row(0.9, 0.0991, 0.0004, 0.00039))
    laws = faint.laws(0, cut, [((), 0), ((5,), 1)])
    assert laws.p[0, -1] == pytest.approx(0.0004 / 0.9995)
    assert laws.slip.tolist() == pytest.approx([0.001 - 0.0004 / 0.9995, 0])
    uncut = book(row(0.9, 0.0991, 0.0004)).laws(0, Stream(made.PROMPT, NEUTRAL, (), ()), [((), 0)])
    assert uncut.slip.tolist() == [0]


def test_probabilities_that_add_to_a_little_more_than_one_are_made_a_law() -> None:
    laws = book(row(0.6, 0.4009)).laws(0, Stream(made.PROMPT, NEUTRAL, (), ()), [((), 0), ((), 1)])
    assert laws.p.sum(axis=1) == pytest.approx([1, 1])


# --- laws that come later


def listed(n: int) -> OracleRow:
    return OracleRow(tuple(range(n)), tuple("abcd"[:n]), (math.log(0.1),) * n, 2, complete=False)


def test_the_start_of_an_answer_says_what_a_cell_is_and_longer_lists_are_cut_to_its() -> None:
    book = LawBook(None, (), None, 0.0)
    assert book.add([PrefixRow(0, (1,), listed(4)), PrefixRow(0, (), listed(2))])
    assert book.cells == 4
    laws = book.laws(0, Stream(made.PROMPT, NEUTRAL, (), ()), [((1,), 1), ((1,), 2), ((1,), 3)])
    assert laws.x.tolist() == [1, 3, 3]
    assert laws.p[0].tolist() == pytest.approx([0.1, 0.1, 0.0, 0.8])
    assert not book.add([PrefixRow(0, (2,), listed(3))])
    assert book.cells == 4
    nowhere_else = LawBook(None, (), None, 0.0)
    assert nowhere_else.add([PrefixRow(0, (1,), listed(4))])
    assert nowhere_else.cells == 6


BOTH = OracleRow((0, 1), ("a", "b"), (math.log(0.7), math.log(0.3)), 2, complete=True)


def test_where_cells_are_ids_a_list_that_is_not_complete_is_no_law() -> None:
    book = LawBook(None, (), 2, 0.0)
    book.add([PrefixRow(0, (), BOTH), PrefixRow(0, (1,), replace(BOTH, complete=False))])
    assert book.by_id
    assert book.laws(0, Stream(made.PROMPT, NEUTRAL, (), ()), [((), 0), ((1,), 0)]).usable.tolist() == [True, False]
    book.add([PrefixRow(0, (), replace(BOTH, logprobs=(-5.0, 0.0))), PrefixRow(0, (1,), BOTH)])
    laws = book.laws(0, Stream(made.PROMPT, NEUTRAL, (), ()), [((), 0), ((1,), 0)])
    assert laws.usable.tolist() == [True, True], "what had no law may have one now"
    assert laws.p[0, 0] == pytest.approx(0.7), "and what had one keeps it"
