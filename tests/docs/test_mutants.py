"""`scripts.mutants`: its table is about mutants that there are, and it can tell a sharp test from a blunt one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from scripts.judged import ROOT, SOURCE, judged_names
from scripts.mutants import functions_of, install, read_table
from scripts.mutations import Mutant, mutants

from draftproof.checks.builtin import CHECKS
from draftproof.checks.same import COMPARISONS

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


def test_every_judge_and_all_of_the_statistics_are_in_the_table() -> None:
    judging = {f"checks/{check.name}" for check in (*CHECKS, *COMPARISONS)}
    statistics = {f"stats/{path.stem}" for path in (SOURCE / "stats").glob("*.py") if path.stem != "__init__"}
    shared = {module for module in judged_names() if mutants(module)}
    assert judging | statistics | shared == set(TABLE)


def test_what_judges_call_in_other_modules_is_judged_too() -> None:
    names = judged_names()
    assert {"drafting", "why_inconclusive", "_effective", "_STATES_IT"} <= names["checks/drafting"]
    assert {"weigh", "flips_by_noise", "_drift"} <= names["checks/randomness/repeats"]
    assert "compare" not in names["checks/randomness/repeats"], "collects"
    assert all("collect" not in found for found in names.values())


def test_a_check_is_judged_by_its_own_examples() -> None:
    for check in (*CHECKS, *COMPARISONS):
        assert check.name in TABLE[f"checks/{check.name}"]["checks"]


def test_a_function_that_another_one_made_becomes_a_mutant_too(tmp_path: Path) -> None:
    made = tmp_path / "made.py"
    made.write_text(
        "FACTOR = 2.0\ndef outer(n):\n    def inner(x, by=FACTOR):\n        return x + n\n    return inner\n"
    )
    found: dict[str, Any] = {}
    exec(compile(made.read_text(encoding="utf-8"), str(made), "exec"), found)
    module = ModuleType("made")
    vars(module).update(found)
    add = module.outer(3)
    other = compile(made.read_text(encoding="utf-8").replace("x + n", "x - n"), str(made), "exec")
    code = next(c for c in other.co_consts if isinstance(c, CodeType) and c.co_name == "outer")
    install(Mutant("", "outer", lambda: code), module, functions_of(str(made)))
    assert (add(10), module.outer(4)(10)) == (7, 6)


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
