"""What no test may inherit from where it runs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports wrap at COLUMNS, which some libraries set for the rest of the process."""
    monkeypatch.delenv("COLUMNS", raising=False)
