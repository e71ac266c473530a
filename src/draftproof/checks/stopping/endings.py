"""Does an answer end where the model ends it, or go on after its end token, to the end of an accepted draft?

Which token ends texts, no server says. It is tried: a token that is forced upon a request for two tokens, and ends it after one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftproof.checks import common
from draftproof.core.ask import Ask, Completion
from draftproof.core.probe import Probe
from draftproof.core.sampling import GREEDY
from draftproof.core.verdict import Finding

NEAR = 8
"""How many tokens before the last one of an ended answer may be its end token: the rest of a draft."""
MOST = 6
FORCED = 100.0


@dataclass(frozen=True, slots=True)
class Endings:
    """`answers` at temperature 1, and what the model should end; `forced`: of two tokens each, the first forced by a bias."""

    answers: tuple[Completion, ...] = ()
    forced: tuple[Completion, ...] = ()


NOTHING = Endings()


def collect(probe: Probe, ended: Completion | None) -> Endings:
    """At most `MOST` requests besides the samples that all checks share, none where no answer was ended. `ended`: one that the
    model should have.
    """
    answers = (*common.sampled(probe, common.SEEDS), *((ended,) if ended is not None else ()))
    known = tuple(a for a in answers if a.ok and a.token_ids)
    ask = Ask(common.sample(probe).prompt, 2, common.sample(probe).alternatives, GREEDY, seed=7)
    biased = [replace(ask, sampling=replace(GREEDY, logit_bias=((token, FORCED),))) for token in candidates(known)]
    return Endings(known, tuple(probe.once(biased)))


def candidates(answers: Sequence[Completion]) -> list[int]:
    """Tokens shortly before the last one of answers that the model ended: first those that are the last one of others."""
    ended = [a.token_ids for a in answers if a.finish == "stop" and a.token_ids]
    lasts = Counter(ids[-1] for ids in ended)
    near = Counter(token for ids in ended for token in ids[-1 - NEAR : -1])
    return sorted(near, key=lambda token: (-lasts[token], -near[token], token))[:MOST]


def ends(forced: Completion) -> bool:
    """Whether the token that was forced ended the answer: nothing came after it."""
    token = forced.ask.sampling.logit_bias[0][0]
    return forced.ok and forced.finish == "stop" and forced.token_ids in ((token,), ())


def passed(endings: Endings) -> Iterator[Finding]:
    """Answers that go on after a token that ends texts."""
    for forced in filter(ends, endings.forced):
        token = forced.ask.sampling.logit_bias[0][0]
        for answer in endings.answers:
            ids = answer.token_ids or ()
            if token in ids[:-1]:
                more = len(ids) - 1 - ids.index(token)
                text = (
                    f"{more} tokens come after the end token (id {token}), which ends an answer that it is forced upon"
                )
                yield Finding("END_PASSED", text, (answer.exchange, forced.exchange))
