"""Rules that decide whether a drafted token is emitted. One file and one line here add a rule."""

from __future__ import annotations

from draftproof.core.errors import UsageError
from draftproof.engine.verify import greedy, match, rejection
from draftproof.engine.verify.rule import Rule

RULES: tuple[Rule, ...] = (rejection.RULE, match.RULE, greedy.RULE)


def rule(name: str) -> Rule:
    """The rule of that name. Raises UsageError that lists the known ones."""
    for known in RULES:
        if known.name == name:
            return known
    raise UsageError(f'There is no verification rule "{name}".', f"Known rules: {', '.join(r.name for r in RULES)}.")
