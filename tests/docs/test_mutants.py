"""`scripts.mutants`: its table is about mutants that there are, and it can tell a sharp test from a blunt one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.mutants import read_table
from scripts.judged import ROOT
from scripts.mutations import mutants

TABLE = read_table()


@pytest.mark.parametrize("module", TABLE)
def test_every_excuse_is_of_a_mutant_that_there_is(module: str) -> None:
    there = {mutant.name for mutant in mutants(module)}
    assert there
    for reason, names in TABLE[module].get("excused", {}).items():
        assert reason
        assert set(names) <= there
    for test in TABLE[module].get("tests", ()):
        assert test.startswith("-") or (ROOT / test).is_file()


def test_a_blunt_test_lets_mutants_live_and_a_sharp_one_does_not(tmp_path: Path) -> None:
    blunt = tmp_path / "test_blunt.py"
    blunt.write_text("from draftproof.stats.forever import alpha_at\n\ndef test_it() -> None:\n    alpha_at(1, 0.1)\n")
    sharp = f"{ROOT}/tests/stats/test_forever.py::test_a_product_that_begins_at_a_look_has_the_weight_of_that_look"
    script = (
        "import sys; from scripts.mutants import try_module\n"
        "print([try_module('stats/forever', tests=[test]) for test in sys.argv[1:]])"
    )
    arguments = [sys.executable, "-c", script, str(blunt), sharp]
    said = subprocess.run(arguments, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    blunted, sharpened = json.loads(said.splitlines()[-1])
    assert blunted == len(mutants("stats/forever"))
    assert sharpened < blunted / 2
