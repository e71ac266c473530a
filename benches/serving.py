"""draftproof serve beside llama-server: same file, as many threads, the same requests in turn.

    python benches/serving.py MODEL.gguf [ROUNDS [THREADS [PART ..]]]

8 rounds with 1 thread unless told otherwise. Parts: start, plain, draft, ngram, deep, long, slots; all where none is named.

llama-server comes from the `xllamacpp` wheel. Every answer of ours carries 10 alternatives for each token, those of
llama-server none. Ratios are medians over rounds of llama-server's time over ours, for as many tokens: by the clock, and by
each server's processor, which is the one to read where other work goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from draftproof.launch.llama_wheel import LlamaWheel, Option

TOKENS = 128
SLOTS = (2, 4, 8)
ORDINARY = (
    "The harbour was quiet that morning, and the captain",
    "In the second year of the drought the farmers of the valley",
    "A good explanation of how a lock works begins with",
    "She opened the letter, read the first line, and",
)
RECORD = '{"name": "lamp", "colour": "green", "in_stock": true, "price": 12.5, "tags": ["home", "light"]},\n'
REPETITIVE = "A list of equal records:\n[\n" + 8 * RECORD
DEEP = "A list of equal records:\n[\n" + 32 * RECORD
LONG = " ".join(f"Entry {i}: the {ORDINARY[i % 4][4:]} left at {i * 7 % 24} o'clock." for i in range(110))
PLAIN: Mapping[str, Any] = {"temperature": 0.8, "speculative": False}
_MAIN = "from draftproof.cli.main import main; main()"


class Spent(NamedTuple):
    """Time by the clock, which tokens per second come from, and of the server's processor, which other work disturbs less."""

    wall: float
    processor: float

    def since(self, start: Spent) -> Spent:
        return Spent(self.wall - start.wall, self.processor - start.processor)

    def per_token_ms(self, tokens: int) -> Spent:
        """From seconds for so many tokens."""
        return Spent(1e3 * self.wall / tokens, 1e3 * self.processor / tokens)


@dataclass
class Side:
    """A running server. Times are in seconds."""

    url: str
    pid: int
    ours: bool

    def busy_s(self) -> float:
        return time.clock_gettime(~self.pid << 3 | 2)  # Linux: the clock that counts all threads of a process

    def resident_mb(self) -> float:
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("Rss:"))) / 1024

    def ask(self, prompt: str, **fields: Any) -> dict[str, Any]:
        """One answer of /completion. Ours is asked for 10 alternatives, llama-server is spared what it does not know."""
        body = {"prompt": prompt, "n_predict": TOKENS, "ignore_eos": True, "cache_prompt": False, **fields}
        body = body | {"n_probs": 10} if self.ours else {k: v for k, v in body.items() if k != "speculative"}
        asked = urllib.request.Request(
            f"{self.url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked, timeout=600) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def spent(self) -> Spent:
        return Spent(time.perf_counter(), self.busy_s())

    def per_token_ms(self, prompt: str, **fields: Any) -> tuple[Spent, dict[str, Any]]:
        """Milliseconds of each token but the first, and the answer: those of a whole one less those of one token."""
        short = fields | {"n_predict": 1, "speculative": False}
        self.ask(prompt, **short, cache_prompt=True)
        start = self.spent()
        self.ask(prompt, **short, cache_prompt=True)
        middle = self.spent()
        answer = self.ask(prompt, **fields, cache_prompt=True)
        spent = self.spent().since(middle).since(middle.since(start))
        return spent.per_token_ms(answer["tokens_predicted"] - 1), answer


class Ours:
    """`draftproof serve` in a process of its own."""

    def __init__(self, *flags: str, threads: int) -> None:
        command = [sys.executable, "-c", _MAIN, "serve", "--port", "0", "-t", str(threads), *flags]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self) -> Side:
        assert self._process.stdout is not None
        return Side(self._process.stdout.readline().split()[-1], self._process.pid, ours=True)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


