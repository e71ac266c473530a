"""Do the entries spell the text byte for byte, and is every value in them a number that was measured?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, drafting, why_inconclusive
from draftproof.checks.prompts import foreign, is_chat, is_small
from draftproof.core.ask import Ask, Completion
from draftproof.core.errors import NoNumber
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.tokens import Alternative, TokenRecord
from draftproof.core.verdict import Finding, Judgement, Verdict

TOKENS = 16
"""Of the requests under which tokens become impossible."""

FOREIGN_TOKENS = 32
MANY = 20
BAN = -100.0
SENTINEL = -100.0
"""A whole number of nats at or below this stands for something else: no measured logprob is one."""
ABSURD = 1e30
REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers of the kinds in which odd numbers and split characters turn up.

    `unreadable`: number of the exchange and what was wrong, for answers that hold a value which is no number. `letters`: the model
    has a few letters and no other character.
    """

    reports: Reports
    letters: bool
    answers: tuple[Completion, ...]
    unreadable: tuple[tuple[int, str], ...] = ()


def collect(probe: Probe) -> Evidence:
    forced = common.forced(probe, 0.0)
    answers, unreadable = [], []
    small = is_small(probe)
    asks = [*forced[:1], *forced[3:], *_extreme(probe, forced[0])] + (
        [] if small else _foreign(probe, forced[0].alternatives)
    )
    for n, ask in enumerate(asks):
        try:
            answers.append(probe.once([ask])[0] if n == 0 or ask in forced else probe.ask(ask))
        except NoNumber as e:
            unreadable.append((e.exchange or 0, e.message))
    return Evidence(probe.facts.self_reports, small, tuple(answers), tuple(unreadable))


def _extreme(probe: Probe, plain: Ask) -> list[Ask]:
    """Requests under which tokens become impossible: one candidate; hardly any temperature and the likeliest token banned."""
    many = replace(plain, max_tokens=TOKENS, alternatives=min(MANY, probe.facts.max_alternatives))
    banned = probe.oracle(plain.prompt).ids[0]
    bias = ((banned, BAN),) if banned >= 0 else ()
    return [
        replace(many, sampling=replace(NEUTRAL, top_k=1)),
        replace(many, sampling=Sampling(temperature=0.01, logit_bias=bias)),
    ]


def _foreign(probe: Probe, wanted: int) -> list[Ask]:
    """Requests for text of characters of several bytes: whole, streamed, and as a chat."""
    prompt, text, grammar = foreign(probe)
    ask = Ask(prompt, FOREIGN_TOKENS, wanted, GREEDY, seed=7, grammar=grammar)
    chats = [replace(ask, prompt=text, route=route) for route in probe.facts.routes[1:] if is_chat(route)]
    return [ask, replace(ask, stream=True), *chats]


def _values(token: TokenRecord) -> Iterator[float]:
    for value in (token.logprob, *(entry.logprob for entry in token.alternatives or ())):
        if value is not None:
            yield value


def _is_sentinel(value: float) -> bool:
    return math.isfinite(value) and (abs(value) > ABSURD or (value <= SENTINEL and value == math.floor(value)))


def _joined(answer: Completion) -> bytes | None:
    """The bytes of all entries, one after the other; None where an entry has none or is missing."""
    pieces = [t.bytes for t in answer.tokens]
    if not pieces or any(p is None or not all(0 <= b < 256 for b in p) for p in pieces):
        return None
    return b"".join(bytes(p) for p in pieces if p is not None)


def _spells(joined: bytes, answer: Completion) -> bool:
    """Whether these bytes are the text; at its end a character that was cut through, or the end token, may stand over."""
    text = answer.text.encode("utf-8", "surrogatepass").lstrip()
    joined = joined.lstrip()
    if joined.startswith(text):
        rest = joined[len(text) :]
        return not rest.decode("utf-8", "ignore") or answer.finish == "stop" or not rest.strip()
    shown = joined.decode("utf-8", "replace").rstrip(REPLACEMENT)
    return shown == answer.text.lstrip().rstrip(REPLACEMENT)


def _is_lost(token: TokenRecord) -> bool:
    return token.bytes is not None and REPLACEMENT.encode() in bytes(b for b in token.bytes if 0 <= b < 256)


