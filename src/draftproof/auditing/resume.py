"""An earlier audit to go on from: what it asked, what it found, and whether this is the same server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from draftproof.auditing import record
from draftproof.auditing.config import AuditConfig
from draftproof.auditing.contents import Contents, read_contents
from draftproof.auditing.record import Collected
from draftproof.checks.check import AnyCheck
from draftproof.checks.drafting import DECLARED
from draftproof.client.evidence import Sink
from draftproof.client.probe import LiveProbe
from draftproof.client.replay import Replay
from draftproof.core.ask import Ask
from draftproof.core.errors import TargetError, UsageError
from draftproof.core.exchange import Exchange
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort
from draftproof.core.verdict import Verdict

IDENTITY = (
    "dialect",
    "build",
    "model",
    "vocabulary",
    "context",
    "routes",
    "token_prompts",
    "max_alternatives",
    "countable",
)
"""Facts that one and the same server has in both audits. Its address may be another one."""

SAME_LAW_NAT = 0.5
"""The same law asked for twice differs by the noise of the server, another model's by more."""
SPOTS = 3


@dataclass(frozen=True, slots=True)
class Earlier:
    """The contents of an evidence file, with its exchanges, and the facts of the server that it is about."""

    contents: Contents
    facts: Facts

    @property
    def path(self) -> Path:
        return self.contents.path

    @property
    def config(self) -> AuditConfig:
        return self.contents.header.config

    @property
    def continues(self) -> tuple[str, ...]:
        """The files of the audits that this one goes on from, and its own."""
        return (*self.contents.header.continues, str(self.path))

    @property
    def exchanges(self) -> dict[str, list[Exchange]]:
        """By the check that they were for ("" before the first)."""
        return self.contents.exchanges

    @property
    def last_number(self) -> int:
        return max((e.number for some in self.exchanges.values() for e in some), default=0)

    def replay(self) -> Replay:
        """Its answers to generation. A check that read the server's totals is asked anew: those have moved since."""
        anew = {check for check, some in self.exchanges.items() if any(e.method == "GET" for e in some)}
        return Replay((e for check, some in self.exchanges.items() if check and check not in anew for e in some), anew)

    def copy_to(self, sink: Sink) -> None:
        """All its exchanges, and what they were for."""
        for exchange in sorted((e for some in self.exchanges.values() for e in some), key=lambda e: e.number):
            sink.write(exchange)
        record.write_earlier(
            sink.record, self.path, {c: [e.number for e in some] for c, some in self.exchanges.items()}
        )

    def decided(self, check: AnyCheck, effort: Effort) -> Collected | None:
        """The evidence that still decides a check: of a fault, which stays found; where no more effort is made, of a pass too."""
        outcome, collected = self.contents.outcomes.get(check.name), self.contents.collected.get(check.name)
        if outcome is None or collected is None:
            return None
        verdict = outcome.judgement.verdict
        same_effort = effort is self.config.effort and verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE)
        return collected if verdict is Verdict.FAIL or same_effort else None


def read_earlier(path: Path) -> Earlier:
    """Raises EvidenceError for a file that is no audit's evidence, or ends before the server had described itself."""
    contents = read_contents(path, exchanges=True)
    return Earlier(contents, contents.described("There is nothing to go on from."))


def continued(config: AuditConfig, earlier: Earlier) -> AuditConfig:
    """What to do now: as then, with the effort and the limits of now. Raises UsageError for what cannot go together."""
    then = earlier.config
    if config.out is not None and config.out.resolve() == earlier.path.resolve():
        raise UsageError(
            "The evidence file to write (--out) is the one to resume from.",
            "Name another one: it will hold what both audits found.",
        )
    if config.seed not in (None, then.seed):
        raise UsageError(f"The audit to resume had the seed {then.seed}.", "Leave the seed out.")
    efforts = list(Effort)
    effort = max(config.effort, then.effort, key=efforts.index)
    return replace(
        config,
        seed=then.seed,
        alpha=then.alpha,
        effort=effort,
        checks=config.checks or then.checks,
        law=config.law or then.law,
    )


def require_same_server(earlier: Earlier, probe: LiveProbe) -> None:
    """Raises UsageError that says what differs: what the server says of itself, what it can, or the laws that it gives."""
    _require_same_facts(earlier.facts, probe.facts, earlier.path)
    _require_same_law(earlier, probe)


def _require_same_facts(earlier: Facts, now: Facts, path: Path) -> None:
    differing = [
        f"{name} was {_shown(getattr(earlier, name))}, is {_shown(getattr(now, name))}"
        for name in IDENTITY
        if getattr(earlier, name) != getattr(now, name)
    ]
    then, said = dict(_statements(earlier)), dict(_statements(now))
    differing += [
        f"{where} said {then[where]!r}, says {said.get(where)!r}" for where in then if then[where] != said.get(where)
    ]
    if differing:
        raise UsageError(
            f"{now.url} is not the server that {path} is about: {'; '.join(differing)}.",
            "Audit it anew, without --resume (resume=).",
        )


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _statements(facts: Facts) -> Iterator[tuple[str, object]]:
    """What a server says of speculation; totals move, and what the user said is no statement of the server."""
    return (
        (where, what) for where, what in facts.self_reports if where != DECLARED and not where.startswith("/metrics")
    )


def _require_same_law(earlier: Earlier, probe: LiveProbe) -> None:
    """Asks for a few one-token laws of the earlier audit again."""
    for exchange in _one_token(earlier):
        ask = Ask("", 1, 1)
        try:
            then = probe.dialect.parse(ask, exchange)[0]
            now = probe.dialect.parse(ask, probe.http.post(exchange.path, exchange.request.encode()))[0]
        except TargetError:
            continue
        gap = _gap(then.tokens and then.tokens[0].alternatives, now.tokens and now.tokens[0].alternatives)
        if gap > SAME_LAW_NAT:
            raise UsageError(
                f"The server at {probe.facts.url} has other laws than in {earlier.path}: the same one-token request differs by "
                f"{gap:.2g} nat (exchange {exchange.number} there). It runs another model or other settings.",
                "Audit it anew, without --resume (resume=).",
            )


def _one_token(earlier: Earlier) -> Sequence[Exchange]:
    """The first few requests for one token of one prompt with alternatives."""
    found: list[Exchange] = []
    for exchange in (e for some in earlier.exchanges.values() for e in some if e.method == "POST" and e.status == 200):
        body = json.loads(exchange.request)
        prompt = body.get("prompt")
        single = not (isinstance(prompt, list) and prompt and isinstance(prompt[0], list))
        one = 1 in (body.get("n_predict"), body.get("max_tokens")) and not body.get("stream")
        if (
            one
            and single
            and (body.get("n_probs") or body.get("logprobs"))
            and not (body.get("n_cmpl") or body.get("n"))
        ):
            found.append(exchange)
    return found[:: max(1, len(found) // SPOTS)][:SPOTS]


def _gap(a: object, b: object) -> float:
    """The largest difference in nats between two lists of alternatives over what both name."""
    rows = [
        {x.text: x.logprob for x in some if x.logprob is not None} if isinstance(some, tuple) else {} for some in (a, b)
    ]
    likely = {text for text, value in rows[0].items() if value > -7}
    return max((abs(rows[0][text] - rows[1].get(text, -30.0)) for text in likely), default=0.0)