class Theirs:
    """llama-server with the settings of its command line, and as many slots as ours."""

    def __init__(
        self, model: Path, *, threads: int, slots: int = 1, draft: Path | None = None, types: tuple[str, ...] = ()
    ) -> None:
        options: dict[str, Option] = {"n_parallel": slots, "n_ctx": 4096 * slots, "warmup": True}
        options["cpuparams.n_threads"] = options["cpuparams_batch.n_threads"] = threads
        if draft is not None:
            options["speculative.draft.cpuparams.n_threads"] = threads
        self._wheel = LlamaWheel(model, draft=draft, types=types, options=options)

    def __enter__(self) -> Side:
        self._wheel.start()
        return Side(self._wheel.url, self._wheel.pid, ours=False)

    def __exit__(self, *_: object) -> None:
        self._wheel.stop()


def row(name: str, target: str, pairs: list[tuple[float, float]], unit: str, note: str = "") -> None:
    """One line of the table. pairs: (theirs, ours); the ratio is above 1 where ours is better."""
    theirs, ours = (median(values) for values in zip(*pairs, strict=True))
    print(f"| {name} | {theirs:.2f} | {ours:.2f} | {unit} | **{ratio(pairs):.2f}** | {target} | {note} |", flush=True)


def ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return median(a / b for a, b in pairs)


def speed_row(name: str, target: str, pairs: Sequence[tuple[Spent, Spent]], note: str = "") -> None:
    """Tokens per second: the ratio by the clock, and in the note that of the processors."""
    by_processor = ratio([(a.processor, b.processor) for a, b in pairs])
    note = "; ".join(filter(None, (f"processor {by_processor:.2f}", note)))
    row(name, target, [(a.wall, b.wall) for a, b in pairs], "ms/token", note)


def compare(
    theirs: Side, ours: Side, prompts: tuple[str, ...], rounds: int, fields: Mapping[str, Any]
) -> tuple[list[tuple[Spent, Spent]], str]:
    """Pairs of milliseconds for each token, the servers taking turns; and what ours drafted."""
    pairs, drafted, accepted = [], 0, 0
    for i in range(rounds):
        prompt = prompts[i % len(prompts)]
        a, _ = theirs.per_token_ms(prompt, seed=i, **fields)
        b, answer = ours.per_token_ms(prompt, seed=i, **fields)
        pairs.append((a, b))
        drafted += answer["speculation"]["drafted"]
        accepted += answer["speculation"]["accepted"]
    return pairs, f"accepted {accepted} of {drafted}" if drafted else ""


def plain(model: Path, rounds: int, threads: int) -> None:
    """Sampled text without speculation, and greedy text."""
    with Theirs(model, threads=threads) as theirs, Ours("-m", str(model), threads=threads) as ours:
        for name, temperature in (("no speculation", 0.8), ("the same, greedy", 0)):
            fields = {**PLAIN, "temperature": temperature}
            speed_row(name, ">= 0.97", compare(theirs, ours, ORDINARY, rounds, fields)[0])


def draft_model(model: Path, rounds: int, threads: int) -> None:
    """The model drafts for itself: whole acceptance, at the price of a token for each draft token."""
    fixed = {"type": "draft-simple", "adaptive": False}
    with (
        Theirs(model, threads=threads, draft=model, types=("draft-simple",)) as theirs,
        Ours("-m", str(model), "-md", str(model), threads=threads) as ours,
    ):
        for name, target, asked in (
            ("draft model (itself), adaptive", ">= 1.1", {}),
            ("the same, drafts of 3 always", ">= 1.1", {"speculative": fixed}),
        ):
            pairs, note = compare(theirs, ours, ORDINARY, rounds, {"temperature": 0.8, **asked})
            speed_row(name, target, pairs, note)


def lookup(model: Path, rounds: int, threads: int, prompt: str, name: str) -> None:
    """ngram-simple on a text, greedy: beside llama-server with ngram-simple, and beside llama-server without.

    fixed: drafts as long as they may be, as llama-server's are. relaxed: 63 tokens, whose 64 rows libllama reads with a faster
    kernel that does not give bit for bit the numbers of single rows.
    """
    adaptive = {"type": "ngram-simple"}
    fixed = adaptive | {"adaptive": False}
    relaxed = fixed | {"strict": False}
    with (
        Theirs(model, threads=threads) as plain_,
        Theirs(model, threads=threads, types=("ngram-simple",)) as theirs,
        Ours("-m", str(model), threads=threads) as ours,
        Ours("-m", str(model), "--spec-ngram-simple-size-m", "63", threads=threads) as longer,
    ):
        ours.ask(
            prompt, n_predict=2, temperature=0, speculative=adaptive
        )  # measures what rows cost, once for each server
        for title, target, a, b, asked in (
            (f"ngram-simple, {name}", ">= 1.0", theirs, ours, adaptive),
            ("the same, fixed", ">= 1.0", theirs, ours, fixed),
            (f"ours ngram-simple, theirs plain, {name}", ">= 2", plain_, ours, adaptive),
            ("the same, fixed", ">= 2", plain_, ours, fixed),
            ("the same, fixed and relaxed", ">= 2", plain_, longer, relaxed),
        ):
            pairs, note = compare(a, b, (prompt,), rounds, {"temperature": 0, "speculative": asked})
            speed_row(title, target, pairs, note)


