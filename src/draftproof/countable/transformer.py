"""A float64 forward pass of a llama-architecture model, which knows nothing of libllama.

The contexts asked for last keep their keys and values, so a context one token longer costs one token; many contexts
of one length are computed together. Sources of the parts: RMSNorm arXiv 1910.07467, RoPE 2104.09864 (adjacent pairs, as
llama GGUF files store them), grouped queries 2305.13245, SwiGLU 2002.05202.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import Law, log_softmax
from draftproof.core.errors import UsageError
from draftproof.countable.weights import Architecture, Tensors, tensor_shapes

Context: TypeAlias = tuple[int, ...]
Array: TypeAlias = NDArray[np.float64]

BATCH = 2048
REMEMBERED = 40_000
"""Contexts (about 1.5 kB each) after which the memory starts afresh."""


@dataclass(frozen=True, slots=True)
class Block:
    """float64 weights of one block; matrices are (out, in)."""

    attn_norm: Array
    attn_q: Array
    attn_k: Array
    attn_v: Array
    attn_output: Array
    ffn_norm: Array
    ffn_gate: Array
    ffn_up: Array
    ffn_down: Array


class Memory:
    """What the model remembers of every context seen: float64 rows that grow by doubling."""

    def __init__(self, a: Architecture) -> None:
        self.index: dict[Context, int] = {}
        self.paths: list[NDArray[np.int32]] = []
        heads = (a.kv_heads, a.head_width)
        self.keys = [np.empty((64, *heads)) for _ in range(a.blocks)]
        self.values = [np.empty((64, *heads)) for _ in range(a.blocks)]
        self.hidden = np.empty((64, a.width))
        self.logprobs = np.empty((64, a.vocabulary))

    def reserve(self, rows: int) -> None:
        if rows <= len(self.hidden):
            return
        size = max(rows, 2 * len(self.hidden))
        self.keys = [_grown(x, size) for x in self.keys]
        self.values = [_grown(x, size) for x in self.values]
        self.hidden, self.logprobs = _grown(self.hidden, size), _grown(self.logprobs, size)

    def missing(self, contexts: Iterable[Context]) -> list[list[Context]]:
        """Every prefix that is not known yet, by length, shortest first, each once."""
        found: dict[int, dict[Context, None]] = {}
        for context in contexts:
            prefix = context
            while prefix and prefix not in self.index and prefix not in found.setdefault(len(prefix), {}):
                found[len(prefix)][prefix] = None
                prefix = prefix[:-1]
        return [list(found[length]) for length in sorted(found) if found[length]]


class Transformer:
    """A llama model in float64. Thread-safe.

    `logprobs(contexts)` takes non-empty tuples of token ids of any lengths, at most `architecture.context` long.
    """

    def __init__(self, architecture: Architecture, tensors: Tensors) -> None:
        _check(architecture, tensors)
        self.architecture = architecture
        self.tensors = tensors
        exact = {name: np.asarray(x, dtype=np.float64) for name, x in tensors.items()}
        self._embedding = exact["token_embd.weight"]
        self._blocks = [
            Block(**{part: exact[f"blk.{i}.{part}.weight"] for part in Block.__slots__})
            for i in range(architecture.blocks)
        ]
        self._norm = exact["output_norm.weight"]
        self._head = exact.get("output.weight", self._embedding)
        self._memory = Memory(architecture)
        self._lock = threading.Lock()

    def logprobs(self, contexts: Sequence[Context]) -> Law:
        """float64[len(contexts), vocabulary]: log-softmax of the logits after each context."""
        memory, rows = self._remembered(contexts)
        law: Law = memory.logprobs[rows]
        return law

    def logits(self, contexts: Sequence[Context]) -> Law:
        """float64[len(contexts), vocabulary]: before the softmax; repeat penalties look at their signs."""
        out: Law = self.hidden(contexts) @ self._head.T
        return out

    def hidden(self, contexts: Sequence[Context]) -> Array:
        """float64[len(contexts), width]: what the output head sees after each context."""
        memory, rows = self._remembered(contexts)
        return memory.hidden[rows]

    def _remembered(self, contexts: Sequence[Context]) -> tuple[Memory, list[int]]:
        """The memory that holds all these contexts, and their rows in it."""
        with self._lock:
            index = self._memory.index
            try:
                return self._memory, [index[c] for c in contexts]
            except KeyError:
                pass
            if len(index) > REMEMBERED:
                self._memory = Memory(self.architecture)
                index = self._memory.index
            for context in contexts:
                self._validate(context)
            for level in self._memory.missing(contexts):
                for start in range(0, len(level), BATCH):
                    self._extend(level[start : start + BATCH])
            return self._memory, [index[c] for c in contexts]

    def _validate(self, context: Context) -> None:
        if not context:
            raise UsageError("An empty context has no law: the model has no token that begins a text.")
        if len(context) > self.architecture.context:
            raise UsageError(f"A context of {len(context)} tokens; the model takes {self.architecture.context}.")
        if min(context) < 0 or max(context) >= self.architecture.vocabulary:
            raise UsageError(f"Token ids must be 0..{self.architecture.vocabulary - 1}: {context}.")

    def _extend(self, contexts: list[Context]) -> None:
        """Compute contexts of one length whose prefixes are known."""
        m, length = self._memory, len(contexts[0])
        first = len(m.index)
        new = np.arange(first, first + len(contexts), dtype=np.int32)
        m.reserve(first + len(contexts))
        path = np.empty((len(contexts), length), dtype=np.int32)
        path[:, -1] = new
        if length > 1:
            path[:, :-1] = [m.paths[m.index[c[:-1]]] for c in contexts]
        x = self._embedding[[c[-1] for c in contexts]]
        for i, block in enumerate(self._blocks):
            x = x + self._attend(i, block, x, new, path)
            h = self._rms(x, block.ffn_norm)
            gate = h @ block.ffn_gate.T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ block.ffn_up.T)) @ block.ffn_down.T
        m.hidden[new] = h = self._rms(x, self._norm)
        m.logprobs[new] = log_softmax(h @ self._head.T)
        m.paths.extend(path)
        m.index.update(zip(contexts, new.tolist(), strict=True))

    def _attend(self, i: int, block: Block, x: Array, new: NDArray[np.int32], path: NDArray[np.int32]) -> Array:
        a, m, n = self.architecture, self._memory, len(x)
        h = self._rms(x, block.attn_norm)
        position = path.shape[1] - 1
        q = self._rotate((h @ block.attn_q.T).reshape(n, a.heads, a.head_width), position)
        m.keys[i][new] = self._rotate((h @ block.attn_k.T).reshape(n, a.kv_heads, a.head_width), position)
        m.values[i][new] = (h @ block.attn_v.T).reshape(n, a.kv_heads, a.head_width)
        grouped = q.reshape(n, a.kv_heads, a.heads // a.kv_heads, a.head_width)
        keys = m.keys[i][path].transpose(0, 2, 3, 1)
        weights = np.exp(log_softmax(grouped @ keys / np.sqrt(a.head_width)))
        mixed: Array = (weights @ m.values[i][path].transpose(0, 2, 1, 3)).reshape(n, -1)
        out: Array = mixed @ block.attn_output.T
        return out

    def _rms(self, x: Array, weight: Array) -> Array:
        mean_square = np.einsum("nw,nw->n", x, x) / x.shape[1]
        normed: Array = x / np.sqrt(mean_square + self.architecture.epsilon)[:, None] * weight
        return normed

    def _rotate(self, x: Array, position: int) -> Array:
        width = self.architecture.head_width
        angle = position * self.architecture.rope_base ** (-np.arange(0, width, 2) / width)
        cos, sin = np.cos(angle), np.sin(angle)
        even, odd = x[..., ::2], x[..., 1::2]
        out = np.empty_like(x)
        out[..., ::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out


def _grown(x: Array, rows: int) -> Array:
    out = np.empty((rows, *x.shape[1:]))
    out[: len(x)] = x
    return out


def _check(architecture: Architecture, tensors: Tensors) -> None:
    expected = tensor_shapes(architecture)
    if "output.weight" not in tensors:
        del expected["output.weight"]
    found = {name: x.shape for name, x in tensors.items()}
    if found != expected:
        odd = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        raise UsageError(f"The tensors are not those of a plain llama model: {', '.join(odd[:6])}.")
