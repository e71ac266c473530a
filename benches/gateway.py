"""draftproof gateway before the real llama-server: what it costs.

    python benches/gateway.py MODEL.gguf [ROUNDS [PART ..]]

Parts: text, countable, logprobs, crowd; all where none is named.

Text is timed through the gateway and past it, logprobs through the gateway before a speculating llama-server and from one that
does not speculate; the two sides take turns, and a ratio is the median over rounds. Both clocks are told: the wall's, and the
processor time of all processes of a side, which a busy machine does not change. Servers use one thread.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from draftproof.countable.files import write_pair
from draftproof.launch.llama_wheel import LlamaWheel, Option

TOKENS = 64
SLOTS = 4
CLIENTS = 64
ORDINARY = "The harbour was quiet that morning, and the captain"
RECORD = '{"name": "lamp", "colour": "green", "in_stock": true, "price": 12.5, "tags": ["home", "light"]},\n'
REPETITIVE = "A list of equal records:\n[\n" + 8 * RECORD
SHORT = "la la la la la la la la la la la la la la la"
PROMPTS = {"drafts accepted": REPETITIVE, "drafts mostly rejected": SHORT}
NGRAM: Mapping[str, Option] = {
    "speculative.ngram_mod.n_match": 8,
    "speculative.ngram_mod.n_min": 4,
    "speculative.ngram_mod.n_max": 16,
}


@dataclass
class Side:
    """What is asked, and the processes that work for it."""

    url: str
    pids: Sequence[int]

    def busy_s(self) -> float:
        # Linux: the clocks that count all threads of a process
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.pids)

    def ask(self, **body: Any) -> bytes:
        fields = {"temperature": 0, "ignore_eos": True, "cache_prompt": False, **body}
        request = urllib.request.Request(self.url + "/completion", json.dumps(fields).encode())
        with urllib.request.urlopen(request, timeout=600) as answer:
            return bytes(answer.read())


@contextmanager
def gateway(upstream: str, *flags: str) -> Iterator[tuple[str, int]]:
    """Its URL and process id."""
    command = [sys.executable, "-m", "draftproof", "gateway", "--upstream", upstream, "--port", "0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.terminate()


def paired(rounds: int, one: Side, other: Side, ask: Callable[[Side], object]) -> tuple[float, float]:
    """Wall and processor time of `one` in parts of the `other`'s, medians over rounds."""
    wall: list[float] = []
    busy: list[float] = []
    for n in range(rounds + 1):
        spent = {}
        for side in (one, other) if n % 2 else (other, one):
            start, before = time.perf_counter(), side.busy_s()
            ask(side)
            spent[side.url] = time.perf_counter() - start, side.busy_s() - before
        if n:  # the first round warms up
            wall.append(spent[one.url][0] / spent[other.url][0])
            busy.append(spent[one.url][1] / spent[other.url][1])
    return median(wall), median(busy)


def told(name: str, ratios: tuple[float, float]) -> None:
    print(f"{name:58} wall {ratios[0]:6.3f}   processor {ratios[1]:6.3f}", flush=True)


def text(model: Path, rounds: int) -> None:
    with llama(model) as server, gateway(server.url) as (url, pid):
        through, past = Side(url, [pid, server.pid]), Side(server.url, [server.pid])
        for stream in (False, True):

            def ask(side: Side, *, stream: bool = stream) -> object:
                return side.ask(prompt=ORDINARY, n_predict=TOKENS, stream=stream)

            name = f"text, {TOKENS} tokens {'streamed' if stream else 'whole'}"
            told(name, paired(rounds, through, past, ask))


def countable(_: Path, rounds: int) -> None:
    """A model that makes a token in 0.2 ms: nothing but the gateway's own cost."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LlamaWheel(*write_pair(Path(folder))[:1], options={"n_parallel": SLOTS}) as server,
        gateway(server.url) as (url, pid),
    ):
        through, past = Side(url, [pid, server.pid]), Side(server.url, [server.pid])
        for stream in (False, True):

            def ask(side: Side, *, stream: bool = stream) -> object:
                return [side.ask(prompt="bcdbc", n_predict=500, stream=stream) for _ in range(5)]

            name = f"countable model, 500 tokens {'streamed' if stream else 'whole'}"
            told(name, paired(rounds, through, past, ask))


def logprobs(model: Path, rounds: int) -> None:
    """The cost of re-scoring is that of the speculated text, told first, and of one plain decoding of what was drafted; without a
    seed answers are made token by token.
    """
    with llama(model, types=["ngram-mod"], options=NGRAM) as server, llama(model) as plain:
        one, other = Side(server.url, [server.pid]), Side(plain.url, [plain.pid])
        for name, prompt in PROMPTS.items():

            def text_of(side: Side, *, prompt: str = prompt) -> object:
                return side.ask(prompt=prompt, n_predict=TOKENS)

            told(f"speculated text past the gateway, {name}", paired(rounds, one, other, text_of))
    for lanes in (1, 4):
        with (
            llama(model, types=["ngram-mod"], options=NGRAM) as server,
            llama(model) as plain,
            gateway(server.url, "--lanes", str(lanes)) as (url, pid),
        ):
            through, past = Side(url, [pid, server.pid]), Side(plain.url, [plain.pid])
            for name, prompt in PROMPTS.items():
                for seed in (-1, 1) if lanes == 1 else (1,):

                    def ask(side: Side, *, prompt: str = prompt, seed: int = seed) -> bytes:
                        return side.ask(prompt=prompt, n_predict=TOKENS, n_probs=10, seed=seed)

                    made = json.loads(ask(through))["draftproof"]
                    again = sum(b - a + 1 for one in made.get("answers", []) for a, b in one["rescored"])
                    how = f"{again} of {TOKENS} re-scored, {lanes} lanes" if again else "made token by token"
                    told(f"logprobs, {name}, {how}", paired(rounds, through, past, ask))


def crowd(_: Path, rounds: int) -> None:
    """Many clients at once, all with logprobs; each answer must have all of them."""
    with tempfile.TemporaryDirectory() as folder:
        target, draft, _law = write_pair(Path(folder))
        with LlamaWheel(target, draft=draft, types=["draft-simple"]) as server, gateway(server.url) as (url, pid):
            side = Side(url, [pid, server.pid])

            def ask(n: int) -> bool:
                body = json.loads(side.ask(prompt="bcdbc", n_predict=24, n_probs=3, seed=n, temperature=1))
                return all(e["top_logprobs"] for e in body["completion_probabilities"])

            start = time.perf_counter()
            with ThreadPoolExecutor(CLIENTS) as pool:
                whole = list(pool.map(ask, range(CLIENTS * rounds)))
            spent = time.perf_counter() - start
            print(f"{CLIENTS} clients: {sum(whole)} of {len(whole)} answers whole, {len(whole) / spent:.1f} answers/s")


def llama(model: Path, types: Sequence[str] = (), options: Mapping[str, Option] | None = None) -> LlamaWheel:
    return LlamaWheel(model, types=types, options={"n_ctx": 4096, "n_parallel": SLOTS, **(options or {})})


PARTS: Mapping[str, Callable[[Path, int], None]] = {
    "text": text,
    "countable": countable,
    "logprobs": logprobs,
    "crowd": crowd,
}


def main() -> None:
    model, *rest = sys.argv[1:]
    rounds = int(rest[0]) if rest else 7
    for name in rest[1:] or PARTS:
        PARTS[name](Path(model), rounds)


if __name__ == "__main__":
    main()
