"""Are the examples and tests of the judges sharp? Changes one operator or number at a time and asks whether anything notices.

    python -m scripts.mutants                 # all modules of tests/mutants.toml: an hour or more
    python -m scripts.mutants stats/intervals # one of them
    python -m scripts.mutants --list stats/intervals

Of the checks what a `judge` reaches is changed, in its module or in others, and module-wide numbers; of statistics every function.
A mutant dies when a check misjudges one of its own examples or a unit test fails. One that lives must be excused in
tests/mutants.toml, with the reason; an excuse for one that dies or is no more is stale. Exit code 1 for either.

Every mutant is one fork of a process that has imported everything: the code of a function is replaced where it stands, so all who
imported it have the mutant.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import hypothesis
import pytest
from hypothesis import Phase
from scripts.aimed import Aimed, Reach
from scripts.judged import ROOT, SOURCE
from scripts.mutations import Mutant, mutants

from draftproof.auditing import all_checks, all_comparisons
from draftproof.auditing.selftest import run_controls
from draftproof.checks.check import AnyCheck
from draftproof.core.terms import Terms

UNFIT = 3
TABLE = ROOT / "tests" / "mutants.toml"
SECONDS, SLOWER = 10.0, 5.0
"""Computing time that a mutant is given: so much, or so many times what the tests take without one."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Mutants of the judges that nothing notices.")
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--list", action="store_true", help="name the mutants, and run nothing")
    given = parser.parse_args(arguments)
    hypothesis.settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate), database=None)
    hypothesis.settings.load_profile("mutants")  # an example that fails is enough, however long it is
    table = read_table()
    wrong = 0
    for module in given.modules or table:
        if given.list:
            _say("\n".join(m.name for m in mutants(module)))
        else:
            wrong += try_module(module, **table[module])
    return int(wrong > 0)


def read_table(path: Path = TABLE) -> dict[str, dict[str, Any]]:
    """Module to `checks` (whose examples judge it), `tests` (files, pytest's options) and `excused` (reason to mutants)."""
    read: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return read


def try_module(
    module: str,
    checks: Sequence[str] = (),
    tests: Sequence[str] = (),
    excused: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> int:
    """Tries every mutant of a module; how many survive unexcused or are excused and die."""
    reach = Reach(str(SOURCE / f"{module}.py"))
    began = time.process_time()
    if trouble := trial(checks, tests, reach):
        raise SystemExit(f"{module}: without a mutant, already: {trouble}")
    limit = max(SECONDS, SLOWER * (time.process_time() - began))
    gc.unfreeze()  # of the module before: what is frozen is not found
    gc.collect()
    made = functions_of(reach.file)
    gc.freeze()  # else every child copies and walks all that stands imported
    every, reasons = mutants(module), {name for names in excused.values() for name in names}
    lived = [m.name for m in every if not _dies(m, module, partial(trial, checks, tests), reach, made, limit)]
    unexplained = [name for name in lived if name not in reasons]
    stale = sorted(reasons.difference(lived))
    _say(f"{module}: {len(every)} mutants, {len(every) - len(lived)} died, {len(lived) - len(unexplained)} excused")
    for name in unexplained:
        _say(f"  lives: {name}")
    for name in stale:
        _say(f"  stale excuse: {name}")
    return len(unexplained) + len(stale)


def trial(checks: Sequence[str], tests: Sequence[str], plugin: Reach | Aimed | None = None) -> str:
    """What is wrong with the examples of the checks, or else with the tests; "" when nothing is. `plugin` is one of pytest's."""
    known = {check.name: check for check in (*all_checks(), *all_comparisons())}
    for name in checks:
        if wrong := run_controls([known[name]], Terms()).wrong or _other_codes(known[name]):
            return wrong[0]
    if not tests:
        return ""
    files = [test if test.startswith("-") else str(ROOT / test) for test in tests]
    options = [
        "-x",
        "-q",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--tb=no",
        "--assert=plain",
    ]
    failed = pytest.main([*options, *files], [] if plugin is None else [plugin])
    return "" if failed in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else f"pytest: {failed!r}"


def _other_codes(check: AnyCheck) -> list[str]:
    """Examples that get findings which they do not name, as `tests/checks/test_examples.py` finds them."""
    judged = ((example, check.judge(example.evidence, Terms())) for example in check.examples)
    return [f"{check.name} on {e.name!r}: {j.codes}" for e, j in judged if set(j.codes) != set(e.codes)]


def _dies(
    mutant: Mutant,
    module: str,
    try_it: Callable[[Aimed], str],
    reach: Reach,
    made: Sequence[FunctionType],
    limit: float,
) -> bool:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        aimed = Aimed(reach, "" if mutant.code is None else mutant.where)
        _be(partial(install, mutant, importlib.import_module(_dotted(module)), made), partial(try_it, aimed), limit)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == UNFIT:
        raise SystemExit(f"{module}: cannot be put in place: {mutant.name}")
    return status != 0


def _be(become: Callable[[], None], try_it: Callable[[], str], limit: float) -> None:
    """In the child: becomes the mutant, and ends with 0 if nothing notices."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, limit)  # its signal ends the process
    try:
        become()
    except BaseException:  # no mutant at all
        os._exit(UNFIT)
    try:
        noticed = bool(try_it())
    except BaseException:  # whatever a mutant breaks was noticed
        noticed = True
    os._exit(int(noticed))


def install(mutant: Mutant, module: ModuleType, made: Sequence[FunctionType]) -> None:
    """Replaces the code of the function and of those that it made, or the constant wherever it was imported or is a default.

    `made`: all functions of the module that there are.
    """
    if mutant.code is None:
        old = getattr(module, mutant.where)
        for other in list(sys.modules.values()):
            if vars(other).get(mutant.where) is old:
                setattr(other, mutant.where, mutant.value)
        for function in made:
            if isinstance(old, float) and function.__defaults__:
                function.__defaults__ = tuple(mutant.value if d is old else d for d in function.__defaults__)
        return
    found: Any = module
    for part in mutant.where.split("."):
        found = found.__dict__[part]
        found = getattr(found, "__func__", None) or getattr(found, "fget", None) or found
    while not isinstance(found, FunctionType):
        found = found.__wrapped__
    _put(found.__code__, mutant.code(), [found, *made])


def _put(old: CodeType, new: CodeType, made: Sequence[FunctionType]) -> None:
    for function in made:
        if function.__code__ is old:
            function.__code__ = new
    inner = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    for a, b in zip(*inner, strict=True):
        _put(a, b, made)


def functions_of(file: str) -> list[FunctionType]:
    return [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == file]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _dotted(module: str) -> str:
    return "draftproof." + module.replace("/", ".")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
