"""Was speculation at work in these answers? A prompt that drafted nothing shows nothing about drafted tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from draftproof.core.ask import Completion, Scalar
from draftproof.core.probe import DRAFT_BATCHES, MANY_ROWS
from draftproof.core.tokens import TokenRecord

Reports: TypeAlias = tuple[tuple[str, Scalar], ...]

DECLARED = "--expect-speculation"
"""Where the user says it: counts like a report of the server."""

TOTALS = "/metrics"
"""Totals are not statements: they say how often, not whether."""

LIVE_REPORTS = ("/slots speculative", DECLARED)
"""Reports computed from live objects; a False here is believed as long as nothing else was seen."""

_EFFECTIVE, _REASON = "speculation.effective.types", "speculation.reason"
"""What draftproof's server says in each answer of how that answer was made."""

_STATES_IT = re.compile(
    r"speculati(?:ve|on)(?:[._ ]effective)?(?:[._](?:types?|drafter|algorithm|method|mode|enabled))?$", re.IGNORECASE
)

LONG_DRAFT = 32
"""Drafted tokens of one answer from which on one draft may have been this long."""

RESTART = (
    "For runs that need logprobs, restart it without speculation "
    "(llama-server: no -md, and no --spec-type, n-gram types included)."
)
"""The remedy where speculation spoils logprobs."""


class Drafting(StrEnum):
    SEEN = "on"
    SILENT = "said to be on, but nothing was drafted here"
    OFF = "not seen"
    DECLINED = "not done for these requests, as each answer says, with a reason"
    UNKNOWN = "not seen, and the server does not say"


def is_on(value: Scalar) -> bool:
    """Whether a self-report means that speculation is on: True, or a list of types with anything but "none" in it."""
    if isinstance(value, str):
        return any(part.strip(' []"') not in ("", "none", "off", "no", "false") for part in value.lower().split(","))
    return bool(value)


def states(name: str, value: Scalar) -> bool:
    """Whether a field says if speculation is on, or by what kind. A draft's length or threshold does not, whatever it is
    set to, nor does null.
    """
    if name == DECLARED:
        return isinstance(value, bool)
    return isinstance(value, bool | str) and _STATES_IT.search(name) is not None


def has_placeholder(answer: Completion) -> bool:
    """Whether a token after the first lacks the alternatives that the first one has: the mark of drafting on llama-server."""
    return any(not token.alternatives for token in drafted_places(answer))


def drafts(answer: Completion) -> bool:
    """Whether this answer shows that tokens were drafted for it: by its own count, or by a token without alternatives."""
    return bool(answer.drafted) or (answer.ask.alternatives > 0 and has_placeholder(answer))


def drafted_places(answer: Completion) -> tuple[TokenRecord, ...]:
    """The tokens that a drafter may have proposed: all after the first, less an end token; () if the first has no list itself."""
    if not answer.tokens or not answer.tokens[0].alternatives:
        return ()
    return answer.tokens[1:-1] if answer.finish == "stop" else answer.tokens[1:]


def effective(answers: Iterable[Completion]) -> bool | None:
    """What answers say of how they were made: True if one says that a drafter was in use for it, False if each says that none
    was, and why; else None."""
    return together(_effective(dict(answer.claims)) for answer in answers)


def _effective(claims: Mapping[str, Scalar]) -> bool | None:
    types = claims.get(_EFFECTIVE)
    if types is None:
        return None
    if is_on(types):
        return True
    return False if claims.get(_REASON) else None


def together(said: Iterable[bool | None]) -> bool | None:
    """True if any is, False if all are, else None."""
    said = set(said)
    return True if True in said else False if said == {False} else None


def drafting(reports: Reports, answers: Iterable[Completion], said: bool | None = None) -> Drafting:
    """What these answers show. Only positive evidence says `SEEN`; only a live report says `OFF` or `DECLINED`.

    said: as `effective`, of answers that are no longer at hand.
    """
    answers = list(answers)
    if any(map(drafts, answers)):
        return Drafting.SEEN
    said = effective(a for a in answers if a.ok) if answers else said
    if said:
        return Drafting.SILENT
    live = [is_on(value) for where, value in reports if where in LIVE_REPORTS]
    if live and not any(live):
        return Drafting.OFF
    if said is False:
        return Drafting.DECLINED
    totals = [is_on(value) for where, value in reports if where.startswith(TOTALS)]
    claimed = [*reports, *(claim for a in answers for claim in a.claims)]
    claims = [is_on(value) for name, value in claimed if states(name, value)]
    return Drafting.SILENT if any(totals) or any(claims) else Drafting.UNKNOWN


def batches(answers: Iterable[Completion]) -> tuple[int, ...]:
    """The batches of rows whose noise concerns these answers (`Probe.noise`): long drafts are verified by other kernels."""
    return MANY_ROWS if any((a.drafted or 0) >= LONG_DRAFT for a in answers) else DRAFT_BATCHES


def tokens_per_step(answers: Sequence[Completion]) -> float | None:
    """Mean tokens emitted per verification step, from the answers' own counters: emitted / (emitted - accepted)."""
    counted = [a for a in answers if a.drafted and a.accepted is not None and a.completion_tokens]
    emitted = sum(a.completion_tokens or 0 for a in counted)
    accepted = sum(a.accepted or 0 for a in counted)
    return emitted / (emitted - accepted) if emitted > accepted else None


def without_drafts(state: Drafting) -> str:
    """What to add to a pass that no drafted token is part of."""
    return "no drafting on this server" if state is Drafting.OFF else f"drafting {state.value}"


def why_inconclusive(state: Drafting) -> str:
    """What to tell the user when nothing was drafted, or "" when a pass may be given."""
    if state is Drafting.SILENT:
        return "speculation is said to be on, but nothing was drafted on prompts made to force it"
    if state is Drafting.UNKNOWN:
        return (
            "no sign of drafting on prompts made to force it, and the server does not say whether it speculates; "
            f"if you know that it does not, say {DECLARED} no"
        )
    return ""
