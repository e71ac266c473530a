"""What no test may inherit from where it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

COSTLY = ("liars", "real", "clients", "docs", "cli", "server", "engine", "gateway")
"""Folders of the tests that take longest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The costly ones first, so that at the end no worker has a long one to itself."""

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return COSTLY.index(folder) if folder in COSTLY else len(COSTLY)

    items.sort(key=place)


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports wrap at COLUMNS, which some libraries set for the rest of the process."""
    monkeypatch.delenv("COLUMNS", raising=False)
