from __future__ import annotations

import os
import threading
from unittest.mock import patch

import pytest

from draftproof.engine.libllama.openmp import aside, wait_briefly


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_what_the_user_set_stays(given: dict[str, str], spins: str | None) -> None:
    with patch.dict(os.environ):
        for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
            os.environ.pop(name, None)
        os.environ.update(given)
        wait_briefly()
        assert os.environ.get("GOMP_SPINCOUNT") == spins


def test_a_call_aside_is_made_in_another_thread_and_gives_back_what_it_returns_or_raises() -> None:
    assert aside(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 // 0)
