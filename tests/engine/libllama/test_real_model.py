"""What the strict settings promise of a real quantised model: rows of a batch equal single rows bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from tests.engine.libllama.models import smollm2

from draftproof.engine.backend import Feed
from draftproof.engine.backends.llama import LlamaBackend, LlamaOptions
from draftproof.engine.libllama import CacheType, ContextOptions, rows
from draftproof.engine.passes import RowCosts

pytestmark = pytest.mark.real

TEXT = "The first thing one notices about the instrument is that it never disagrees with anything. " * 20


@pytest.fixture(scope="module")
def real() -> Iterator[LlamaBackend]:
    made = LlamaBackend(smollm2(), LlamaOptions(context=ContextOptions(tokens=512, sequences=3, outputs=16)))
    yield made
    made.close()


@pytest.fixture(scope="module")
def tokens(real: LlamaBackend) -> list[int]:
    return real.model.vocab.tokenize(TEXT)[:320]


def test_batches_of_eight_rows_are_exact(real: LlamaBackend) -> None:
    assert real.max_rows_exact == 8
    assert real.can_truncate


def test_without_flash_attention_no_batch_is_taken_for_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first eight tokens of a text all batches look exact: what is added is too short to be added in another order."""
    plain = ContextOptions(tokens=256, flash=False, keys=CacheType.F32, values=CacheType.F32)
    made = LlamaBackend(smollm2(), LlamaOptions(context=plain))
    assert made.max_rows_exact == 1
    monkeypatch.setattr(rows, "_known_bound", lambda *_: 64)
    assert rows.measure(made.memory, 8).exact < 8  # seen too, not only known
    made.close()


@pytest.mark.parametrize("depth", [3, 300])
def test_a_batch_of_k_rows_equals_k_single_rows(real: LlamaBackend, tokens: list[int], depth: int) -> None:
    sequence = real.sequence()
    sequence.extend(tokens[:depth], rows=0)
    following = tokens[depth : depth + 8]
    single = np.concatenate([sequence.extend([token]).copy() for token in following])
    for k in (2, 5, 8):
        sequence.truncate(depth)
        np.testing.assert_array_equal(sequence.extend(following[:k]), single[:k])
    sequence.close()


def test_sequences_of_a_batch_equal_each_alone(real: LlamaBackend, tokens: list[int]) -> None:
    starts = [tokens[:4], tokens[50:61], tokens[100:140]]
    sequences = [real.sequence() for _ in starts]
    for sequence, start in zip(sequences, starts, strict=True):
        sequence.extend(start, rows=0)
    feeds = [(tokens[0],), (tokens[1], tokens[2]), (tokens[3], tokens[4])]
    alone = []
    for sequence, feed in zip(sequences, feeds, strict=True):
        alone.append(sequence.extend(feed).copy())
        sequence.truncate(sequence.length - len(feed))
    together = real.extend([Feed(s, feed) for s, feed in zip(sequences, feeds, strict=True)])
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)
    for sequence in sequences:
        sequence.close()


@pytest.fixture(scope="module")
def crowded() -> Iterator[LlamaBackend]:
    options = LlamaOptions(context=ContextOptions(tokens=256, sequences=12, outputs=64), test_longer=(12, 24, 48))
    made = LlamaBackend(smollm2(), options)
    # what this machine takes for them must not decide how they are read
    made.row_costs = RowCosts((1.0, 2.5, 3.5, 4.0, 5.0, 5.0, 6.0, 6.0), ((12, 9.0), (48, 36.0)))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("each", "wanted", "count", "calls"),
    [
        (1, 1, 12, [12]),
        (2, 2, 12, [24]),
        (4, 4, 12, [48]),
        (1, 1, 11, [8, 3]),
        (12, 1, 4, [48]),
        (2, 1, 12, [24]),
        (4, 1, 11, [24, 12, 8]),
    ],
)
def test_large_companies_are_read_in_few_calls_that_change_no_bit(
    crowded: LlamaBackend, tokens: list[int], each: int, wanted: int, count: int, calls: list[int]
) -> None:
    sequences = [crowded.sequence() for _ in range(count)]
    feeds, alone = [], []
    for i, sequence in enumerate(sequences):
        sequence.extend(tokens[: 3 + 7 * i], rows=0)
        feeds.append(Feed(sequence, tuple(tokens[i : i + each]), wanted))
        alone.append(sequence.extend(feeds[-1].tokens, wanted).copy())
        sequence.truncate(3 + 7 * i)
    with patch.object(crowded.memory, "decode", wraps=crowded.memory.decode) as decode:
        together = crowded.extend(feeds)
    assert sorted((len(call.args[0]) for call in decode.call_args_list), reverse=True) == calls
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)
    for sequence in sequences:
        sequence.close()


def test_a_rejected_draft_leaves_no_trace(real: LlamaBackend, tokens: list[int]) -> None:
    sequence, fresh = real.sequence(), real.sequence()
    for wrong in ([7, 8, 9], [10] * 7):
        sequence.extend(tokens[sequence.length : sequence.length + 5])
        sequence.extend(wrong)
        sequence.truncate(sequence.length - len(wrong))
    fresh.extend(tokens[:5])
    fresh.extend(tokens[5:10])
    after = sequence.extend([tokens[10]]).copy()
    np.testing.assert_array_equal(after, fresh.extend([tokens[10]]))
    sequence.close()
    fresh.close()
