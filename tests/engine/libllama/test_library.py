from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from draftproof.engine.libllama import carrier, cdefs, load_library, selftest
from draftproof.engine.libllama.errors import LibraryMissing, SelfTestFailed, UnsupportedBuild
from draftproof.engine.libllama.library import open_carrier
from draftproof.engine.libllama.logs import LOGGER, Log

pytestmark = pytest.mark.real


def test_the_pinned_wheel_is_found_and_its_layout_recognised() -> None:
    library = load_library()
    assert library.source == f"xllamacpp {carrier.PINNED}"
    assert library.layout == "b11549"
    assert library.has_heads
    assert library.version
    assert library.system.startswith("CPU")


def test_the_self_test_agrees_with_the_known_law() -> None:
    assert selftest.run(load_library()) < 1e-6


def test_the_self_test_fails_when_the_law_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = json.loads(selftest.LAWS.read_text())
    known["second_given_first"]["h"][0] += 2e-5
    (tmp_path / "laws.json").write_text(json.dumps(known))
    monkeypatch.setattr(selftest, "LAWS", tmp_path / "laws.json")
    with pytest.raises(SelfTestFailed, match="other probabilities"):
        selftest.run(load_library())


def test_a_build_with_unknown_structures_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdefs, "LAYOUTS", cdefs.LAYOUTS[1:])
    with pytest.raises(UnsupportedBuild, match="unknown structures"):
        open_carrier(carrier.find())


def test_a_build_without_a_needed_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdefs, "REQUIRED", (*cdefs.REQUIRED, "llama_no_such_thing"))
    with pytest.raises(UnsupportedBuild, match="lacks llama_no_such_thing"):
        open_carrier(carrier.find())


def test_every_declared_function_is_checked_for() -> None:
    declared = re.findall(r"\b(_?\w+)\(", re.sub(r"\(\*|typedef.*", "", cdefs.declarations(cdefs.LAYOUTS[0])))
    assert set(declared) == {*cdefs.REQUIRED, *cdefs.HEAD}
    assert {cdefs.PUT_OUT_HIDDEN, cdefs.GET_HIDDEN} < set(cdefs.HEAD)


def test_a_file_that_is_no_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "libllama.so"
    path.write_text("no library")
    monkeypatch.setenv(carrier.VARIABLE, str(path))
    with pytest.raises(UnsupportedBuild, match="cannot be used as a libllama"):
        open_carrier(carrier.find())


def test_the_variable_comes_first_and_must_name_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = carrier.find().path
    monkeypatch.setenv(carrier.VARIABLE, str(wheel))
    named = carrier.find()
    assert named.source == str(wheel)
    assert not named.has_heads
    monkeypatch.setenv(carrier.VARIABLE, "/no/such/library.so")
    with pytest.raises(LibraryMissing, match="which is no file"):
        carrier.find()


def test_another_version_of_the_wheel_is_refused_with_the_one_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "2027.1.12000")
    with pytest.raises(
        UnsupportedBuild, match=rf"2027\.1\.12000 is installed.*pip install 'xllamacpp=={carrier.PINNED}'"
    ):
        carrier.find()


def test_no_library_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(LibraryMissing, match="pip install"):
        carrier.find()


def test_the_library_of_llama_cpp_python_passes_the_self_test_too() -> None:
    # in a process of its own: two copies of the library in one are nobody's normal case
    code = """
import sys, importlib.util
if importlib.util.find_spec("llama_cpp") is None:
    sys.exit(77)
from draftproof.engine.libllama import carrier, selftest
from draftproof.engine.libllama.library import open_carrier
library = open_carrier(carrier._from_llama_cpp_python())
assert library.layout == "b11434" and not library.has_heads
print(selftest.run(library))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    if run.returncode == 77:
        pytest.skip("llama-cpp-python is not installed")
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 1e-6


def test_loading_writes_nothing_to_the_terminal() -> None:
    code = "from draftproof.engine.libllama import load_library; load_library()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (run.stdout, run.stderr) == ("", "")


def test_log_lines_that_come_in_pieces_are_put_together(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    with caplog.at_level(logging.DEBUG, LOGGER.name):
        for level, text in (
            (2, "loading "),
            (5, "tensors"),
            (5, " ...\nand"),
            (5, " more\n"),
            (4, "no such\n"),
            (3, "\n"),
        ):
            log.write(level, text)
    found: list[Any] = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert found == [
        (logging.DEBUG, "loading tensors ..."),
        (logging.DEBUG, "and more"),
        (logging.ERROR, "no such"),
        (logging.WARNING, ""),
    ]
    assert log.trouble() == "no such"
    log.forget()
    assert log.trouble() == ""
