"""The predicted number of accepted drafts against a simulation of the rule itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from draftproof.checks.self_report.acceptance import RULES, accepted
from draftproof.core.law import Law
from draftproof.countable.catalogue import builtin


def _simulated(name: str, k: int, tokens: int, rng: np.random.Generator) -> tuple[list[int], int, int]:
    """One answer by the rule: its tokens, and how many were drafted and accepted. Written the way a server works."""
    pair, prompt = builtin(), (1, 2, 3, 1, 2)

    def p(c: tuple[int, ...]) -> Law:
        return np.asarray(np.exp(pair.target(c)))

    def q(c: tuple[int, ...]) -> Law:
        return np.asarray(np.exp(pair.draft(c)))

    ids = [int(rng.choice(8, p=p(prompt) / p(prompt).sum()))]
    drafted = number = 0
    while len(ids) < tokens:
        context = prompt + tuple(ids)
        length = min(k, tokens - len(ids) - 1)
        drafted += length
        for _ in range(length):
            target, draft = p(context) / p(context).sum(), q(context) / q(context).sum()
            x = int(draft.argmax()) if "favourite, by" in name else int(rng.choice(8, p=draft))
            if name == "rejection sampling":
                if rng.random() * draft[x] < target[x]:
                    emitted, taken = x, True
                else:
                    rest = np.maximum(target - draft, 0)
                    emitted, taken = int(rng.choice(8, p=rest / rest.sum())), False
            else:
                emitted = int(rng.choice(8, p=target))
                taken = emitted == x
            ids.append(emitted)
            context += (emitted,)
            if not taken:
                break
            number += 1
        else:
            law = p(context) / p(context).sum()
            ids.append(int(rng.choice(8, p=law)))
    return ids, drafted, number


@pytest.mark.parametrize("name", list(RULES)[:3])
def test_the_count_is_foretold(name: str) -> None:
    """Seeded. Over many answers the deviations have mean 0 and the foretold variance (limits: five standard errors)."""
    rng, pair = np.random.default_rng(3), builtin()
    sums = np.zeros(4)
    answers = 20
    for _ in range(answers):
        ids, drafted, number = _simulated(name, 3, 24, rng)
        contexts = [(1, 2, 3, 1, 2, *ids[:n]) for n in range(1, len(ids))]
        p, q = np.exp(pair.target_many(contexts)), np.exp(pair.draft_many(contexts))
        count = accepted(RULES[name][1](p, q, np.array(ids[1:])), 3)
        sums += (number - count.accepted, count.variance, drafted - count.drafted, (number - count.accepted) ** 2)
    assert abs(sums[0]) <= 5 * math.sqrt(sums[1] + 1e-9)
    assert abs(sums[2]) <= 5 * 3 * math.sqrt(sums[1] + 1e-9)
    assert sums[3] == pytest.approx(sums[1], rel=0.6, abs=1e-9)


def test_a_drawn_draft_against_the_favourite_is_accepted_where_both_can_be() -> None:
    """On average over texts drawn from p: q(argmax p), or p of it where that is less."""
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]])
    q = np.array([[0.4, 0.3, 0.3], [0.1, 0.2, 0.7], [0.3, 0.2, 0.5]])
    rule = RULES["drawn draft against the target's favourite"][1]
    each = np.array([rule(p, q, np.full(3, x)) for x in range(3)])
    np.testing.assert_allclose((p.T * each).sum(axis=0), [0.4, 0.6, 0.2])
    assert (each <= 1).all()
