from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from tests.engine.libllama.models import COUNTABLE, PROMPT, backend, exact, model, read, rows

from draftproof.core.errors import UsageError
from draftproof.core.prefix import common_prefix
from draftproof.core.sampling import Sampling
from draftproof.core.speculation import DraftModel, Speculation
from draftproof.engine.backend import ContextFull, Feed, UnknownToken
from draftproof.engine.backends.llama import LlamaBackend
from draftproof.engine.backends.llama_head import LlamaHead
from draftproof.engine.draft.model import ModelDrafter
from draftproof.engine.generate import Generation, Job, generate
from draftproof.engine.in_step import run_alone
from draftproof.engine.libllama import Context, Head, HeadRow, load_library
from draftproof.engine.libllama.errors import Closed, ContextRejected, InvalidBatch
from draftproof.engine.libllama.follower import Follower, hidden_rows, put_out_hidden_rows
from draftproof.engine.slot import Models, Order
from draftproof.engine.slots import Slots
from draftproof.engine.verify import greedy
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option

pytestmark = pytest.mark.real

FILES = ["mtp-hy_v3.gguf", "mtp-hy_v3-v10.gguf", "mtp.gguf"]


@pytest.fixture(params=FILES)
def target(request: pytest.FixtureRequest) -> Iterator[LlamaBackend]:
    made = backend(request.param, heads=True, sequences=2)
    yield made
    made.close()


def naive_drafts(head: Follower, tokens: Sequence[int], hidden: Sequence[np.ndarray], k: int) -> list[int]:
    """Every token read by itself with the target's row before it, then k greedy drafts with the head's own rows."""
    head.context.remove(0, 0)
    carried = np.zeros(head.width, np.float32)
    for i, token in enumerate(tokens):
        out = head.decode([HeadRow(0, i, token, carried if i == 0 else hidden[i - 1])])
    drafts = [int(out.logits[0].argmax())]
    while len(drafts) < k:
        out = head.decode([HeadRow(0, len(tokens) + len(drafts) - 1, drafts[-1], out.hidden[0].copy())])
        drafts.append(int(out.logits[0].argmax()))
    return drafts


@pytest.mark.parametrize("name", FILES)
def test_greedy_text_and_draft_counts_are_those_of_llama_server(name: str) -> None:
    # a fresh server for each: what it drafts for a second request depends on the first one
    options: dict[str, Option] = {"n_parallel": 1, **EXACT_NUMBERS}
    draft: dict[str, Option] = {"n_max": 3, "backend_sampling": False, "cache_type_k": "F32", "cache_type_v": "F32"}
    options |= {f"speculative.draft.{name}": value for name, value in draft.items()}
    with LlamaWheel(COUNTABLE / name, types=["draft-mtp"], options=options) as server:
        body = {"prompt": PROMPT, "n_predict": 64, "temperature": 0, "return_tokens": True}
        asked = urllib.request.Request(f"{server.url}/completion", json.dumps(body).encode())
        with urllib.request.urlopen(asked) as response:
            answer = json.load(response)
    target = backend(name, heads=True)
    generation = drafted_by_head(target, 64)
    assert generation.context[len(PROMPT) :] == answer["tokens"]
    counters, timings = generation.counters, answer["timings"]
    assert (counters.drafted, counters.accepted) == (timings["draft_n"], timings["draft_n_accepted"])
    target.close()


def drafted_by_head(target: LlamaBackend, n: int) -> Generation:
    head, sequence = LlamaHead(target), target.sequence()
    job = Job(tuple(PROMPT), n, Sampling(temperature=0))
    drafter = ModelDrafter(head, head.follow(sequence), job.sampling, DraftModel(n_max=3), drawn=False)
    generation = Generation(target, sequence, job, drafter=drafter, rule=greedy.RULE)
    while not generation.finish:
        feed = run_alone(generation.feed())
        generation.take(sequence.extend(feed.tokens, feed.rows))
    return generation


def test_greedy_text_is_that_without_a_head(target: LlamaBackend) -> None:
    with_head = drafted_by_head(target, 40)
    target_alone = backend(target.model.path.name)
    plain = [emitted.token for emitted in generate(target_alone, Job(tuple(PROMPT), 40, Sampling(temperature=0)))]
    assert with_head.context[len(PROMPT) :] == plain
    assert with_head.counters.drafted > with_head.counters.accepted
    target_alone.close()


def test_drafts_are_those_of_reading_everything_again(target: LlamaBackend) -> None:
    sequence, head = target.sequence(), LlamaHead(target)
    sequence.extend(PROMPT)
    agreed = naive_drafts(head.head, PROMPT, sequence.hidden, 3)
    tokens = [*PROMPT, *agreed, 0, 7, 2, 2, 1]
    sequence.extend(tokens[len(PROMPT) : -1])
    hidden = list(sequence.hidden)
    expected = [naive_drafts(head.head, tokens[:n], hidden, 3) for n in range(1, len(tokens) + 1)]
    head.head.context.remove(0, 0)
    sequence.truncate(0)
    follower, n, most_kept = head.follow(sequence), 1, 0
    while n <= len(tokens):
        drafts: list[int] = []
        fed = tokens[follower.length : n]
        while len(drafts) < 3:
            drafts.append(int(follower.extend(fed, rows=1)[0].argmax()))
            fed = drafts[-1:]
        assert drafts == expected[n - 1]
        # as if the target had accepted what agrees with the text: those cells were guessed, and must be read again
        kept = common_prefix(drafts, tokens[n:])
        sequence.extend(tokens[n - 1 : n + kept])
        follower.truncate(min(follower.length, n + kept))
        n, most_kept = n + kept + 1, max(most_kept, kept)
    assert most_kept >= 2


