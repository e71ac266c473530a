from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from junitparser import JUnitXml
from tests.fakes import FAULTY, NOT_APPLICABLE, SOUND, UNDECIDED
from tests.report.reports import ACCEPTED, BROKEN, EVIL, evil, made

from draftproof import __version__
from draftproof.auditing.outcome import Accepted
from draftproof.checks.check import AnyCheck
from draftproof.core.errors import Unreachable
from draftproof.report.junit import error_junit, report_junit


def results(text: str) -> dict[str, str]:
    """Tag of the result by test case; "" for one that passed. Read by a parser that knows nothing of ours."""
    cases = ET.fromstring(text).iter("testcase")
    kinds = {"failure", "error", "skipped"}
    return {f"{c.get('classname')}.{c.get('name')}": "".join(r.tag for r in c if r.tag in kinds) for c in cases}


def test_one_case_per_check() -> None:
    assert results(report_junit(made())) == {
        "draftproof.logprobs.sound": "",
        "draftproof.logprobs.faulty": "failure",
        "draftproof.sampling.undecided": "error",
        "draftproof.self_report.absent": "skipped",
        "draftproof.randomness.broken": "error",
    }


def test_counts_are_those_of_the_cases() -> None:
    (suite,) = JUnitXml.fromstring(report_junit(made()).encode())
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (5, 1, 2, 1)


def test_failure_tells_its_findings() -> None:
    failure = next(ET.fromstring(report_junit(made())).iter("failure"))
    assert (failure.get("type"), failure.get("message")) == ("PLACEHOLDER", "all 3 logprobs are 0.0")
    assert failure.text == "PLACEHOLDER: 0.0 without alternatives (exchange 1)"


def test_what_was_judged_otherwise_is_a_property() -> None:
    properties = ET.fromstring(report_junit(made(), ("a: recorded as fail, now pass",))).iter("property")
    assert ("differs", "a: recorded as fail, now pass") in [(p.get("name"), p.get("value")) for p in properties]


def test_accepted_failure_is_skipped_with_its_reason() -> None:
    text = report_junit(made(SOUND, FAULTY, accepted=(ACCEPTED,)))
    skipped = next(ET.fromstring(text).iter("skipped"))
    assert skipped.get("message") == "accepted: logprobs/faulty PLACEHOLDER: b1 <b>does</b> that"


@pytest.mark.parametrize(
    ("checks", "accepted"),
    [
        ((SOUND,), ()),
        ((SOUND, NOT_APPLICABLE), ()),
        ((NOT_APPLICABLE,), ()),
        ((SOUND, FAULTY), ()),
        ((SOUND, FAULTY), (ACCEPTED,)),
        ((SOUND, UNDECIDED), ()),
        ((SOUND, UNDECIDED), (Accepted("sampling/undecided", "INCONCLUSIVE"),)),
        ((SOUND, BROKEN), ()),
        ((SOUND, FAULTY), (ACCEPTED, Accepted("logprobs/sound", "MISSING"))),
    ],
)
def test_suite_is_red_if_and_only_if_the_exit_code_is_not_0(
    checks: tuple[AnyCheck, ...], accepted: tuple[Accepted, ...]
) -> None:
    report = made(*checks, accepted=accepted)
    red = bool({"failure", "error"} & set(results(report_junit(report)).values()))
    assert red == (report.exit_code != 0)


def test_stale_entry_is_a_case_of_the_audit() -> None:
    text = report_junit(made(SOUND, accepted=(Accepted("logprobs/sound", "MISSING"),)))
    assert results(text)["draftproof.audit"] == "error"
    assert "logprobs/sound MISSING is accepted, but not found any more" in text


def test_audit_that_could_not_be_made_is_an_error() -> None:
    text = error_junit(Unreachable("nobody there", "start it"), __version__)
    assert results(text) == {"draftproof.audit": "error"}
    assert "nobody there" in text


def test_untrusted_text_is_well_formed_xml_and_stays_text() -> None:
    text = report_junit(evil())
    root = ET.fromstring(text)
    assert "script" not in {e.tag for e in root.iter()}
    message = next(root.iter("failure")).get("message") or ""
    assert "<script>alert(1)</script>" in message
    assert r"\x1b]0;owned\x07\x00\u202eevil" in message
    assert not {"\u202e", "\x1b", EVIL[-1:] and "\ud800"} & set(text)
