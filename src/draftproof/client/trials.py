"""Capabilities, tried out once each instead of believed."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from draftproof.client.coupling import predict, predict_sorted
from draftproof.client.dialect import Dialect
from draftproof.client.http import Http
from draftproof.client.openai_wire import HIDDEN
from draftproof.client.oracle import lawful, oracle_row
from draftproof.core.ask import Ask, Completion, Prompt
from draftproof.core.errors import TargetError, Unreachable
from draftproof.core.facts import Facts
from draftproof.core.mt19937 import MT19937, draws
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import NEUTRAL, Sampling

_PROMPT = "facade bed"
"""English, and within the eight letters of the countable models."""
_SEED = (1 << 31) + 4096
"""Above every seed that a probe hands out, so that no check meets a seed again."""
_TOKENS = 6
_SINGLES = 3
_NOT_WHOLE = (400, 405, 422, 501)
"""What a server says that streams only, and that is asked for a whole answer."""
_DRAWN, _DRAWN_TOKENS = 8, 16
_PROMPTS, _DRAWS = 64, 256
"""Prompts per request to a model of a few letters; of others as many as there are slots, so that none waits for long."""
_LADDER = (1000, 100, 20, 10, 5, 3, 1)
_SMALL_VOCABULARY = 4096
_TOP_K = 20
_EDGE = 0.01
_CHANCE = 1e-4
_MOST_COUPLED = 16
_SAME_LAW = 0.5
"""Nats by which one context's value may move in a batch; the laws of two contexts differ by more."""
_MOST_SILENT = 40
"""Seeds tried for a token that is a whole character."""


def try_out(http: Http, dialect: Dialect, facts: Facts) -> tuple[Dialect, Facts]:
    """The dialect that the server accepts, and its facts with the capabilities filled in.

    Raises TargetError when no route answers at all.
    """
    trials = _Trials(http, dialect, facts)
    trials.routes()
    trials.token_ids()
    trials.repetition()
    trials.prompts()
    trials.grammar()
    trials.coupling()
    trials.drafting()
    trials.pace()
    return trials.dialect, trials.facts


