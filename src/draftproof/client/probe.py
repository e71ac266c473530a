"""LiveProbe: how a check talks to a running server."""

from __future__ import annotations

import itertools
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from draftproof.client.dialect import Dialect, Survey
from draftproof.client.http import Http
from draftproof.client.oracle import Oracle
from draftproof.client.pipeline import in_order
from draftproof.client.replay import Replay
from draftproof.client.watch import Observed, Watch, likely, two_laws
from draftproof.core.ask import Ask, Completion, Prompt, Scalar
from draftproof.core.errors import InstrumentError
from draftproof.core.exchange import Exchange
from draftproof.core.facts import Facts
from draftproof.core.probe import DRAFT_BATCHES, TARGET_TV, Effort, KnownModel, OracleRow
from draftproof.core.terms import Terms

_MOST_IN_FLIGHT = 8
_UNKNOWN_SLOTS = 4
_AGAIN = 8
_BLOCK = 1 << 22
_BLOCKS = 1 << 9
"""Blocks of seeds, together all of [0, 2**31)."""


class LiveProbe:
    """Fulfils `core.probe.Probe`. Safe to use from several threads; `facts`, `known`, `effort` and `samples` may be set anew.

    `seed` is the audit's: it decides which seeds the requests get.
    """

    def __init__(
        self,
        http: Http,
        dialect: Dialect,
        facts: Facts,
        *,
        seed: int = 0,
        effort: Effort = Effort.STANDARD,
        samples: int | None = None,
        known: KnownModel | None = None,
    ) -> None:
        self.http = http
        self.dialect = dialect
        self.facts = facts
        self.effort = effort
        self.known = known
        self.samples = samples
        self.terms = Terms(target_tv=TARGET_TV[effort])
        self.fields: tuple[tuple[str, Scalar], ...] = ()
        """Go into every request."""
        self._lock = threading.Lock()
        self._answered: dict[Ask, Completion] = {}
        self._streams: dict[Ask, list[Completion]] = {}
        self._texts: dict[str, tuple[int, ...] | None] = {}
        self.watch = Watch()
        self.describing: tuple[str, ...] = ()
        """Endpoints by which the server names its build."""
        self.replay = Replay()
        """Answers that need not be asked for; set it before the first check."""
        self._seed = seed
        self._purpose = ""
        self._taken: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._oracle = Oracle(self.ask_many, facts)

    @property
    def requests(self) -> int:
        """Sent so far, those that the facts took included; a batch is one."""
        return self.http.requests

    def begin(self, check: str, terms: Terms) -> None:
        """What is asked from here on is asked for `check`, which is judged at `terms`."""
        self._purpose, self.terms = check, terms
        self.replay.begin(check)

    def ask(self, ask: Ask) -> Completion:
        """One answer; a refusal (4xx/5xx) is a Completion with `error`. Raises TargetError when there is no usable answer."""
        if ask.answers != 1:
            raise InstrumentError(f"ask() is for one answer, not {ask.answers}; use ask_many().")
        return self._send(self._routed(ask))[0]

    def ask_many(self, asks: Iterable[Ask]) -> Iterator[Completion]:
        """All answers in order, several requests in flight. An Ask with `count` n gives n answers, seeds seed .. seed+n-1
        or without seeds, by as few requests as the server allows. Raises TargetError at the place of an answer that cannot be used.
        """
        pieces = (piece for ask in asks for piece in self._pieces(self._routed(ask)))
        first = next(pieces, None)
        if first is None:
            return
        for answers in in_order(self._send, itertools.chain([first], pieces), self._in_flight(first.answers)):
            yield from answers

    def once(self, asks: Sequence[Ask]) -> list[Completion]:
        """As `ask` for each, in order; what was asked before by `once` is not sent again."""
        for ask in asks:
            if ask not in self._answered:
                self._answered[ask] = self.ask(ask)
        return [self._answered[ask] for ask in asks]

    def stream(self, ask: Ask, n: int) -> list[Completion]:
        """The first n answers to `ask`, whose seed is not used, under seeds of its own; asked for as far as not yet there."""
        have = self._streams.setdefault(replace(ask, seed=None), [])
        if len(have) < n:
            more = n - len(have)
            seed = self._seeds(more, repr(replace(ask, seed=None)))[0]
            have += self.ask_many([replace(ask, seed=seed, count=more)])
        return have[:n]

    def know(self, model: KnownModel, seen: OracleRow | None) -> None:
        """The server runs `model`. With a complete row of the server's own the model's law answers in place of its one-token
        requests, which must have been seen to agree.
        """
        self.known = model
        self.facts = replace(self.facts, countable=model.name)
        if seen is not None:
            self._oracle.know(model, seen)

    def oracle(self, context: Prompt, alternatives: int | None = None) -> OracleRow:
        """The one-token law after `context`; asked once, then remembered. Raises TargetError where there is none."""
        return self._oracle.rows([context], alternatives)[0]

    def oracle_many(
        self, contexts: Sequence[Prompt], alternatives: int | None = None, *, by_server: bool = False
    ) -> list[OracleRow]:
        """As `oracle` for each context, in order; `by_server` has the server asked even where the law is known."""
        return self._oracle.rows(contexts, alternatives, by_server=by_server)

    def noise(self, contexts: Sequence[Prompt], batches: tuple[int, ...] = DRAFT_BATCHES) -> float:
        """Noise of the server's laws, in nats (`noise.BatchNoise`).

        Measured once per number of rows, on the contexts of the first call.
        """
        return self._oracle.noise(contexts[: 1 if self.known else None], batches)

    def seeds(self, n: int) -> range:
        """n consecutive seeds in [1, 2**31) that no earlier call was given. Raises InstrumentError when they are used up."""
        return self._seeds(n, self._purpose)

    def _seeds(self, n: int, purpose: str) -> range:
        """Each purpose has a block of its own, chosen by its name and the audit's seed: an audit that asks more than an earlier one
        asks for the same in the same places.
        """
        with self._lock:
            if purpose not in self._next:
                block = zlib.crc32(f"{self._seed} {purpose}".encode()) % _BLOCKS
                while block in self._taken.values():
                    block = (block + 1) % _BLOCKS
                self._taken[purpose] = block
                self._next[purpose] = block * _BLOCK + 1
            start = self._next[purpose]
            if start + n > (self._taken[purpose] + 1) * _BLOCK:
                raise InstrumentError(f"There are no {n:,} unused seeds left.", "Split the audit.")
            self._next[purpose] = start + n
        return range(start, start + n)

    def tokenize(self, text: str) -> tuple[int, ...] | None:
        """Token ids of a text without special tokens, or None where the server does not tell."""
        if text not in self._texts:
            call = self.dialect.tokenize_call(text)
            self._texts[text] = None if call is None else self.dialect.parse_ids(self._post(call.path, call.body))
        return self._texts[text]

    def get(self, path: str) -> str | None:
        """Body of a GET, or None when the server answered with an error. Raises TargetError when it did not answer."""
        exchange = self.http.get(path)
        return exchange.answer if exchange.status is not None and 200 <= exchange.status < 300 else None

    def observed(self) -> Observed:
        """What all answers so far show of the server. Asks for its description once more, and where the same request had two
        laws, for that a few times. Raises TargetError when it does not answer.
        """
        for path in self.describing:
            self._describes_itself(self.http.get(path))
        ask = self.watch.suspicious()
        rows = [] if ask is None else [likely(self._ask_anew(ask)[0]) for _ in range(_AGAIN)]
        gap = two_laws([row for row in rows if row])
        return Observed(self.watch.identities, gap, self.http.patience.waits, self.http.patience.waited_s)

    def describes(self, survey: Survey) -> None:
        """What the server said of itself, to be compared with what it says later: of the endpoints that name its build."""
        for path, exchange in survey.answers.items():
            if self._describes_itself(exchange):
                self.describing = (*self.describing, path)

    def _describes_itself(self, exchange: Exchange) -> bool:
        build = self.dialect.describe(Survey({exchange.path: exchange})).build
        if build:
            self.watch.claim(f"build by {exchange.path}", build)
        return bool(build)

    def close(self) -> None:
        """Ends connections and waits; the evidence stays open."""
        self.http.close()

    def __enter__(self) -> LiveProbe:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _routed(self, ask: Ask) -> Ask:
        if self.facts.stream_only and not ask.stream:
            ask = replace(ask, stream=True)
        if ask.route is not None:
            return ask
        takes_ids = isinstance(ask.prompt, str)
        for route in self.facts.routes or self.dialect.routes:
            if ask.echo and route not in self.dialect.prompt_routes:
                continue
            if takes_ids or route in self.dialect.token_routes:
                return replace(ask, route=route)
        wanted = "gives logprobs of the prompt" if ask.echo else "takes token ids"
        raise InstrumentError(f"No route of this {self.facts.dialect} server {wanted}.")

    def _pieces(self, ask: Ask) -> Iterator[Ask]:
        """Requests that together give `ask.count` answers."""
        if ask.count == 1:
            yield ask
            return
        if ask.seed is None and not ask.stream and self.facts.batch_draws > 1 and ask.route == self.facts.routes[0]:
            for done in range(0, ask.count, self.facts.batch_draws):
                more = min(self.facts.batch_draws, ask.count - done) - 1
                yield replace(ask, count=1, also=(ask.prompt,) * more)
            return
        most = (
            self.facts.batch_seeds
            if ask.route in self.dialect.batch_routes and ask.seed is not None and not ask.stream
            else 1
        )
        for done in range(0, ask.count, most):
            seed = None if ask.seed is None else ask.seed + done
            yield replace(ask, seed=seed, count=min(most, ask.count - done))

    def _in_flight(self, count: int) -> int:
        slots = self.facts.slots or _UNKNOWN_SLOTS
        if count > 1:
            return max(2, min(_MOST_IN_FLIGHT, -(-slots // count) + 1))
        return min(slots, _MOST_IN_FLIGHT)

    def _send(self, ask: Ask) -> list[Completion]:
        if self.fields:
            ask = replace(ask, extra=(*ask.extra, *self.fields))
        call = self.dialect.call(ask, ask.route or "")
        answers = self.dialect.parse(ask, self._post(call.path, call.body))
        self.watch.saw(answers)
        return answers

    def _ask_anew(self, ask: Ask) -> list[Completion]:
        call = self.dialect.call(ask, ask.route or "")
        return self.dialect.parse(ask, self.http.post(call.path, call.body))

    def _post(self, path: str, body: bytes) -> Exchange:
        return self.replay.take(path, body) or self.http.post(path, body)
