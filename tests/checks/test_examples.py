"""Every check on its own controls, and the rules that each check keeps."""

from __future__ import annotations

from typing import Any

import pytest

from draftproof.auditing import codec
from draftproof.checks.builtin import CHECKS
from draftproof.checks.check import AnyCheck, Example
from draftproof.checks.same import COMPARISONS
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort
from draftproof.core.terms import Terms
from draftproof.core.verdict import Verdict

EXAMPLES = [pytest.param(c, e, id=f"{c.name}: {e.name}") for c in (*CHECKS, *COMPARISONS) for e in c.examples]
FACTS = Facts("http://127.0.0.1:1", "llama_server", "made up", routes=("/completion",), max_alternatives=5)


@pytest.mark.parametrize(("check", "example"), EXAMPLES)
def test_an_example_gets_its_verdict_and_exactly_its_codes(check: AnyCheck, example: Example[Any]) -> None:
    evidence = codec.from_json(check.evidence, codec.to_json(example.evidence))
    judgement = check.judge(evidence, Terms())
    assert judgement.verdict is example.verdict, judgement.summary
    assert set(judgement.codes) == set(example.codes)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)
def test_every_check_can_fail_pass_and_be_undecided(check: AnyCheck) -> None:
    needed = {Verdict.PASS, Verdict.INCONCLUSIVE}
    if check.aspects:  # else it reports what is seen; nothing of it is a fault
        needed |= {Verdict.FAIL}
    assert needed <= {e.verdict for e in check.examples}


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)
def test_evidence_of_an_inconclusive_verdict_says_what_is_missing(check: AnyCheck) -> None:
    for example in check.examples:
        if example.verdict is Verdict.INCONCLUSIVE:
            assert check.judge(example.evidence, Terms()).missing, example.name


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)
def test_the_metadata_is_complete(check: AnyCheck) -> None:
    family, _, question = check.name.partition("/")
    module = check.judge.__module__
    assert module == f"draftproof.checks.{family}.{question}"
    assert check.claim.endswith(".")
    assert check.blind_to
    assert check.remedy
    assert all(check.requests(FACTS, effort) >= 0 for effort in Effort)


def test_names_are_unique() -> None:
    assert len({c.name for c in CHECKS}) == len(CHECKS)


def test_every_module_of_a_family_is_registered() -> None:
    import pkgutil

    import draftproof.checks as package

    families = [m.name for m in pkgutil.iter_modules(package.__path__) if m.ispkg]
    found = set()
    for family in families:
        sub = __import__(f"draftproof.checks.{family}", fromlist=["x"])
        for module in pkgutil.iter_modules(sub.__path__):
            loaded = __import__(f"draftproof.checks.{family}.{module.name}", fromlist=["x"])
            if hasattr(loaded, "CHECK"):
                found.add(f"{family}/{module.name}")
    assert found == {c.name for c in (*CHECKS, *COMPARISONS)}, (
        "add the missing one to CHECKS in draftproof/checks/builtin.py"
    )