def test_hidden_rows_come_in_the_order_of_the_batch() -> None:
    with model("mtp-hy_v3.gguf", heads=True) as loaded, Context(loaded, exact(sequences=3)) as context:
        put_out_hidden_rows(context)
        read(context, PROMPT)
        alone = hidden_rows(context, 5).copy()
        context.remove(0, 0)
        context.decode([*rows(PROMPT[:1]), *rows(PROMPT[:3], sequence=1), *rows(PROMPT[:2], sequence=2, last=0)])
        expected = np.concatenate([alone[:1], alone[:3], alone[:2]])
        np.testing.assert_allclose(hidden_rows(context, 6), expected, atol=1e-5)


def test_a_head_sequence_keeps_to_the_protocol(target: LlamaBackend) -> None:
    head, sequence = LlamaHead(target), target.sequence()
    follower = head.follow(sequence)
    assert (head.vocab, head.context, head.can_truncate) == (target.vocab, target.context, True)
    sequence.extend(PROMPT)
    assert follower.extend(PROMPT, rows=0).shape == (0, target.vocab)
    checkpoint = follower.checkpoint()
    expected = follower.extend([5])
    follower.extend([6, 7])
    follower.restore(checkpoint)
    assert follower.length == 5
    np.testing.assert_allclose(head.extend([Feed(follower, (5,))])[0], expected, atol=1e-5)
    for tokens, rows_, error in (([], 0, ValueError), ([1], 2, ValueError), ([99], 1, UnknownToken)):
        with pytest.raises(error):
            follower.extend(tokens, rows_)
    with pytest.raises(ContextFull):
        follower.extend([0] * 256, rows=0)
    with pytest.raises(ValueError, match="cannot truncate"):
        follower.truncate(7)
    with pytest.raises(UsageError, match="follower already"):
        head.follow(sequence)
    with pytest.raises(ContextFull, match="has a follower"):
        head.sequence()
    with pytest.raises(UsageError):
        follower.adopt(follower, 1)
    follower.close()
    follower.close()
    with pytest.raises(Closed):
        follower.extend([0])
    assert head.follow(sequence).extend(PROMPT).shape == (5, target.vocab)
    head.close()


def test_slots_take_a_head_for_a_draft_model(target: LlamaBackend) -> None:
    slots = Slots(Models(target, draft=LlamaHead(target)), 2)
    prompts = [PROMPT, [7, 0, 7], [1, 1, 2, 2], [*PROMPT, 5, 5]]
    jobs = [Job(tuple(prompt), 20, Sampling(temperature=0)) for prompt in prompts]
    runs = []
    for job in jobs:
        order = Order(job, Speculation(types=("draft-simple",), adaptive=False))
        while not slots.can_start(order):
            slots.step()
        runs.append(slots.start(order))
    while slots.runs:
        slots.step()
    alone = backend(target.model.path.name)
    for job, run in zip(jobs, runs, strict=True):
        assert run.error is None
        assert run.generation.context[len(job.prompt) :] == [emitted.token for emitted in generate(alone, job)]
        assert run.generation.counters.drafted > 0
    alone.close()


def test_a_new_sequence_follows_the_first_that_has_no_follower(target: LlamaBackend) -> None:
    head, first, second = LlamaHead(target), target.sequence(), target.sequence()
    assert [head.sequence().target for _ in range(2)] == [first, second]
    first.close()
    again = target.sequence()
    again.extend([0, 1])
    assert head.sequence().target is again


def test_two_followers_do_not_disturb_each_other(target: LlamaBackend) -> None:
    head = LlamaHead(target)
    sequences = [target.sequence() for _ in range(2)]
    texts = [PROMPT, [7, 0, 7, 0]]
    target.extend([Feed(s, tuple(text)) for s, text in zip(sequences, texts, strict=True)])
    followers = [head.follow(s) for s in sequences]
    alone = [f.extend(text) for f, text in zip(followers, texts, strict=True)]
    for f in followers:
        f.truncate(0)
    together = head.extend([Feed(f, tuple(text)) for f, text in zip(followers, texts, strict=True)])
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_where_there_is_no_head_it_says_so() -> None:
    for loaded, reason in (
        (model("target.gguf", heads=True), "has no prediction head"),
        (model("mtp.gguf"), "loaded without"),
    ):
        context = Context(loaded, exact())
        with pytest.raises(ContextRejected, match=reason):
            Head(context)
        loaded.close()
    made = backend("target.gguf")
    with pytest.raises(ContextRejected, match="keeps no hidden rows"):
        LlamaHead(made)
    made.close()


def test_an_unknown_build_has_no_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    with model("mtp.gguf", heads=True) as loaded, Context(loaded, exact()) as context:
        object.__setattr__(load_library(), "has_heads", False)
        try:
            with pytest.raises(ContextRejected, match="not a build"):
                Head(context)
        finally:
            object.__setattr__(load_library(), "has_heads", True)


def test_a_hidden_row_of_another_width_is_refused() -> None:
    with model("mtp.gguf", heads=True) as loaded:
        head = Head(Context(loaded, exact()))
        with pytest.raises(InvalidBatch, match="shape"):
            head.decode([HeadRow(0, 0, 1, np.zeros(15, np.float32))])
        head.close()
