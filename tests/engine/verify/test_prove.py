from __future__ import annotations

import numpy as np
import pytest
from tests.engine.models import model_drafter

from draftproof.core.coin import Coin
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import Sampling
from draftproof.countable.tables import TABLES
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.draft import DRAFTERS
from draftproof.engine.prove import Result, prove
from draftproof.engine.verify import RULES, rejection
from draftproof.engine.verify.exact import answer_law, law_of, target_law
from draftproof.engine.verify.rule import Decision, Rule
from draftproof.engine.verify.wrong import WRONG


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return list(prove())


def test_every_rule_behaves_as_stated(results: list[Result]) -> None:
    assert [r for r in results if not r.holds] == []


def test_every_rule_and_drafter_is_in_the_proof(results: list[Result]) -> None:
    exact = [r for r in results if r.exact]
    assert {r.rule for r in exact} == {r.name for r in RULES}
    assert {k.name for k in DRAFTERS} - {"none"} <= {name for r in exact for name in r.drafter.split(",")}
    assert [r.rule for r in results if not r.exact] == [w.name for w in WRONG]


def test_the_proof_is_of_rules_that_accept(results: list[Result]) -> None:
    assert min(r.per_block for r in results) > 1.1


@pytest.mark.parametrize("pair", TABLES, ids=lambda pair: pair.name)
def test_blocks_compose_to_whole_answers(pair: object) -> None:
    """`law_of` multiplies blocks, `answer_law` walks whole answers: the same law, to rounding."""
    assert hasattr(pair, "target")
    target, draft = TableBackend(pair.target), TableBackend(pair.draft)  # type: ignore[attr-defined]
    args = (rejection.RULE, target, lambda: model_drafter(draft, 2), 2, 2)
    np.testing.assert_allclose(law_of(*args), answer_law(*args), atol=1e-12)


def test_a_rule_that_is_slightly_wrong_does_not_pass() -> None:
    """A bias of one in a million of the acceptance is seen: there is no tolerance to hide in."""

    def decide(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:
        assert q is not None
        if coin.at("accept", position).flip(p.at(x) * (1 + 1e-6), q.at(x)):
            return Decision(x, accepted=True)
        return Decision(rejection.recover(p, x, q, coin, position), accepted=False)

    pair = TABLES[0]
    target, draft = TableBackend(pair.target), TableBackend(pair.draft)
    off = law_of(
        Rule("biased", "", decide, draws_drafts=True), target, lambda: model_drafter(draft, 2), 2, 2
    ) - target_law(target, 2)
    assert 1e-9 < np.abs(off).max() < 1e-6


def test_mirostat_is_walked_whole() -> None:
    with pytest.raises(ValueError, match="compose"):
        law_of(
            rejection.RULE,
            TableBackend(TABLES[0].target),
            lambda: model_drafter(TableBackend(TABLES[0].draft)),
            1,
            2,
            sampling=Sampling(mirostat=2),
        )
