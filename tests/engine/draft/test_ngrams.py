from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.models import random_table

from draftproof.core.coin import RngCoin
from draftproof.core.speculation import NgramLookup, NgramMod, Speculation
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.draft import kind
from draftproof.engine.draft.drafter import NOTHING, Drafter
from draftproof.engine.draft.kind import Setup
from draftproof.engine.draft.ngram_pool import NgramPool, RollingHash
from draftproof.engine.draft.ngrams import copy_from
from draftproof.engine.in_step import run_alone

COIN = RngCoin(0)
TARGET: TableBackend = random_table(0)


def opened(name: str, pool: NgramPool | None = None, **settings: object) -> Drafter:
    field = name.replace("-", "_")
    if name == "ngram-cache":
        return kind(name).open(Setup(TARGET))
    made = NgramMod(**settings) if name == "ngram-mod" else NgramLookup(**settings)  # type: ignore[arg-type]
    return kind(name).open(Setup(TARGET, Speculation(**{field: made}), pool=pool))  # type: ignore[arg-type]


def drafted(drafter: Drafter, context: Sequence[int], k: int = 64) -> tuple[int, ...]:
    draft = run_alone(drafter.propose(context, k, COIN))
    assert draft.q is None
    assert draft is NOTHING or draft.drafter == drafter.name
    return draft.tokens


def test_simple_copies_what_followed_the_last_occurrence() -> None:
    drafter = opened("ngram-simple", size_n=2, size_m=3)
    assert drafted(drafter, [1, 2, 7, 8, 9, 1, 2, 5, 6, 4, 1, 2]) == (5, 6, 4)
    assert drafted(drafter, [1, 2, 7, 8, 9, 1, 2, 5, 6, 4, 1, 2], 2) == (5, 6)


def test_a_loop_goes_on_as_a_loop() -> None:
    assert drafted(opened("ngram-simple", size_n=2, size_m=7), [1, 2, 3, 1, 2, 3, 1, 2]) == (3, 1, 2, 3, 1, 2, 3)
    assert copy_from([4, 5], 1, 4) == (5, 5, 5, 5)


@pytest.mark.parametrize("name", ["ngram-simple", "ngram-map-k", "ngram-map-k4v"])
def test_nothing_repeats_nothing_is_drafted(name: str) -> None:
    drafter = opened(name, size_n=2, size_m=2)
    for context in ([1], [1, 2], [1, 2, 3, 4, 5, 6]):
        assert run_alone(drafter.propose(context, 5, COIN)) is NOTHING


def test_map_k_wants_as_many_hits_as_it_is_told() -> None:
    once, twice = [1, 2, 5, 6, 1, 2], [1, 2, 5, 6, 1, 2, 5, 6, 1, 2]
    assert drafted(opened("ngram-map-k", size_n=2, size_m=2, min_hits=2), once) == ()
    assert drafted(opened("ngram-map-k", size_n=2, size_m=2, min_hits=2), twice) == (5, 6)
    assert drafted(opened("ngram-map-k", size_n=2, size_m=2, min_hits=1), once) == (5, 6)


def test_map_k_drafts_as_far_as_the_hits_agree() -> None:
    context = [1, 2, 5, 6, 7, 1, 2, 5, 6, 8, 1, 2]
    assert drafted(opened("ngram-map-k", size_n=2, size_m=5, min_hits=2), context) == (5, 6)


def test_map_k_remembers_how_much_was_accepted() -> None:
    drafter = opened("ngram-map-k", size_n=1, size_m=6)
    context = [1, 2, 3, 4, 5, 6, 7, 1]
    draft = run_alone(drafter.propose(context, 6, COIN))
    drafter.observe([*context, 2, 3, 9], draft, 2)
    again = [*context, 2, 3, 9, 8, 1]
    draft = run_alone(drafter.propose(again, 6, COIN))
    assert draft.tokens == (2, 3)
    drafter.observe([*again, 2, 3], draft, 2)
    assert len(run_alone(drafter.propose([*again, 2, 3, 1], 6, COIN)).tokens) == 4


def test_k4v_drafts_the_value_that_stands_out() -> None:
    drafter = opened("ngram-map-k4v", size_n=1, size_m=2)
    assert drafted(drafter, [1, 5, 6, 1, 5, 6, 1, 7, 8, 1]) == (5, 6)
    even = [1, 5, 6, 1, 7, 8, 1, 5, 6, 1, 7, 8, 1]
    assert drafted(opened("ngram-map-k4v", size_n=1, size_m=2), even) == ()
    assert drafted(opened("ngram-map-k4v", size_n=1, size_m=2, min_hits=3), [1, 5, 6, 1, 5, 6, 1]) == ()


