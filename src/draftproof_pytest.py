"""The pytest plugin of draftproof: fixtures and a marker, found by pytest wherever draftproof is installed.

It imports nothing of draftproof until a fixture is used: test suites that do not use it must not pay for it, and tools that
measure coverage must be able to start first.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from draftproof.testing import (
        Auditor,
        Pair,
        ServerProcess,
        Servers,
        StartsAnyServer,
        StartsDraftproofServer,
        StartsLlamaServer,
    )

MARKER = "draftproof"
_ABOUT = "draftproof(**options): what the fixture `audit` asks for in this test, such as effort, checks, alpha, budget"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _ABOUT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows the logs of its servers."""
    report = yield
    if report.failed and report.when == "call" and "draftproof.testing" in sys.modules:
        from draftproof.testing import server_logs

        report.sections += server_logs(_Known(item))
    return report


@pytest.fixture(scope="session")
def countable_pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A target and a draft model small enough to count, as GGUF files: `.target`, `.draft`, and their `.law`."""
    from draftproof.countable.files import write_pair
    from draftproof.testing import Pair

    return Pair(*write_pair(tmp_path_factory.mktemp("countable-pair")))


@pytest.fixture
def _draftproof_servers() -> Iterator[Servers]:
    from draftproof.testing import Servers

    servers = Servers()
    try:
        yield servers
    finally:
        servers.close()


@pytest.fixture
def any_server(_draftproof_servers: Servers) -> StartsAnyServer:
    """Starts a server by its command line: `any_server("my-engine", "--port", "{port}", health="/health").url`."""
    return _draftproof_servers.any_server


@pytest.fixture
def llama_server(_draftproof_servers: Servers) -> StartsLlamaServer:
    """Starts the llama-server of the xllamacpp wheel: `llama_server(target, draft=draft, types=["draft-simple"]).url`."""
    return _draftproof_servers.llama_server


@pytest.fixture
def draftproof_server(_draftproof_servers: Servers) -> StartsDraftproofServer:
    """Starts `draftproof serve` with its flags: `draftproof_server("-m", target, "-md", draft).url`."""
    return _draftproof_servers.draftproof_server


@pytest.fixture
def audit(request: pytest.FixtureRequest, tmp_path: Path) -> Auditor:
    """Audits a server: `audit(url, **options)` gives a Report. Options default to those of @pytest.mark.draftproof."""
    from draftproof.core.errors import UsageError
    from draftproof.testing import Auditor

    marks = list(request.node.iter_markers(MARKER))[::-1]  # the nearest one last
    if any(mark.args for mark in marks):
        raise UsageError("@pytest.mark.draftproof takes its options by name.", 'Write it as draftproof(effort="deep").')
    return Auditor(tmp_path, [mark.kwargs for mark in marks], _Known(request.node))


class _Known:
    """The servers of a test that is running: those it started, and those that its own fixtures gave."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __iter__(self) -> Iterator[ServerProcess]:
        from draftproof.testing import ServerProcess, Servers

        for value in getattr(self._item, "funcargs", {}).values():
            if isinstance(value, Servers):
                yield from value.started
            elif isinstance(value, ServerProcess):
                yield value
