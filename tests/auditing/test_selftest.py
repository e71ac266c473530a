from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes import EXAMPLES, FAULTY, SOUND, Seen

from draftproof.auditing.selftest import require_sound, run_controls
from draftproof.checks.check import Example
from draftproof.core.errors import InstrumentError
from draftproof.core.terms import Terms
from draftproof.core.verdict import Verdict


def test_all_controls_of_all_checks_are_judged() -> None:
    assert run_controls([SOUND, FAULTY], Terms()).total == 2 * len(EXAMPLES)
    assert require_sound([SOUND, FAULTY], Terms()).right == 2 * len(EXAMPLES)


@pytest.mark.parametrize(
    ("example", "why"),
    [
        (Example("zeros pass", Seen((0.0,)), Verdict.PASS), "fail instead of pass"),
        (Example("other code", Seen((0.0,)), Verdict.FAIL, ("SHIFTED",)), "without the finding SHIFTED"),
        (Example("no evidence", "not evidence", Verdict.PASS), "does not have the shape of Seen"),
    ],
)
def test_misjudged_control_stops_the_instrument(example: Example[object], why: str) -> None:
    broken = replace(SOUND, examples=(*EXAMPLES, example))
    with pytest.raises(InstrumentError, match=why) as caught:
        require_sound([FAULTY, broken], Terms())
    assert f"{example.name!r}" in caught.value.message
    assert "6 of 7" in caught.value.message


def test_check_without_controls_is_not_trusted() -> None:
    with pytest.raises(InstrumentError, match="No controls for logprobs/sound"):
        require_sound([replace(SOUND, examples=())], Terms())


def test_evidence_that_cannot_be_saved_is_found_before_an_audit() -> None:
    broken = replace(SOUND, examples=(Example("object", object(), Verdict.PASS),))
    assert run_controls([broken], Terms()).wrong
