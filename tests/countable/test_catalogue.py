from __future__ import annotations

import numpy as np
import pytest

from draftproof.core.distribution import shape, total_variation
from draftproof.core.errors import UsageError
from draftproof.core.probe import KnownModel
from draftproof.countable import story
from draftproof.countable.catalogue import CATALOGUE, builtin, named
from draftproof.countable.law import next_law
from draftproof.countable.table import TablePair

CONTEXTS = [(0,), (1,), (2, 1), (3, 0), (1, 2, 3, 1, 2), (0, 1, 2, 3, 0, 1)]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_model_gives_laws_alone_and_in_bulk(name: str) -> None:
    model: KnownModel = named(name)
    pair = named(name)
    assert model.name == name
    assert len(pair.alphabet) == model.vocabulary
    for one, many in ((model.target, pair.target_many), (model.draft, pair.draft_many)):
        rows = many(CONTEXTS)
        assert rows.shape == (len(CONTEXTS), model.vocabulary)
        assert rows.dtype == np.float64
        assert np.exp(rows).sum(axis=1) == pytest.approx(1, abs=1e-12)
        for row, context in zip(rows, CONTEXTS, strict=True):
            assert np.exp(one(context)) == pytest.approx(np.exp(row), abs=1e-12)


def test_the_same_name_is_the_same_model() -> None:
    assert named(story.NAME) is builtin()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="near-deterministic"):
        named("nothing")


@pytest.mark.parametrize("pair", [builtin(), named("story")], ids=["transformer", "table"])
def test_the_law_of_the_story(pair: TablePair) -> None:
    after = story.ids(story.PROMPT + story.FIRST)
    context = story.ids(story.PROMPT)
    three = next_law(pair.target_many, after, story.SAMPLING)
    assert {letter: round(float(three[story.ids(letter)[0]]), 3) for letter in "egh"} == {
        "e": 0.345,
        "g": 0.452,
        "h": 0.203,
    }
    assert next_law(pair.target_many, context, story.SAMPLING)[story.ids("f")[0]] == pytest.approx(0.84, abs=1e-3)
    assert np.argmax(pair.draft(after)) == story.ids("e")[0]


def _laws(name: str, context: tuple[int, ...] = (0,)) -> tuple[np.ndarray, np.ndarray]:
    pair = named(name)
    return np.exp(pair.target(context)), np.exp(pair.draft(context))


def test_each_edge_is_what_its_name_says() -> None:
    assert np.exp(named("near-deterministic").target((0,))).max() > 0.9
    assert np.ptp(_laws("uniform")[0]) == 0
    assert set(_laws("point-masses")[0]) == {0.0, 1.0}
    assert set(_laws("one-hot-draft")[1]) == {0.0, 1.0}
    assert total_variation(*_laws("equal")) == 0
    assert total_variation(*_laws("disjoint")) == pytest.approx(1)
    assert (np.exp(named("zeros").target((1,)))[[0, 3]] == 0).all()
    assert np.ptp(_laws("tied-draft")[1]) == 0
    p, q = _laws("reversed")
    assert (np.argsort(p) == np.argsort(-q)).all()


def test_a_tie_at_the_edge_of_top_k_goes_to_the_lower_id() -> None:
    pair = named("ties")
    assert isinstance(pair, TablePair)
    assert shape(pair.target(()), (), pair.sampling) == pytest.approx([4 / 7, 3 / 7, 0, 0])
