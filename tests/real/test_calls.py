"""Logprobs of calls of tools: llama-server and our own are sound, and servers that leave entries out are caught."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.clients.test_tools import CHATML
from tests.engine.libllama.models import smollm2

from draftproof.auditing import AuditConfig, audit
from draftproof.core.verdict import Judgement, Verdict
from draftproof.launch.llama_wheel import LlamaWheel
from draftproof.liars.entries import content, replaced
from draftproof.liars.hosting import hosted
from draftproof.liars.liar import Liar
from draftproof.liars.retelling import Telling
from draftproof.server.load import Files, load_files
from draftproof.server.served import Served

pytestmark = [pytest.mark.real, pytest.mark.slow]
SLOTS = 2
REPORTS = ("https://github.com/ollama/ollama/issues/13092", "https://github.com/vllm-project/vllm/pull/37795")
"""Where whole answers, and streams, were seen to lack entries."""


def _shown(city: str) -> str:
    """A call in an earlier turn, without which so small a model would make none."""
    call = f'<tool_call>\n{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'
    return f"<|im_start|>user\nWhat is the weather in {city}?<|im_end|>\n<|im_start|>assistant\n{call}<|im_end|>\n"


TEMPLATE = CHATML.replace("{% endif %}", "{{ " + json.dumps(_shown("Rome") + _shown("Oslo")) + " }}{% endif %}", 1)


def judged(url: str, folder: Path) -> tuple[Judgement, dict[str, str]]:
    """What the check of presence says, and the states of the requests with a tool, whole and streamed."""
    report = audit(
        AuditConfig(url, checks=("logprobs/presence",), seed=7, timeout=300, out=folder / "evidence.jsonl.gz")
    )
    (outcome,) = report.outcomes
    (table,) = outcome.judgement.tables
    return outcome.judgement, {
        str(row[0]).rpartition(", ")[2]: str(row[1]) for row in table.rows if "a tool" in str(row[0])
    }


def test_llama_server(tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_ctx": 2048, "n_parallel": 1, "chat_template": TEMPLATE, "use_jinja": True}
    with LlamaWheel(smollm2(), options=options) as server:
        judgement, states = judged(server.url, tmp_path)
    assert judgement.verdict is Verdict.PASS, judgement
    assert states == {"whole": "ok", "streamed": "REFUSED"}


def _left_out(telling: Telling) -> Any:
    """Of a whole answer with a call there are no entries; an event that tells nothing of the call is dropped, with its entry."""
    if not telling.asked.get("tools") or not content(telling.told):
        return telling.told
    if not telling.event:
        return replaced(telling.told, None)
    return telling.told if telling.told["choices"][0]["delta"] else None


def _as_it_is(telling: Telling) -> Any:
    return telling.told


@pytest.mark.parametrize(
    ("retell", "states"),
    [
        (_as_it_is, {"whole": "ok", "streamed": "ok"}),
        (_left_out, {"whole": "DROPPED", "streamed": "MISSING"}),
    ],
    ids=["honest", "left out"],
)
def test_our_own_server_honest_and_lying(
    retell: Callable[[Telling], Any], states: dict[str, str], tmp_path: Path
) -> None:
    def served(_: Served) -> Served:
        files = Files(smollm2(), context=2048, slots=2 * SLOTS)  # hosting makes them twice
        return replace(load_files(files), template=CHATML)

    liar = Liar("calls", "", REPORTS[0], (), slots=SLOTS, served=served, retell=retell)
    with hosted(liar) as url:
        judgement, found = judged(url, tmp_path)
    assert found == states, judgement
    honest = set(states.values()) == {"ok"}
    assert judgement.verdict is (Verdict.PASS if honest else Verdict.FAIL), judgement
    assert all("a tool" in finding.text for finding in judgement.findings)
