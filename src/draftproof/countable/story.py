"""The built-in pair: a target of eight letters with a known law after `bcdbc`, and a draft that is a noisy copy of it.

The law after the first generated `f` is the one of a public report on llama-speculative: of the three likeliest letters
e .345, g .452, h .203. The output head of a random model is corrected to say so, by the change of least norm.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from draftproof.core.distribution import Law, log_softmax
from draftproof.core.sampling import Sampling
from draftproof.countable.oracle import CountablePair
from draftproof.countable.transformer import Transformer
from draftproof.countable.vocabulary import Vocabulary
from draftproof.countable.weights import Architecture, Tensors, noisy, random_weights, rounded

NAME = "countable-8"
ALPHABET = "abcdefgh"
PROMPT = "bcdbc"
FIRST = "f"
FIRST_SHARE = 0.84
"""Probability of FIRST among the three likeliest letters after PROMPT."""
LAW: Mapping[str, float] = {"e": 0.345, "g": 0.452, "h": 0.203}
"""Law of the three likeliest letters after PROMPT and FIRST."""
LAW_MASS = 0.72
"""What those three have of the full vocabulary."""
SAMPLING = Sampling(top_k=3)

SEED = 3424
DRAFT_SEED = 4
NOISE = 0.7
"""Chosen by benches/choose_countable.py: with these every named fault of speculation moves the law."""

ARCHITECTURE = Architecture()


def ids(text: str) -> tuple[int, ...]:
    """Token ids of letters a..h. Raises ValueError for another."""
    return tuple(ALPHABET.index(letter) for letter in text)


def target_weights(seed: int = SEED) -> Tensors:
    """Random weights whose law after PROMPT and FIRST is LAW, to 1e-4."""
    tensors = random_weights(ARCHITECTURE, seed)
    contexts = [ids(PROMPT), ids(PROMPT + FIRST)]
    model = Transformer(ARCHITECTURE, tensors)
    hidden = model.hidden(contexts)
    head = tensors["output.weight"].astype(np.float64)
    logits = hidden @ head.T
    change = np.stack([_favour_first(logits[0]), _told_law(logits[1])]) - logits
    least_norm = np.linalg.lstsq(hidden, change, rcond=None)[0].T
    return {**tensors, "output.weight": rounded(head + least_norm)}


def draft_weights(target: Tensors, noise: float = NOISE, seed: int = DRAFT_SEED) -> Tensors:
    """The noisy copy of `target`."""
    return noisy(target, noise, seed)


def build(seed: int = SEED, noise: float = NOISE, draft_seed: int = DRAFT_SEED) -> CountablePair:
    """The pair in memory."""
    target = target_weights(seed)
    draft = draft_weights(target, noise, draft_seed)
    vocabulary = Vocabulary.of_letters(ALPHABET)
    return CountablePair(
        Transformer(ARCHITECTURE, target), Transformer(ARCHITECTURE, draft), name=NAME, vocabulary=vocabulary
    )


def _favour_first(logits: Law) -> Law:
    out = logits.copy()
    others = np.sort(np.exp(np.delete(logits, ids(FIRST))))
    out[list(ids(FIRST))] = np.log(FIRST_SHARE / (1 - FIRST_SHARE) * others[-2:].sum())
    return out


def _told_law(logits: Law) -> Law:
    told = list(ids("".join(LAW)))
    rest = np.setdiff1d(np.arange(logits.size), told)
    out = np.empty_like(logits)
    out[told] = np.log(LAW_MASS * np.array(list(LAW.values())))
    # half the spread: no other letter may come near the least of the three
    out[rest] = np.log(1 - LAW_MASS) + log_softmax(logits[rest] / 2)
    return out
