"""One server for each way to speculate, for all tests that leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.loopback import DRAFT, NGRAM, NONE, Client, serving


@pytest.fixture(scope="session")
def plain() -> Iterator[Client]:
    with serving(NONE) as (client, _):
        yield client


@pytest.fixture(scope="session")
def drafting() -> Iterator[Client]:
    with serving(DRAFT) as (client, _):
        yield client


@pytest.fixture(scope="session")
def looking_up() -> Iterator[Client]:
    with serving(NGRAM) as (client, _):
        yield client
