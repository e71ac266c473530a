"""`draftproof controls`: the auditor is tried on servers of which it is known what is wrong with them."""

from __future__ import annotations

import importlib
import itertools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from draftproof.auditing.outcome import INSTRUMENT, SOUND
from draftproof.cli.output import human_file, require_writable, write_json
from draftproof.core.errors import UsageError, install
from draftproof.core.probe import Effort

if TYPE_CHECKING:
    from draftproof.cli.matrix import Matrix, Run
    from draftproof.stats.intervals import Interval

_EPILOG = """\b
Examples:
  draftproof controls
  draftproof controls --check sampling/distribution --repeats 10
  draftproof controls --liar "placeholder*" --liar "honest-*"
  draftproof controls list
  draftproof controls serve placeholder"""


@click.group(
    invoke_without_command=True,
    epilog=_EPILOG,
    context_settings={"auto_envvar_prefix": "DRAFTPROOF_CONTROLS", "show_default": True},
)
@click.option("--liar", "liars", multiple=True, metavar="NAME", help="Only these servers, by name or glob.")
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Only these checks: names, families or globs.")
@click.option("--effort", type=click.Choice([e.value for e in Effort]), default=Effort.QUICK.value, help="As in check.")
@click.option("--repeats", type=click.IntRange(1), default=1, help="How often each server is audited.")
@click.option("--seed", type=int, default=1, help="Seed of the first audit; each repeat takes the next one.")
@click.option("--jobs", type=click.IntRange(1), default=None, show_default="processors", help="Audits at once.")
@click.option(
    "--json",
    "json_to",
    default=None,
    metavar="FILE",
    help="Write the result there, in place of an earlier one; - is standard output.",
)
@click.option(
    "--keep", is_flag=True, help="Add to what the JSON file says already, of other servers, checks and seeds."
)
@click.pass_context
def controls(
    context: click.Context,
    liars: tuple[str, ...],
    checks: tuple[str, ...],
    effort: str,
    repeats: int,
    seed: int,
    jobs: int | None,
    json_to: str | None,
    keep: bool,
) -> int:
    """Try the checks on servers with exactly one known defect each, and on honest ones.

    Tells for each check how often it catches what it must catch, and how often it accuses who is innocent. Exit code 0 only
    if every verdict is as it must be, else 70.
    """
    if context.invoked_subcommand is not None:
        return SOUND
    _import("draftproof.cli.matrix")
    from draftproof.cli.matrix import as_document, chosen, joined, run_matrix

    kept = _kept(json_to) if keep else None
    require_writable(json_to)
    servers = chosen(liars)
    console = Console(file=human_file(json_to))
    numbers = itertools.count(1)

    def done(run: Run) -> None:
        told = "; ".join(run.wrong()) or "as it must be"
        click.echo(f"{next(numbers):>4} of {len(servers) * repeats}  {run.liar}: {told}", err=True)

    matrix = run_matrix(
        servers,
        checks,
        effort=Effort(effort),
        repeats=repeats,
        seed=seed,
        jobs=jobs or os.cpu_count() or 1,
        done=done,
    )
    if kept is not None:
        matrix = joined(kept, matrix)
    show(matrix, console)
    written = write_json(json.dumps(as_document(matrix), indent=1) + "\n", json_to)
    return SOUND if written and not matrix.wrong() else INSTRUMENT


def _kept(json_to: str | None) -> Matrix | None:
    from draftproof.cli.matrix import from_document

    if json_to in {None, "-"}:
        raise UsageError("--keep needs a file: name it with --json.")
    path = Path(str(json_to))
    try:
        return from_document(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} holds no result of controls ({error}).", "Name another file.") from error


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        remedy = install("serve")
        raise UsageError(f"The controls need packages that are not installed ({error}).", remedy) from error


def show(matrix: Matrix, console: Console) -> None:
    """A table of the checks, then what is not as it must be."""
    title = f"{len(matrix.servers)} servers, {len(matrix.runs)} audits, effort {matrix.effort}; intervals at 95 %"
    table = Table(title=title)
    table.add_column("check", no_wrap=True)
    for column in ("caught", "false alarms on honest servers", "on other liars"):
        table.add_column(column)
    for power in matrix.powers():
        table.add_row(power.check, caught(power.caught), alarms(power.alarms), alarms(power.strays))
    console.print(table)
    wrong = matrix.wrong()
    for text in wrong:
        console.print(f"NOT AS STATED: {text}")
    if not wrong:
        console.print(f"All {sum(len(run.verdicts) for run in matrix.runs)} verdicts are as they must be.")


def caught(interval: Interval | None) -> str:
    """Power with its lower bound."""
    return "-" if interval is None else f"{interval.count} of {interval.n} (above {interval.low:.0%})"


def alarms(interval: Interval | None) -> str:
    """A rate of false alarms with its upper bound."""
    return "-" if interval is None else f"{interval.count} of {interval.n} (below {interval.high:.0%})"


@controls.command("list")
def list_liars() -> None:
    """Name every server, what is wrong with it, and the checks that must fail."""
    _import("draftproof.liars")
    from draftproof.liars import HONEST, LIARS

    for server in (*HONEST, *LIARS):
        click.echo(f"{server.name:<26} {server.story}")
        for check in server.fails:
            click.echo(f"{'':<26}   fails {check}")


@controls.command("serve")
@click.argument("name")
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, help="Port; 0 takes any that is free.")
def serve_liar(name: str, host: str, port: int) -> None:
    """Start one of the servers, until Ctrl-C: something to try an auditor on."""
    _import("draftproof.liars.hosting")
    from draftproof.liars import liar
    from draftproof.liars.hosting import LyingServer, served_by
    from draftproof.server.listening import listen
    from draftproof.server.run import Options

    server = liar(name)

    def ready(url: str) -> None:
        click.echo(f"{server.name} serves {url}: it {server.story}")

    with listen(host, port) as listening:
        LyingServer(server, served_by(server), Options(slots=server.slots), ready).run_on(listening)
