"""Our own server on every kind of pair that differs in more than its numbers: sound, or refused with the reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.real.test_own_server import SERVE, served

from draftproof.audit import AuditConfig, audit
from draftproof.core.probe import Effort
from draftproof.countable.files import write_pair

pytestmark = pytest.mark.real

FIXED = ("--no-spec-adaptive", "--cache-type-k", "f32", "--cache-type-v", "f32")
CHECKS = (
    "logprobs/placeholder",
    "logprobs/rescored",
    "sampling/distribution",
    "sampling/greedy_parity",
    "stopping/budget",
)


@pytest.mark.parametrize("kind", ["end", "mamba", "head", "bytes"])
def test_our_own_server_is_sound_on_every_kind(kind: str, tmp_path: Path) -> None:
    write_pair(tmp_path, kind=kind)
    draft = None if kind == "head" else tmp_path / "draft.gguf"
    speculating = ("--spec-type", "draft-mtp" if kind == "head" else "draft-simple", *FIXED)
    with served(tmp_path / "target.gguf", draft, speculating) as url:
        out = tmp_path / "evidence.jsonl.gz"
        report = audit(AuditConfig(url, effort=Effort.QUICK, checks=CHECKS, samples=1024, seed=20, out=out))
    told = "\n".join(f"{o.check}: {o.judgement.verdict}: {o.judgement.summary}" for o in report.outcomes)
    assert report.exit_code == 0, told
    assert report.facts.countable == f"countable-{kind}"


@pytest.mark.parametrize(("kind", "reason"), [("order", "have other texts"), ("size", "has 9 tokens, the target 8")])
def test_a_draft_of_another_vocabulary_is_refused(kind: str, reason: str, tmp_path: Path) -> None:
    target, draft, _ = write_pair(tmp_path, kind=kind)
    command = [*SERVE, "-m", str(target), "-md", str(draft), "--spec-type", "draft-simple"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert reason in ended.stderr
