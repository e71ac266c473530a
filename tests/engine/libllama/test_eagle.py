"""EAGLE-3 drafts through libllama: the drafts of llama-server, of reading everything again, and refusals."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from tests.engine.libllama.models import COUNTABLE, PROMPT, backend

from draftproof.core.sampling import GREEDY
from draftproof.core.speculation import DraftModel
from draftproof.engine.backends.llama import LlamaBackend
from draftproof.engine.backends.llama_batches import same_start
from draftproof.engine.backends.llama_eagle import LlamaEagle
from draftproof.engine.draft.eagle3 import DRAFTER
from draftproof.engine.draft.kind import Setup
from draftproof.core.speculation import Speculation
from draftproof.engine.generate import Generation, Job, generate
from draftproof.engine.libllama import Eagle, HeadRow
from draftproof.engine.verify import greedy
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option

pytestmark = pytest.mark.real

TARGET, DRAFT = "eagle-target.gguf", COUNTABLE / "eagle-draft.gguf"


@pytest.fixture
def target() -> Iterator[LlamaBackend]:
    made = backend(TARGET, sequences=2)
    yield made
    made.close()


def drafted(target: LlamaBackend, n: int, settings: DraftModel = DraftModel()) -> Generation:
    eagle, sequence = LlamaEagle(target, DRAFT, rehearse=False), target.sequence()
    setup = Setup(target, Speculation(draft=settings), GREEDY, eagle=eagle, eagle_sequence=eagle.follow(sequence))
    generation = Generation(target, sequence, Job(tuple(PROMPT), n, GREEDY), drafter=DRAFTER.open(setup), rule=greedy.RULE)
    while not generation.finish:
        feed = generation.feed()
        generation.take(sequence.extend(feed.tokens, feed.rows))
    eagle.close()
    return generation


@pytest.mark.parametrize(("n_max", "p_min"), [(3, 0.0), (5, 0.4)])
def test_greedy_text_and_draft_counts_are_those_of_llama_server(target: LlamaBackend, n_max: int, p_min: float) -> None:
    options: dict[str, Option] = {"n_parallel": 1, **EXACT_NUMBERS}
    draft: dict[str, Option] = {"n_max": n_max, "p_min": p_min, "backend_sampling": False}
    draft |= {"cache_type_k": "F32", "cache_type_v": "F32"}
    options |= {f"speculative.draft.{name}": value for name, value in draft.items()}
    with LlamaWheel(COUNTABLE / TARGET, draft=DRAFT, types=["draft-eagle3"], options=options) as server:
        body = {"prompt": PROMPT, "n_predict": 64, "temperature": 0, "return_tokens": True}
        asked = urllib.request.Request(f"{server.url}/completion", json.dumps(body).encode())
        with urllib.request.urlopen(asked) as response:
            answer = json.load(response)
    generation = drafted(target, 64, DraftModel(n_max=n_max, p_min=p_min))
    assert generation.context[len(PROMPT) :] == answer["tokens"]
    counters, timings = generation.counters, answer["timings"]
    assert (counters.drafted, counters.accepted) == (timings["draft_n"], timings["draft_n_accepted"])
    assert counters.accepted > 0
