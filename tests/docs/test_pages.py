"""What the pages say is what the code does: generated parts, names, links, commands and their output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from scripts import docs
from tests.docs.blocks import blocks, run
from tests.docs.conftest import Servers

from draftproof.auditing import AuditConfig, all_checks
from draftproof.auditing.contents import Told
from draftproof.auditing.limits import Limit
from draftproof.auditing.outcome import EXIT_CODES, Outcome
from draftproof.auditing.plan import Plan, Planned
from draftproof.auditing.record import Collected, Ending, Header
from draftproof.cli.main import cli
from draftproof.core.exchange import Exchange
from draftproof.core.facts import Facts
from draftproof.core.probe import TARGET_TV, Effort
from draftproof.core.terms import Terms
from draftproof.core.verdict import Judgement, Verdict
from draftproof.stats.faults import FAULTS

PAGES = [str(page.relative_to(docs.ROOT)) for page in docs.pages()]
NOT_YET_WRITTEN: tuple[str, ...] = ()
"""Pages that others link to already."""

LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<to>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def text(page: str) -> str:
    return (docs.ROOT / page).read_text(encoding="utf-8")


def headings(page: str) -> set[str]:
    prose = FENCED.sub("", text(page))
    return {found["text"].strip() for found in HEADING.finditer(prose)}


def test_generated_parts_are_fresh() -> None:
    assert [str(page) for page in docs.stale()] == [], f"run {docs.COMMAND}"


def test_every_generated_part_stands_in_a_page() -> None:
    names = {found["name"] for page in PAGES for found in docs.BLOCK.finditer(text(page))}
    assert names == set(docs.BLOCKS)


def test_every_check_has_its_section() -> None:
    assert {check.name for check in all_checks()} <= headings("docs/reference/checks.md")


def test_every_check_has_a_public_report() -> None:
    assert {report["check"] for report in docs.told()["reports"]} == {check.name for check in all_checks()}


def test_every_finding_of_every_control_is_explained() -> None:
    codes = {code for check in all_checks() for example in check.examples for code in example.codes}
    assert codes <= headings("docs/reference/findings.md")


def test_every_broken_rule_is_listed() -> None:
    page = text("docs/reference/rules.md")
    assert [fault.name for fault in FAULTS if f"| `{fault.name}` |" not in page] == []


def commands(command: click.Command, path: str = "draftproof") -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}")


@pytest.mark.parametrize("path", [path for path, _ in commands(cli)])
def test_every_option_is_in_the_reference(path: str) -> None:
    sections = re.split(r"^## ", text("docs/reference/cli.md"), flags=re.MULTILINE)
    section = next(s for s in sections if s.splitlines()[0] == path)
    options = [p for p in dict(commands(cli))[path].params if isinstance(p, click.Option)]
    assert [name for o in options for name in o.opts if f"`{name}`" not in section] == []


@pytest.mark.parametrize("page", ["README.md", "docs/reference/exit-codes.md"])
def test_every_exit_code_is_in_the_table(page: str) -> None:
    assert [code for code, meaning in EXIT_CODES.items() if f"| {code} | {meaning} |" not in text(page)] == []


def test_every_verdict_is_explained() -> None:
    page = text("docs/reference/verdicts.md")
    assert [verdict for verdict in Verdict if f"| `{verdict}` |" not in page] == []


def test_every_effort_has_its_target() -> None:
    page = text("docs/explanation/statistics.md")
    assert [effort for effort in Effort if f"| `{effort}` | {TARGET_TV[effort]:g} |" not in page] == []


RECORDS = {
    "header": (Header, AuditConfig),
    "exchange": (Exchange,),
    "facts": (Facts,),
    "plan": (Plan, Planned),
    "evidence": (Collected, Terms),
    "judgement": (Outcome, Judgement),
    "limits": (Told, Limit),
    "final": (Ending,),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_every_field_of_the_evidence_file_is_explained(kind: str) -> None:
    sections = re.split(r"^## ", text("docs/reference/evidence-file.md"), flags=re.MULTILINE)
    section = next(s for s in sections if s.splitlines()[0] == kind)
    names = [f.name for shape in RECORDS[kind] for f in fields(shape)]
    assert [name for name in names if f"`{name}`" not in section] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    broken = [to for to in (found["to"] for found in LINK.finditer(text(page))) if not leads_somewhere(page, to)]
    assert broken == []


def leads_somewhere(page: str, to: str) -> bool:
    path, _, anchor = to.partition("#")
    if "://" in path:
        return path.startswith("https://")
    target = (docs.ROOT / page).parent.joinpath(path).resolve() if path else docs.ROOT / page
    name = str(target.relative_to(docs.ROOT))
    if name in NOT_YET_WRITTEN and not target.exists():
        return True
    return target.exists() and (not anchor or anchor in {docs.slug(heading) for heading in headings(name)})


def test_every_page_can_be_found_from_the_index() -> None:
    index = {
        str((docs.ROOT / "docs" / to.partition("#")[0]).resolve().relative_to(docs.ROOT))
        for to in (found["to"] for found in LINK.finditer(text("docs/README.md")))
    }
    assert {page for page in PAGES if page.startswith("docs/")} - {"docs/README.md"} <= index


def shown_commands(page: str) -> Iterator[str]:
    """Every line of a fenced block that calls draftproof, as far as the first pipe or redirection."""
    for fenced in FENCED.finditer(text(page)):
        for line in fenced[0].replace("\\\n", " ").splitlines():
            call = re.search(r"(?:^|\$ |^ +)(draftproof .*)", line)
            if call and not fenced[0].startswith("```python"):
                yield re.split(r" [|>;&#]|\|\||; | {4}", call[1])[0]


def test_every_command_shown_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()  # a folder that one page writes before it names it
    monkeypatch.chdir(tmp_path)
    shown = [*(command for page in PAGES for command in shown_commands(page)), *ci_commands()]
    assert len(shown) > 20
    for command in shown:
        assert understood(shlex.split(command)[1:]), command


def ci_commands() -> Iterator[str]:
    script = text("examples/github-audit.yml").replace("\\\n", " ")
    yield from re.findall(r"^ +(draftproof .*)$", script, flags=re.MULTILINE)


def understood(arguments: list[str]) -> bool:
    """Whether click takes the arguments; nothing is run."""
    command: click.Command = cli
    context = click.Context(cli, info_name="draftproof")
    while isinstance(command, click.Group):
        child = command.get_command(context, arguments[0]) if arguments else None
        if child is None:
            return False
        command, arguments = child, arguments[1:]
    command.make_context("draftproof", list(arguments))
    return True


OFFLINE = [page for page in PAGES if {b.mode for b in blocks(text(page))} == {""}]
SERVED = [page for page in PAGES if {b.mode for b in blocks(text(page))} - {""}]


@pytest.mark.parametrize("page", OFFLINE)
def test_commands_do_what_the_page_shows(page: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(docs.ROOT / "examples")
    for block in blocks(text(page)):
        run(block, tmp_path)


@pytest.mark.real
@pytest.mark.parametrize("page", SERVED)
def test_commands_do_what_the_page_shows_with_a_server(page: str, tmp_path: Path, servers: Servers) -> None:
    (tmp_path / "examples").symlink_to(docs.ROOT / "examples")
    environment: dict[str, str] = {}
    for block in blocks(text(page)):
        run(block, tmp_path, servers.url(block.mode, tmp_path) if block.mode else "", environment)
        environment |= exported(block.steps)


def exported(steps: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """What a block exports holds for the blocks after it."""
    return dict(command[7:].split("=", 1) for command, _ in steps if command.startswith("export "))
