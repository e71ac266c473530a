"""A float64 forward pass of a llama-architecture model, which knows nothing of libllama.

Sources of the parts: RMSNorm arXiv 1910.07467, RoPE 2104.09864 (adjacent pairs, as llama GGUF files store them; halves for
mimo2), grouped queries 2305.13245, SwiGLU 2002.05202, prediction heads 2412.19437 (section 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import log_softmax
from draftproof.core.errors import UsageError
from draftproof.countable.incremental import Array, Context, Incremental, Memory, rms, silu
from draftproof.countable.weights import Architecture, Tensors, tensor_shapes


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


class Transformer(Incremental):
    """A llama model in float64 (`LanguageModel`); of a mimo2 model the trunk."""

    def __init__(self, architecture: Architecture, tensors: Tensors) -> None:
        _check(architecture, tensors)
        self.tensors = tensors
        exact = {name: np.asarray(x, dtype=np.float64) for name, x in tensors.items()}
        self._set_up(architecture, exact, [_block(exact, i) for i in range(architecture.blocks)])

    def _set_up(self, a: Architecture, exact: Mapping[str, Array], blocks: list[Block]) -> None:
        self.architecture = a
        self._embedding = exact["token_embd.weight"]
        self._blocks = blocks
        self._norm = exact["output_norm.weight"]
        heads = (a.kv_heads, a.head_width)
        widths = {f"{kind}{i}": heads for i in range(len(blocks)) for kind in ("keys", "values")}
        super().__init__(a.context, exact.get("output.weight", self._embedding), {**widths, "last": (a.width,)})

    def last(self, contexts: list[Context]) -> Array:
        """float64[len(contexts), width]: what leaves the last block after each context, before the output's norm."""
        return self._remembered("last", contexts)

    def _enter(self, contexts: list[Context]) -> Array:
        """float64[n, width]: what the first block sees."""
        x: Array = self._embedding[[c[-1] for c in contexts]]
        return x

    def _extend(
        self,
        contexts: list[Context],
        memory: Memory,
        new: NDArray[np.int32],
        before: NDArray[np.int32],  # noqa: ARG002 - attention looks at all rows of the path
    ) -> Array:
        epsilon = self.architecture.epsilon
        path = np.stack([memory.paths[i] for i in new.tolist()])
        x = self._enter(contexts)
        for i, block in enumerate(self._blocks):
            x = x + self._attend(i, block, x, memory, new, path)
            h = rms(x, block.ffn_norm, epsilon)
            x = x + (silu(h @ block.ffn_gate.T) * (h @ block.ffn_up.T)) @ block.ffn_down.T
        memory.rows["last"][new] = x
        return rms(x, self._norm, epsilon)

    def _attend(
        self, i: int, block: Block, x: Array, memory: Memory, new: NDArray[np.int32], path: NDArray[np.int32]
    ) -> Array:
        a, n = self.architecture, len(x)
        kept_keys, kept_values = memory.rows[f"keys{i}"], memory.rows[f"values{i}"]
        h = rms(x, block.attn_norm, a.epsilon)
        position = path.shape[1] - 1
        q = self._rotate((h @ block.attn_q.T).reshape(n, a.heads, a.head_width), position)
        kept_keys[new] = self._rotate((h @ block.attn_k.T).reshape(n, a.kv_heads, a.head_width), position)
        kept_values[new] = (h @ block.attn_v.T).reshape(n, a.kv_heads, a.head_width)
        grouped = q.reshape(n, a.kv_heads, a.heads // a.kv_heads, a.head_width)
        keys = kept_keys[path].transpose(0, 2, 3, 1)
        weights = np.exp(log_softmax(grouped @ keys / np.sqrt(a.head_width)))
        mixed: Array = (weights @ kept_values[path].transpose(0, 2, 1, 3)).reshape(n, -1)
        out: Array = mixed @ block.attn_output.T
        return out

    def _rotate(self, x: Array, position: int) -> Array:
        width = self.architecture.head_width
        angle = position * self.architecture.rope_base ** (-np.arange(0, width, 2) / width)
        cos, sin = np.cos(angle), np.sin(angle)
        halves = self.architecture.family == "mimo2"
        one = slice(None, width // 2) if halves else slice(None, None, 2)
        other = slice(width // 2, None) if halves else slice(1, None, 2)
        out = np.empty_like(x)
        out[..., one] = x[..., one] * cos - x[..., other] * sin
        out[..., other] = x[..., one] * sin + x[..., other] * cos
        return out


class PredictionHead(Transformer):
    """The multi-token-prediction block of a mimo2 model as its draft (`LanguageModel`).

    Its law after a context is that of a first drafted token: every token is read with the trunk's own row of the token before
    it. Further tokens of one draft are read with the head's own rows instead, and so have laws a little different.
    """

    def __init__(self, trunk: Transformer) -> None:
        a = trunk.architecture
        if a.family != "mimo2":
            raise UsageError(f"A {a.family} model has no prediction head.")
        self.trunk = trunk
        self.tensors = trunk.tensors
        exact = {name: np.asarray(x, dtype=np.float64) for name, x in trunk.tensors.items()}
        prefix = f"blk.{a.blocks}."
        parts = np.split(exact.pop(f"{prefix}attn_qkv.weight"), np.cumsum([a.width, a.kv_heads * a.head_width]))
        exact |= {f"{prefix}attn_{part}.weight": x for part, x in zip("qkv", parts, strict=True)}
        self._of_token = exact[f"{prefix}nextn.enorm.weight"]
        self._of_hidden = exact[f"{prefix}nextn.hnorm.weight"]
        self._join = exact[f"{prefix}nextn.eh_proj.weight"]
        self._set_up(replace(a, blocks=1), exact, [_block(exact, a.blocks)])

    def _enter(self, contexts: list[Context]) -> Array:
        epsilon = self.architecture.epsilon
        before = [c[:-1] for c in contexts]
        row = self.trunk.last(before) if before[0] else np.zeros((len(before), self.architecture.width))
        token = rms(super()._enter(contexts), self._of_token, epsilon)
        joined: Array = np.concatenate([token, rms(row, self._of_hidden, epsilon)], axis=1) @ self._join.T
        return joined


def _block(exact: Mapping[str, Array], i: int) -> Block:
    return Block(**{part: exact[f"blk.{i}.{part}.weight"] for part in Block.__slots__})


def _check(architecture: Architecture, tensors: Tensors) -> None:
    expected = tensor_shapes(architecture)
    if "output.weight" not in tensors:
        del expected["output.weight"]
    found = {name: x.shape for name, x in tensors.items()}
    if found != expected:
        odd = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
        raise UsageError(f"The tensors are not those of a plain {architecture.family} model: {', '.join(odd[:6])}.")
