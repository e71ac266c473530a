"""Speculation as requests ask for it and answers tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from draftproof.core.errors import UsageError
from draftproof.core.speculation import OFF, DraftModel, NgramLookup, NgramMod, Speculation
from draftproof.engine.draft import kind
from draftproof.engine.speculate import Plan
from draftproof.engine.verify import RULES
from draftproof.server.errors import Refusal
from draftproof.server.served import Served

if TYPE_CHECKING:
    from draftproof.server.schema import Generate

_FIELDS = ("rule", "n_max", "n_min", "p_min", "adaptive", "strict")
_RULES = ("auto", *(rule.name for rule in RULES))
_UNBOUNDED = 2**31
_MODELS = {"draft-simple", "draft-mtp", "draft-eagle3"}
_READERS = {"n_min": {*_MODELS, "ngram-mod"}, "p_min": _MODELS}
"""Drafters that a field is for; the others are for all."""
_SECTIONS = {
    "draft-simple": "draft",
    "draft-mtp": "draft",
    "draft-eagle3": "draft",
    "ngram-simple": "ngram_simple",
    "ngram-map-k": "ngram_map_k",
    "ngram-map-k4v": "ngram_map_k4v",
    "ngram-mod": "ngram_mod",
}


def read_speculation(request: Generate, served: Served) -> Speculation:
    """What a request asks for: the server's own setting, changed by what the request names.

    Raises UsageError (a Refusal too), ValueError.
    """
    default = served.defaults.speculation
    asked = _asked(request)
    names: dict[str, Any] = {name: asked[name] for name in ("rule", "adaptive", "strict", "n_max") if name in asked}
    if "types" in asked:
        names["types"] = read_types(asked["types"])
    if names.get("rule", "auto") not in _RULES:
        raise UsageError(f'There is no verification rule "{names["rule"]}".', f"Known rules: {', '.join(_RULES)}.")
    draft = {name: asked[name] for name in ("n_max", "n_min", "p_min") if name in asked}
    mod = {"n_min": asked["n_min"]} if "n_min" in asked else {}
    read = replace(default, **names, draft=replace(default.draft, **draft), ngram_mod=replace(default.ngram_mod, **mod))
    return OFF if request.speculative is False else read


def with_strictness(asked: Speculation, request: Generate, served: Served, *, greedy: bool) -> Speculation:
    """What is done of it: at temperature 0 strict, where the request does not say and the server keeps to that."""
    open_ = "strict" not in _asked(request) and not asked.strict
    # asked last, for it may have to be measured
    return replace(asked, strict=True) if greedy and open_ and asked.wanted and served.strict_greedy else asked


def without_effect(request: Generate, speculation: Speculation) -> list[str]:
    """Names of the fields that a request sets and that none of the drafters which it gets reads."""
    asked = _asked(request)
    if speculation.wanted:
        types = set(speculation.types)
        return [f"speculative.{name}" for name in asked if name in _READERS and not types & _READERS[name]]
    names = [f"speculative.{name}" for name in asked if name != "types" and (name, asked[name]) != ("n_max", 0)]
    return ["speculative", *names] if request.speculative is True else names


def _asked(request: Generate) -> dict[str, Any]:
    """The fields that are set, by their short names. Raises Refusal where one is set twice, to different values."""
    asked: dict[str, Any] = {}
    for name in (*_FIELDS, "types", "type"):
        short = "types" if name == "type" else name
        for value in (getattr(request, f"speculative_{name}"), getattr(request.speculative, name, None)):
            if value is None:
                continue
            if asked.setdefault(short, value) != value:
                raise Refusal(
                    f"Field 'speculative.{name}': {value!r} here and {asked[short]!r} elsewhere in the request"
                )
    return asked


def read_types(types: str | Sequence[str]) -> tuple[str, ...]:
    """Names of drafters, one string with commas or a list. Raises UsageError for an unknown one."""
    names = [name.strip() for name in types.split(",")] if isinstance(types, str) else list(types)
    names = [name for name in dict.fromkeys(names) if name]
    for name in names:
        kind(name)
    drafting = tuple(name for name in names if name != "none")
    return drafting or ("none",)


def requested(speculation: Speculation) -> dict[str, Any]:
    """A setting as JSON: the common fields, and those of the drafters that it names."""
    sections = {_SECTIONS[t]: asdict(getattr(speculation, _SECTIONS[t])) for t in speculation.types if t in _SECTIONS}
    common = {name: getattr(speculation, name) for name in ("rule", "n_max", "adaptive", "strict")}
    return {"types": list(speculation.types), **common, **sections}


def effective(plan: Plan) -> dict[str, Any]:
    """What a request gets, as JSON. `n_max`: the longest draft that can come of it."""
    return {
        "types": list(plan.effective) or ["none"],
        "rule": plan.rule.name if plan.effective else "none",
        "n_max": min(plan.n_max, max((_longest(plan.requested, t) for t in plan.effective), default=0)),
        "strict": plan.requested.strict and bool(plan.effective),
    }


def _longest(speculation: Speculation, name: str) -> int:
    section = getattr(speculation, _SECTIONS[name]) if name in _SECTIONS else None
    if isinstance(section, NgramLookup):
        return section.size_m
    return section.n_max if isinstance(section, DraftModel | NgramMod) else _UNBOUNDED


def types_text(types: Sequence[str]) -> str:
    """As llama-server writes them: names with commas, "none" for none."""
    return ",".join(t for t in types if t != "none") or "none"
