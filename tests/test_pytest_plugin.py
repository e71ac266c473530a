"""The pytest plugin in test suites of an engine, which are run here as their authors run them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.client.weather import Weather

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/how-to/test-your-engine.md"
CHEAP = ["logprobs/placeholder", "logprobs/presence", "self_report/speculation_observed"]
"""Some of the checks, for the sake of time."""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A test suite with the plugin, installed or not."""
    pytester.makeconftest('pytest_plugins = ("draftproof_pytest",)')
    return pytester


def outcome(suite: pytest.Pytester, source: str, *arguments: str, **counts: int) -> str:
    """Runs a suite of one file, which must end like that; what pytest wrote."""
    suite.makepyfile(source)
    result = suite.runpytest_inprocess("-p", "no:cacheprovider", "--strict-markers", *arguments)
    result.assert_outcomes(**counts)
    return result.stdout.str()


def test_nothing_is_imported_until_a_fixture_is_used(suite: pytest.Pytester) -> None:
    suite.makepyfile("""
        import sys

        def test_of_somebody_else():
            assert not {"draftproof", "numpy", "click"} & {name.partition(".")[0] for name in sys.modules}
    """)
    result = suite.runpytest_subprocess("-p", "no:schemathesis", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)


def test_marker_gives_the_options_and_a_call_may_change_them(suite: pytest.Pytester) -> None:
    outcome(
        suite,
        """
        import pytest
        from types import SimpleNamespace

        pytestmark = pytest.mark.draftproof(effort="deep", alpha=1e-3)

        @pytest.fixture(autouse=True)
        def asked(monkeypatch):
            def audit(url, **options):
                return SimpleNamespace(exit_code=0, url=url, **options)
            monkeypatch.setattr("draftproof.api.audit", audit)

        def test_of_the_module(audit, tmp_path):
            asked = audit("http://127.0.0.1:1")
            assert (asked.url, asked.effort, asked.alpha, asked.seed) == ("http://127.0.0.1:1", "deep", 1e-3, 1)
            assert asked.out == tmp_path / "evidence-1.jsonl.gz"
            assert audit("http://127.0.0.1:1").out == tmp_path / "evidence-2.jsonl.gz"

        @pytest.mark.draftproof(effort="standard", checks=["logprobs"], seed=None)
        def test_of_its_own(audit):
            asked = audit("http://127.0.0.1:1", checks=["sampling"])
            assert (asked.effort, asked.alpha, asked.checks, asked.seed) == ("standard", 1e-3, ["sampling"], None)
        """,
        passed=2,
    )


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ('effort="deep", check="logprobs"', "check is not one of effort, checks, alpha"),
        ('"deep"', "takes its options by name"),
    ],
)
def test_marker_with_a_slip_is_refused(suite: pytest.Pytester, marker: str, told: str) -> None:
    source = f"""
        import pytest

        @pytest.mark.draftproof({marker})
        def test_it(audit):
            pass
    """
    assert told in outcome(suite, source, errors=1)


def test_sound_engine_passes_and_an_allowance_goes_stale(suite: pytest.Pytester) -> None:
    with Weather() as engine:
        source = f"""
            import pytest
            from draftproof.testing import assert_sound

            pytestmark = pytest.mark.draftproof(checks=["stopping/budget"])

            def test_sound(audit):
                assert_sound(audit("{engine.url}"))

            def test_with_an_old_allowance(audit):
                assert_sound(audit("{engine.url}"), allow=["stopping/budget:OVERRUN"])
        """
        told = outcome(suite, source, passed=1, failed=1)
    assert "AssertionError: not shown to be sound: llama_server" in told
    assert "allow: 'stopping/budget:OVERRUN' is not found any more; take it out" in told
    assert "def _stale" not in told  # no frames of ours


def test_engine_that_dies_is_told_with_its_log(suite: pytest.Pytester) -> None:
    told = outcome(
        suite,
        """
        import sys, urllib.error, urllib.request
        import pytest
        from draftproof.core.errors import Unreachable
        from draftproof.testing import AnyServer

        ENGINE = '''
        import http.server, os
        class Engine(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path != "/health":
                    print("CUDA error: out of memory", flush=True)
                    os._exit(7)
                self.send_response(200)
                self.end_headers()
        http.server.HTTPServer(("127.0.0.1", {port}), Engine).serve_forever()
        '''

        def test_at_once(any_server):
            any_server(sys.executable, "-c", "print('no weights'); raise SystemExit(3) # {port}")

        @pytest.fixture(scope="module")
        def engine():
            with AnyServer(sys.executable, "-c", ENGINE) as server:
                yield server

        def test_when_it_is_asked(engine, audit, monkeypatch):
            def ask(url, **options):
                with pytest.raises(OSError):
                    urllib.request.urlopen(url + "/props")
                raise Unreachable("nobody answers")

            monkeypatch.setattr("draftproof.api.audit", ask)
            audit(engine.url)
        """,
        failed=2,
    )
    assert "ended with code 3 before it listened: no weights" in told
    assert "ended with code 7: " in told
    assert "CUDA error: out of memory" in told


def test_server_of_a_test_that_fails_is_stopped_and_its_log_shown(suite: pytest.Pytester, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    told = outcome(
        suite,
        f"""
        import pathlib, sys, urllib.request

        def test_it(any_server):
            server = any_server(sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "{{port}}", health="/")
            pathlib.Path({str(note)!r}).write_text(str(server.pid))
            assert not server.url
        """,
        failed=1,
    )
    assert "log of python" in told
    assert '"GET / HTTP/1.1" 200' in told
    assert not Path(f"/proc/{note.read_text(encoding='utf-8')}").exists()


@pytest.mark.real
def test_speculating_llama_server_fails_and_says_why(suite: pytest.Pytester) -> None:
    told = outcome(
        suite,
        """
        import pytest
        from draftproof.testing import EXACT_NUMBERS, assert_sound

        @pytest.mark.draftproof(checks=["logprobs/placeholder", "logprobs/presence"])
        def test_logprobs(llama_server, countable_pair, audit):
            types = ["draft-simple"]
            server = llama_server(countable_pair.target, draft=countable_pair.draft, types=types, options=EXACT_NUMBERS)
            report = audit(server.url)
            assert_sound(report, allow=["logprobs/placeholder:PLACEHOLDER", "logprobs/presence:MISSING"])
            assert_sound(report)
        """,
        failed=1,
    )
    assert "AssertionError: 2 of 2 checks failed: llama_server" in told
    assert "FAIL logprobs/placeholder: " in told
    assert "    PLACEHOLDER (3 found, first in exchange " in told
    assert "to do: For runs that need logprobs, restart it without speculation" in told
    assert "evidence-1.jsonl.gz (seed 1); draftproof rejudge" in told


@pytest.mark.real
def test_five_lines_of_the_how_to_find_a_lossless_engine_sound(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    assert len([line for line in shown.splitlines() if line]) == 5
    engine = tmp_path / "my-engine"
    engine.write_text(f'#!/bin/sh\nexec {sys.executable} -m draftproof serve "$@"\n', encoding="utf-8")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    suite.makeconftest(f"""
        import pytest

        pytest_plugins = ("draftproof_pytest",)

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.draftproof(checks={CHEAP}))
    """)
    outcome(suite, shown, passed=1)
