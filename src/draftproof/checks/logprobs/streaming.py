"""Does a streamed answer carry the same tokens, logprobs and alternatives as a whole one?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports, batches, drafting, why_inconclusive
from draftproof.checks.logprobs.entries import Pair, absent, copied, differences, in_common, near_tie, noise_of
from draftproof.checks.tolerance import ALL, NOISE_LIMIT, tolerances
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort, Probe
from draftproof.core.sampling import GREEDY
from draftproof.core.terms import Terms
from draftproof.core.tokens import TokenRecord
from draftproof.core.verdict import Finding, Judgement, Table, Verdict

REPEATS = 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """`streams`: a whole answer and a streamed one, per route and prompt; `repeats`: two whole ones, for the noise.

    `noise`: RMS difference in nats of the server's laws by one row and by a batch of rows: a stream may come another way.
    """

    reports: Reports
    streams: tuple[Pair, ...]
    repeats: tuple[Pair, ...] = ()
    noise: float = 0.0


def collect(probe: Probe) -> Evidence:
    forced = common.forced(probe, 0.0)
    asks = [forced[1], *common.elsewhere(probe), *forced[3:]]
    wholes = probe.once(asks)
    if not probe.facts.uncached:  # the first answers found no prompt in the cache; all later ones do, the streams too
        wholes = [probe.ask(ask) for ask in asks]
    repeats = [Pair(whole, probe.ask(whole.ask)) for whole in wholes[:REPEATS]]
    streamed = probe.once([replace(ask, stream=True) for ask in asks])
    streams = tuple(Pair(whole, stream) for whole, stream in zip(wholes, streamed, strict=True))
    noise = probe.noise([ask.prompt for ask in asks], batches(wholes))
    return Evidence(probe.facts.self_reports, streams, tuple(repeats), noise)


def _faults(pair: Pair, limit: float) -> Iterator[tuple[str, str]]:
    whole, stream = pair.whole, pair.other
    if not whole.ok or not stream.ok:
        if stream.status >= 500 and whole.ok:
            yield "BROKEN", f"HTTP {stream.status} when streamed: {stream.error}"
        return
    expected = sum(not absent(t) for t in whole.tokens)
    present = sum(not absent(t) for t in stream.tokens)
    common = in_common(pair)
    if len(common) < min(expected, present) and near_tie(pair, len(common), limit):
        return  # Two texts from here on: only what stands before can be compared, and it was found equal or not below.
    if present < expected:
        silent = sum(map(absent, stream.tokens))
        yield (
            "MISSING",
            f"{present} logprob entries when streamed, {expected} when not; {silent} tokens of the stream have none",
        )
        return
    if present > expected or len(common) < expected:
        yield (
            "STREAM_DIFFERS",
            f"other tokens when streamed, from token {len(common) + 1} on, where no near-tie explains it",
        )
    elif stream.text != whole.text:
        yield (
            "STREAM_DIFFERS",
            f"the text of the stream is {stream.text[:60]!r}, that of the whole answer {whole.text[:60]!r}",
        )
    if copied(stream, whole):
        yield "COPIED", "the tokens of one event carry one and the same list of alternatives"
        return
    yield from _wrong_values(common, limit)


def _wrong_values(common: Sequence[tuple[TokenRecord, TokenRecord]], limit: float) -> Iterator[tuple[str, str]]:
    wrong = [(n, a, b) for n, (a, b) in enumerate(common) if max(differences(a, b), default=0.0) > limit]
    if wrong:
        n, a, b = wrong[0]
        told = f"token {n + 1} has {_told(b)} when streamed, {_told(a)} when not"
        yield "STREAM_DIFFERS", f"{len(wrong)} of {len(common)} entries differ: {told}"


def _told(token: TokenRecord) -> str:
    value = "no logprob" if token.logprob is None else f"{token.logprob:.4f}"
    return f"{value} and {len(token.alternatives or ())} alternatives"


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when entries are missing from a stream, or differ by more than max(.05, 20 noise) nats, before any near-tie.

    No alpha is spent: the tolerance is a multiple of how far two whole answers differ, or one row and a batch, not a test.
    """
    noise = max(evidence.noise, noise_of([p for p in evidence.repeats if p.whole.ok and p.other.ok]))
    _, limit = tolerances(noise)
    found = [(pair, code, text) for pair in evidence.streams for code, text in _faults(pair, limit)]
    findings = tuple(Finding(c, f"{t} ({p.whole.route})", (p.whole.exchange, p.other.exchange)) for p, c, t in found)
    answered = [p for p in evidence.streams if p.whole.ok and p.other.ok]
    entries = sum(len(in_common(p)) for p in answered)
    measured = {"entries compared": entries, "noise (nat)": noise}
    tables = (_table(evidence.streams),) if evidence.streams else ()
    if findings:
        wrong = len({id(p) for p, _, _ in found})
        summary = f"{wrong} of {len(evidence.streams)} streams differ from the whole answer: {findings[0].text}"
        return Judgement(Verdict.FAIL, summary, findings, measured=measured, tables=tables)
    if evidence.streams and not answered:
        refusal = next(a.error for p in evidence.streams for a in (p.other, p.whole) if a.error)
        text = f"logprobs are not streamed: {refusal}"
        return Judgement(Verdict.NOT_APPLICABLE, text, measured=measured, tables=tables)
    if noise > NOISE_LIMIT and any(fault for pair in evidence.streams for fault in _faults(pair, ALL)):
        text = f"the server differs from itself by {noise:.3f} nat (RMS), too much to judge single values"
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, missing="a server with less numerical noise")
    if not entries:
        text = "no token came with a logprob"
        return Judgement(Verdict.INCONCLUSIVE, text, measured=measured, tables=tables, missing="answers with logprobs")
    missing = why_inconclusive(drafting(evidence.reports, [a for p in answered for a in (p.whole, p.other)]))
    if missing:
        return Judgement(
            Verdict.INCONCLUSIVE, missing, measured=measured, tables=tables, missing="a prompt that drafts"
        )
    summary = f"{entries} entries of {len(answered)} streams equal those of the whole answers"
    return Judgement(Verdict.PASS, summary, measured=measured, tables=tables)


