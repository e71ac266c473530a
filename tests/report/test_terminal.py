from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes import FACTS, FAULTY, NOT_APPLICABLE, SOUND, UNDECIDED, URL, FakeTarget, check, raising

from draftproof.auditing import Report, all_checks, audit
from draftproof.auditing.config import AuditConfig
from draftproof.auditing.limits import Limit
from draftproof.auditing.outcome import Answer, Outcome, Safety
from draftproof.auditing.safety import ROWS
from draftproof.checks.check import AnyCheck
from draftproof.core.errors import TargetError
from draftproof.core.verdict import Table
from draftproof.report.page import Page
from draftproof.report.terminal import FEW, write_facts, write_report

BROKEN = check("randomness/broken", raising(RuntimeError("bug")))
ALL = (SOUND, FAULTY, UNDECIDED, NOT_APPLICABLE, BROKEN)
EVIL = "\x1b]0;owned\x07\u202e[red]"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(checks: Sequence[AnyCheck] = ALL, **changes: object) -> Report:
    report = audit(AuditConfig(URL, seed=1, **changes), checks=checks, open_target=FakeTarget().open)  # type: ignore[arg-type]
    return replace(report, elapsed_s=4.14)


def text(report: Report, verbosity: int = 0) -> str:
    file = io.StringIO()
    write_report(Page(file), report, verbosity)
    return file.getvalue()


def on_terminal(report: Report, width: int, monkeypatch: pytest.MonkeyPatch, verbosity: int = 0) -> str:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    file = Terminal()
    write_report(Page(file, width=width), report, verbosity)
    return file.getvalue()


def test_report_says_what_was_found_and_what_it_means() -> None:
    assert text(run()).splitlines() == [
        "instrument   15 of 15 controls judged as they must be · a sound server fails at most 1 audit in 1,000,000",
        "llama-server b1 · countable-8 · says of speculation: /props none, /slots on",
        "  pass          logprobs/sound      2 logprobs vary",
        "  FAIL          logprobs/faulty     all 3 logprobs are 0.0",
        "        PLACEHOLDER: 0.0 without alternatives (exchange 1)",
        "  inconclusive  sampling/undecided  no logprob was seen",
        "  n/a           self_report/absent  the server never claimed this",
        "  ERROR         randomness/broken   the check itself broke: RuntimeError: bug",
        "",
        "The same tokens, as reported and as one-token answers have them",
        "  aggregate     sampled at     reported   true",
        "  mean logprob  temperature 1         0  -1.25",
        "",
        "Safe to use?",
        "  text                    unknown  nothing here could be checked on this server",
        "  logprob of token 1      unknown  nothing here could be checked on this server",
        "  logprobs after it       NO       logprobs/faulty failed",
        "  seeds                   unknown  nothing here could be checked on this server",
        "  counters                unknown  nothing here could be checked on this server",
        "  what it says of itself  unknown  nothing here could be checked on this server",
        "What to do",
        "  - the remedy of logprobs/faulty",
        "  - To decide sampling/undecided: tokens with logprobs",
        "",
        "exit 1 (a fault was found) · 5 requests · 4.1 s",
        "  draftproof explain logprobs/faulty",
    ]


def test_quiet_report_has_faults_and_the_last_line() -> None:
    lines = text(run(), -1).splitlines()
    assert [line.split()[0] for line in lines] == ["FAIL", "ERROR", "exit", "draftproof"]


def test_quiet_report_has_one_line_per_failed_check_even_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    judged_long = replace(run([FAULTY]), outcomes=tuple(_with_summary(o, "long " * 60) for o in run([FAULTY]).outcomes))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(judged_long, 80, monkeypatch, -1)).splitlines()
    assert [line.split()[0] for line in lines] == ["FAIL", "exit", "draftproof"]
    assert len(lines[0]) == 80
    assert lines[0].endswith("…")


def _with_summary(outcome: Outcome, summary: str) -> Outcome:
    return replace(outcome, judgement=replace(outcome.judgement, summary=summary))


def test_answers_and_reasons_stay_on_one_line_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(check.name for check in all_checks())
    rows = tuple(
        Safety(what, answer, f"{', '.join(names)} {said}", True, names, said)
        for what, (answer, said) in zip(
            ROWS.values(),
            [(Answer.NO, "failed"), (Answer.YES, "passed"), *[(Answer.UNKNOWN, "inconclusive")] * 4],
            strict=True,
        )
    )
    out = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(replace(run(), safety=rows), 80, monkeypatch))
    table = out.partition("Safe to use?\n")[2].splitlines()[: len(rows)]
    assert table[0] == "  text                    NO       logprobs/placeholder, +25 more failed"
    assert table[1] == "  logprob of token 1      yes      26 checks passed"
    assert [line.split("  ")[1].strip() for line in table] == list(ROWS.values())
    assert max(map(len, table)) <= 80


def test_after_what_is_safe_come_only_what_to_do_and_the_exit_line() -> None:
    report = replace(run(), notes=("a note",), limits=(Limit("a limit", "its effect"),), continues=("before.gz",))
    before, _, after = text(report).partition("Safe to use?\n")
    assert all(told in before for told in ("a note", "a limit", "continues before.gz"))
    rest = [line for line in after.splitlines() if not line.startswith("  ")]
    assert [line.split(" ")[0] for line in rest] == ["What", "", "exit"]


def test_a_fault_gets_most_of_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    report = run([FAULTY])
    long = replace(report, outcomes=tuple(_with_summary(o, "word " * 60) for o in report.outcomes))
    out = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(long, 80, monkeypatch))
    assert sum("word word" in line for line in out.splitlines()) <= 5


