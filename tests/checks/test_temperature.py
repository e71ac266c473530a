from __future__ import annotations

import pytest

from draftproof.checks import examples as made
from draftproof.checks.check import Terms
from draftproof.checks.sampling.laws import PrefixRow
from draftproof.checks.sampling.streams import Stream
from draftproof.checks.sampling.temperature import HOT, Evidence, judge
from draftproof.core.probe import OracleRow
from draftproof.core.sampling import Sampling


@pytest.mark.parametrize(
    ("noise", "judged"),
    [
        (1e-6, 4),
        (
            0.01,
            2,
        ),  # the third and the fourth token are 0.1 nat apart, the edge is 0.2: which of them came in is not known
        (0.1, 0),  # one token alone tells no temperature
    ],
)
def test_tokens_near_the_edge_of_top_k_are_left_out_and_the_others_keep_their_odds(noise: float, judged: int) -> None:
    row = OracleRow(tuple(range(5)), tuple("abcde"), (-0.5, -1.5, -2.9, -3.0, -4.0), 2)
    samples = ((0, 0), (0, 1), (0, 2), (0, 2))
    stream = Stream(made.PROMPT, Sampling(temperature=HOT, top_k=3), (1, 2, 3, 4), samples)
    evidence = Evidence(made.LIVE_OFF, noise, "", (stream,), (PrefixRow(0, (0,), row),))
    assert judge(evidence, Terms()).measured["tokens"] == judged
