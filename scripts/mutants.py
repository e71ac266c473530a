"""Are the examples and tests of the judges sharp? Changes one operator or number at a time and asks whether anything notices.

    python scripts/mutants.py                 # all modules of tests/mutants.toml: about half an hour
    python scripts/mutants.py stats/intervals # one of them
    python scripts/mutants.py --list stats/intervals

Of a check only `judge` is changed, with what it calls in its module, and module-wide numbers; of other modules every function.
A mutant dies when a check misjudges one of its own examples or a unit test fails. One that lives must be excused in
tests/mutants.toml, with the reason; an excuse for one that dies or is no more is stale. Exit code 1 for either.

Every mutant is one fork of a process that has imported everything: the code of a function is replaced where it stands, so all who
imported it have the mutant.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import resource
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "mutants.toml"
SECONDS, SLOWER = 10.0, 5.0
"""Computing time that a mutant is given: so much, or so many times what the tests take without one."""

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_VERDICTS = {"PASS": ("INCONCLUSIVE",), "FAIL": ("INCONCLUSIVE",), "INCONCLUSIVE": ("PASS", "FAIL")}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` tells function and change. `code`: the function's new code; or `value`: the new value of the constant `where`."""

    name: str
    where: str
    code: CodeType | None = None
    value: float | None = None


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Mutants of the judges that nothing notices.")
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--list", action="store_true", help="name the mutants, and run nothing")
    given = parser.parse_args(arguments)
    table = read_table()
    wrong = 0
    for module in given.modules or table:
        if given.list:
            print(*(m.name for m in mutants(module)), sep="\n")
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
    began = time.process_time()
    if trouble := trial(checks, tests):
        raise SystemExit(f"{module}: without a mutant, already: {trouble}")
    limit = max(SECONDS, SLOWER * (time.process_time() - began))
    every, reasons = mutants(module), {name for names in excused.values() for name in names}
    lived = [m.name for m in every if not _dies(m, module, checks, tests, limit)]
    unexplained = [name for name in lived if name not in reasons]
    stale = sorted(reasons.difference(lived))
    print(f"{module}: {len(every)} mutants, {len(every) - len(lived)} died, {len(lived) - len(unexplained)} excused")
    for name in unexplained:
        print(f"  lives: {name}")
    for name in stale:
        print(f"  stale excuse: {name}")
    sys.stdout.flush()
    return len(unexplained) + len(stale)


