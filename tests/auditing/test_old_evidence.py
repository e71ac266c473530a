"""Evidence of the first release, `tests/data/evidence-v1.jsonl.gz`: it must stay readable, and its verdicts what they were.

It is of a real llama-server with a draft model (`draft-simple`). Never write it anew: a later version that cannot read it breaks
the files that people have kept. A new format gets a file of its own beside it.
"""

from __future__ import annotations

from pathlib import Path

from draftproof.auditing import all_checks
from draftproof.auditing.rejudge import rejudge
from draftproof.auditing.resume import read_earlier
from draftproof.core.verdict import Verdict

EVIDENCE = Path(__file__).parents[1] / "data" / "evidence-v1.jsonl.gz"
FOUND = {
    "logprobs/placeholder": Verdict.FAIL,
    "sampling/distribution": Verdict.PASS,
    "stopping/budget": Verdict.PASS,
    "self_report/speculation_reported": Verdict.FAIL,
}


def test_its_verdicts_come_out_as_they_were_recorded() -> None:
    rejudged = rejudge(EVIDENCE, all_checks())
    assert {o.check: o.judgement.verdict for o in rejudged.report.outcomes} == FOUND
    assert rejudged.differences == ()
    assert not rejudged.report.stopped


def test_an_audit_can_go_on_from_it() -> None:
    earlier = read_earlier(EVIDENCE)
    assert earlier.contents.header.checks == tuple(FOUND)
    assert earlier.facts.countable == "countable-8"
    assert set(earlier.contents.outcomes) == set(FOUND)
    assert earlier.last_number == sum(map(len, earlier.exchanges.values())) > 40