def _faults(answer: Completion) -> Iterator[tuple[str, str]]:
    if not answer.ok:
        if answer.status >= 500:
            yield "BROKEN", f"HTTP {answer.status} with logprobs: {answer.error}"
        return
    odd = sorted({v for t in answer.tokens for v in _values(t) if _is_sentinel(v)})
    if odd:
        yield "SENTINEL", f"{odd[0]:g} stands where a logprob should be"
    lost = [n for n, t in enumerate(answer.tokens) if _is_lost(t)] if REPLACEMENT not in answer.text else []
    joined = _joined(answer)
    if lost:
        yield "LOST_BYTES", f"the bytes of token {lost[0] + 1} are those of U+FFFD, which is not in the text"
    elif joined is not None and not _spells(joined, answer):
        start = next((n for n, (a, b) in enumerate(zip(joined, answer.text.encode(), strict=False)) if a != b), None)
        where = "they end early" if start is None else f"from byte {start + 1} on"
        yield "BYTES", f"the bytes of the entries are not those of the text {answer.text[:40]!r} ({where})"
    last = len(answer.tokens) - (answer.finish == "stop")
    nameless = [n for n, t in enumerate(answer.tokens[:last]) if _is_nameless(t)]
    if nameless:
        yield "NAMELESS", f"token {nameless[0] + 1} has a logprob, but neither text, bytes nor id"


def _is_nameless(token: TokenRecord) -> bool:
    return token.logprob is not None and token.id is None and not token.text and not token.bytes


def _is_foreign(answer: Completion) -> bool:
    """Whether an answer has characters of several bytes, and bytes to hold against them."""
    return answer.ok and not answer.text.isascii() and _joined(answer) is not None


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when the bytes of the entries are not the text's, or when a value is no number or stands for something else."""
    findings = [Finding("NO_NUMBER", text, (exchange,)) for exchange, text in evidence.unreadable]
    for answer in evidence.answers:
        for code, text in _faults(answer):
            where = f"{answer.route}{', streamed' if answer.ask.stream else ''}"
            findings.append(Finding(code, f"{text} ({where})", (answer.exchange,)))
    answered = [a for a in evidence.answers if a.ok and a.tokens]
    values = sum(1 for a in answered for t in a.tokens for _ in _values(t))
    spelled = [a for a in answered if _joined(a) is not None]
    measured = {
        "values": values,
        "texts held against bytes": len(spelled),
        "of them foreign": sum(map(_is_foreign, spelled)),
    }
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, tuple(findings), measured=measured)
    if not values:
        return Judgement(Verdict.INCONCLUSIVE, "no value came", measured=measured, missing="an answer with logprobs")
    if not evidence.letters and not any(map(_is_foreign, spelled)):
        text = "no text with characters of several bytes came together with the bytes of its tokens"
        return Judgement(
            Verdict.INCONCLUSIVE, text, measured=measured, missing="bytes of tokens, or a model that copies text"
        )
    missing = why_inconclusive(drafting(evidence.reports, answered))
    if missing:
        return Judgement(Verdict.INCONCLUSIVE, missing, measured=measured, missing="a prompt that drafts")
    scope = ", letters only: the model has no others" if evidence.letters else ""
    summary = f"{values} values are numbers, and the tokens of {len(spelled)} answers spell their text{scope}"
    return Judgement(Verdict.PASS, summary, measured=measured)


def requests(facts: Facts, effort: Effort) -> int:
    return 2 if facts.countable else 5


def _token(text: str, raw: Sequence[int] | None, logprob: float | None = -0.5, i: int | None = 3) -> TokenRecord:
    return TokenRecord(i, text, None if raw is None else tuple(raw), logprob, made.alternatives(made.LAW, 3))


def _answer(
    *tokens: TokenRecord, text: str, finish: str = "length", drafted: int | None = 3, stream: bool = False
) -> Completion:
    return replace(made.answer(tokens, drafted=drafted, finish=finish, stream=stream), text=text)


def _of(*answers: Completion, letters: bool = False) -> Evidence:
    return Evidence(made.LIVE_ON, letters, answers)


