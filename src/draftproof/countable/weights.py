"""Weights of a llama-architecture model small enough to count: random, seeded, the same bytes everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Tensors: TypeAlias = Mapping[str, NDArray[np.float32]]

GRID = 2.0**16
"""Weights are multiples of 1/GRID: the last digits of exp and log, which differ between machines, do not reach them."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes of a llama model; `heads` is a multiple of `kv_heads`, `width` of `heads`. Names are GGUF's where it has them.

    `family` mimo2: the same with other rotary pairs and, after its `blocks`, one that predicts the token after the next.
    """

    vocabulary: int = 8
    width: int = 16
    blocks: int = 2
    heads: int = 2
    kv_heads: int = 2
    hidden: int = 32
    context: int = 4096
    epsilon: float = 2.0**-17
    rope_base: float = 10000.0
    family: str = "llama"

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def tensor_shapes(a: Architecture) -> dict[str, tuple[int, ...]]:
    """GGUF name to numpy shape (out, in) of every tensor of the architecture, in the file's order."""
    kv = a.kv_heads * a.head_width
    block: dict[str, tuple[int, ...]] = {
        "attn_norm": (a.width,),
        "attn_q": (a.width, a.width),
        "attn_k": (kv, a.width),
        "attn_v": (kv, a.width),
        "attn_output": (a.width, a.width),
        "ffn_norm": (a.width,),
        "ffn_gate": (a.hidden, a.width),
        "ffn_up": (a.hidden, a.width),
        "ffn_down": (a.width, a.hidden),
    }
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (a.vocabulary, a.width)}
    for i in range(a.blocks):
        shapes |= {f"blk.{i}.{part}.weight": shape for part, shape in block.items()}
    if a.family == "mimo2":
        fused: dict[str, tuple[int, ...]] = {
            "attn_qkv": (a.width + 2 * kv, a.width),
            "nextn.eh_proj": (a.width, 2 * a.width),
        }
        fused |= {"nextn.enorm": (a.width,), "nextn.hnorm": (a.width,)}
        fused |= {part: shape for part, shape in block.items() if part not in {"attn_q", "attn_k", "attn_v"}}
        shapes |= {f"blk.{a.blocks}.{part}.weight": shape for part, shape in fused.items()}
    shapes |= {"output_norm.weight": (a.width,), "output.weight": (a.vocabulary, a.width)}
    return shapes


def random_weights(a: Architecture, seed: int) -> Tensors:
    """Normal weights of variance 1.5/inputs (embeddings 1, norms 1 +- .1): every token of the context moves the law."""
    rng = np.random.RandomState(seed)  # the stream of RandomState is frozen for all numpy versions
    tensors: dict[str, NDArray[np.float32]] = {}
    for name, shape in tensor_shapes(a).items():
        x = rng.standard_normal(shape)
        if name.endswith("norm.weight"):
            x = 1 + 0.1 * x
        elif name != "token_embd.weight":
            x = x * np.sqrt(1.5 / shape[-1])
        tensors[name] = rounded(x)
    return tensors


def noisy(tensors: Tensors, noise: float, seed: int) -> Tensors:
    """A copy with normal noise added to every tensor: standard deviation `noise` times the tensor's own (norms: `noise`/10)."""
    rng = np.random.RandomState(seed)
    out: dict[str, NDArray[np.float32]] = {}
    for name, x in tensors.items():
        scale = 0.1 if name.endswith("norm.weight") else float(np.std(x.astype(np.float64)))
        out[name] = rounded(x + noise * scale * rng.standard_normal(x.shape))
    return out


def rounded(x: NDArray[np.floating]) -> NDArray[np.float32]:
    """float32 on the grid of 1/GRID."""
    return np.asarray(np.round(np.asarray(x, dtype=np.float64) * GRID) / GRID, dtype=np.float32)