def _table(streams: Sequence[Pair]) -> Table:
    rows = tuple(
        (
            p.whole.route,
            sum(not absent(t) for t in p.whole.tokens),
            sum(not absent(t) for t in p.other.tokens),
            len(in_common(p)),
            len(p.other.event_tokens),
            p.other.drafted,
        )
        for p in streams
    )
    return Table("Entries whole and streamed", ("route", "whole", "streamed", "in common", "events", "drafted"), rows)


def requests(facts: Facts, effort: Effort) -> int:
    asks = len(facts.routes) + (1 if facts.grammar else 0)
    return (1 if facts.uncached else 2) * asks + REPEATS


_LAWS = (made.LAW, (0.1, 0.6, 0.1, 0.1, 0.1), (0.3, 0.05, 0.4, 0.15, 0.1), (0.02, 0.08, 0.7, 0.15, 0.05))
_TOKENS = tuple(made.true_token(i, law) for i, law in zip((0, 1, 2, 2), _LAWS, strict=True))
_SILENT = TokenRecord(None, "b", None, None, None)


def _pair(
    tokens: Sequence[TokenRecord],
    events: Sequence[int] = (),
    *,
    text: str | None = None,
    drafted: int | None = 3,
    whole: Sequence[TokenRecord] = _TOKENS,
) -> Pair:
    plain = made.answer(whole, sampling=GREEDY, drafted=drafted)
    stream = made.answer(tokens, sampling=GREEDY, drafted=drafted, stream=True)
    ids = plain.token_ids
    return Pair(
        plain,
        replace(
            stream,
            text=plain.text if text is None else text,
            token_ids=ids,
            event_tokens=tuple(events) or (1,) * len(tokens),
        ),
    )


def _moved(by: float) -> tuple[TokenRecord, ...]:
    def moved(token: TokenRecord) -> TokenRecord:
        listed = tuple(replace(e, logprob=(e.logprob or 0.0) - by) for e in token.alternatives or ())
        return replace(token, logprob=(token.logprob or 0.0) - by, alternatives=listed)

    return tuple(map(moved, _TOKENS))


