"""False alarms: whole quick audits of honest servers, each with a seed of its own.

    python -m benches.clean_audits [AUDITS] [SECONDS]

In turns the real llama-server without a draft and every honest server of `draftproof.liars`, most of which speculate: half of the
audits are of llama-server. Ends at AUDITS, or after SECONDS with the audit that is running. Whatever fails is a false alarm.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

from draftproof.auditing import AuditConfig, audit
from draftproof.core.verdict import Verdict
from draftproof.countable.files import write_pair
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel
from draftproof.liars import HONEST
from draftproof.liars.hosting import hosted
from draftproof.stats.intervals import clopper_pearson_upper

LLAMA = "llama-server without a draft"
QUIET = (Verdict.PASS, Verdict.NOT_APPLICABLE)


@contextmanager
def servers(folder: Path) -> Iterator[list[tuple[str, str]]]:
    """(name, URL) of all servers, every other one llama-server."""
    target, *_ = write_pair(folder)
    with ExitStack() as stack:
        llama = stack.enter_context(LlamaWheel(target, options=EXACT_NUMBERS))
        own = [(server.name, stack.enter_context(hosted(server))) for server in HONEST]
        yield [turn for one in own for turn in ((LLAMA, llama.url), one)]


def main(audits: int, seconds: float) -> None:
    verdicts: dict[str, Counter[str]] = {}
    done: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name, servers(Path(name)) as turns:
        began = time.monotonic()
        for number, (server, url) in zip(range(1, audits + 1), cycle(turns), strict=False):
            seed, out = number * 1_000_003 % 2**31, Path(name) / f"{number}.jsonl.gz"
            report = audit(AuditConfig(url, seed=seed, out=out))
            out.unlink()
            said = {outcome.check: outcome.judgement for outcome in report.outcomes}
            done[server] += 1
            failed[server] += any(judgement.verdict is Verdict.FAIL for judgement in said.values())
            for check, judgement in said.items():
                verdicts.setdefault(check, Counter())[str(judgement.verdict)] += 1
                if judgement.verdict not in QUIET:
                    print(f"{server}, seed {seed}: {check}: {judgement.verdict}: {judgement.summary}", flush=True)
            if time.monotonic() - began > seconds:
                break
        elapsed = time.monotonic() - began
    for check, counts in verdicts.items():
        print(f"{check:36}", ", ".join(f"{verdict} {n}" for verdict, n in sorted(counts.items())))
    kinds = {"llama-server": done[LLAMA], "honest servers of our own": done.total() - done[LLAMA], "all": done.total()}
    alarms = {"llama-server": failed[LLAMA], "honest servers of our own": failed.total() - failed[LLAMA]}
    alarms["all"] = failed.total()
    for kind, n in kinds.items():
        upper = float(clopper_pearson_upper(alarms[kind], n, 0.05))
        print(f"{kind}: {alarms[kind]} of {n} audits failed; the share that fails is at most {upper:.2%} (95 %)")
    judged = sum(n for counts in verdicts.values() for verdict, n in counts.items() if verdict != "not_applicable")
    print(f"{judged} judgements, {elapsed:.0f} s, {elapsed / done.total():.1f} s per audit")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 26, float(sys.argv[2]) if len(sys.argv) > 2 else float("inf"))
