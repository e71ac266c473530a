from __future__ import annotations

import io

from tests.fakes import FACTS
from tests.report.test_terminal import run

from draftproof.auditing import all_checks
from draftproof.auditing.plan import make_plan
from draftproof.core.probe import Effort
from draftproof.report.page import Page
from draftproof.report.planned import write_plan


def lines(verbosity: int = 0) -> list[str]:
    file = io.StringIO()
    write_plan(Page(file), run().plan, verbosity)
    return file.getvalue().splitlines()


def test_plan_has_costs_and_reasons() -> None:
    told = lines()
    assert told[0] == "  run   logprobs/sound          3 requests"
    assert told[3] == "  n/a   self_report/absent  the server never claimed this"
    assert told[-2].startswith("in all about 12 requests, at least 0.0 s in round trips")
    assert told[-1] == "-v tells what each check claims"


def test_plan_in_full_has_claims() -> None:
    told = lines(1)
    assert told[0] == "  run   logprobs/sound      about 3 requests: the claim of logprobs/sound"
    assert told[3] == "  n/a   self_report/absent  the server never claimed this"
    assert told[-1].startswith("in all about 12 requests")


def test_plan_of_all_checks_is_a_line_for_each_at_80_columns() -> None:
    file = io.StringIO()
    plan = make_plan(all_checks(), FACTS, Effort.QUICK, {check.name: 0.0 for check in all_checks()})
    write_plan(Page(file, width=80), plan)
    told = file.getvalue().splitlines()
    assert all(len(line) <= 80 for line in told)
    assert [line.split()[1] for line in told[: len(plan.checks)]] == [p.check for p in plan.checks]
