"""At temperature above 0, are tokens drawn from the target's law, the drafted ones too?"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from draftproof.checks import examples as made
from draftproof.checks.check import Check, Example
from draftproof.checks.drafting import Reports
from draftproof.checks.sampling.collecting import LEAST_BY_COUNTS, ORACLE_ROWS, Evidence, assessed, collect
from draftproof.checks.sampling.findings import Findings
from draftproof.checks.sampling.laws import PrefixRow
from draftproof.checks.sampling.streams import MOST_CONDITIONS, Stream
from draftproof.client.coupling import predict
from draftproof.core.distribution import shape
from draftproof.core.facts import Facts
from draftproof.core.mt19937 import MT19937, draws_of
from draftproof.core.probe import Effort, OracleRow
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict


def judge(evidence: Evidence, terms: Terms) -> Judgement:
    """Fails when the e-process over all tokens after the first reaches 2/alpha, or a token came that cannot come.

    Token 1 is the negative control, at the other half of alpha. Passes only with an upper bound on total variation of at
    most `terms.target_tv` (error `terms.pass_error`), drafting seen (or off), and an e-value below 100.
    """
    if not any(s.samples for s in evidence.streams):
        return Judgement(Verdict.INCONCLUSIVE, "no samples came", missing="answers at temperature 1")
    assessment = assessed(evidence)
    bound = assessment.bound(evidence.streams, terms.pass_error)
    found = Findings(evidence, terms, assessment, bound)
    return found.undecidable() or found.failed() or found.passed_or_not()


def requests(facts: Facts, effort: Effort) -> int:
    samples = LEAST_BY_COUNTS[effort]
    rows = 0 if facts.countable else math.ceil(ORACLE_ROWS[effort] / facts.batch_prompts)
    at_once = max(facts.batch_seeds, facts.batch_draws, 1)
    return math.ceil(samples / at_once) + MOST_CONDITIONS + rows + 2


_ROW = OracleRow(tuple(range(5)), tuple("abcde"), tuple(math.log(x) for x in made.LAW), 2, complete=True)
_PREFIXES = [(), *((a,) for a in range(5)), *((a, b) for a in range(5) for b in range(5))]


def _made(
    later: str,
    n: int = 400,
    drafted: int = 300,
    coupling: str = "",
    reports: Reports = made.LIVE_ON,
    effective: bool | None = None,
) -> Evidence:
    """Three letters per answer: token 1 from the law, tokens 2 and 3 from the law ("law") or its top ("greedy")."""
    seeds = tuple(range(1000, 1000 + n))
    sampling = Sampling(top_k=2) if later == "beyond top-k" else NEUTRAL
    law = shape(np.log(made.LAW), (), sampling)
    tokens = predict(np.broadcast_to(law, (n, 3, 5)), draws_of(seeds, 3)).tokens
    if later == "greedy":
        tokens[:, 1:] = 0
    if later == "beyond top-k":
        tokens[0, 1] = 4
    samples = tuple(map(tuple, tokens.tolist()))
    stream = Stream(made.PROMPT, sampling, seeds, samples, drafted, drafted // 3, effective=effective)
    rows = tuple(PrefixRow(0, prefix, _ROW) for prefix in _PREFIXES)
    return Evidence(reports, 1e-6, 5, coupling, "", (stream,), rows)


CHECK = Check(
    name="sampling/distribution",
    claim="At temperature above 0 every token, drafted or not, is drawn from the target's law after the request's samplers.",
    blind_to="Contexts, temperatures and drafts that were not sampled; differences below the stated bound.",
    remedy="Do not use text sampled from this server: it is not the model's. Check it again without speculation (no draft model, "
    "no --spec-type): where that passes, speculation is at fault.",
    aspects=("text",),
    evidence=Evidence,
    collect=collect,
    judge=judge,
    requests=requests,
    shares=True,
    applies=lambda facts: "" if facts.routes and facts.max_alternatives else "the one-token oracle needs alternatives",
    statistical=True,
    examples=(
        Example("the target's top after token 1", _made("greedy"), Verdict.FAIL, ("BIASED",)),
        Example("a token beyond top-k", _made("beyond top-k"), Verdict.FAIL, ("IMPOSSIBLE",)),
        Example("the law, drawn as the seeds say", _made("law", coupling=MT19937), Verdict.PASS),
        Example("the law, by counts", _made("law", n=2000), Verdict.PASS),
        Example("no speculation", _made("law", n=2000, drafted=0, reports=made.LIVE_OFF), Verdict.PASS),
        Example("speculation declined", _made("law", n=2000, drafted=0, effective=False), Verdict.PASS),
        Example(
            "another law, speculation declined",
            _made("greedy", drafted=0, effective=False),
            Verdict.FAIL,
            ("BIASED",),
        ),
        Example(
            "off by default, in use here, nothing drafted",
            _made("law", n=2000, drafted=0, reports=made.LIVE_OFF, effective=True),
            Verdict.INCONCLUSIVE,
        ),
        Example("too few samples for a bound", _made("law", n=60), Verdict.INCONCLUSIVE),
        Example("nothing drafted", _made("law", coupling=MT19937, drafted=0), Verdict.INCONCLUSIVE),
        Example("hardly anything drafted", _made("law", coupling=MT19937, drafted=5), Verdict.INCONCLUSIVE),
        Example("laws that are too uncertain", replace(_made("greedy"), noise=0.5), Verdict.INCONCLUSIVE),
        Example("nothing came", Evidence(made.LIVE_ON, 0.0, 5, "", "", ()), Verdict.INCONCLUSIVE),
    ),
)
