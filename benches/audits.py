"""How long an audit takes: the placeholder verdict alone, `quick` and `standard`, on the real llama-server.

    python -m benches.audits

Each is run three times in turn, in one process; medians.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from draftproof.auditing import AuditConfig, audit
from draftproof.checks.logprobs import placeholder
from draftproof.client import connect
from draftproof.core.probe import Effort
from draftproof.core.terms import Terms
from draftproof.countable.files import write_pair
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

ROUNDS = 3
MODES = {
    "without draft": (False, {}),
    "draft-simple": (True, {}),
    "draft-simple, probabilistic": (True, {"speculative.draft.probabilistic": True}),
}


def timed(work: Callable[[], int]) -> tuple[float, int]:
    began = time.perf_counter()
    requests = work()
    return time.perf_counter() - began, requests


def placeholder_verdict(url: str) -> int:
    with connect(url) as probe:
        before = probe.requests
        placeholder.judge(placeholder.collect(probe), Terms())
        return probe.requests - before


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        target, draft, _ = write_pair(Path(name))

        def audited(url: str, effort: Effort) -> int:
            out = Path(name) / f"{time.monotonic_ns()}.jsonl.gz"
            return audit(AuditConfig(url, effort=effort, seed=1, out=out)).requests

        for mode, (with_draft, options) in MODES.items():
            types = ["draft-simple"] if with_draft else []
            with LlamaWheel(
                target, draft=draft if with_draft else None, types=types, options={**EXACT_NUMBERS, **options}
            ) as server:
                for what, work in (
                    ("placeholder verdict", lambda url=server.url: placeholder_verdict(url)),
                    ("quick audit", lambda url=server.url: audited(url, Effort.QUICK)),
                    ("standard audit", lambda url=server.url: audited(url, Effort.STANDARD)),
                ):
                    runs = [timed(work) for _ in range(ROUNDS)]
                    seconds = statistics.median(s for s, _ in runs)
                    print(f"{mode:28} {what:20} {seconds:6.2f} s  {runs[0][1]:5} requests", flush=True)


if __name__ == "__main__":
    main()
