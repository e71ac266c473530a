"""The smallest reproductions of what was found in llama-server b11549 (docs/llama-server-findings.md), each beside its control.

    python -m benches.llama_server_findings

Every one starts the server of the `xllamacpp` wheel on a pair of `draftproof countable write --kind`, asks with plain JSON, and
compares with the exact law.
"""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

from draftproof.core.sampling import Sampling
from draftproof.countable import kinds
from draftproof.countable.answers import AnswerLaws
from draftproof.countable.files import write_pair
from draftproof.countable.incremental import Context
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option

PROMPT: Context = (1, 2, 3, 1, 2, 0, 5)
NEUTRAL: Mapping[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "samplers": ["temperature"]}
PROBABILISTIC: Mapping[str, Option] = {"speculative.draft.probabilistic": True}


def post(url: str, **body: Any) -> Any:
    """The answer of /completion. Raises OSError when the server is gone."""
    request = urllib.request.Request(
        f"{url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def answers(url: str, n: int, tokens: int, **fields: Any) -> list[tuple[int, ...]]:
    """Token ids of n answers to PROMPT, seeds 0, 1, ..., eight to a request."""
    body = {
        "prompt": list(PROMPT),
        "n_predict": tokens,
        "return_tokens": True,
        "cache_prompt": False,
        **NEUTRAL,
        **fields,
    }
    batches = (post(url, n_cmpl=8, seed=seed, **body) for seed in range(0, n, 8))
    return [tuple(a["tokens"]) for batch in batches for a in batch]


@dataclass(frozen=True, slots=True)
class Found:
    """What the server did, what it does under the control, and what it should do; in words and as a number each."""

    what: str
    broken: float
    control: float
    told: str


def _server(kind: str, folder: Path, *, draft: bool = False, **options: Option) -> LlamaWheel:
    """`draft`: speculating, with the draft model beside the target or the head in it."""
    files = folder / kind
    if not files.exists():
        write_pair(files, kind=kind)
    beside = (files / "draft.gguf").exists()
    return LlamaWheel(
        files / "target.gguf",
        draft=files / "draft.gguf" if draft and beside else None,
        types=["draft-simple" if beside else "draft-mtp"] if draft else (),
        options={**EXACT_NUMBERS, "verbosity": 1, **options},
    )


def draft_of_another_size(folder: Path) -> Found:
    """A draft with one token more passes the check of the vocabularies; the first request that meets the token ends the server."""
    died = []
    for kind in ("size", "letters"):
        with _server(kind, folder, draft=True) as server:
            try:
                for seed in range(20):
                    post(server.url, prompt=list(PROMPT), n_predict=16, seed=seed, **NEUTRAL)
                died.append(0.0)
            except (OSError, urllib.error.URLError):
                died.append(1.0)
    return Found("server died of a draft with nine tokens for a target with eight", died[0], died[1], "0 = lives")


def stale_checkpoint(folder: Path) -> Found:
    """Three requests: five tokens; others; others that begin as the second. The third is answered from the state of the first."""
    first, second, third = (3, 1, 4, 1, 5), (6, 6, 5, 2, 7, 4, 4), (6, 0, 3, 0, 0, 1, 4)
    off = []
    for asked in ((first, second, third), (second, third)):
        with _server("mamba", folder, n_parallel=1) as server:
            for prompt in asked:
                entry = post(server.url, prompt=list(prompt), n_predict=1, n_probs=8, **NEUTRAL)
            row = {a["id"]: a["logprob"] for a in entry["completion_probabilities"][0]["top_logprobs"]}
        law = kinds.pair("mamba").target(third)
        off.append(max(abs(law[i] - x) for i, x in row.items()))
    return Found("largest error of a logprob, nat", off[0], off[1], "control: without the first request")


def xtc_coin(folder: Path, n: int = 2000) -> Found:
    """XTC's coin at token 2 is the random word that drew token 1: among the answers with one first token it falls on one side."""
    fields = {"samplers": ["xtc", "temperature"], "xtc_probability": 0.5, "xtc_threshold": 0.1}
    sampling = Sampling(xtc_probability=0.5, xtc_threshold=0.1)
    with _server("letters", folder) as server:
        found = answers(server.url, n, 2, **fields)
        plain = answers(server.url, n, 2)
    return Found(
        "p-value of token 2 given token 1 against its law",
        conditional_p_value(found, sampling, "letters", 1),
        conditional_p_value(plain, Sampling(), "letters", 1),
        "control: without XTC",
    )


def mirostat_with_sampled_drafts(folder: Path, n: int = 800) -> Found:
    """Mirostat's mu follows the tokens that verification drew for itself, not the ones it emitted."""
    fields = {"mirostat": 2, "mirostat_tau": 1.5, "mirostat_eta": 0.1}
    impossible = []
    for draft in (True, False):
        laws = AnswerLaws(
            kinds.pair("letters").target_logits, PROMPT, Sampling(mirostat=2, mirostat_tau=1.5, mirostat_eta=0.1)
        )
        with _server("letters", folder, draft=draft, **PROBABILISTIC) as server:
            found = answers(server.url, n, 12, **fields)
        impossible.append(float(sum(_leaves_the_law(laws, answer) for answer in found)))
    return Found(
        f"of {n} answers hold a token that mirostat cuts off", impossible[0], impossible[1], "control: without a draft"
    )


def _leaves_the_law(laws: AnswerLaws, answer: Context) -> bool:
    for end, token in enumerate(answer):
        law, sure = laws.laws([answer[:end]])
        if not sure[0]:
            return False
        if law[0, token] == 0:
            return True
    return False


def replayed_randomness(folder: Path, n: int = 4000) -> Found:
    """A recurrent target with sampled drafts: after a rejection the block is verified again with random numbers used before.

    Each token alone follows its law; token 4 given the three before it does not.
    """
    usual = {
        "samplers": ["top_k", "top_p", "min_p", "temperature"],
        "temperature": 0.8,
        "top_k": 6,
        "top_p": 0.95,
        "min_p": 0.05,
    }
    sampling = Sampling(temperature=0.8, top_k=6, top_p=0.95, min_p=0.05)
    values = []
    for kind in ("mamba", "letters"):
        with _server(kind, folder, draft=True, **PROBABILISTIC) as server:
            found = answers(server.url, n, 8, **usual)
        values.append(conditional_p_value(found, sampling, kind, 3))
    return Found(
        "p-value of token 4 given the three before", values[0], values[1], "control: a target that can be rolled back"
    )


def head_that_remembers(folder: Path) -> Found:
    """One request four times, one slot, no prompt cache: with sampled drafts of a head the first text is another one."""
    texts = []
    for options in (PROBABILISTIC, {}):
        head: dict[str, Option] = {"speculative.draft.backend_sampling": False, "n_parallel": 1, **options}
        with _server("head", folder, draft=True, **head) as server:
            body = {"prompt": list(PROMPT), "n_predict": 16, "seed": 5, "return_tokens": True, "cache_prompt": False}
            asked = [post(server.url, **body, **NEUTRAL) for _ in range(4)]
        texts.append(float(len({tuple(a["tokens"]) for a in asked})))
    return Found("different texts of one request and seed", texts[0], texts[1], "control: drafts by greedy choice")


def pieces_without_entries(folder: Path) -> Found:
    """A token that does not end a character has no entry of its own in the logprobs; the next entry spells both."""
    shares = []
    for kind in ("bytes", "letters"):
        with _server(kind, folder) as server:
            answer = post(server.url, prompt=list(PROMPT), n_predict=64, seed=1, n_probs=2, **NEUTRAL)
        shares.append(len(answer.get("completion_probabilities", ())) / answer["tokens_predicted"])
    return Found("logprob entries per token", shares[0], shares[1], "control: tokens that are letters")


def schema_that_is_dropped(folder: Path) -> Found:
    """A JSON schema that llguidance cannot compile has no effect, and is not refused; `generation_settings` shows its grammar."""
    asks: list[dict[str, Any]] = [
        {"json_schema": {"type": "string", "format": "colour"}},
        {"grammar": "%llguidance {}\nstart: /a+/"},
    ]
    with _server("letters", folder) as server:
        plain = post(server.url, prompt=list(PROMPT), n_predict=16, seed=1, **NEUTRAL)
        same = [
            post(server.url, prompt=list(PROMPT), n_predict=16, seed=1, **NEUTRAL, **ask)["content"] == plain["content"]
            for ask in asks
        ]
    return Found("answer as without the schema (1 = yes)", same[0], same[1], "control: a grammar that compiles")


def conditional_p_value(found: list[Context], sampling: Sampling, kind: str, before: int) -> float:
    """Chi-square of the token after the first `before`, given them, against its law; cells that expect less than 5 are one."""
    laws = AnswerLaws(kinds.pair(kind).target_logits, PROMPT, sampling)
    counted: dict[Context, Counter[int]] = defaultdict(Counter)
    for answer in found:
        counted[answer[:before]][answer[before]] += 1
    statistic, freedom = 0.0, 0
    for prefix, counts in counted.items():
        (law,), _ = laws.laws([prefix])
        expected = law * sum(counts.values())
        seen = np.array([counts[token] for token in range(law.size)], dtype=float)
        large = expected >= 5
        cells = [*zip(seen[large], expected[large], strict=True), (seen[~large].sum(), expected[~large].sum())]
        cells = [(o, e) for o, e in cells if e >= 5]
        if len(cells) > 1:
            statistic += sum((o - e) ** 2 / e for o, e in cells)
            freedom += len(cells) - 1
    return float(chi2.sf(statistic, freedom))


ALL: tuple[Callable[[Path], Found], ...] = (
    draft_of_another_size,
    stale_checkpoint,
    xtc_coin,
    mirostat_with_sampled_drafts,
    replayed_randomness,
    head_that_remembers,
    pieces_without_entries,
    schema_that_is_dropped,
)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for reproduce in ALL:
            found = reproduce(Path(name))
            print(
                f"{reproduce.__name__}: {found.what}: {found.broken:.3g}; {found.control:.3g} ({found.told})",
                flush=True,
            )


if __name__ == "__main__":
    main()
