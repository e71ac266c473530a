"""What is known of a server before the first check."""

from __future__ import annotations

from dataclasses import dataclass, field

from draftproof.core.ask import Scalar


@dataclass(frozen=True, slots=True)
class Facts:
    """What the well-known endpoints said, and what was tried out once.

    `self_reports` are the server's statements on speculation before any request: (where, what it said), for example
    ("/props speculative.types", "none"), ("/slots speculative", True). `reports_drafts` is True where answers of this
    dialect carry draft counters (their absence in one answer still proves nothing).
    `routes` that can give logprobs, the best one first. `token_prompts`/`token_ids`: takes / returns token ids.
    `max_alternatives` is the largest list the server gives; `batch_seeds` how many answers one request may ask for
    (1 = no batches), `batch_prompts` how many prompts it may carry, `batch_draws` how many times the same one without a seed,
    drawn anew each time. `coupling` names the random number generator whose draws are known for a seed ("" = none).
    `prompt_routes` can be asked for the prompt's own logprobs (`Ask.echo`); whether they come was not tried.
    `stream_only`: refuses whole answers. `hidden_tokens`: answers are charged for reasoning tokens that are not shown.
    `uncached` is what `Ask.extra` must hold to have the whole prompt worked out anew; `drafting`, to have the server draft
    even where it would rather not because that does not pay.
    `request_s` is how long a request for one token took, `token_s` each further token.
    `countable` names the known little model that the server was recognised to serve ("" = none).
    """

    url: str
    dialect: str
    dialect_evidence: str
    build: str | None = None
    model: str | None = None
    vocabulary: int | None = None
    context: int | None = None
    slots: int | None = None
    self_reports: tuple[tuple[str, Scalar], ...] = ()
    reports_drafts: bool = False
    routes: tuple[str, ...] = ()
    token_prompts: bool = False
    token_ids: bool = False
    max_alternatives: int = 0
    seeds: bool = True
    batch_seeds: int = 1
    batch_prompts: int = 1
    batch_draws: int = 1
    grammar: bool = False
    prompt_routes: tuple[str, ...] = ()
    stream_only: bool = False
    hidden_tokens: bool = False
    uncached: tuple[tuple[str, Scalar], ...] = ()
    drafting: tuple[tuple[str, Scalar], ...] = ()
    coupling: str = ""
    countable: str = ""
    request_s: float | None = None
    token_s: float | None = None
    notes: tuple[str, ...] = field(default=())
