"""How many requests the e-process needs to find each named fault, and whether it names the right one.

    python benches/sequential.py [--target T.gguf --draft D.gguf] [--runs N] [--faults NAME,NAME ...] [--clean AUDITS]

Every fault is simulated exactly on the countable pair: 16 tokens a request, the first not speculated and not counted, three
tokens drafted at a time. Per fault: mean total variation and KL (nats) per token of its law from the target's; requests to
detection at alpha 1e-3 and 1e-6, median and 95th percentile; the same at 1e-6 with the rule taken out of the library; share
of runs in which the rule that leads at detection (1e-6) is the right one. Then clean audits that raise an alarm at 1e-3.
Seeded; takes about twenty minutes on two cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from pathlib import Path

import numpy as np

from draftproof.core.probe import KnownModel
from draftproof.countable import story
from draftproof.countable.oracle import CountablePair
from draftproof.countable.simulate import Server, observed, simulate
from draftproof.stats.faults import FAULTS, SOUND, Rule
from draftproof.stats.planning import divergence, tokens_to_detect
from draftproof.stats.sequential import EProcess, parallel_log_e, select
from draftproof.stats.verification import Step

TOKENS = 16
MOST_REQUESTS = 500
SAME_LAW = {"draft_top_softmax": "draft_top_index_residual", "draft_top_index_residual": "draft_top_softmax"}
"""Rules that coincide while neither law is truncated: held out together, and either name is right."""


@dataclass(frozen=True)
class Runs:
    """Requests to detection per run (infinite: not within the limit) and the rule that led then."""

    at_thousandth: list[float]
    at_millionth: list[float]
    leaders: list[str]


def one_run(server: Server, batch: int, faults: Sequence[Rule], rng: np.random.Generator) -> tuple[float, float, str]:
    """Requests to 1e-3 and to 1e-6, and the leader then; requests are simulated `batch` at a time and looked at one by one."""
    process = EProcess(server.model.vocabulary, draft_known=True, faults=faults)
    per_request, thousandth = TOKENS - 1, float("inf")
    for done in range(0, MOST_REQUESTS, batch):
        rows = observed(server, simulate(server, batch, TOKENS, rng), lookahead=server.rule.p_min > 0)
        for request in range(batch):
            part = select(rows, slice(request * per_request, (request + 1) * per_request))
            process.observe_many(part.p, part.x, q=part.q, next_top=part.next_top, contexts=part.contexts)
            if process.max_log_e >= log(1e3):
                thousandth = min(thousandth, done + request + 1)
            if process.max_log_e >= log(1e6):
                return thousandth, done + request + 1, process.leading(1)[0].name
    return thousandth, float("inf"), ""


def detect(server: Server, runs: int, batch: int, faults: Sequence[Rule], rng: np.random.Generator) -> Runs:
    out = Runs([], [], [])
    for _ in range(runs):
        thousandth, millionth, leader = one_run(server, batch, faults, rng)
        out.at_thousandth.append(thousandth)
        out.at_millionth.append(millionth)
        out.leaders.append(leader)
    return out


def strength(server: Server, rng: np.random.Generator) -> tuple[float, float]:
    """Mean total variation and KL per token of the rule's law, over contexts that the server visits."""
    rows = observed(server, simulate(server, 200, TOKENS, rng), lookahead=server.rule.p_min > 0)
    assert rows.q is not None
    law = server.rule.law(Step(rows.p, rows.q, rows.next_top))
    return float(0.5 * np.abs(law - rows.p).sum(axis=1).mean()), divergence(law, rows.p)


def quantiles(requests: list[float]) -> str:
    median, high = (np.quantile(requests, level, method="higher") for level in (0.5, 0.95))
    return f"{median:.0f}/{high:.0f}".replace("inf", f">{MOST_REQUESTS}")


def report(server: Server, runs: int, seed: int) -> str:
    label, rng = server.rule.name, np.random.default_rng(seed)
    tv, kl = strength(server, rng)
    planned = tokens_to_detect(kl, 1e-6) / (TOKENS - 1)
    if planned > 150:
        return f"{label:28s} {tv:5.3f} {kl:8.5f}   about {planned:.0f} requests at 1e-6 from KL, not simulated"
    batch = ceil(planned)
    runs = runs if planned < 20 else max(runs // 4, 20)
    known = detect(server, runs, batch, FAULTS, rng)
    same = {server.rule.name, SAME_LAW.get(server.rule.name, "")}
    held_out = detect(server, runs, batch, [f for f in FAULTS if f.name not in same], rng)
    right = np.mean([leader in same for leader in known.leaders])
    return (
        f"{label:28s} {tv:5.3f} {kl:8.5f} {quantiles(known.at_thousandth):>9s} {quantiles(known.at_millionth):>9s} "
        f"{quantiles(held_out.at_millionth):>11s} {right:6.0%}"
    )


def clean_alarms(pair: Callable[[], KnownModel], prompt: tuple[int, ...], audits: int, requests: int, seed: int) -> int:
    """Audits of an exact server whose E ever reaches 1000, watched after every token."""
    rng = np.random.default_rng(seed)
    alarms, batch = 0, 500
    for start in range(0, audits, batch):
        n = min(batch, audits - start)
        server = Server(pair(), prompt, SOUND[start // batch % 2])
        rows = observed(server, simulate(server, n * requests, TOKENS, rng))
        streams = np.repeat(np.arange(n), requests * (TOKENS - 1))
        log_e = parallel_log_e(replace(rows, streams=streams), draft_known=True)
        alarms += int((log_e.reshape(n, -1).max(axis=1) >= log(1e3)).sum())
    return alarms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--faults", default="")
    parser.add_argument("--clean", type=int, default=10_000)
    options = parser.parse_args()

    def pair() -> CountablePair:
        """A new one for each fault, because a model keeps every context that it has seen."""
        return CountablePair(options.target, options.draft) if options.target else story.build()

    prompt = story.ids(story.PROMPT)
    print(f"{'fault':28s} {'TV':>5s} {'KL':>8s} {'1e-3':>9s} {'1e-6':>9s} {'held out':>11s} {'named':>6s}")
    wanted = options.faults.split(",") if options.faults else [f.name for f in FAULTS]
    for number, rule in enumerate(f for f in FAULTS if f.name in wanted):
        print(report(Server(pair(), prompt, rule), options.runs, number), flush=True)
    if options.clean:
        alarms = clean_alarms(pair, prompt, options.clean, 10, 1)
        print(f"clean audits of 10 requests with an alarm at 1e-3: {alarms} of {options.clean} (at most 22 expected)")


if __name__ == "__main__":
    main()
