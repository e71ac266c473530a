from __future__ import annotations

import math

from draftproof.checks.contexts import ceiling
from draftproof.core.probe import OracleRow


def test_the_drawn_token_below_the_list_does_not_lower_the_ceiling_of_others() -> None:
    listed, drawn = (math.log(0.5), math.log(0.2), math.log(0.1)), math.log(1e-6)
    row = OracleRow((0, 1, 2, 9), ("a", "b", "c", "j"), (*listed, drawn), 1)
    assert math.isclose(ceiling(row), math.log(0.1))


def test_the_mass_that_is_left_limits_a_token_that_is_not_listed() -> None:
    row = OracleRow((0, 1), ("a", "b"), (math.log(0.6), math.log(0.399)), 1)
    assert math.isclose(ceiling(row), math.log(0.001), rel_tol=1e-9)
