from __future__ import annotations

from draftproof.checks import examples as made
from draftproof.checks.drafting import Drafting
from draftproof.checks.sampling.streams import Stream, batch_ends, context, drafting_in
from draftproof.core.sampling import NEUTRAL


def stream(drafted: int = 0, *, said: bool | None = None) -> Stream:
    return Stream(made.PROMPT, NEUTRAL, (1,), ((0, 1),), drafted, effective=said)


def test_a_context_is_the_prompt_and_the_tokens_after_it() -> None:
    assert context(stream(), (4, 0)) == (*made.PROMPT, 4, 0)
    assert context(Stream("so ", NEUTRAL, (), (), names=("b", "a", "c")), (1, 0)) == "so ab"


def test_one_stream_that_drafted_is_enough_to_see_it() -> None:
    assert drafting_in(made.LIVE_ON, [stream(), stream(3)]) is Drafting.SEEN
    assert drafting_in(made.LIVE_ON, [stream(), stream()]) is Drafting.SILENT
    assert drafting_in(made.LIVE_OFF, [stream()]) is Drafting.OFF
    assert drafting_in(made.LIVE_ON, [stream(said=False), stream(said=False)]) is Drafting.DECLINED


def test_all_samples_are_there_after_the_last_batch_whatever_was_told() -> None:
    def told(n: int, *batches: int) -> Stream:
        return Stream("The cat", NEUTRAL, (0,) * n, ((1,),) * n, batches=batches)

    assert list(batch_ends([told(5, 2, 4), told(3, 1)])) == [(2, 1), (4, 3), (5, 3)]
    assert list(batch_ends([told(2)])) == [(2,)]
    assert list(batch_ends([])) == [()]
