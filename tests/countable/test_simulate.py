from __future__ import annotations

import numpy as np
import pytest

from draftproof.core.distribution import Law
from draftproof.core.sampling import Sampling
from draftproof.countable.law import joint_law, next_laws
from draftproof.countable.simulate import Server, observed, simulate
from draftproof.countable.table import TablePair, random_table
from draftproof.stats.faults import FAULTS, SOUND
from draftproof.stats.verification import Step, top

RULES = {rule.name: rule for rule in (*FAULTS, *SOUND)}
TARGET = random_table(4, 2, seed=1)
PAIR = TablePair("random", TARGET, TARGET.noisy(1.0, seed=2))
PROMPT = (0, 1)
N = 40_000


def within_chance(counts: Law, law: Law, z: float = 5.5) -> None:
    """Each cell within z standard deviations of the law: false-alarm probability below 4e-8 per cell."""
    n = counts.sum()
    assert (np.abs(counts - n * law) <= z * np.sqrt(n * law * (1 - law)) + 1e-6).all()


def answers(server: Server, tokens: int, seed: int = 1, n: int = N) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return simulate(server, n, tokens, np.random.default_rng(seed))


@pytest.mark.parametrize("greedy_draft", [False, True])
@pytest.mark.parametrize("name", ["rejection", "exact_match"])
def test_sound_rules_leave_the_joint_law_of_four_tokens(name: str, greedy_draft: bool) -> None:
    x = answers(Server(PAIR, PROMPT, RULES[name], drafted=2, greedy_draft=greedy_draft), 4)
    counts = np.bincount(np.ravel_multi_index(tuple(x.T), (4, 4, 4, 4)), minlength=256).astype(np.float64)
    within_chance(counts, joint_law(PAIR.target_many, PROMPT, 4).ravel())


@pytest.mark.parametrize("name", sorted(RULES))
def test_first_speculated_token_has_the_law_of_the_rule(name: str) -> None:
    rule = RULES[name]
    server = Server(PAIR, PROMPT, rule)
    x = answers(server, 2, n=20_000)
    first_law = rule.law(server.step([PROMPT])) if rule.everywhere else np.exp(PAIR.target_many([PROMPT]))
    within_chance(np.bincount(x[:, 0], minlength=4).astype(np.float64), first_law[0])
    for first in range(4):
        after = x[x[:, 0] == first, 1]
        law = rule.law(server.step([(*PROMPT, first)]))[0]
        within_chance(np.bincount(after, minlength=4).astype(np.float64), law)


def test_bonus_token_comes_from_the_target() -> None:
    """With every draft accepted and K = 2, tokens 1, 2, 4, 5 come from the draft and 3, 6 from the target."""
    server = Server(PAIR, PROMPT, RULES["coin_toss_acceptance_1"], drafted=2)
    x = answers(server, 7, n=20_000)
    for t in (2, 3, 5, 6):
        laws = np.exp(
            (PAIR.target_many if t in (3, 6) else PAIR.draft_many)([(a, b) for a in range(4) for b in range(4)])
        )
        pair = 4 * x[:, t - 2] + x[:, t - 1]
        for before in range(16):
            within_chance(np.bincount(x[pair == before, t], minlength=4).astype(np.float64), laws[before])


def test_short_drafts_are_dropped_only_at_the_first_place() -> None:
    """By enumeration of the block: second tokens of a kept draft are verified exactly, so their law is the target's."""
    rule = RULES["short_drafts_dropped_0.45"]
    server = Server(PAIR, PROMPT, rule, drafted=3)
    x = answers(server, 3)
    contexts = [(*PROMPT, a) for a in range(4)]
    step = server.step(contexts)
    outcome = rule.outcome(step)
    joint = np.zeros((4, 4))
    for a, chance in enumerate(np.exp(PAIR.target_many([PROMPT])[0])):
        for b in range(4):
            later = np.exp(PAIR.target_many([(*contexts[a], b)])[0])
            fresh = rule.law(server.step([(*contexts[a], b)]))[0]
            joint[b] += chance * (outcome.accepted[a, b] * later + outcome.instead[a, b] * fresh)
    within_chance(np.bincount(4 * x[:, 1] + x[:, 2], minlength=16).astype(np.float64), joint.ravel())


def test_half_the_drafts_by_the_rule() -> None:
    server = Server(PAIR, PROMPT, RULES["draft_top"], share=0.5)
    x = answers(server, 2)
    p, q = (np.exp(f([(*PROMPT, 0)]))[0] for f in (PAIR.target_many, PAIR.draft_many))
    within_chance(np.bincount(x[x[:, 0] == 0, 1], minlength=4).astype(np.float64), 0.5 * top(q) + 0.5 * p)


def test_sampling_shapes_the_law() -> None:
    sampling = Sampling(top_k=2, temperature=0.7)
    server = Server(PAIR, PROMPT, RULES["rejection"], sampling=sampling)
    x = answers(server, 3, n=20_000)
    counts = np.bincount(np.ravel_multi_index(tuple(x.T), (4, 4, 4)), minlength=64).astype(np.float64)
    law = joint_law(PAIR.target_many, PROMPT, 3, sampling).ravel()
    within_chance(counts, law)
    assert counts[law == 0].sum() == 0


def test_same_generator_same_answers() -> None:
    server = Server(PAIR, PROMPT, RULES["no_residual"])
    np.testing.assert_array_equal(answers(server, 5, n=50), answers(server, 5, n=50))
    assert (answers(server, 5, n=50) != answers(server, 5, seed=2, n=50)).any()


def test_observed_rows_are_what_an_auditor_knows() -> None:
    server = Server(PAIR, PROMPT, RULES["rejection"], greedy_draft=True)
    x = answers(server, 4, n=3)
    rows = observed(server, x, lookahead=True)
    assert rows.x.tolist() == x[:, 1:].ravel().tolist()
    assert rows.contexts[4] == (*PROMPT, *x[1, :2].tolist())
    assert rows.q is not None
    assert rows.next_top is not None
    np.testing.assert_allclose(rows.p, next_laws(PAIR.target_many, rows.contexts))
    np.testing.assert_allclose(rows.q.max(axis=1), 1)
    assert rows.next_top.shape == rows.p.shape
    assert observed(server, x, first=0).x.size == x.size


def test_lookahead_is_computed_where_the_rule_needs_it() -> None:
    assert Server(PAIR, PROMPT, RULES["rejection"]).step([PROMPT]).next_top is None
    step: Step = Server(PAIR, PROMPT, RULES["short_drafts_dropped_0.3"]).step([PROMPT])
    assert step.next_top is not None
    by_hand = [np.exp(PAIR.draft((*PROMPT, x))).max() for x in range(4)]
    np.testing.assert_allclose(step.next_top[0], by_hand)
