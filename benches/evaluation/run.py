"""lm-evaluation-harness, as it is published, against draftproof serve and llama-server, with and without speculation.

    python -m benches.evaluation.run MODEL.gguf --lm-eval PATH/TO/lm_eval [--json FILE]

`pip install "lm-eval[api]" transformers` brings lm_eval, best into a virtual environment of its own; no torch is needed. The
model drafts for itself, so that nearly every token is drafted. Two tasks, both here: `choices` sums the logprobs of given
answers, `copying` generates. Beside them: the mean logprob of 20 greedy answers as the server reports it, a usual measure of
confidence. llama-server comes from the `xllamacpp` wheel.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benches.evaluation.tokenizer import write_tokenizer

from draftproof.launch.llama_wheel import LlamaWheel, Option

HERE = Path(__file__).parent
TASKS = ("choices", "copying")
CONTEXT = 2048
ANSWER_TOKENS = 16
WHEEL: Mapping[str, Option] = {"n_ctx": CONTEXT, "n_parallel": 1}
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass
class Row:
    """What came of one server. `scores` by task and metric; a task that broke has its last words instead."""

    server: str
    scores: dict[str, dict[str, float] | str] = field(default_factory=dict)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    mean_logprob: float = 0.0


@contextmanager
def ours(model: Path, *flags: str) -> Iterator[str]:
    command = [sys.executable, "-m", "draftproof", "serve", "-m", str(model), "-c", str(CONTEXT), "--port", "0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("draftproof serves "):
                yield line.split()[-1]
                return
        raise SystemExit("draftproof serve did not start")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def theirs(model: Path, *types: str) -> Iterator[str]:
    with LlamaWheel(model, draft=model if types else None, types=types, options=WHEEL) as server:
        yield server.url


def servers(model: Path) -> dict[str, Callable[[], AbstractContextManager[str]]]:
    fixed, lookup = "--no-spec-adaptive", ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4")
    return {
        "draftproof serve, no speculation": lambda: ours(model),
        "draftproof serve, draft model": lambda: ours(model, "-md", str(model), fixed),
        "draftproof serve, ngram-simple": lambda: ours(model, *lookup, fixed),
        "llama-server, no speculation": lambda: theirs(model),
        "llama-server, draft model": lambda: theirs(model, "draft-simple"),
    }


def evaluate(lm_eval: Path, url: str, task: str, tokenizer: str, out: Path) -> tuple[dict[str, float] | str, list[Any]]:
    """Scores and answers of one task."""
    arguments = f"model=served,base_url={url}/v1/completions,num_concurrent=1,max_retries=1,{tokenizer}"
    command = [str(lm_eval), "run", "--model", "local-completions", "--model_args", arguments]
    command += ["--tasks", f"draftproof_{task}", "--include_path", ".", "--log_samples", "--output_path", str(out)]
    environment = {**os.environ, **OFFLINE, "HF_HOME": str(out.parent / "cache")}
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    found = sorted(out.rglob("results_*.json"))
    if not found:
        lines = [line for line in done.stderr.splitlines() if "Error" in line] or ["no reason given"]
        return lines[-1].strip(), []
    scores = json.loads(found[-1].read_text())["results"][f"draftproof_{task}"]
    samples = [json.loads(line) for line in next(out.rglob("samples_*.jsonl")).read_text().splitlines()]
    answers = [sample["resps"] for sample in sorted(samples, key=lambda sample: sample["doc_id"])]
    return {
        name.split(",")[0]: value for name, value in scores.items() if name.endswith(",none") and "err" not in name
    }, answers


def mean_logprob(url: str) -> float:
    """Of 20 greedy answers, as the server reports it."""
    reported: list[float] = []
    for line in (HERE / "choices.jsonl").read_text().splitlines():
        prompt = f"Question: {json.loads(line)['question']}\nAnswer:"
        body = {"prompt": prompt, "max_tokens": ANSWER_TOKENS, "temperature": 0, "logprobs": 1}
        request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request) as answer:
            content = json.load(answer)["choices"][0]["logprobs"]["content"]
        reported += [entry["logprob"] for entry in content]
    return sum(reported) / len(reported)


def measure(name: str, url: str, lm_eval: Path, tokenizer: str, work: Path) -> Row:
    row = Row(name, mean_logprob=mean_logprob(url))
    for task in TASKS:
        row.scores[task], row.answers[task] = evaluate(lm_eval, url, task, tokenizer, work / f"{name}-{task}")
    return row


def shown(row: Row) -> str:
    def cell(task: str, metric: str) -> str:
        scores = row.scores[task]
        return f"{scores[metric]:.2f}" if isinstance(scores, dict) else "none"

    cells = [cell("choices", "acc"), cell("choices", "acc_norm"), cell("copying", "exact_match")]
    return f"| {row.server} | {' | '.join(cells)} | {row.mean_logprob:.3f} |"


def largest_difference(one: Row, other: Row) -> float:
    """Between the logprobs of the answers to choose from."""
    pairs = zip(one.answers["choices"], other.answers["choices"], strict=True)
    sums = [(a[0][0], b[0][0]) for left, right in pairs for a, b in zip(left, right, strict=True)]
    return max(abs(float(a) - float(b)) for a, b in sums)


def report(rows: list[Row]) -> None:
    print("| server | choices: acc | acc_norm | copying: exact_match | mean logprob of greedy answers |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        print(shown(row))
    plain = rows[0]
    for row in rows[1:]:
        for task, scores in row.scores.items():
            if isinstance(scores, str):
                print(f"{row.server}, {task}: {scores}")
        if isinstance(row.scores["choices"], dict):
            same = row.answers["copying"] == plain.answers["copying"]
            print(
                f"{row.server}: logprobs of answers within {largest_difference(plain, row):.1e} nat of those without",
                end="",
            )
            print(f" speculation, generated texts {'the same' if same else 'not the same'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("--lm-eval", type=Path, default=Path(sys.executable).with_name("lm_eval"))
    parser.add_argument("--json", type=Path, help="Write all scores and answers there.")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        files = write_tokenizer(asked.model, work / "tokenizer")
        for name, start in servers(asked.model.resolve()).items():
            # ours tokenizes for its clients; llama-server has no route for it that lm_eval knows
            tokenizer = "tokenizer_backend=remote" if name.startswith("draftproof") else f"tokenizer={files}"
            with start() as url:
                rows.append(measure(name, url, asked.lm_eval.resolve(), tokenizer, work))
            print(f"{name}: done", file=sys.stderr)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    report(rows)


if __name__ == "__main__":
    main()