def test_of_many_checks_those_that_passed_or_do_not_apply_are_counted() -> None:
    many = [replace(SOUND, name=f"logprobs/sound_{n}") for n in range(FEW)]
    out = text(run([*many, *ALL]))
    assert "logprobs/sound" not in out.partition("Safe to use?")[0]
    assert "  pass          11 checks (-v tells what each saw)\n" in out
    assert "  n/a           1 check (-v tells why)\n" in out
    for told in ("logprobs/faulty", "sampling/undecided", "randomness/broken"):
        assert told in out
    assert "logprobs/sound_3" in text(run([*many, *ALL]), 1)


def test_checks_that_were_not_run_are_told_in_one_line() -> None:
    stopping = check("a/b", raising(KeyboardInterrupt()))
    out = text(run([stopping, SOUND, FAULTY, UNDECIDED]))
    assert out.count("not run: interrupted") == 1
    assert "  inconclusive  3 checks not run: interrupted\n" in out


def test_numbers_that_agree_are_told_in_a_sentence() -> None:
    report = run()
    assert report.aggregates is not None
    same = replace(report.aggregates, rows=(("perplexity", "temperature 1", 3.28312, 3.28309),))
    assert "The same as reported and in one-token answers: perplexity\n" in text(replace(report, aggregates=same))
    assert "3.283" in text(replace(report, aggregates=same), 1)


def test_a_large_evidence_file_is_said_to_be_large(tmp_path: Path) -> None:
    file = tmp_path / "e.gz"
    file.write_bytes(bytes(12_400_000))
    assert f"evidence in {file} (12 MB)\n" in text(replace(run(), evidence_path=file))
    file.write_bytes(bytes(1_000_000))
    assert f"evidence in {file}\n" in text(replace(run(), evidence_path=file))


def test_a_pipe_wraps_where_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = check("logprobs/long", raising(TargetError("w " * 200)))
    assert max(map(len, text(run([long])).splitlines())) <= 80


def test_verbose_report_has_tables_and_costs() -> None:
    out = text(run(), 1)
    assert "requests: 1, in 0.00 s" in out
    assert re.search(r"token +count +law\n +a +3 +0.25\n", out)


def test_counts_stand_beside_the_law_when_samples_were_asked_for() -> None:
    sampling = replace(FAULTY, statistical=True)
    assert "counts" not in text(run([sampling]))
    assert "counts" not in text(run([FAULTY], samples=1000))
    assert "counts" in text(run([sampling], samples=1000))


def test_choice_of_checks_hides_the_rows_that_none_of_them_speaks_to() -> None:
    report = run()
    out = text(replace(report, config=replace(report.config, checks=("logprobs",))))
    assert "logprobs after it" in out
    assert "counters" not in out


def test_known_model_is_named_beside_the_file() -> None:
    file = io.StringIO()
    facts = replace(FACTS, model="/models/target.gguf", countable="countable-8")
    write_facts(Page(file), facts, 1)
    assert "· countable-8 (target.gguf) ·" in file.getvalue()
    assert "/props speculative.types: none" in file.getvalue()


def test_a_comparison_ends_in_its_own_words() -> None:
    same = run([replace(SOUND, name="same/logprobs", aspects=())])
    assert "exit 0 (the same: no difference in what was compared)" in text(same)
    assert "\n\n\n" not in text(same)
    differ = run([replace(FAULTY, name="same/logprobs", aspects=())])
    assert "exit 1 (they differ)" in text(differ)


def test_stopped_audit_says_why() -> None:
    assert "stopped early: interrupted" in text(run([check("a/b", raising(KeyboardInterrupt()))]))


def test_piped_report_is_plain_and_has_one_line_per_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = check("logprobs/long", raising(TargetError("w " * 200)))
    out = text(run([long]))
    assert "\x1b" not in out
    assert sum("w w w" in line for line in out.splitlines()) >= 1
    assert max(map(len, out.splitlines())) > 300


def test_server_text_never_controls_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(FACTS, model=EVIL, build=EVIL, self_reports=((EVIL, EVIL),), notes=(EVIL,), dialect_evidence=EVIL)
    target = FakeTarget(facts=facts)
    broken = [check("a/b", raising(TargetError(EVIL, EVIL))), check("a/c", raising(RuntimeError(EVIL)))]
    report = audit(AuditConfig(URL), checks=[*broken, FAULTY], open_target=target.open)
    table = Table(EVIL, (EVIL, "n"), ((EVIL, 1),))
    judgement = replace(report.outcomes[0].judgement, tables=(table,), summary=EVIL)
    report = replace(
        report, outcomes=(replace(report.outcomes[0], judgement=judgement), *report.outcomes[1:]), notes=(EVIL,)
    )
    for out in (text(report, 1), on_terminal(report, 60, monkeypatch, 1), on_terminal(report, 200, monkeypatch, 1)):
        left = re.sub(r"\x1b\[[0-9;]*m", "", out)
        assert not set(left) & {"\x1b", "\x07", "\u202e"}
        assert r"\x1b]0;owned\x07\u202e[red]" in re.sub(r"\n *", "", left)


@pytest.mark.parametrize("width", [24, 40, 60, 71, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = on_terminal(run(), width, monkeypatch)
    assert "\x1b[" in out
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()
    longest_word = max(len(word) for line in lines for word in line.split())
    assert max(map(len, lines)) <= max(width, longest_word + 18)
    assert "a fault was found" in " ".join(" ".join(lines).split())


def test_colours_are_not_the_only_carrier_of_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, coloured = text(run()), on_terminal(run(), 400, monkeypatch)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    write_report(Page(file, width=100), run())
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", file.getvalue())


def test_ragged_table_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells under 2 columns"):
        Table("t", ("a", "b"), (("x",),))
