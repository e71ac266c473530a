"""Which tests reach which function, and how long they take: `scripts.mutants` runs the ones that can notice, the shortest first."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from types import FrameType

import pytest


@dataclass
class Reach:
    """A pytest plugin that watches one run: of every test the seconds it took, and the functions of one file that it called."""

    file: str
    seconds: dict[str, float] = field(default_factory=dict)
    called: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began = time.process_time()
        result = yield from self._watched(self.called[item.nodeid])
        self.seconds[item.nodeid] = time.process_time() - began
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, request: pytest.FixtureRequest) -> Generator[None, object, object]:
        """What a fixture calls, any test of the file may see the effect of."""
        return (yield from self._watched(self.called[request.node.nodeid.split("::")[0]]))

    def _watched(self, functions: set[str]) -> Generator[None, object, object]:
        def note(frame: FrameType, event: str, _argument: object) -> None:
            if event == "call" and frame.f_code.co_filename == self.file:
                functions.add(frame.f_code.co_qualname.split(".<locals>")[0])

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(before)

    def reaches(self, test: str, function: str) -> bool:
        return function in self.called[test] or function in self.called[test.split("::")[0]]


@dataclass
class Aimed:
    """A pytest plugin that leaves the tests which reach `function`, the shortest first; "": all of them."""

    reach: Reach
    function: str

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        aimed = (i for i in items if not self.function or self.reach.reaches(i.nodeid, self.function))
        items[:] = sorted(aimed, key=lambda item: self.reach.seconds.get(item.nodeid, 0.0))
