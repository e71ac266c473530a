"""Our own server on every kind of pair that differs in more than its numbers: sound, or refused with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benches.own_modes import ALWAYS, RUNNING

from draftproof.auditing import AuditConfig, audit
from draftproof.core.probe import Effort
from draftproof.countable.files import write_pair
from draftproof.launch.own_server import OwnServer

pytestmark = pytest.mark.real

F32 = ("--cache-type-k", "f32", "--cache-type-v", "f32")
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
    beside = () if kind == "head" else ("-md", tmp_path / "draft.gguf")
    drafts = ("--spec-type", "draft-mtp" if kind == "head" else "draft-simple", *ALWAYS)
    with OwnServer("-m", tmp_path / "target.gguf", *beside, *RUNNING, *drafts, *F32) as server:
        out = tmp_path / "evidence.jsonl.gz"
        report = audit(AuditConfig(server.url, effort=Effort.QUICK, checks=CHECKS, samples=1024, seed=20, out=out))
    told = "\n".join(f"{o.check}: {o.judgement.verdict}: {o.judgement.summary}" for o in report.outcomes)
    assert report.exit_code == 0, told
    assert report.facts.countable == f"countable-{kind}"


@pytest.mark.parametrize(("kind", "reason"), [("order", "have other texts"), ("size", "has 9 tokens, the target 8")])
def test_a_draft_of_another_vocabulary_is_refused(kind: str, reason: str, tmp_path: Path) -> None:
    target, draft, _ = write_pair(tmp_path, kind=kind)
    command = [sys.executable, "-m", "draftproof", "serve", "--port", "0", "-m", str(target), "-md", str(draft)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert reason in ended.stderr
