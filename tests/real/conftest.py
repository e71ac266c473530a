from __future__ import annotations

from pathlib import Path

import pytest

from draftproof.countable.files import write_pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The countable pair as files: target and draft."""
    target, draft, _law = write_pair(tmp_path_factory.mktemp("pair"))
    return target, draft