def _of(*streams: Pair, repeats: tuple[Pair, ...] = ()) -> Evidence:
    return Evidence(made.LIVE_ON, streams, repeats)


_TIED = (made.true_token(0), made.true_token(1, (0.41, 0.4, 0.1, 0.05, 0.04)))
_REFUSED = Pair(_pair(_TOKENS).whole, made.answer((), status=400, error="logprobs cannot be streamed", stream=True))

CHECK = Check(
    name="logprobs/streaming",
    claim="A streamed answer has the same tokens, logprobs and alternatives as a whole one.",
    blind_to="Faults that both have alike; when the events come.",
    remedy="Do not take logprobs from streams of this server; take them from whole answers where logprobs/rescored passes.",
    moot_after=("logprobs/placeholder", "logprobs/rescored"),
    aspects=("logprobs",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    applies=lambda facts: "" if facts.routes else "no route of this server gives logprobs",
    examples=(
        Example(
            "drafted tokens are streamed without logprobs",
            _of(_pair((_TOKENS[0], _SILENT, _SILENT, _TOKENS[3]), (1, 0, 0, 1))),
            Verdict.FAIL,
            ("MISSING",),
        ),
        Example("an event dropped with its logprobs", _of(_pair(_TOKENS[:3])), Verdict.FAIL, ("MISSING",)),
        Example(
            "one list for all tokens of an event",
            _of(_pair((_TOKENS[0], *(replace(t, alternatives=_TOKENS[1].alternatives) for t in _TOKENS[1:])), (1, 3))),
            Verdict.FAIL,
            ("COPIED",),
        ),
        Example("other values", _of(_pair(_moved(0.4))), Verdict.FAIL, ("STREAM_DIFFERS",)),
        Example(
            "placeholders only when whole",
            _of(_pair(_TOKENS, whole=(_TOKENS[0], *(made.placeholder(t.id or 0) for t in _TOKENS[1:])))),
            Verdict.FAIL,
            ("STREAM_DIFFERS",),
        ),
        Example(
            "another token without a tie",
            _of(_pair((_TOKENS[0], made.true_token(0, _LAWS[1]), *_TOKENS[2:]))),
            Verdict.FAIL,
            ("STREAM_DIFFERS",),
        ),
        Example("text lost on the way", _of(_pair(_TOKENS, text="abc")), Verdict.FAIL, ("STREAM_DIFFERS",)),
        Example(
            "an internal error only when streamed",
            _of(Pair(_REFUSED.whole, made.answer((), status=500, error="internal error", stream=True))),
            Verdict.FAIL,
            ("BROKEN",),
        ),
        Example("equal, one event per token", _of(_pair(_TOKENS)), Verdict.PASS),
        Example("equal, two events", _of(_pair(_TOKENS, (1, 3))), Verdict.PASS),
        Example(
            "text in an event of its own after all entries",
            _of(_pair((*_TOKENS, _SILENT), (1, 1, 1, 1, 0))),
            Verdict.PASS,
        ),
        Example(
            "no farther off than two whole answers are",
            _of(_pair(_moved(0.2)), repeats=(_pair(_moved(0.02)),)),
            Verdict.PASS,
        ),
        Example("another token at a near-tie", _of(_pair((_TIED[0], made.true_token(0)), whole=_TIED)), Verdict.PASS),
        Example("refused when streamed", _of(_REFUSED), Verdict.NOT_APPLICABLE),
        Example("equal in spite of noise", _of(_pair(_TOKENS), repeats=(_pair(_moved(0.2)),)), Verdict.PASS),
        Example("off by less than batches of rows are", replace(_of(_pair(_moved(0.4))), noise=0.03), Verdict.PASS),
        Example("too noisy to judge", _of(_pair(_moved(0.4)), repeats=(_pair(_moved(0.2)),)), Verdict.INCONCLUSIVE),
        Example("nothing drafted", _of(_pair(_TOKENS, drafted=None)), Verdict.INCONCLUSIVE),
        Example("nothing came", _of(), Verdict.INCONCLUSIVE),
    ),
)
