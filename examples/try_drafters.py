"""Which drafter pays for your prompts? Asks a running `draftproof serve` the same with each and prints a line for each.

python examples/try_drafters.py http://127.0.0.1:8080 prompts.txt

prompts.txt has a prompt in each line. The drafters take turns at each prompt, so that a busy moment hurts them all. A speed of 1 is
that of no drafts.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

DRAFTERS = ("none", "draft-simple", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
TOKENS = 128


def ask(url: str, prompt: str, drafter: str) -> dict[str, Any]:
    """An answer by one drafter, "none" for none, with the time that its tokens took."""
    body = {"prompt": prompt, "n_predict": TOKENS, "temperature": 0.8, "seed": 1, "n_probs": 5}
    body["speculative"] = False if drafter == "none" else {"type": drafter}
    request = urllib.request.Request(
        f"{url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def main(url: str, prompts: Sequence[str]) -> None:
    """Prints speed, accepted drafts and the server's reasons, for each drafter."""
    answers: dict[str, list[dict[str, Any]]] = {drafter: [] for drafter in DRAFTERS}
    for prompt in prompts:
        for drafter in DRAFTERS:
            answers[drafter].append(ask(url, prompt, drafter))
    plain = [answer["timings"]["predicted_per_second"] for answer in answers["none"]]
    for drafter, found in answers.items():
        ratios = [a["timings"]["predicted_per_second"] / p for a, p in zip(found, plain, strict=True) if p]
        told = [answer["speculation"] for answer in found]
        drafted, accepted = (sum(s[name] for s in told) for name in ("drafted", "accepted"))
        reason = next((s["reason"] for s in told if s["reason"]), "")
        speed = f"{median(ratios):.2f}" if ratios else "?"
        sys.stdout.write(f"{drafter:<14} speed {speed}  accepted {accepted} of {drafted}  {reason}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8").split("\n")[:-1])
