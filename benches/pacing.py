"""Whether adaptive drafting is ever slower than none: each drafter beside plain decoding, on ordinary and repetitive text.

    python benches/pacing.py MODEL.gguf [TOKENS] [ROUNDS]

One thread, processor time, in turn with plain decoding; the ratio (median) is above 1 where drafting is faster.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

from draftproof.core.sampling import Sampling
from draftproof.core.speculation import NgramLookup, NgramMod, Speculation
from draftproof.engine.backends.llama import LlamaBackend, LlamaOptions
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.draft.pace import Costs
from draftproof.engine.emit import Report
from draftproof.engine.generate import Job
from draftproof.engine.libllama import ContextOptions
from draftproof.engine.slot import Models, Order
from draftproof.engine.slots import Slots

ORDINARY = "The harbour was quiet that morning, and the captain"
REPETITIVE = (
    "A list of equal records:\n[\n" + 8 * '{"name": "lamp", "colour": "green", "price": 12.5, "tags": ["home"]},\n'
)
DRAFTERS = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache", "draft-simple")
LOOKUP = NgramLookup(size_n=4)


def speculation(name: str, *, adaptive: bool) -> Speculation:
    """Drafts that begin early, so that there is something to pace."""
    return Speculation(
        (name,),
        adaptive=adaptive,
        strict=True,
        ngram_simple=LOOKUP,
        ngram_map_k=LOOKUP,
        ngram_map_k4v=LOOKUP,
        ngram_mod=NgramMod(n_match=4, n_min=0),
    )


def spent(slots: Slots, job: Job, asked: Speculation) -> tuple[float, int, int]:
    """Milliseconds for each token after the prompt; how many tokens were drafted and accepted."""
    run = slots.start(Order(job, asked))
    while run.read_s is None:
        slots.step()
    start, before = time.thread_time(), run.generation.counters.emitted
    while slots.runs:
        slots.step()
    counters = run.generation.counters
    return 1e3 * (time.thread_time() - start) / (counters.emitted - before), counters.drafted, counters.accepted


def main(path: Path, tokens: int, rounds: int) -> None:
    options = LlamaOptions(context=ContextOptions(tokens=2048, outputs=64))
    target, draft = LlamaBackend(path, options), LlamaBackend(path, options)
    costs = Costs(target.row_costs, draft.row_costs.of(1))
    print("ms of 1, 2, .. rows:", *(f"{1e3 * s:.1f}" for s in costs.target.rows))
    print("| text | drafter | drafts | plain / drafting | drafted | accepted |\n|---|---|---|---|---|---|")
    pool = NgramPool()
    slots = Slots(Models(target, draft, pool, lambda: costs), 1)
    for text, prompt, sampling in (
        ("ordinary", ORDINARY, Sampling(temperature=0.8, top_k=40)),
        ("repetitive", REPETITIVE, Sampling(temperature=0)),
    ):
        for name in DRAFTERS:
            for adaptive in (True, False):
                ratios, drafted, accepted = [], 0, 0
                for seed in range(rounds):
                    words = tuple(target.model.vocab.tokenize(prompt))
                    job = Job(words, tokens, sampling, seed, ignore_eog=True, report=Report(10))
                    plain, _, _ = spent(slots, job, Speculation())
                    pool.clear()  # or it knows this very answer
                    ms, d, a = spent(slots, job, speculation(name, adaptive=adaptive))
                    ratios.append(plain / ms)
                    drafted, accepted = drafted + d, accepted + a
                how = "adaptive" if adaptive else "fixed"
                print(f"| {text} | {name} | {how} | {median(ratios):.2f} | {drafted} | {accepted} |", flush=True)


if __name__ == "__main__":
    numbers = [int(n) for n in sys.argv[2:]]
    main(Path(sys.argv[1]), *(numbers + [96, 3][len(numbers) :]))
