"""What a token costs: processor time of reading 1 to 8 rows at once, and how much of it is Python's.

    python benches/decode.py MODEL.gguf [TOKENS]

One thread; time is that of the processor, so a busy machine changes little. Medians over calls.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.engine.backends.llama import LlamaBackend, LlamaOptions
from draftproof.engine.emit import Origin, Report
from draftproof.engine.generate import Job, generate
from draftproof.engine.libllama import ContextOptions, load_library

TEXT = "The quick brown fox jumps over the lazy dog, and nobody asks what the dog had to say about it. " * 2
MOST_ROWS = 8
FULL_CHAIN = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)


@dataclass
class TimedFunctions:
    """libllama's functions; `inside` collects the time spent in llama_decode and in waiting for its result."""

    lib: Any
    inside: float = 0.0
    calls: list[float] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lib, name)

    def llama_decode(self, *args: Any) -> Any:
        start = time.thread_time()
        code = self.lib.llama_decode(*args)
        self.calls.append(time.thread_time() - start)
        self.inside += self.calls[-1]
        return code


def timed(functions: TimedFunctions, work: Callable[[], int]) -> tuple[float, float]:
    """Tokens per second of processor time, and the share of it outside llama_decode; `work` returns a number of tokens."""
    functions.inside = 0.0
    start = time.thread_time()
    tokens = work()
    elapsed = time.thread_time() - start
    return tokens / elapsed, 1 - functions.inside / elapsed


def rows(backend: LlamaBackend, functions: TimedFunctions, prompt: list[int], n: int, k: int) -> tuple[float, float]:
    """Milliseconds of a call that reads k rows (median), and the share of Python in n of them with a truncation each."""
    sequence = backend.sequence()
    sequence.extend(prompt, rows=0)
    functions.calls.clear()

    def work() -> int:
        for _ in range(n):
            sequence.extend(prompt[:k])
            sequence.truncate(len(prompt))
        return n * k

    _, outside = timed(functions, work)
    sequence.close()
    return 1e3 * float(np.median(functions.calls)), outside


def text(backend: LlamaBackend, functions: TimedFunctions, prompt: list[int], n: int, job: Job) -> tuple[float, float]:
    """As `timed`, for n tokens after the prompt has been read."""

    def work() -> int:
        tokens = generate(backend, replace(job, prompt=tuple(prompt), max_tokens=n + 1, ignore_eog=True))
        next(tokens)
        functions.inside, start = 0.0, time.thread_time()
        count = sum(1 for _ in tokens)
        spent.append(time.thread_time() - start)
        return count

    spent: list[float] = []
    count = work()
    return count / spent[0], 1 - functions.inside / spent[0]


def describe(backend: LlamaBackend, prompt: list[int]) -> float:
    """Microseconds for the logprob and 10 alternatives of one row (median)."""
    sequence, report, spent = backend.sequence(), Report(alternatives=10), []
    for row in np.repeat(sequence.extend(prompt[:16]), 8, axis=0):
        start = time.thread_time_ns()
        report.describe(1, Origin.PLAIN, 0, row, None)
        spent.append(time.thread_time_ns() - start)
    sequence.close()
    return float(np.median(spent)) / 1e3


def main(path: Path, n: int) -> None:
    library = load_library()
    functions = TimedFunctions(library.lib)
    backend = LlamaBackend(
        path,
        LlamaOptions(context=ContextOptions(tokens=512, outputs=64)),
        library=replace(library, lib=functions),
    )
    prompt = backend.model.vocab.tokenize(TEXT)
    print(f"{backend.model.description}, vocabulary {backend.vocab}, {backend.max_rows_exact} rows exact")
    print("rows  ms/call  rows/s  Python")
    for k in range(1, MOST_ROWS + 1):
        ms, outside = rows(backend, functions, prompt, max(4, n // 4), k)
        print(f"{k:4}  {ms:7.1f}  {1e3 * k / ms:6.1f}  {outside:6.2%}")
    jobs = {
        "greedy, logprob only": Job((), 0, Sampling(temperature=0)),
        "temperature 1, logprob only": Job((), 0, NEUTRAL),
        "temperature 1, 10 alternatives": Job((), 0, NEUTRAL, report=Report(alternatives=10)),
        "top-k/top-p/min-p, 10 alternatives": Job((), 0, FULL_CHAIN, report=Report(alternatives=10)),
    }
    print(f"{'generated, one by one':36}tokens/s  Python  ms/token")
    for name, job in jobs.items():
        speed, outside = text(backend, functions, prompt, n, job)
        print(f"{name:36}{speed:8.1f}  {outside:6.2%}  {1e3 * outside / speed:8.3f}")
    print(f"logprob and 10 alternatives of a row: {describe(backend, prompt):.0f} us")
    backend.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 64)
