from __future__ import annotations

from pathlib import Path

import pytest

from draftproof.launch.llama_wheel import LlamaWheel, ServerDied

pytestmark = pytest.mark.real


def test_a_file_that_is_no_model_is_reported_with_the_servers_own_words(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"not a model")
    with pytest.raises(ServerDied, match="before it listened"):
        LlamaWheel(bad).start()


def test_an_unknown_parameter_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerDied, match=r"no parameter speculative\.nonsense"):
        LlamaWheel(tmp_path / "any.gguf", options={"speculative.nonsense": 1}).start()
