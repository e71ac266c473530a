"""Whether an opened library computes what it should: a model of 24 KB whose laws are known from elsewhere.

The file goes through the very objects that serve: a wrong layout, a wrong declaration or a broken kernel shows here rather
than as a wrong number of a request.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import log_softmax
from draftproof.engine.libllama.batch import Row
from draftproof.engine.libllama.context import CacheType, Context, ContextOptions
from draftproof.engine.libllama.errors import SelfTestFailed
from draftproof.engine.libllama.library import Library
from draftproof.engine.libllama.model import Model

MODEL = Path(__file__).with_name("selftest.gguf")
LAWS = Path(__file__).with_name("selftest.json")
TOLERANCE = 1e-5
EXACT = ContextOptions(tokens=256, sequences=2, batch=16, flash=False, keys=CacheType.F32, values=CacheType.F32)


def run(library: Library) -> float:
    """The largest difference of a probability that was found. Raises SelfTestFailed when it exceeds TOLERANCE."""
    known = json.loads(LAWS.read_text())
    with Model(library, MODEL) as model:
        prompt = model.vocab.tokenize(known["prompt"])
        letters = [model.vocab.tokenize(letter) for letter in known["alphabet"]]
        if (
            letters != [[i] for i in range(model.vocab.size)]
            or model.vocab.detokenize(prompt) != known["prompt"].encode()
        ):
            raise SelfTestFailed(f"{library.source} does not read the vocabulary of the test model.")
        with Context(model, EXACT) as context:
            laws = _laws(context, prompt)
    expected = np.array([known["first"], *known["second_given_first"].values()])
    difference = float(np.abs(laws - expected).max())
    if not difference <= TOLERANCE:  # also catches NaN
        raise SelfTestFailed(
            f"{library.source} computes other probabilities than the test model has, by {difference:.2g}."
        )
    return difference


def _laws(context: Context, prompt: list[int]) -> NDArray[np.float64]:
    """float64[vocab + 1, vocab]: the law after the prompt, then after the prompt and each token.

    The second sequence is a copy of the first, one token ahead in the alphabet, so that copying, rolling back and a batch
    of two sequences are tested too.
    """
    n, vocab = len(prompt), context.model.vocab.size
    rows = context.decode([Row(0, i, token, i == n - 1) for i, token in enumerate(prompt)])
    logits = np.empty((vocab + 1, vocab), np.float32)
    logits[0] = rows[0]
    context.copy(0, 1)
    for token in range(0, vocab, 2):
        logits[token + 1 : token + 3] = context.decode([Row(0, n, token, True), Row(1, n, token + 1, True)])
        if not (context.remove(0, n) and context.remove(1, n)):
            raise SelfTestFailed("The memory of the test model does not roll back.")
    return np.exp(log_softmax(logits))
