"""False alarms of the instrument: the judges of all checks that decide by chance, on simulated evidence of honest servers.

    python -m benches.calibration [AUDITS]

An audit is one piece of evidence for each statistical check, each check taking its kinds of honest server in turn
(`benches.honest_evidence`). It is judged at large error probabilities, so that the failures can be counted: per check and as an
audit whose alpha is divided among its checks (`same/law`, of `draftproof compare`, apart). Exits with 1 when a rate of failures is
shown to be larger than stated (Clopper-Pearson, 99.9 % for each line). Seeded.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from benches.honest_evidence import KINDS, Kind

from draftproof.checks.builtin import CHECKS
from draftproof.core.terms import Terms
from draftproof.core.verdict import Verdict
from draftproof.stats.intervals import clopper_pearson
from draftproof.stats.multiplicity import ErrorBudget

ALPHA = 0.1
"""Of a whole audit; each of its checks has its share of it."""
LEVELS = (0.1, 0.01, 0.001)
SURE = 1e-3


def main(audits: int) -> int:
    began = time.perf_counter()
    by_check = [(check, list(kinds)) for check, kinds in groupby(KINDS, key=lambda kind: kind.check)]
    missing = {c.name for c in CHECKS if c.statistical} - {check.name for check, _ in by_check}
    assert not missing, f"no honest evidence for {missing}"
    own = tuple(check.name for check, _ in by_check if check in CHECKS)
    share = ErrorBudget.equal(ALPHA, own).share(own[0])
    levels = sorted({*LEVELS, share}, reverse=True)
    counted: Counter[tuple[str, str, float]] = Counter()
    judged: Counter[tuple[str, str]] = Counter()
    audits_failed = 0
    rng = np.random.default_rng(20261129)
    for audit in range(audits):
        any_failed = False
        for check, kinds in by_check:
            kind = kinds[audit % len(kinds)]
            failed = _failed(kind, rng, levels)
            judged[check.name, kind.name] += 1
            for level in failed:
                counted[check.name, kind.name, level] += 1
            any_failed |= share in failed and check.name in own
        audits_failed += any_failed
    too_many = False
    for check, kinds in by_check:
        names = [kind.name for kind in kinds]
        for name in [*names, ""]:
            these = names if not name else [name]
            n = sum(judged[check.name, x] for x in these)
            cells = []
            for level in LEVELS:
                k = sum(counted[check.name, x, level] for x in these)
                cells.append(_cell(k, n))
                too_many |= clopper_pearson(k, n, 2 * SURE).low > level
            print(f"| `{check.name}` | {name or 'all'} | {n:,} | {' | '.join(cells)} |")
    print(f"| whole audits, alpha {ALPHA:g} | all | {audits:,} | {_cell(audits_failed, audits)} | | |")
    too_many |= clopper_pearson(audits_failed, audits, 2 * SURE).low > ALPHA
    print(f"{time.perf_counter() - began:.0f} s, {time.process_time():.0f} s of them computing")
    return int(too_many)


def _failed(kind: Kind, rng: np.random.Generator, levels: Sequence[float]) -> list[float]:
    """The levels, from the largest on, at which the judge fails fresh evidence: down from the first at which it does not, none."""
    evidence, failed = kind.evidence(rng), []
    for level in levels:
        if kind.check.judge(evidence, Terms(alpha=level)).verdict is not Verdict.FAIL:
            break
        failed.append(level)
    return failed


def _cell(count: int, n: int) -> str:
    interval = clopper_pearson(count, n, 0.05)
    return f"{count} ({interval.low:.2%} to {interval.high:.2%})"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
