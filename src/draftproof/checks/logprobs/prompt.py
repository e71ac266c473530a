"""Are the logprobs of the prompt's own tokens, which evaluations sum, there and true?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.contexts import fresh_row
from draftproof.checks.logprobs.prompt_values import Place, Value, compared, shift
from draftproof.checks.prompts import is_small, letters, longer
from draftproof.checks.tolerance import ALL, NOISE_LIMIT, tolerances
from draftproof.client.noise import squared_difference
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, OracleRow, Probe
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

LETTERS = 48
MADE = 8
"""Tokens generated after the shorter prompt, so that a draft is made while the prompt's logprobs are held."""
PLACES = {Effort.QUICK: 4, Effort.STANDARD: 8, Effort.DEEP: 24}


@dataclass(frozen=True, slots=True)
class Evidence:
    """`length` is the number of tokens in the prompt where it was given as ids. `shorter` is the answer to the same prompt
    without its last third, `bare` that to the whole prompt with no token to generate.

    `noise`: RMS difference in nats of the server's laws by themselves.
    """

    length: int | None
    answer: Completion
    places: tuple[Place, ...] = ()
    bare: Completion | None = None
    shorter: Completion | None = None
    noise: float = 0.0


def collect(probe: Probe) -> Evidence:
    prompt = letters(probe, LETTERS, 82) if is_small(probe) else longer(probe)
    length = None if isinstance(prompt, str) else len(prompt)
    ask = Ask(prompt, 1, min(5, probe.facts.max_alternatives), GREEDY, seed=7, echo=True)
    answer = probe.ask(ask)
    if not answer.ok or len(answer.prompt) < 2:
        return Evidence(length, answer)
    places = tuple(_places(probe, answer))
    pieces = [p for p in (_cut(answer, -(len(answer.prompt) // 3)),) if p is not None]
    shorter = [probe.ask(replace(ask, prompt=piece, max_tokens=MADE)) for piece in pieces]
    return Evidence(
        length,
        answer,
        places,
        bare=probe.ask(replace(ask, max_tokens=0)),
        shorter=next(iter(shorter), None),
        noise=0.0 if is_small(probe) or probe.facts.uncached else probe.noise([prompt]),
    )


def _cut(answer: Completion, n: int) -> Prompt | None:
    """The prompt up to the token of entry n (from the end, negative), or None where it cannot be written down exactly.

    Text is cut where a word begins: there, and hardly anywhere else, the tokens of the piece are those of the whole.
    """
    prompt, entries = answer.ask.prompt, answer.prompt
    if isinstance(prompt, tuple):
        return prompt[:n] if len(prompt) + n > 0 else None
    texts = [t.text for t in entries]
    before = "".join(texts[:n])
    whole = "".join(texts) == prompt and texts[n].startswith(" ")
    return before if whole and before else None


def _places(probe: Probe, answer: Completion) -> Iterator[Place]:
    """Places spread over the prompt, each with the oracle's row."""
    usable = [n for n in range(-len(answer.prompt) + 1, 0) if _cut(answer, n) is not None]
    wanted = min(PLACES[probe.effort], len(usable))
    for i in range(wanted):
        n = usable[(2 * i + 1) * len(usable) // (2 * wanted)]
        context = _cut(answer, n)
        assert context is not None
        row = probe.oracle(context)
        anew = None if is_small(probe) else fresh_row(probe, context)
        yield Place(n, row, anew)


def _state(evidence: Evidence) -> str:
    """In one word what came of asking for the prompt's logprobs."""
    answer = evidence.answer
    if not answer.ok:
        return "BROKEN" if answer.status >= 500 else "REFUSED"
    if not answer.prompt:
        return "MISSING" if _echoes(answer) else "IGNORED"
    return "MISSING" if evidence.length is not None and len(answer.prompt) < evidence.length - 1 else "ok"


def _echoes(answer: Completion) -> bool:
    """Whether the text begins with the prompt, so that the server shows that it knows the field."""
    prompt = answer.ask.prompt
    if isinstance(prompt, str):
        return answer.text.startswith(prompt)
    made = "".join(t.text for t in answer.tokens)
    return bool(made) and len(answer.text) > len(made)


def _noise(evidence: Evidence) -> float:
    squares = [squared_difference(p.row, p.anew) for p in evidence.places if p.anew is not None]
    return max(evidence.noise, math.sqrt(max(squares, default=0.0)))


def _moved(evidence: Evidence, limit: float) -> Iterator[tuple[Completion, str]]:
    """Answers in which a prompt token has another value although the same tokens stand before it."""
    entries = evidence.answer.prompt
    for other, what in ((evidence.bare, "nothing is generated"), (evidence.shorter, "the prompt is cut after it")):
        if other is None or not other.ok or not other.prompt:
            continue
        both = zip(entries, other.prompt, strict=False)
        wrong = [
            (n, a.logprob, b.logprob)
            for n, (a, b) in enumerate(both)
            if a.logprob is not None and (b.logprob is None or abs(a.logprob - b.logprob) > limit)
        ]
        if wrong:
            n, a, b = wrong[0]
            told = "none" if b is None else f"{b:.4f}"
            yield other, f"{len(wrong)} values change when {what}: token {n + 1} from {a:.4f} to {told}"


def _findings(evidence: Evidence, limit: float) -> Iterator[Finding]:
    answer = evidence.answer
    values = [t.logprob for t in answer.prompt if t.logprob is not None]
    exchange = (answer.exchange,)
    if not values or set(values) == {0.0}:
        text = f"all {len(values)} logprobs of the prompt are 0" if values else "every logprob of the prompt is null"
        yield Finding("PLACEHOLDER" if values else "MISSING", text, exchange)
        return
    if answer.prompt[0].logprob == 0.0:
        yield Finding("PLACEHOLDER", "the prompt's first token, which nothing precedes, is given 0.0", exchange)
    if absent := sum(t.logprob is None for t in answer.prompt[1:]):
        yield Finding("MISSING", f"{absent} of {len(answer.prompt)} prompt tokens have no logprob", exchange)
    wrong = [value for value in compared(answer, evidence.places) if abs(value.error) > limit]
    if wrong:
        first, all_ = wrong[0], len(evidence.places)
        moved = shift(answer, evidence.places, limit)
        told = f"{first.true:.4f}" if first.true is not None else f"at most {first.ceiling:.4f}"
        text = f"{len(wrong)} of {all_} values are wrong, such as {first.reported:.4f} where the oracle has {told}"
        text += f"; {moved}" if moved else ""
        yield Finding("SHIFTED" if moved else "CORRUPT", text, exchange)
    for other, text in _moved(evidence, limit):
        yield Finding("UNSTEADY", text, (answer.exchange, other.exchange))


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when prompt tokens lack a logprob, or when a value differs by more than max(.05, 20 noise) nats from the one-token
    oracle's, or from itself when more or less follows.

    Not offering them is no fault, whether it is said or not: then the check is not applicable, and says what came instead.
    """
    answer, state = evidence.answer, _state(evidence)
    got = len(answer.prompt)
    if state == "BROKEN":
        text = f"HTTP {answer.status} for a request for the prompt's logprobs: {answer.error}"
        return Judgement(Verdict.FAIL, text, (Finding(state, text, (answer.exchange,)),))
    if state == "REFUSED":
        return Judgement(Verdict.NOT_APPLICABLE, f"logprobs of the prompt are refused: {answer.error}")
    if state == "IGNORED":
        text = (
            "the request for the prompt's logprobs is ignored, with no error: the answer has the logprobs of "
            f"{len(answer.tokens)} generated tokens only, and a client that adds them up scores those"
        )
        return Judgement(Verdict.NOT_APPLICABLE, text, (Finding(state, text, (answer.exchange,)),))
    if state == "MISSING":
        text = f"{got} logprobs for a prompt of {answer.prompt_tokens or evidence.length} tokens"
        return Judgement(Verdict.FAIL, text, (Finding(state, text, (answer.exchange,)),))
    noise = _noise(evidence)
    _, limit = tolerances(noise)
    again = compared(answer, evidence.places)
    worst = max((abs(value.error) for value in again), default=0.0)
    measured = {"prompt tokens": got, "asked again": len(again), "noise (nat)": noise, "worst difference (nat)": worst}
    findings = tuple(_findings(evidence, limit))
    tables = (_table(again),) if again else ()
    if findings:
        return Judgement(Verdict.FAIL, findings[0].text, findings, measured=measured, tables=tables)
    if noise > NOISE_LIMIT and any(_findings(evidence, ALL)):
        text = f"the server differs from itself by {noise:.3f} nat (RMS), too much to judge single values"
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, missing="a server with less numerical noise")
    if not again:
        text = "no token of the prompt could be asked again"
        return Judgement(
            Verdict.INCONCLUSIVE, text, measured=measured, missing="prompts whose tokens can be written down"
        )
    summary = f"{got} tokens of the prompt have logprobs; {len(again)} asked again differ by {worst:.1e} nat at most"
    return Judgement(Verdict.PASS, summary, measured=measured, tables=tables)


def _table(again: Sequence[Value]) -> Table:
    rows = tuple((value.n, value.reported, value.true, value.error) for value in again)
    return Table("Prompt tokens asked again", ("token from the end", "reported", "true", "difference"), rows)


def requests(facts: Facts, effort: Effort) -> int:
    places = 0 if facts.countable else PLACES[effort] * (2 if facts.uncached else 1)
    return 3 + places


_LAWS = (made.LAW, (0.1, 0.6, 0.1, 0.1, 0.1), (0.3, 0.05, 0.25, 0.25, 0.15), (0.02, 0.08, 0.7, 0.15, 0.05))
_IDS = tuple(i * 7 % 5 for i in range(12))
_FIRST = TokenRecord(None, made.letter(_IDS[0]), None, None, None)


def _value(n: int) -> float:
    return math.log(_LAWS[n % 4][_IDS[n]])


_TRUE = (_FIRST, *(replace(_FIRST, text=made.letter(_IDS[n]), logprob=_value(n)) for n in range(1, 12)))


def _place(n: int, noise: float = 0.0) -> Place:
    entries = made.alternatives(_LAWS[n % 4], 5)

    def row(by: float) -> OracleRow:
        values = tuple((e.logprob or 0.0) + by for e in entries)
        return OracleRow(tuple(e.id or 0 for e in entries), tuple(e.text for e in entries), values, 2, complete=True)

    return Place(n - 12, row(0.0), row(noise) if noise else None)


def _answer(entries: Sequence[TokenRecord], text: str | None = None, **more: object) -> Completion:
    whole = made.answer([made.true_token(1)], route="/v1/completions")
    ask = replace(whole.ask, prompt=_IDS, echo=True)
    echoed = "".join(map(made.letter, _IDS)) + whole.text if text is None else text
    return replace(whole, ask=ask, prompt=tuple(entries), text=echoed, prompt_tokens=12, **more)  # type: ignore[arg-type]


def _of(
    entries: Sequence[TokenRecord],
    *,
    shorter: Sequence[TokenRecord] | None = None,
    noise: float = 0.0,
    text: str | None = None,
) -> Evidence:
    places = tuple(_place(n, noise) for n in (2, 5, 7, 10)) if len(entries) >= 12 else ()
    cut = None if shorter is None else _answer(shorter)
    return Evidence(12, _answer(entries, text), places, shorter=cut)


def _changed(n: int, value: float | None, entries: Sequence[TokenRecord] = _TRUE) -> tuple[TokenRecord, ...]:
    return tuple(replace(t, logprob=value) if i == n else t for i, t in enumerate(entries))


_ZEROS = tuple(replace(t, logprob=0.0) for t in _TRUE)
_LATE = (_FIRST, _TRUE[1], *(replace(t, logprob=b.logprob) for t, b in zip(_TRUE[2:], _TRUE[1:], strict=False)))
_BEFORE = (_FIRST, _TRUE[1], *(replace(_TRUE[n], logprob=math.log(_LAWS[(n - 1) % 4][_IDS[n]])) for n in range(2, 12)))
_EARLY = (_FIRST, *(replace(t, logprob=b.logprob) for t, b in zip(_TRUE[1:], (*_TRUE[2:], _TRUE[1]), strict=True)))

CHECK = Check(
    name="logprobs/prompt",
    claim="Asked for the logprobs of the prompt, the server gives one per token, the target's own, however the prompt is cut.",
    blind_to="Prompts of more tokens than the one tried; servers with speculation off for such requests.",
    remedy="Do not score texts with this server: its logprobs of prompts are not the model's.",
    aspects=("logprobs",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=lambda facts: (
        "" if set(facts.routes) & set(facts.prompt_routes) else "no way is known to ask this server for them"
    ),
    examples=(
        Example("all zero", _of(_ZEROS), Verdict.FAIL, ("PLACEHOLDER",)),
        Example("zero for the first token", _of(_changed(0, 0.0)), Verdict.FAIL, ("PLACEHOLDER",)),
        Example("the text is echoed, its logprobs are not", _of(()), Verdict.FAIL, ("MISSING",)),
        Example("half of the tokens", _of(_TRUE[6:]), Verdict.FAIL, ("MISSING",)),
        Example("nulls in the middle", _of(_changed(4, None)), Verdict.FAIL, ("MISSING",)),
        Example("one place late", _of(_LATE), Verdict.FAIL, ("SHIFTED",)),
        Example("one place early", _of(_EARLY), Verdict.FAIL, ("SHIFTED",)),
        Example("the row before", _of(_BEFORE), Verdict.FAIL, ("SHIFTED",)),
        Example("one value of a chunk is wrong", _of(_changed(7, -9.0)), Verdict.FAIL, ("CORRUPT",)),
        Example("null for the second token", _of(_changed(1, None)), Verdict.FAIL, ("MISSING",)),
        Example(
            "another value in a shorter prompt",
            _of(_TRUE, shorter=_changed(3, -6.0)[:8]),
            Verdict.FAIL,
            ("UNSTEADY",),
        ),
        Example(
            "an internal error",
            Evidence(12, replace(made.answer((), status=500, error="echo"), route="/v1/completions")),
            Verdict.FAIL,
            ("BROKEN",),
        ),
        Example("true", _of(_TRUE, shorter=_TRUE[:8]), Verdict.PASS),
        Example("true, with a mark for the beginning of text", _of((_FIRST, *_changed(0, -3.0))), Verdict.PASS),
        Example("off by less than the noise", _of(_changed(7, _value(7) - 0.2), noise=0.02), Verdict.PASS),
        Example("too short to be asked again", replace(_of(_TRUE), places=()), Verdict.INCONCLUSIVE),
        Example("true in spite of noise", _of(_TRUE, noise=0.2), Verdict.PASS),
        Example("too noisy to judge", _of(_changed(7, _value(7) - 0.4), noise=0.2), Verdict.INCONCLUSIVE),
        Example("ignored in silence", _of((), text="b"), Verdict.NOT_APPLICABLE, ("IGNORED",)),
        Example(
            "refused",
            Evidence(12, made.answer((), status=400, error="echo is not supported")),
            Verdict.NOT_APPLICABLE,
        ),
    ),
)