class _Trials:
    def __init__(self, http: Http, dialect: Dialect, facts: Facts) -> None:
        self.http = http
        self.dialect = dialect
        self.facts = facts
        self.prompt: Prompt = _PROMPT
        self.row: OracleRow | None = None
        self.texts: list[str] = []
        self.took_s: dict[int, list[float]] = {}
        self.route = dialect.routes[0]

    def ask(self, ask: Ask) -> list[Completion]:
        """Answers, or one with `error` and status 0 when it cannot be used. Raises Unreachable, and TargetError for silence: a
        server that needed more than that once is not worth waiting for thirty times.
        """
        route = ask.route or self.route
        if self.facts.stream_only:
            ask = replace(ask, stream=True)
        call = self.dialect.call(ask, route)
        began = time.monotonic()
        try:
            answers = self.dialect.parse(ask, self.http.post(call.path, call.body))
            if len(answers) == 1 and answers[0].error is None:
                self.took_s.setdefault(ask.max_tokens, []).append(time.monotonic() - began)
            if any(name == HIDDEN for answer in answers for name, _ in answer.claims):
                self.learn(hidden_tokens=True)
            return answers
        except Unreachable:
            raise
        except TargetError as e:
            if time.monotonic() - began >= self.http.limits.silence_s:
                raise
            return [Completion(ask, e.exchange or 0, route, 0, error=str(e))]

    def learn(self, **facts: object) -> None:
        self.facts = replace(self.facts, **facts)  # type: ignore[arg-type]

    def note(self, text: str) -> None:
        self.learn(notes=(*self.facts.notes, text))

    def routes(self) -> None:
        """Which routes generate, which of them give logprobs, and how many alternatives the best one gives."""
        best = self.dialect.routes[0]
        answers = self._all_routes()
        if all(answer.status in _NOT_WHOLE for answer in answers.values()):
            self.learn(stream_only=True)
            answers = self._all_routes()
        answering = [route for route, answer in answers.items() if answer.error is None]
        if not answering:
            raise _nothing_generates(self.http.url, tuple(answers.values()))
        giving = [route for route in answering if answers[route].tokens]
        if giving and giving[0] != best:
            answers[giving[0]] = self._logprobs(giving[0], self._ladder())
        for route in answering:
            if route not in giving:
                self.note(f"{route} gives no logprobs.")
        self.route = (giving or answering)[0]
        self.learn(routes=tuple(giving), max_alternatives=_alternatives(answers[self.route]))

    def _all_routes(self) -> dict[str, Completion]:
        best, *others = self.dialect.routes
        answers = {best: self._logprobs(best, self._ladder())}
        return answers | {route: self._logprobs(route, (5, 1)) for route in others}

    def _logprobs(self, route: str, ladder: Sequence[int]) -> Completion:
        """The answer with the longest list of alternatives that the route gives, else one without, else a refusal."""
        best: Completion | None = None
        for asked in ladder:
            answer = self._first_whole_token(Ask(_PROMPT, 1, alternatives=asked, seed=_SEED, route=route))
            if answer.error is None and _alternatives(answer):
                return answer
            if best is None or (answer.error is None and (best.error is not None or answer.tokens)):
                best = answer
            if answer.error is not None and answer.status not in (400, 422, 500):
                break
        assert best is not None
        if best.status in (400, 422, 500):
            best = self.ask(Ask(_PROMPT, 1, seed=_SEED, route=route))[0]
        return best

    def _first_whole_token(self, ask: Ask) -> Completion:
        """The answer of the first seed whose token is a whole character: of pieces a server may give no logprobs."""
        answer = self._without_refused_fields(ask)
        for seed in range(_SEED + 1, _SEED + _MOST_SILENT):
            if answer.error is not None or answer.tokens or not answer.text.endswith("\ufffd"):
                break
            answer = self.ask(replace(ask, seed=seed))[0]
        return answer

    def _without_refused_fields(self, ask: Ask) -> Completion:
        """Asks again with fewer fields where the server refuses the request, and goes on so when that helps."""
        answer = self.ask(ask)[0]
        full, plainer = self.dialect, self.dialect.plainer()
        while answer.status in (400, 422) and plainer is not None:
            self.dialect = plainer
            again = self.ask(ask)[0]
            if again.error is None:
                self.note(
                    "The server refuses sampler fields that OpenAI's API does not have; its own defaults may act."
                )
                return again
            plainer = plainer.plainer()
        self.dialect = full
        return answer

    def _ladder(self) -> Sequence[int]:
        vocabulary = self.facts.vocabulary
        if vocabulary is not None and vocabulary <= _SMALL_VOCABULARY:
            return (vocabulary, *(k for k in _LADDER if k < vocabulary))
        return _LADDER

    def token_ids(self) -> None:
        """Prompts of token ids, ids in answers; and the law after the prompt, for later."""
        call = self.dialect.tokenize_call(_PROMPT)
        ids: tuple[int, ...] | None = None
        if call is not None and self.route in self.dialect.token_routes:
            try:
                ids = self.dialect.parse_ids(self.http.post(call.path, call.body))
            except Unreachable:
                raise
            except TargetError:
                ids = None
        if not ids:
            return
        answer = self._first_whole_token(Ask(ids, 1, alternatives=self.facts.max_alternatives, seed=_SEED))
        if answer.error is not None:
            return
        self.prompt = ids
        self.learn(token_prompts=True, token_ids=answer.token_ids is not None)
        if answer.tokens and answer.tokens[0].alternatives:
            with suppress(TargetError):  # values that are no logprobs: checks say so
                self.row = lawful(oracle_row(answer.tokens[0], answer.exchange, self.facts.vocabulary))

    def repetition(self) -> None:
        """Whether a seed gives its text again, and whether a batch gives the texts of its seeds: the first ones and the last."""
        n = max(2, min(self.facts.slots or 4, 8))
        ask = Ask(self.prompt, _TOKENS, seed=_SEED)
        tried = [*range(min(n, _SINGLES) - 1), n - 1]
        answers = [self.ask(replace(ask, seed=_SEED + i))[0] for i in tried]
        again = self.ask(ask)[0]
        self.texts = [a.text for a in answers if a.error is None]
        self.learn(seeds=again.error is None and [again.text] == self.texts[:1])
        if not self.facts.seeds:
            self.note("The same seed gave two different texts.")
        if (
            len(self.texts) < len(tried)
            or len(set(self.texts)) == 1
            or self.route not in self.dialect.batch_routes
            or (self.facts.slots == 1 or self.facts.stream_only)
        ):
            return
        batch = self.ask(replace(ask, count=n))
        if [batch[i].text for i in tried if i < len(batch)] == self.texts:
            self.learn(batch_seeds=n)
        elif batch[0].error is None:
            self.note(
                f"A batch of {n} does not give the texts of single requests with the same seeds; batches are not used."
            )

    def pace(self) -> None:
        """How long a request takes, and a token, by the answers so far."""
        one, more = (self.took_s.get(tokens) for tokens in (1, _TOKENS))
        if one:
            self.learn(request_s=round(statistics.median(one), 6))
        if one and more:
            self.learn(token_s=round(max(0.0, statistics.median(more) - statistics.median(one)) / (_TOKENS - 1), 6))

    def prompts(self) -> None:
        """Whether one request may carry several prompts, each answered as if it were alone: two of them, by their first laws."""
        prompts: tuple[Prompt, ...] = (self.prompt * 2, self.prompt)
        most = _PROMPTS if (self.facts.vocabulary or _PROMPTS + 1) <= _PROMPTS else min(self.facts.slots or 1, 8)
        takes_many = self.route in self.dialect.batch_routes and not self.route.endswith("chat/completions")
        if most < 2 or self.facts.stream_only or not takes_many:
            return
        one = Ask(self.prompt, 1, alternatives=self.facts.max_alternatives, seed=_SEED)
        together = [_values(answer) for answer in self.ask(replace(one, prompt=prompts[0], also=prompts[1:]))]
        if len(together) != len(prompts) or _agree(*together):
            return
        alone = [_values(self.ask(replace(one, prompt=prompt))[0]) for prompt in prompts]
        if all(map(_agree, together, alone)):
            self.learn(batch_prompts=most, batch_draws=self._drawn(_DRAWS if most == _PROMPTS else most))

    def _drawn(self, most: int) -> int:
        """How many times one request may hold one prompt without a seed: 1 where the answers are then not all different."""
        if most <= self.facts.batch_seeds:
            return 1
        answers = self.ask(Ask(self.prompt, _DRAWN_TOKENS, also=(self.prompt,) * (_DRAWN - 1)))
        return most if len({a.text for a in answers if a.error is None}) == _DRAWN else 1

    def grammar(self) -> None:
        """Forces the text of one seed under another one."""
        if self.route not in self.dialect.grammar_routes or len(set(self.texts)) < 2:
            return
        forced = self.texts[0]
        # One token, where the seeds differ in it: it is not drafted, so that a grammar which drafts break is still seen.
        apart = [i for i, text in enumerate(self.texts) if text[:1] != forced[:1]]
        other = apart[0] if apart else next(i for i, text in enumerate(self.texts) if text != forced)
        # Repeated without end: a model without an end token has nothing to say once a grammar is satisfied.
        grammar = f"root ::= ({json.dumps(forced)})+"
        tokens = 1 if apart else _TOKENS
        answer = self.ask(Ask(self.prompt, tokens, seed=_SEED + other, grammar=grammar))[0]
        together = answer.text and (answer.text.startswith(forced) or forced.startswith(answer.text))
        self.learn(grammar=bool(answer.error is None and together))

    def drafting(self) -> None:
        """Whether requests may hold the field that has the server draft where that does not pay."""
        if not self.facts.drafting:
            return
        ((name, value),) = self.facts.drafting
        answer = self.ask(Ask(self.prompt, _TOKENS, seed=_SEED, extra=self.facts.drafting))[0]
        if answer.error is not None:
            self.learn(drafting=())
            self.note(f"The server says that it adapts its drafts, but refuses {name}={value}: {answer.error}")
            return
        self.note(f"The server drafts only where that pays; requests that must draft say {name}={json.dumps(value)}.")

    def coupling(self) -> None:
        """Whether first tokens are the ones that the known random number generator selects from the server's own law."""
        if self.row is None or not (self.facts.seeds and self.facts.token_ids):
            return
        row, sampling = self.row, NEUTRAL
        if not row.complete:
            if len(row.ids) < _TOP_K:
                return
            sampling = Sampling(top_k=_TOP_K)
            row = replace(row, ids=row.ids[:_TOP_K], logprobs=row.logprobs[:_TOP_K])
        chance = 1.0
        for answer in self._draws(sampling):
            seed = answer.ask.seed
            if seed is None or answer.error is not None or not answer.token_ids:
                return
            expected, edge = _coupled(row, seed, in_id_order=sampling is NEUTRAL)
            if edge < _EDGE:
                continue
            if expected != answer.token_ids[0]:
                return
            chance *= math.exp(row.logprobs[row.ids.index(expected)])
            if chance < _CHANCE:
                self.learn(coupling=MT19937)
                return

    def _draws(self, sampling: Sampling) -> Iterator[Completion]:
        """First tokens of consecutive seeds, in batches where the server has them."""
        most = self.facts.batch_seeds
        for seed in range(_SEED + 100, _SEED + 100 + _MOST_COUPLED, most):
            yield from self.ask(Ask(self.prompt, 1, seed=seed, sampling=sampling, count=most))


