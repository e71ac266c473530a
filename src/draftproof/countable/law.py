"""Exact laws of the next tokens, by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from draftproof.core.distribution import Law, log_softmax, shape
from draftproof.core.errors import UsageError
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.countable.incremental import Context

Model: TypeAlias = Callable[[Sequence[Context]], Law]
"""Contexts to float64[n, vocabulary] logits: `target_logits` or `draft_logits` of a pair.

Log-probabilities (`target_many`) do as well unless there is a repeat penalty, which multiplies the logits as they are.
"""

MOST_SEQUENCES = 2**21


def next_laws(model: Model, contexts: Sequence[Context], sampling: Sampling = NEUTRAL) -> Law:
    """float64[len(contexts), vocabulary]: the law that `sampling` draws the next token from, after each context."""
    rows = model(contexts)
    if sampling == NEUTRAL:
        law: Law = np.exp(log_softmax(rows))
        return law
    return np.stack([shape(row, context, sampling) for row, context in zip(rows, contexts, strict=True)])


def next_law(model: Model, context: Context, sampling: Sampling = NEUTRAL) -> Law:
    """float64[vocabulary]: the law of the token after `context`."""
    row: Law = next_laws(model, [context], sampling)[0]
    return row


def joint_law(model: Model, context: Context, tokens: int, sampling: Sampling = NEUTRAL) -> Law:
    """float64[vocabulary] * tokens: the probability of every sequence of `tokens` tokens after `context`.

    Penalties see the tokens drawn before. Sums to 1. Raises UsageError above 2**21 sequences.
    """
    law = next_law(model, context, sampling)
    vocabulary = law.size
    if tokens < 1 or vocabulary**tokens > MOST_SEQUENCES:
        raise UsageError(f"{vocabulary} letters, {tokens} tokens: 1 to {MOST_SEQUENCES} sequences can be counted.")
    for length in range(1, tokens):
        flat = law.reshape(-1)
        grown = np.zeros((flat.size, vocabulary))
        alive = np.flatnonzero(flat)
        prefixes = np.stack(np.unravel_index(alive, law.shape), axis=1).tolist()
        grown[alive] = flat[alive, None] * next_laws(model, [(*context, *prefix) for prefix in prefixes], sampling)
        law = grown.reshape((vocabulary,) * (length + 1))
    return law


def conditional_laws(joint: Law) -> list[Law]:
    """The law of each token given all before it, from a joint law: item i has i + 1 axes.

    Rows of prefixes that cannot happen are 0.
    """
    laws = []
    for length in range(1, joint.ndim + 1):
        here = joint.sum(axis=tuple(range(length, joint.ndim)))
        before = here.sum(axis=-1, keepdims=True)
        laws.append(np.divide(here, before, out=np.zeros_like(here), where=before > 0))
    return laws


def greedy_path(model: Model, context: Context, tokens: int, sampling: Sampling = NEUTRAL) -> Context:
    """The `tokens` tokens of temperature 0 after `context`, under the penalties and biases of `sampling`."""
    greedy = replace(sampling, temperature=0.0)
    path: Context = ()
    for _ in range(tokens):
        path = (*path, int(np.argmax(next_law(model, (*context, *path), greedy))))
    return path


def token_ids(alphabet: str, text: str) -> Context:
    """Token ids of a text, one letter one token. Raises UsageError that names the letter and the alphabet."""
    for letter in text:
        if letter not in alphabet:
            raise UsageError(f'"{letter}" is not a letter of the model.', f'Its alphabet is "{alphabet}".')
    return tuple(alphabet.index(letter) for letter in text)


def by_text(alphabet: str, law: Law, digits: int = 9) -> dict[str, float]:
    """Text of every sequence that can happen to its probability, in the order of the alphabet."""
    texts: Iterable[str] = map("".join, itertools.product(alphabet, repeat=law.ndim))
    return {text: round(float(p), digits) for text, p in zip(texts, law.reshape(-1), strict=True) if p > 0}


def table(law: dict[str, float], rows: int = 0, width: int = 40) -> str:
    """Lines of text, probability and bar, likeliest first; at most `rows` of them (0: all), then what is left."""
    ordered = sorted(law.items(), key=lambda item: -item[1])
    shown = ordered[:rows] if rows else ordered
    most = max(law.values(), default=1.0)
    lines = [f"  {text}  {p:.6f}  {'#' * round(width * p / most)}".rstrip() for text, p in shown]
    if left := ordered[len(shown) :]:
        lines.append(f"  and {len(left)} more, together {sum(p for _, p in left):.6f}")
    return "\n".join(lines)
