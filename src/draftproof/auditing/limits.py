"""What an audit could not see because of what the server does not offer, and by how much that weakens what is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from draftproof.client.watch import Observed
from draftproof.core.facts import Facts
from draftproof.core.probe import TARGET_TV, Effort

FEW_ALTERNATIVES = 20
"""Up to here a list of alternatives is a small part of a law."""


@dataclass(frozen=True, slots=True)
class Limit:
    """`what` is missing, and what could not be seen for it, with the checks concerned."""

    what: str
    effect: str
    mixed: bool = False
    """More than one server answered: then nothing can pass."""


def limits(facts: Facts, observed: Observed, effort: Effort) -> tuple[Limit, ...]:
    """The most serious first; () for a server that can be asked everything."""
    lacking = (Limit(what, effect) for lacks, what, effect in _LACKS if lacks(facts))
    return (*_of_the_server(observed), *lacking, *_by_number(facts, effort))


def _of_the_server(observed: Observed) -> Iterator[Limit]:
    if not observed.is_one_server:
        how = [f"answers come from different builds or models ({'; '.join(observed.identities)})"] * bool(
            observed.identities
        )
        if observed.law_gap:
            how.append(f"the law after one and the same context is one of two, {observed.law_gap:.2g} nat apart")
        yield Limit(
            f"this is more than one server: {'; '.join(how)}",
            "no verdict speaks of one of them: every check mixed their answers. Audit each behind the load balancer",
            mixed=True,
        )
    if observed.waits:
        yield Limit(
            f"the server limits the rate of requests: {observed.waits} waits, {observed.waited_s:.0f} s in all",
            "nothing but time; randomness/concurrency and randomness/batch_mates had less company than they asked for",
        )


_LACKS: tuple[tuple[Callable[[Facts], bool], str, str], ...] = (
    (
        lambda f: not f.routes,
        "no route gives logprobs",
        "no law is known: logprobs/* and sampling/* are out of reach; seeds, counts and self-reports remain",
    ),
    (
        lambda f: f.stream_only,
        "answers come as streams only",
        "streams were not compared with whole answers (logprobs/streaming), and batches were not used",
    ),
    (
        lambda f: f.hidden_tokens,
        "answers hold hidden reasoning tokens",
        "their logprobs, their law and the drafts among them were not seen, and what follows them cannot be re-scored",
    ),
    (
        lambda f: not f.seeds,
        "a seed does not give its text again",
        "samples cannot be repeated: randomness/* cannot tell a fault from chance beyond that",
    ),
    (
        lambda f: bool(f.routes) and not f.token_prompts,
        "prompts cannot be given as token ids",
        "contexts are text: one that reads back as other tokens is held to another law (logprobs/rescored, sampling/*)",
    ),
    (
        lambda f: bool(f.routes) and f.token_prompts and not f.token_ids,
        "answers carry no token ids",
        "tokens are told apart by their text: two of one text count as one",
    ),
    (
        lambda f: not f.reports_drafts,
        "answers do not count their drafted tokens",
        "drafting is known only from totals, gaps in logprobs or timing: a pass needs a live report, or --expect-speculation no",
    ),
    (
        lambda f: bool(f.routes) and not f.grammar,
        "no grammar can be given",
        "n-gram drafters cannot be made to draft at temperature 1: what they do there may not have been seen",
    ),
)
"""When, what, and so what."""


def _by_number(facts: Facts, effort: Effort) -> Iterator[Limit]:
    most, size = facts.max_alternatives, facts.vocabulary
    if facts.routes and 0 < most <= FEW_ALTERNATIVES and (size is None or size > most):
        yield Limit(
            f"at most {most} alternatives per token",
            f"of every law only the {most} likeliest tokens are known: values beyond are only held to a ceiling, "
            f"and a shift among them is not seen (logprobs/rescored, sampling/*)",
        )
    if facts.routes and not facts.coupling:
        bound = TARGET_TV[effort]
        samples = round(9 / bound**2)
        yield Limit(
            "its random generator is not one that draftproof knows",
            f"samples are judged by their counts, which takes more of them: about {samples:,} for a total variation of {bound:g}",
        )