def _values(answer: Completion) -> dict[str, float]:
    """The law of an answer's first token, by text; {} where there is none."""
    listed = answer.tokens[0].alternatives if answer.tokens else None
    return {a.text: a.logprob for a in listed or () if a.logprob is not None}


def _agree(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    """Whether two laws are the same, up to what a batch of rows changes."""
    both = a.keys() & b.keys()
    return bool(both) and all(abs(a[text] - b[text]) < _SAME_LAW for text in both)


def _alternatives(answer: Completion) -> int:
    return len(answer.tokens[0].alternatives or ()) if answer.tokens else 0


def _coupled(row: OracleRow, seed: int, *, in_id_order: bool) -> tuple[int, float]:
    law = np.exp(row.logprobs)
    u = draws(seed, 1)[0]
    if not in_id_order:
        found = predict_sorted(law, u)
        return row.ids[int(found.tokens)], float(found.edges)
    by_id = np.argsort(row.ids)
    found = predict(law[by_id], u)
    return row.ids[int(by_id[int(found.tokens)])], float(found.edges)


def _nothing_generates(url: str, refusals: Sequence[Completion]) -> TargetError:
    first = refusals[0]
    words = "; ".join(f"{r.route} {r.error}" for r in refusals)
    if any(r.status in (401, 403) for r in refusals):
        remedy = "Give an API key that this server takes, by the name of its environment variable, with --api-key-env."
    elif all(r.status == 404 for r in refusals):
        remedy = "Give the base URL of the server, the part before /v1."
    elif any(r.status == 429 for r in refusals):
        remedy = "The server limits the rate of requests: lift the limit for this client, or come again later."
    else:
        remedy = "Look at the server's log."
    return TargetError(f"{url} generates nothing ({words}).", remedy, first.exchange or None)
