"""A question to a server and its answer, in words that every dialect can translate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.tokens import TokenRecord

Prompt: TypeAlias = str | tuple[int, ...]
Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation request.

    `alternatives` > 0 asks for logprobs with so many alternatives per token; 0 asks for none.
    `route` None lets the dialect choose its best one (token ids in, token ids out); otherwise a name from `Facts.routes`.
    `count` n > 1 asks for n answers in one request, seeds seed .. seed+n-1, where the dialect can (`Facts.batch_seeds`).
    `also` holds further prompts, answered by the same request after this one, all with the same seed (`Facts.batch_prompts`); only
    where `count` is 1.
    `grammar` forces the text (GBNF); only where `Facts.grammar`. An answer ends before the first of the `stop` strings.
    `tool` names one that the answer must call; only on chat routes.
    `echo` asks for the logprobs of the prompt's own tokens too; only on `Facts.prompt_routes`. `extra` fields are sent as they are.
    """

    prompt: Prompt
    max_tokens: int
    alternatives: int = 0
    sampling: Sampling = NEUTRAL
    seed: int | None = None
    route: str | None = None
    stream: bool = False
    post_sampling: bool = False
    count: int = 1
    grammar: str = ""
    stop: tuple[str, ...] = ()
    echo: bool = False
    extra: tuple[tuple[str, Scalar], ...] = ()
    also: tuple[Prompt, ...] = ()
    tool: str = ""

    @property
    def answers(self) -> int:
        """How many answers it asks for."""
        return self.count + len(self.also)


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer, parsed. What the server did not say is None.

    `tokens` holds the logprob entries in order (() when there are none); `token_ids` the ids of all generated tokens.
    `prompt` holds the entries of the prompt's own tokens (`Ask.echo`; `text` then begins with the prompt, if the server echoes it).
    `drafted`/`accepted` are the answer's own draft counters; `claims` what it says of its own settings (flat: name to value).
    `arrivals` are seconds from sending to each event that carried text (streamed answers only);
    `event_tokens` the number of logprob entries in each of those events.
    `calls` are the names of the tools that it calls.
    `error` is the server's own words when `status` is not 2xx.
    """

    ask: Ask
    exchange: int
    route: str
    status: int
    text: str = ""
    tokens: tuple[TokenRecord, ...] = ()
    prompt: tuple[TokenRecord, ...] = ()
    token_ids: tuple[int, ...] | None = None
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    claims: tuple[tuple[str, Scalar], ...] = ()
    arrivals: tuple[float, ...] = ()
    event_tokens: tuple[int, ...] = ()
    calls: tuple[str, ...] = ()
    error: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None