def trial(checks: Sequence[str], tests: Sequence[str]) -> str:
    """What is wrong with the examples of the checks, or else with the tests; "" when nothing is."""
    import pytest

    from draftproof.audit import all_checks
    from draftproof.audit.selftest import run_controls
    from draftproof.checks.check import Terms
    from draftproof.checks.same import law

    known = {check.name: check for check in (*all_checks(), law.CHECK)}
    controls = run_controls([known[name] for name in checks], Terms())
    if controls.wrong:
        return controls.wrong[0]
    if not tests:
        return ""
    files = [test if test.startswith("-") else str(ROOT / test) for test in tests]
    failed = pytest.main(["-x", "-q", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", *files])
    return (
        f"pytest: {failed.name}"
        if isinstance(failed, pytest.ExitCode) and failed
        else "pytest failed"
        if failed
        else ""
    )


def _dies(mutant: Mutant, module: str, checks: Sequence[str], tests: Sequence[str], limit: float) -> bool:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _be(mutant, module, checks, tests, limit)
    _, status = os.waitpid(child, 0)
    return status != 0


def _be(mutant: Mutant, module: str, checks: Sequence[str], tests: Sequence[str], limit: float) -> None:
    """In the child: becomes the mutant, and ends with 0 if nothing notices."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, limit)  # its signal ends the process
    try:
        install(mutant, importlib.import_module(_dotted(module)))
        noticed = bool(trial(checks, tests))
    except BaseException:  # whatever a mutant breaks was noticed
        noticed = True
    os._exit(int(noticed))


def install(mutant: Mutant, module: ModuleType) -> None:
    """Replaces the code of the function, or the constant wherever it was imported."""
    if mutant.code is None:
        old = getattr(module, mutant.where)
        for other in list(sys.modules.values()):
            if other is not None and other.__dict__.get(mutant.where) is old:
                setattr(other, mutant.where, mutant.value)
        return
    found: Any = module
    for part in mutant.where.split("."):
        found = found.__dict__[part]
        found = getattr(found, "__func__", None) or getattr(found, "fget", None) or found
    while not isinstance(found, FunctionType):
        found = found.__wrapped__
    found.__code__ = mutant.code


def mutants(module: str) -> list[Mutant]:
    """All of a module. Names are unique: what occurs again in a function is numbered."""
    path = ROOT / "src" / "draftproof" / f"{module}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {".".join(name): node for name, node in _functions(tree)}
    judged = _reached(tree, functions) if module.startswith("checks/") and "judge" in functions else None
    out: list[Mutant] = []
    names: Counter[str] = Counter()
    for where, changed, told in _changes(tree, functions, judged):
        names[f"{where}: {told}"] += 1
        number = names[f"{where}: {told}"]
        name = f"{where}: {told}" + (f" #{number}" if number > 1 else "")
        if where in functions:
            code = _code(compile(ast.fix_missing_locations(changed), str(path), "exec", dont_inherit=True), where)
            out.append(Mutant(name, where, code))
        else:
            out.append(Mutant(name, where, value=changed))
    return out


def _functions(node: ast.AST, outer: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield (*outer, child.name), child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, (*outer, child.name))


def _reached(tree: ast.Module, functions: dict[str, ast.FunctionDef]) -> set[str]:
    """Names at the top of the module that `judge` uses, directly or through others; a class counts as a whole."""
    top = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    found, todo = set(), ["judge"]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        used = {n.id for n in ast.walk(top[name]) if isinstance(n, ast.Name)} if name in top else set()
        todo += sorted(used)
    return found


def _changes(
    tree: ast.Module, functions: dict[str, ast.FunctionDef], judged: set[str] | None
) -> Iterator[tuple[str, Any, str]]:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign) and (judged is None or target.id in judged):
            for value in _other_numbers(node.value):
                yield target.id, value, f"{ast.unparse(node.value)} -> {value!r}"
    for where, function in functions.items():
        if judged is not None and where.split(".")[0] not in judged:
            continue
        places = list(_places(function))
        for number, place in enumerate(places):
            for change in _others(place):
                changed = copy.deepcopy(tree)
                twin = {".".join(n): f for n, f in _functions(changed)}[where]
                _replace(twin, list(_places(twin))[number], change)
                yield where, changed, f"{_told(place)} -> {_told(change)}"


def _places(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What may be changed in a function: not its texts, annotations, decorators and defaults."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        if _is_text(node):
            continue
        yield node
        skipped = {id(node.annotation)} if isinstance(node, ast.AnnAssign) else set()
        if isinstance(node, ast.Call):  # that lengths must be equal is an assertion
            skipped |= {id(k) for k in node.keywords if k.arg == "strict"}
        stack += [c for c in reversed(list(ast.iter_child_nodes(node))) if id(c) not in skipped]


def _is_text(node: ast.AST | None) -> bool:
    """What only people read: a text with values in it, a choice of texts, a docstring."""
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    if isinstance(node, ast.Expr):
        return _is_text(node.value)
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return isinstance(node.op, ast.Add) and _is_text(node.right if isinstance(node, ast.BinOp) else node.value)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _told(node: ast.AST) -> str:
    """A statement is told by its condition."""
    return ast.unparse(node.test if isinstance(node, ast.If) else node)


def _others(node: ast.AST) -> Iterator[ast.AST]:
    """What could stand there instead."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            for other in _COMPARED[type(operator)]:
                yield ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        yield ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _COMPUTED:
        yield ast.AugAssign(node.target, _COMPUTED[type(node.op)](), node.value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        other_if = copy.copy(node)
        other_if.test = ast.UnaryOp(ast.Not(), node.test)
        yield other_if
    elif isinstance(node, ast.Constant):
        yield from map(ast.Constant, _other_numbers(node))
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Verdict":
        for verdict in _VERDICTS.get(node.attr, ()):
            yield ast.Attribute(node.value, verdict, ast.Load())
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"min", "max", "any", "all"}
    ):
        opposite = {"min": "max", "max": "min", "any": "all", "all": "any"}[node.func.id]
        yield ast.Call(ast.Name(opposite, ast.Load()), node.args, node.keywords)
    elif isinstance(node, ast.Continue):
        yield ast.Break()


def _other_numbers(node: ast.AST) -> Iterator[float]:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield value * 2 if value else 1.0
        if value:
            yield value / 2


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, new)
            elif isinstance(value, list):
                setattr(node, field, [new if item is old else item for item in value])


def _code(code: CodeType, where: str) -> CodeType:
    found = [code]
    for inner in found:
        if inner.co_qualname == where:
            return inner
        found += [c for c in inner.co_consts if isinstance(c, CodeType)]
    raise LookupError(where)


def _dotted(module: str) -> str:
    return "draftproof." + module.replace("/", ".")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
