"""What the judges of the checks use, directly or through others: the part of `draftproof.checks` that `scripts.mutants` changes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "draftproof"
JUDGE = "judge"

Found = tuple[str, str]
"""Module, written as a path under `SOURCE` ("checks/drafting"), and a name at its top."""


@cache
def judged_names() -> Mapping[str, frozenset[str]]:
    """Module to those names at its top that any `judge` reaches; a class counts as a whole."""
    trees = {_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / "checks").rglob("*.py")}
    tops = {module: dict(_top(tree)) for module, tree in trees.items()}
    imports = {module: dict(_imports(tree)) for module, tree in trees.items()}
    found: set[Found] = set()
    todo = [(module, JUDGE) for module, top in tops.items() if JUDGE in top]
    while todo:
        module, name = todo.pop()
        if (module, name) in found or name not in tops.get(module, ()):
            continue
        found.add((module, name))
        todo += _used(tops[module][name], module, imports[module])
    out: dict[str, set[str]] = defaultdict(set)
    for module, name in found:
        out[module].add(name)
    return {module: frozenset(names) for module, names in out.items()}


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix()


def _top(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((n.id, node) for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def _imports(tree: ast.Module) -> Iterator[tuple[str, Found]]:
    """What a name of the module stands for elsewhere in `draftproof`; "" as the name there: the module itself."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("draftproof."):
            source = str(node.module).removeprefix("draftproof.").replace(".", "/")
            for alias in node.names:
                inner = f"{source}/{alias.name}"
                is_module = (SOURCE / f"{inner}.py").is_file()
                yield alias.asname or alias.name, (inner, "") if is_module else (source, alias.name)


def _used(node: ast.stmt, module: str, imported: Mapping[str, Found]) -> Iterator[Found]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield imported.get(inner.id, (module, inner.id))
        elif isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id in imported:
            yield imported[inner.value.id][0], inner.attr
