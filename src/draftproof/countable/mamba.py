"""A float64 forward pass of a mamba model (arXiv 2312.00752, Alg. 2): memory of a fixed size that cannot be rolled back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftproof.core.errors import UsageError
from draftproof.countable.incremental import Array, Context, Incremental, Memory, rms, silu
from draftproof.countable.weights import Tensors, rounded


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Sizes of a mamba model. Names are GGUF's where it has them."""

    vocabulary: int = 8
    width: int = 16
    blocks: int = 2
    inner: int = 32
    state: int = 4
    kernel: int = 4
    rank: int = 2
    context: int = 4096
    epsilon: float = 2.0**-17
    family: str = "mamba"


@dataclass(frozen=True, slots=True)
class Block:
    """float64 weights of one block; matrices are (out, in)."""

    attn_norm: Array
    ssm_in: Array
    ssm_conv1d: Array
    ssm_conv1d_bias: Array
    ssm_x: Array
    ssm_dt: Array
    ssm_dt_bias: Array
    ssm_a: Array
    ssm_d: Array
    ssm_out: Array


_FILED = {
    "ssm_conv1d_bias": "ssm_conv1d.bias",
    "ssm_dt_bias": "ssm_dt.bias",
    "ssm_a": "ssm_a",
    "ssm_d": "ssm_d",
}
"""Tensors whose name does not end in .weight."""


def tensor_shapes(a: Recurrence) -> dict[str, tuple[int, ...]]:
    """GGUF name to numpy shape (out, in) of every tensor, in the file's order."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (a.vocabulary, a.width)}
    parts = {
        "attn_norm": (a.width,),
        "ssm_in": (2 * a.inner, a.width),
        "ssm_conv1d": (a.inner, a.kernel),
        "ssm_conv1d_bias": (a.inner,),
        "ssm_x": (a.rank + 2 * a.state, a.inner),
        "ssm_dt": (a.inner, a.rank),
        "ssm_dt_bias": (a.inner,),
        "ssm_a": (a.inner, a.state),
        "ssm_d": (a.inner,),
        "ssm_out": (a.width, a.inner),
    }
    for i in range(a.blocks):
        shapes |= {_filed(i, part): shape for part, shape in parts.items()}
    return shapes | {"output_norm.weight": (a.width,), "output.weight": (a.vocabulary, a.width)}


def random_weights(a: Recurrence, seed: int) -> Tensors:
    """Normal weights of variance 1.5/inputs; decay rates 1 .. `state` and a memory that lasts some tokens."""
    rng = np.random.RandomState(seed)  # the stream of RandomState is frozen for all numpy versions
    tensors: dict[str, NDArray[np.float32]] = {}
    for name, shape in tensor_shapes(a).items():
        x = rng.standard_normal(shape)
        if name.endswith(("norm.weight", "ssm_d")):
            x = 1 + 0.1 * x
        elif name.endswith("ssm_a"):
            x = -np.arange(1, a.state + 1) * (1 + 0.1 * np.tanh(x))
        elif name.endswith("dt.bias"):
            x = -2 + 0.5 * x
        elif name.endswith("conv1d.bias"):
            x = 0.1 * x
        elif name != "token_embd.weight":
            x = x * np.sqrt(1.5 / shape[-1])
        tensors[name] = rounded(x)
    return tensors


class Mamba(Incremental):
    """A mamba model in float64 (`LanguageModel`). What it keeps of a context is the window of its convolutions and their states."""

    def __init__(self, architecture: Recurrence, tensors: Tensors) -> None:
        a = architecture
        found = {name: x.shape for name, x in tensors.items()}
        expected = tensor_shapes(a)
        if found != expected:
            odd = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
            raise UsageError(f"The tensors are not those of a plain mamba model: {', '.join(odd[:6])}.")
        self.architecture = a
        self.tensors = tensors
        exact = {name: np.asarray(x, dtype=np.float64) for name, x in tensors.items()}
        self._embedding = exact["token_embd.weight"]
        self._norm = exact["output_norm.weight"]
        self._blocks = [Block(**{part: exact[_filed(i, part)] for part in Block.__slots__}) for i in range(a.blocks)]
        widths: dict[str, tuple[int, ...]] = {f"window{i}": (a.inner, a.kernel) for i in range(a.blocks)}
        widths |= {f"state{i}": (a.inner, a.state) for i in range(a.blocks)}
        super().__init__(a.context, exact["output.weight"], widths)

    def _extend(
        self, contexts: list[Context], memory: Memory, new: NDArray[np.int32], before: NDArray[np.int32]
    ) -> Array:
        x: Array = self._embedding[[c[-1] for c in contexts]]
        for i, block in enumerate(self._blocks):
            x = x + self._step(i, block, rms(x, block.attn_norm, self.architecture.epsilon), memory, new, before)
        return rms(x, self._norm, self.architecture.epsilon)

    def _step(
        self, i: int, block: Block, x: Array, memory: Memory, new: NDArray[np.int32], before: NDArray[np.int32]
    ) -> Array:
        a, windows, states = self.architecture, memory.rows[f"window{i}"], memory.rows[f"state{i}"]
        into, gate = np.split(x @ block.ssm_in.T, 2, axis=1)
        windows[new] = states[new] = 0
        if before.size:
            windows[new, :, :-1] = windows[before, :, 1:]
            states[new] = states[before]
        windows[new, :, -1] = into
        u = silu((windows[new] * block.ssm_conv1d).sum(axis=-1) + block.ssm_conv1d_bias)
        small, enter, leave = np.split(u @ block.ssm_x.T, [a.rank, a.rank + a.state], axis=1)
        step = np.logaddexp(0, small @ block.ssm_dt.T + block.ssm_dt_bias)[:, :, None]
        states[new] = states[new] * np.exp(step * block.ssm_a) + step * u[:, :, None] * enter[:, None, :]
        out = (states[new] * leave[:, None, :]).sum(axis=-1) + block.ssm_d * u
        mixed: Array = (out * silu(gate)) @ block.ssm_out.T
        return mixed


def _filed(i: int, part: str) -> str:
    return f"blk.{i}.{_FILED.get(part, f'{part}.weight')}"