def long_prompt(model: Path, rounds: int, threads: int) -> None:
    """The first token of a prompt of 2000 tokens, and what memory the servers hold after it."""
    with Theirs(model, threads=threads) as theirs, Ours("-m", str(model), threads=threads) as ours:
        pairs = [(first_token(theirs, i), first_token(ours, i)) for i in range(rounds)]
        row("first token of a long prompt, processor", ">= 0.91", [(a.processor, b.processor) for a, b in pairs], "s")
        row("first token of a long prompt, wall", ">= 0.91", [(a.wall, b.wall) for a, b in pairs], "s")
        memory = [(theirs.resident_mb(), ours.resident_mb())]
        row("memory after it", "+150 at most", memory, "MB", f"{memory[0][1] - memory[0][0]:+.0f} MB")


def first_token(side: Side, i: int) -> Spent:
    """Seconds until the first token after a prompt that was never seen."""
    before = side.spent()
    side.ask(f"{i} {LONG}", n_predict=1, temperature=0, speculative=False)
    return side.spent().since(before)


def many_slots(model: Path, rounds: int, threads: int) -> None:
    """As many answers at once as there are slots."""

    def batch(side: Side, slots: int) -> Spent:
        before = side.spent()
        with ThreadPoolExecutor(slots) as pool:
            answers = list(pool.map(lambda i: side.ask(ORDINARY[i % 4], seed=i, **PLAIN), range(slots)))
        tokens: int = sum(answer["tokens_predicted"] for answer in answers)
        return side.spent().since(before).per_token_ms(tokens)

    for slots in SLOTS:
        with (
            Theirs(model, threads=threads, slots=slots) as theirs,
            Ours("-m", str(model), "-np", str(slots), threads=threads) as ours,
        ):
            pairs = [(batch(theirs, slots), batch(ours, slots)) for _ in range(rounds)]
        speed_row(f"{slots} slots", ">= 0.95", pairs)


def start_up(model: Path, rounds: int, threads: int) -> None:
    """From the start of the process until the address is told, and until a token of a short prompt is there."""

    def timed(make: Callable[[], Ours | Theirs]) -> tuple[float, float, float]:
        start = time.perf_counter()
        with make() as side:
            wall_s, busy_s = time.perf_counter() - start, side.busy_s()
            side.ask(ORDINARY[0], n_predict=1, **PLAIN)
            return wall_s, busy_s, side.busy_s()

    pairs = [
        (timed(lambda: Theirs(model, threads=threads)), timed(lambda: Ours("-m", str(model), threads=threads)))
        for _ in range(rounds)
    ]
    for i, name in enumerate(("wall", "processor", "and the first answer, processor")):
        row(f"start-up, {name}", ">= 0.67", [(a[i], b[i]) for a, b in pairs], "s")


PARTS: Mapping[str, Callable[[Path, int, int], None]] = {
    "start": start_up,
    "plain": plain,
    "draft": draft_model,
    "ngram": lambda model, rounds, threads: lookup(model, rounds, threads, REPETITIVE, "repetitive"),
    "deep": lambda model, rounds, threads: lookup(model, rounds, threads, DEEP, "repetitive, after 1300 tokens"),
    "long": long_prompt,
    "slots": many_slots,
}


def main(model: Path, rounds: int, threads: int, parts: Sequence[str]) -> None:
    print("| | llama-server | ours | | ratio | target | |\n|---|---|---|---|---|---|---|")
    for part in parts:
        PARTS[part](model, rounds, threads)


if __name__ == "__main__":
    rounds, threads = map(int, (*sys.argv[2:4], *("8", "1")[len(sys.argv[2:4]) :]))
    main(Path(sys.argv[1]), rounds, threads, sys.argv[4:] or list(PARTS))
