"""Audits a server from Python and says what may be used: python examples/audit_server.py http://127.0.0.1:8080

Ends with the exit code of `draftproof check`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from draftproof.api import Event, Report, audit
from draftproof.auditing.events import CheckFinished
from draftproof.core.errors import DraftproofError


def listen(event: Event) -> None:
    """Called with every event of the audit, as a reporter is."""
    if isinstance(event, CheckFinished):
        outcome = event.outcome
        sys.stdout.write(f"{outcome.verdict:<14} {outcome.check}\n")


def examine(url: str, evidence: Path) -> Report:
    """The report of a quick audit of at most a minute."""
    return audit(url, budget="seconds=60", out=evidence, listen=listen)


def main() -> int:
    try:
        report = examine(sys.argv[1], Path("evidence.jsonl.gz"))
    except DraftproofError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for outcome in report.failures:
        sys.stdout.write(f"\n{outcome.check}: {outcome.judgement.summary}\n")
        for finding in outcome.judgement.findings:
            sys.stdout.write(f"  {finding.code}, exchanges {', '.join(map(str, finding.exchanges))}\n")
    for row in report.safety:
        sys.stdout.write(f"{row.what}: {row.answer}\n")
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