def test_k4v_keeps_four_values() -> None:
    drafter = opened("ngram-map-k4v", size_n=1, size_m=1)
    context = [0, 1, 0, 1, 0, 2, 0, 3, 0, 4, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 5, 0, 1, 0]
    assert drafted(drafter, context) == (1,)


def test_mod_goes_on_from_hash_to_hash() -> None:
    drafter = opened("ngram-mod", n_match=2, n_min=0, n_max=5)
    assert drafted(drafter, [1, 2, 3, 4, 5, 6, 1, 2]) == (3, 4, 5, 6, 1)


def test_mod_makes_no_short_drafts() -> None:
    context = [1, 2, 3, 9, 9, 7, 1, 2]
    assert drafted(opened("ngram-mod", n_match=2, n_min=20, n_max=30), [1, 2, 3, 1, 2, 4, 5, 1, 2]) != ()
    pool = NgramPool()
    assert len(drafted(opened("ngram-mod", pool, n_match=2, n_min=3, n_max=3), context)) == 3
    assert drafted(opened("ngram-mod", NgramPool(), n_match=4, n_min=3, n_max=3), context) == ()


def test_mod_learns_across_requests_and_slots() -> None:
    pool = NgramPool()
    text = list(range(30))
    first = opened("ngram-mod", pool, n_match=4, n_min=2, n_max=8)
    assert drafted(first, text) == ()
    second = opened("ngram-mod", pool, n_match=4, n_min=2, n_max=8)
    assert drafted(second, [77, 3, 4, 5, 6]) == (7, 8, 9, 10, 11, 12, 13, 14)
    pool.clear()
    assert pool.filled == 0


def test_cache_drafts_clear_favourites_only() -> None:
    assert drafted(opened("ngram-cache"), [1, 2, 3, 1, 2, 3, 1, 2, 3, 1], 4) == (2, 3, 1, 2)
    assert drafted(opened("ngram-cache"), [1, 2, 1, 3, 1, 4, 1, 5, 1], 4) == ()


@settings(deadline=None)
@given(tokens=st.lists(st.integers(0, 50_000), min_size=3, max_size=20), n=st.integers(1, 5))
def test_the_rolling_hash_depends_on_the_last_n_tokens_only(tokens: list[int], n: int) -> None:
    long, short = RollingHash(n), RollingHash(n)
    for token in tokens:
        long.push(token)
    for token in tokens[-n:]:
        short.push(token)
    assert long.value == short.value
    assert long.full == (len(tokens) >= n)
    assert long.follow([1, 2]).value == long.follow([1]).follow([2]).value


def test_hashes_of_different_ngrams_differ() -> None:
    values = set()
    for a in range(60):
        for b in range(60):
            h = RollingHash(2)
            h.push(a)
            h.push(b)
            values.add(h.value % 2**22)
    assert len(values) > 3590


@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(["ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"]),
    text=st.lists(st.integers(0, 2), min_size=1, max_size=60),
    k=st.integers(1, 9),
)
def test_a_grown_index_drafts_like_a_new_one(name: str, text: list[int], k: int) -> None:
    """Drafts depend on the context, not on how it was taken in; none is longer than asked for, all tokens were said."""

    def new() -> Drafter:
        settings = {"n_match": 2, "n_min": 0, "n_max": 9} if name == "ngram-mod" else {"size_n": 2, "size_m": 3}
        return opened(name, NgramPool(1024), **settings)

    grown = new()
    for end in range(1, len(text) + 1):
        tokens = drafted(grown, text[:end], k)
        assert len(tokens) <= k
        assert set(tokens) <= set(text[:end])
        if name != "ngram-map-k4v":  # which of four values gives way depends on the order of arrival only
            assert tokens == drafted(new(), text[:end], k)


def test_drafters_keep_no_reference_to_the_context() -> None:
    make: Callable[[], Drafter] = lambda: opened("ngram-simple", size_n=1, size_m=3)  # noqa: E731
    context = [1, 2, 3, 1]
    drafter = make()
    first = run_alone(drafter.propose(context, 3, COIN))
    context.append(9)
    assert first.tokens == (2, 3, 1)
    assert run_alone(drafter.propose(context, 3, COIN)) is NOTHING
