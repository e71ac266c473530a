"""How fast the probe samples, next to a bare load generator and a loop of curl: python -m benches.asking

Both sides are measured in turns, five times each; the medians are compared, so that what else the machine does hits both.
"""

from __future__ import annotations

import http.client
import itertools
import json
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from draftproof.client import JsonLinesSink, LiveProbe, connect
from draftproof.core.ask import Ask
from draftproof.countable.files import write_pair
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel

PROMPT = (1, 2, 3, 1, 2)
TOKENS = 12
ROUNDS = 5


def bare(probe: LiveProbe, requests: int, threads: int, batch: int) -> float:
    """Samples per second of the least that any client must do: send, read, forget."""
    template = json.loads(probe.dialect.call(Ask(PROMPT, TOKENS, count=batch), "/completion").body)
    seeds = itertools.count(probe.seeds(requests * batch).start, batch)
    left = itertools.count(1)
    host, port = probe.http.url.removeprefix("http://").split(":")

    def work() -> None:
        connection = http.client.HTTPConnection(host, int(port))
        while next(left) <= requests:
            body = json.dumps(template | {"seed": next(seeds)}).encode()
            connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return requests * batch / (time.perf_counter() - began)


def curl(probe: LiveProbe, requests: int) -> float:
    """Samples per second of a shell loop: one curl process per seed."""
    body = json.loads(probe.dialect.call(Ask(PROMPT, TOKENS), "/completion").body)
    began = time.perf_counter()
    for seed in probe.seeds(requests):
        data = json.dumps(body | {"seed": seed})
        command = ["curl", "-s", "-o", "/dev/null", "-H", "Content-Type: application/json", "-d", data]
        subprocess.run([*command, probe.http.url + "/completion"], check=True)
    return requests / (time.perf_counter() - began)


def singles(probe: LiveProbe, samples: int) -> float:
    began = time.perf_counter()
    got = sum(1 for _ in probe.ask_many(Ask(PROMPT, TOKENS, seed=s) for s in probe.seeds(samples)))
    assert got == samples
    return samples / (time.perf_counter() - began)


def bulk(probe: LiveProbe, samples: int) -> float:
    began = time.perf_counter()
    got = sum(1 for _ in probe.ask_many([Ask(PROMPT, TOKENS, seed=probe.seeds(samples).start, count=samples)]))
    assert got == samples
    return samples / (time.perf_counter() - began)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        target, draft, _law = write_pair(Path(folder))
        for name, wheel in {
            "plain": LlamaWheel(target, options=EXACT_NUMBERS),
            "draft-simple": LlamaWheel(target, draft=draft, types=["draft-simple"], options=EXACT_NUMBERS),
        }.items():
            with (
                wheel as server,
                JsonLinesSink(Path(folder) / "e.jsonl.gz") as sink,
                connect(server.url, sink=sink) as probe,
            ):
                sides: dict[str, Callable[[], float]] = {
                    "a loop of curl": lambda p=probe: curl(p, 100),  # type: ignore[misc]
                    "bare, 8 connections": lambda p=probe: bare(p, 1000, 8, 1),  # type: ignore[misc]
                    "probe, single asks": lambda p=probe: singles(p, 1000),  # type: ignore[misc]
                    "bare, batches of 8": lambda p=probe: bare(p, 125, 2, 8),  # type: ignore[misc]
                    "probe, 1000 seeds": lambda p=probe: bulk(p, 1000),  # type: ignore[misc]
                }
                rates: dict[str, list[float]] = {side: [] for side in sides}
                for _ in range(ROUNDS):
                    for side, measure in sides.items():
                        rates[side].append(measure())
                for side, found in rates.items():
                    print(f"{name:13} {side:20} {statistics.median(found):6.0f} samples/s (best {max(found):.0f})")


if __name__ == "__main__":
    main()
