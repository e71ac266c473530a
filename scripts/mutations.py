"""One operator or number of a module changed at a time: what `scripts.mutants` tries."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from functools import partial
from types import CodeType
from typing import Any

from scripts.judged import SOURCE, judged_names

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
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_VERDICTS = {"PASS": ("INCONCLUSIVE",), "FAIL": ("INCONCLUSIVE",), "INCONCLUSIVE": ("PASS", "FAIL")}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` tells function and change. `code` makes the new code of the function `where`;
    None: `where` is a constant, now `value`.
    """

    name: str
    where: str
    code: Callable[[], CodeType] | None = None
    value: float | None = None


def mutants(module: str) -> list[Mutant]:
    """All of a module. Names are unique: what occurs again in a function is numbered."""
    path = SOURCE / f"{module}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {".".join(name): node for name, node in _functions(tree)}
    judged = judged_names().get(module, frozenset()) if module.startswith("checks/") else None
    out: list[Mutant] = []
    names: Counter[str] = Counter()
    for mutant in (*_of_constants(tree, judged), *_of_functions(tree, functions, judged)):
        names[mutant.name] += 1
        number = names[mutant.name]
        out.append(replace(mutant, name=f"{mutant.name} #{number}") if number > 1 else mutant)
    return out


def _functions(node: ast.AST, outer: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield (*outer, child.name), child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, (*outer, child.name))


def _of_constants(tree: ast.Module, judged: Set[str] | None) -> Iterator[Mutant]:
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        one = node.targets[0]
        pairs = [(one, node.value)]
        if isinstance(one, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(one.elts, node.value.elts, strict=True))
        for target, number in pairs:
            if isinstance(target, ast.Name) and (judged is None or target.id in judged):
                for value in _other_numbers(number):
                    yield Mutant(f"{target.id}: {ast.unparse(number)} -> {value!r}", target.id, value=value)


def _of_functions(tree: ast.Module, functions: dict[str, ast.FunctionDef], judged: Set[str] | None) -> Iterator[Mutant]:
    for where, function in functions.items():
        if judged is not None and where.split(".")[0] not in judged:
            continue
        for place in list(_places(function)):
            for change in _others(place):
                code = partial(_mutated, tree, where, function, place, change)
                yield Mutant(f"{where}: {_told(place)} -> {_told(change)}", where, code)


def _mutated(tree: ast.Module, where: str, function: ast.FunctionDef, old: ast.AST, new: ast.AST) -> CodeType:
    """The code of the function with one node in the place of another; the tree is as before."""
    _replace(function, old, ast.copy_location(new, old))
    try:
        return _code(compile(ast.fix_missing_locations(tree), "<mutant>", "exec", dont_inherit=True), where)
    finally:
        _replace(function, new, old)


def _places(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What may be changed in a function: not its texts, annotations, decorators and defaults."""
    stack: list[ast.AST] = list(reversed(function.body))
    while stack:
        node = stack.pop()
        if _is_text(node):
            continue
        yield node
        skipped = {id(node.annotation)} if isinstance(node, ast.AnnAssign) else set()
        if isinstance(node, ast.FunctionDef):
            skipped |= {id(node.args), *map(id, node.decorator_list)} | ({id(node.returns)} if node.returns else set())
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
    for kind, others in _OTHERS.items():
        if isinstance(node, kind):
            yield from others(node)


def _compared(node: ast.Compare) -> Iterator[ast.AST]:
    for i, operator in enumerate(node.ops):
        for other in _COMPARED[type(operator)]:
            yield ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]], node.comparators)


def _joined(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _computed(node: ast.BinOp | ast.AugAssign) -> Iterator[ast.AST]:
    if type(node.op) in _COMPUTED:
        other = copy.copy(node)
        other.op = _COMPUTED[type(node.op)]()
        yield other


def _signed(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand


def _branched(node: ast.If | ast.IfExp) -> Iterator[ast.AST]:
    """Comparisons and the like are changed themselves."""
    if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        other = copy.copy(node)
        other.test = ast.UnaryOp(ast.Not(), node.test)
        yield other


def _verdicts(node: ast.Attribute) -> Iterator[ast.AST]:
    if isinstance(node.value, ast.Name) and node.value.id == "Verdict":
        yield from (ast.Attribute(node.value, verdict, ast.Load()) for verdict in _VERDICTS.get(node.attr, ()))


def _called(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        yield ast.Call(ast.Name(_CALLED[node.func.id], ast.Load()), node.args, node.keywords)


_OTHERS: dict[Any, Callable[[Any], Iterator[ast.AST]]] = {
    ast.Compare: _compared,
    ast.BoolOp: _joined,
    ast.BinOp: _computed,
    ast.AugAssign: _computed,
    ast.UnaryOp: _signed,
    ast.If: _branched,
    ast.IfExp: _branched,
    ast.Constant: lambda node: map(ast.Constant, _other_numbers(node)),
    ast.Attribute: _verdicts,
    ast.Call: _called,
    ast.Continue: lambda _: iter([ast.Break()]),
}


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
