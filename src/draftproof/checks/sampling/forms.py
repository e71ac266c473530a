"""Grammars that say exactly which texts may come, and whether a text is one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from draftproof.checks.prompts import is_small, letter_names, repeating
from draftproof.core.ask import Ask, Completion
from draftproof.core.probe import Probe
from draftproof.core.sampling import GREEDY, NEUTRAL

KEYS = ("company", "founded", "employees", "audit_passed")
RECORD = '{ "company": 12, "founded": 7, "employees": 305, "audit_passed": 41}'
DOCUMENT = "Records:\n" + f"{RECORD}\n" * 5
NUMBER = 999
CYCLE_TOKENS, JSON_TOKENS = 48, 96
_QUOTED = 'root ::= "'


@dataclass(frozen=True, slots=True)
class Form:
    """An answer under a grammar. `cycle`: the letters that may stand at each place, over and over. `keys`: a JSON object with
    these keys in this order, and whole numbers. Neither: the text that the grammar quotes.
    """

    answer: Completion
    cycle: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def fault(self) -> str:
        """What is wrong with the text, "" for nothing. A text that was cut by the token budget must be a beginning."""
        text = self.answer.text
        if self.keys:
            return "" if self.cut and not text.rstrip().endswith("}") else _not_the_object(text, self.keys)
        if self.cycle:
            wrong = (n for n, c in enumerate(text) if c not in self.cycle[n % len(self.cycle)])
            at = next(wrong, None)
            return "" if at is None else f"character {at + 1} is {text[at]!r}"
        quoted = _unquoted(self.answer.ask.grammar)
        if quoted is None or quoted.startswith(text) or text.startswith(quoted):
            return ""
        at = next(n for n, (a, b) in enumerate(zip(text, quoted, strict=False)) if a != b)
        return f"character {at + 1} is {text[at]!r} in place of {quoted[at]!r}"

    @property
    def cut(self) -> bool:
        return self.answer.finish == "length"


def _not_the_object(text: str, keys: tuple[str, ...]) -> str:
    try:
        pairs = json.loads(text, object_pairs_hook=tuple)
    except ValueError as e:
        return f"no JSON ({e})"
    if not isinstance(pairs, tuple) or [k for k, _ in pairs] != list(keys):
        return "the keys are others, or in another order"
    values = [v for _, v in pairs]
    return "" if all(type(v) is int and 0 < v <= NUMBER for v in values) else f"values are {values}"


def _unquoted(grammar: str) -> str | None:
    """The text of a grammar that is one quoted text."""
    if not (grammar.startswith(_QUOTED) and grammar.endswith('"')):
        return None
    try:
        text = json.loads(grammar.removeprefix("root ::= "))
    except ValueError:
        return None
    return text if isinstance(text, str) else None


def asks(probe: Probe) -> Iterator[tuple[Ask, tuple[str, ...], tuple[str, ...]]]:
    """Requests whose drafts break the grammar now and then, each with its cycle and keys: greedy and at temperature 1."""
    if not probe.facts.grammar:
        return
    cycle: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    if is_small(probe):
        names = sorted(name for name in letter_names(probe).values() if len(name) == 1 and name.isalnum())
        half = len(names) // 2
        if half < 2:
            return
        cycle = "".join(names[:half]), "".join(names[half:]), "".join(names[::2]), "".join(names[1::2])
        places = " ".join(f"[{letters}]" for letters in cycle)
        prompt, grammar, tokens = repeating(probe), f"root ::= ({places})+", CYCLE_TOKENS
    else:
        keys = KEYS
        ids = probe.tokenize(DOCUMENT) if probe.facts.token_prompts else None
        prompt, grammar, tokens = ids or DOCUMENT, _object(), JSON_TOKENS
    for sampling in (GREEDY, NEUTRAL):
        alternatives = min(1, probe.facts.max_alternatives)
        yield Ask(prompt, tokens, alternatives, sampling, seed=7, grammar=grammar), cycle, keys


def _object() -> str:
    """The grammar of one object with KEYS and whole numbers up to NUMBER."""
    members = " number ".join(json.dumps(f'{"," * (n > 0)} "{key}": ') for n, key in enumerate(KEYS))
    return f'root ::= "{{" {members} number "}}"\nnumber ::= [1-9] [0-9]? [0-9]?'
