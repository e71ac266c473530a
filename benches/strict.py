"""Whether greedy answers with speculation are those without, token for token, under the strict settings.

    python benches/strict.py MODEL.gguf [PROMPTS] [TOKENS] [DRAFTERS]

DRAFTERS by commas: ngram-simple, ngram-cache, draft-simple (the model drafts for itself). Drafts are as long as the measured
exact rows allow, whether they pay or not. Ends with 1 when an answer differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from draftproof.core.sampling import GREEDY
from draftproof.core.speculation import DraftModel, NgramLookup, Speculation
from draftproof.engine.backends.llama import LlamaBackend, LlamaOptions
from draftproof.engine.draft.kind import Setup
from draftproof.engine.generate import Counters, Generation, Job
from draftproof.engine.in_step import run_alone
from draftproof.engine.libllama import ContextOptions
from draftproof.engine.speculate import make_plan

WHO = (
    "A sailor",
    "My neighbour",
    "The old clock",
    "A bridge",
    "The committee",
    "Water",
    "A young dog",
    "The library",
    "Rust",
    "Light",
)
WHAT = (
    "is described in three short sentences:",
    "said again and again: tomorrow, tomorrow,",
    "was counted: one, two, three, four,",
    "needs the following things:\n1.",
    'has this record: {"name": "',
    "is not what it seems, because",
    "in Python:\ndef describe(",
    "was late. Question: why? Answer:",
    "met an old friend in the street and",
    "in a table:\n| name | value |\n| --- | --- |\n|",
)


def answer(
    target: LlamaBackend, job: Job, draft: LlamaBackend | None, speculation: Speculation
) -> tuple[list[int], Counters]:
    """Its tokens, and what was drafted for it."""
    plan = make_plan(Setup(target, speculation, job.sampling, draft=draft))
    sequence = target.sequence()
    generation = Generation(target, sequence, job, drafter=plan.drafter, rule=plan.rule, n_max=plan.n_max)
    while not generation.finish:
        feed = run_alone(generation.feed())
        generation.take(sequence.extend(feed.tokens, feed.rows))
    plan.drafter.close()
    sequence.close()
    return generation.context[len(job.prompt) :], generation.counters


def speculations(names: list[str]) -> dict[str, Speculation]:
    lookup = NgramLookup(size_n=2)
    return {
        name: Speculation((name,), adaptive=False, strict=True, ngram_simple=lookup, draft=DraftModel(n_max=7))
        for name in names
    }


def main(path: Path, prompts: int, tokens: int, drafters: list[str]) -> int:
    options = LlamaOptions(context=ContextOptions(tokens=1024, outputs=64))
    target = LlamaBackend(path, options)
    draft = LlamaBackend(path, options) if "draft-simple" in drafters else None
    print(f"{target.model.description}: up to {target.max_rows_exact} rows are exact")
    texts = [f"{who} {what}" for what in WHAT for who in WHO][:prompts]
    equal, drafted, accepted = dict.fromkeys(drafters, 0), dict.fromkeys(drafters, 0), dict.fromkeys(drafters, 0)
    for text in texts:
        job = Job(tuple(target.model.vocab.tokenize(text)), tokens, GREEDY, ignore_eog=True)
        plain, _ = answer(target, job, None, Speculation())
        for name, speculation in speculations(drafters).items():
            found, counters = answer(target, job, draft, speculation)
            equal[name] += found == plain
            drafted[name] += counters.drafted
            accepted[name] += counters.accepted
    for name in drafters:
        print(
            f"{name:14} {equal[name]} of {len(texts)} answers of {tokens} tokens equal, "
            f"{accepted[name]} of {drafted[name]} drafted tokens accepted"
        )
    return int(min(equal.values()) < len(texts))


if __name__ == "__main__":
    arguments = dict(enumerate(sys.argv))
    sys.exit(
        main(
            Path(sys.argv[1]),
            int(arguments.get(2, 100)),
            int(arguments.get(3, 128)),
            arguments.get(4, "ngram-simple,draft-simple").split(","),
        )
    )