_LLAMA = "\U0001f999".encode()
_HALVES = (_token(REPLACEMENT, _LLAMA[:2]), _token(REPLACEMENT, _LLAMA[2:]))
_A, _B = _token("a", b"a"), _token("b", b"b")
_WHOLE = _answer(_A, *_HALVES, _B, text="a\U0001f999b")
_LOST = tuple(replace(t, bytes=tuple(REPLACEMENT.encode())) for t in _HALVES)
_PLAIN = _answer(_A, _B, text="ab")

CHECK = Check(
    name="logprobs/encoding",
    claim="The bytes of the entries are those of the text, and every logprob is a number that was measured.",
    blind_to="Bytes of alternatives; values of tokens that are hardly ever drawn.",
    remedy="Leave out values that are whole numbers of -100 or less; align by token ids, not by the entries' text.",
    aspects=("first logprob", "logprobs"),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=lambda facts: "" if facts.routes and facts.max_alternatives else "this server gives no alternatives",
    examples=(
        Example(
            "the bytes of half a character lost",
            _of(_answer(_A, *_LOST, _B, text="a\U0001f999b")),
            Verdict.FAIL,
            ("LOST_BYTES",),
        ),
        Example(
            "a token's bytes left out", _of(_answer(_A, _HALVES[0], _B, text="a\U0001f999b")), Verdict.FAIL, ("BYTES",)
        ),
        Example("a character lost in the text", _of(_answer(_A, *_HALVES, _B, text="ab")), Verdict.FAIL, ("BYTES",)),
        Example(
            "a token that cannot be told",
            _of(_WHOLE, _answer(_A, _token("", None, i=None), text="a")),
            Verdict.FAIL,
            ("NAMELESS",),
        ),
        Example("-9999", _of(_WHOLE, _answer(replace(_A, logprob=-9999.0), text="a")), Verdict.FAIL, ("SENTINEL",)),
        Example("-100", _of(_WHOLE, _answer(replace(_A, logprob=-100.0), text="a")), Verdict.FAIL, ("SENTINEL",)),
        Example(
            "the least float32 in a list",
            _of(_WHOLE, _answer(replace(_A, alternatives=(Alternative(1, "b", -3.4028234663852886e38),)), text="a")),
            Verdict.FAIL,
            ("SENTINEL",),
        ),
        Example("NaN", replace(_of(_WHOLE), unreadable=((4, "NaN is not JSON"),)), Verdict.FAIL, ("NO_NUMBER",)),
        Example(
            "an internal error only with logprobs",
            _of(_WHOLE, made.answer((), status=500, error="Out of range float values are not JSON compliant")),
            Verdict.FAIL,
            ("BROKEN",),
        ),
        Example("a character of two tokens", _of(_WHOLE), Verdict.PASS),
        Example("cut through a character", _of(_WHOLE, _answer(_A, _HALVES[0], text="a")), Verdict.PASS),
        Example(
            "the same, shown as U+FFFD", _of(_WHOLE, _answer(_A, _HALVES[0], text="a" + REPLACEMENT)), Verdict.PASS
        ),
        Example(
            "an end token", _of(_WHOLE, _answer(_A, _token("</s>", b"</s>"), text="a", finish="stop")), Verdict.PASS
        ),
        Example(
            "an end token without a name",
            _of(_WHOLE, _answer(_A, _token("", None, i=None), text="a", finish="stop")),
            Verdict.PASS,
        ),
        Example(
            "a line break that the text was stripped of",
            _of(_WHOLE, _answer(_A, _token("\n", b"\n"), text="a")),
            Verdict.PASS,
        ),
        Example("one entry without bytes", _of(_WHOLE, _answer(_A, _token("b", None), text="ab")), Verdict.PASS),
        Example("a very unlikely token", _of(_WHOLE, _answer(replace(_A, logprob=-103.4), text="a")), Verdict.PASS),
        Example("a model of a few letters", _of(_PLAIN, letters=True), Verdict.PASS),
        Example("nothing but letters came", _of(_PLAIN), Verdict.INCONCLUSIVE),
        Example(
            "no bytes given",
            _of(_answer(*(replace(t, bytes=None) for t in _HALVES), text="\U0001f999")),
            Verdict.INCONCLUSIVE,
        ),
        Example("nothing drafted", _of(replace(_WHOLE, drafted=None)), Verdict.INCONCLUSIVE),
        Example("nothing came", _of(), Verdict.INCONCLUSIVE),
    ),
)
