"""The auditor on `draftproof serve`: sound in every mode, its logprobs true while it speculates."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from draftproof.audit import AuditConfig, audit
from draftproof.core.verdict import Verdict

pytestmark = pytest.mark.real

SERVE = (sys.executable, "-m", "draftproof", "serve", "--port", "0", "-np", "8", "-c", "8192", "-t", "1")
FIXED = ("--no-spec-adaptive",)
DRAFT = ("--spec-type", "draft-simple", *FIXED)
NGRAM = ("--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "4")
MODES = {
    "no draft": (False, ()),
    "rejection": (True, (*DRAFT, "--spec-rule", "rejection")),
    "exact match": (True, (*DRAFT, "--spec-rule", "match")),
    "ngram-simple": (False, ("--spec-type", "ngram-simple", *NGRAM, *FIXED)),
}


@contextmanager
def served(target: Path, draft: Path | None, options: tuple[str, ...]) -> Iterator[str]:
    command = [*SERVE, "-m", str(target), *(() if draft is None else ("-md", str(draft))), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"serves (http://\S+)", line):
                yield found[1]
                return
        pytest.fail("".join(said))
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@pytest.mark.parametrize("mode", MODES)
def test_our_own_server_is_sound(mode: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    with_draft, options = MODES[mode]
    with served(pair[0], pair[1] if with_draft else None, options) as url:
        report = audit(AuditConfig(url, seed=20, out=tmp_path / "evidence.jsonl.gz"))
    told = "\n".join(f"{o.check}: {o.judgement.verdict}: {o.judgement.summary}" for o in report.outcomes)
    assert report.exit_code == 0, told
    verdicts = {o.check: o.judgement.verdict for o in report.outcomes}
    expected = Verdict.NOT_APPLICABLE if mode == "no draft" else Verdict.PASS
    assert verdicts["self_report/speculation_switch"] is expected, told
    assert verdicts["sampling/unchanged"] is expected, told
    assert verdicts["logprobs/prompt"] is Verdict.PASS, told
