"""False alarms: whole audits of an honest server with different seeds, on the real llama-server without a draft.

python -m benches.clean_audits 200
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from draftproof.auditing import AuditConfig, audit
from draftproof.core.verdict import Verdict
from draftproof.countable.files import write_pair
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel
from draftproof.stats.intervals import clopper_pearson_upper


def main(audits: int) -> None:
    verdicts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        target, *_ = write_pair(Path(name))
        began = time.monotonic()
        with LlamaWheel(target, options=EXACT_NUMBERS) as server:
            for seed in range(1, audits + 1):
                out = Path(name) / f"{seed}.jsonl.gz"
                report = audit(AuditConfig(server.url, seed=seed * 1_000_003, out=out))
                out.unlink()
                for outcome in report.outcomes:
                    verdicts.setdefault(outcome.check, Counter())[str(outcome.judgement.verdict)] += 1
                    if outcome.judgement.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE):
                        print(f"seed {seed * 1_000_003}: {outcome.check}: {outcome.judgement.summary}")
        elapsed = time.monotonic() - began
    failures = sum(counts[str(Verdict.FAIL)] for counts in verdicts.values())
    checks = sum(sum(counts.values()) for counts in verdicts.values())
    upper = float(clopper_pearson_upper(min(failures, audits), audits, 0.05))
    for check, counts in verdicts.items():
        print(f"{check:36}", ", ".join(f"{verdict} {n}" for verdict, n in sorted(counts.items())))
    print(
        f"{failures} of {checks} checks in {audits} audits failed; share of audits that fail at most {upper:.2%} (95 %)"
    )
    print(f"{elapsed / audits:.2f} s per audit")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
