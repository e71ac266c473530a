"""What was found in llama-server b11549, once more: each fault is seen on the server, and its control is clean.

Seeds are fixed: the numbers are the same on every run on one machine. A test that fails here may tell of a server that was
mended: then docs/llama-server-findings.md has to say so.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from benches import llama_server_findings as findings

pytestmark = pytest.mark.real


def test_a_draft_of_another_size_ends_the_server(tmp_path: Path) -> None:
    found = findings.draft_of_another_size(tmp_path)
    assert (found.broken, found.control) == (1, 0)


def test_a_stale_checkpoint_answers_for_another_prompt(tmp_path: Path) -> None:
    found = findings.stale_checkpoint(tmp_path)
    assert found.broken > 0.1
    assert found.control < 1e-4


def test_the_coin_of_xtc_is_the_draw_before(tmp_path: Path) -> None:
    found = findings.xtc_coin(tmp_path, 1000)
    assert found.broken < 1e-9
    assert found.control > 1e-3


def test_mirostat_with_sampled_drafts_leaves_its_law(tmp_path: Path) -> None:
    found = findings.mirostat_with_sampled_drafts(tmp_path, 160)
    assert found.broken >= 5
    assert found.control == 0


def test_replayed_verification_uses_random_numbers_again(tmp_path: Path) -> None:
    found = findings.replayed_randomness(tmp_path, 1600)
    assert found.broken < 1e-9
    assert found.control > 1e-3


def test_a_head_that_drafts_by_chance_remembers_the_request_before(tmp_path: Path) -> None:
    found = findings.head_that_remembers(tmp_path)
    assert found.broken > 1
    assert found.control == 1


def test_pieces_of_characters_have_no_logprobs_of_their_own(tmp_path: Path) -> None:
    found = findings.pieces_without_entries(tmp_path)
    assert found.broken < 0.9
    assert found.control == 1


def test_a_schema_that_does_not_compile_is_dropped(tmp_path: Path) -> None:
    found = findings.schema_that_is_dropped(tmp_path)
    assert (found.broken, found.control) == (1, 0)
