"""`draftproof watch URL`."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from draftproof.auditing import AuditConfig
from draftproof.core.errors import UsageError, install
from draftproof.core.probe import Effort
from draftproof.report.page import Page
from draftproof.watch.rounds import LIGHT, Change, Ended, Watch, paced
from draftproof.watch.state import State

_EPILOG = f"""\b
Examples:
  draftproof watch http://127.0.0.1:8080
  draftproof watch http://127.0.0.1:8080 --per-hour 2000 --metrics-port 9109 --state watch.sqlite
  draftproof watch http://127.0.0.1:8080 --rounds 1

A round asks {", ".join(LIGHT)}, unless --checks says otherwise. Standard output has one line of JSON per change of a verdict; it
names the last moment that was good and the first that was bad. The watch goes on when it is started again with the same --state."""


@click.command(epilog=_EPILOG, context_settings={"auto_envvar_prefix": "DRAFTPROOF", "show_default": True})
@click.argument("url", envvar="DRAFTPROOF_URL")
@click.option(
    "--per-hour",
    type=click.FloatRange(min=0, min_open=True),
    default=1000.0,
    help="Requests per hour, at most, on average.",
)
@click.option("--checks", multiple=True, metavar="NAMES", help="Only these: names, families or globs, by commas.")
@click.option(
    "--alpha",
    type=float,
    default=1e-4,
    help="Probability that a sound server ever raises an alarm, however long it is watched.",
)
@click.option(
    "--state",
    "state_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("draftproof-watch.sqlite"),
    help="What is remembered between starts.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path, exists=True),
    default=Path(),
    help="Where the evidence of a change for the worse is kept.",
)
@click.option(
    "--metrics-port", type=click.IntRange(1, 65535), default=None, help="Serve Prometheus metrics on this port."
)
@click.option("--metrics-host", default="127.0.0.1", help="Address of the metrics.")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=None,
    help="End after so many rounds; without, on Ctrl-C or SIGTERM.",
)
@click.option(
    "--effort", type=click.Choice([e.value for e in Effort]), default=Effort.QUICK.value, help="Effort of each round."
)
@click.option("--api-key-env", default=None, metavar="NAME", help="Environment variable that holds the API key.")
@click.option("--timeout", type=float, default=30.0, metavar="SECONDS", help="Longest silence of the server.")
def watch(
    url: str,
    per_hour: float,
    checks: tuple[str, ...],
    alpha: float,
    state_file: Path,
    folder: Path,
    metrics_port: int | None,
    metrics_host: str,
    rounds: int | None,
    effort: str,
    api_key_env: str | None,
    timeout: float,
) -> int:
    """Audit the server at URL lightly, again and again, and tell when a verdict changes."""
    chosen = tuple(name for part in checks for name in part.split(",") if name.strip())
    config = AuditConfig(url, Effort(effort), alpha, chosen, api_key_env=api_key_env, timeout=timeout)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    page = Page(sys.stderr)
    failing, made = False, 0
    with State(state_file, url, alpha) as state:
        observe, end = _metrics(metrics_host, metrics_port)
        try:
            page.line(
                f"watching {url}: round {state.rounds + 1}, {per_hour:g} requests per hour, state in {state_file}"
            )
            for ended in paced(Watch(config, state, folder=folder), per_hour, stop):
                observe(ended)
                _tell(page, ended)
                failing = any(s.verdict == "fail" for s in ended.standing.values())
                made += 1
                if made == rounds:
                    break
        finally:
            end()
    return 1 if failing else 0


def _metrics(host: str, port: int | None) -> tuple[Callable[[Ended], None], Callable[[], None]]:
    if port is None:
        return (lambda _ended: None), (lambda: None)
    try:
        from draftproof.watch.metrics import Metrics
    except ImportError as error:
        raise UsageError("Metrics need the package prometheus-client.", install("watch")) from error
    metrics = Metrics()
    return metrics.add, metrics.serve(host, port)


def _tell(page: Page, ended: Ended) -> None:
    made = ended.made
    said = ended.trouble or f"{made.verdict}, {made.requests} requests, {made.elapsed_s:.1f} s"
    page.line(f"{made.started_at}  round {made.number}: {said}")
    for change in ended.changes:
        sys.stdout.write(json.dumps({"change": _plain(change)}) + "\n")
        sys.stdout.flush()
        style = "bold red" if change.alert else "green"
        since = f", last seen good at {change.last_good}" if change.alert and change.last_good else ""
        page.line(
            (f"{change.name}: {change.before or 'unknown'} -> {change.after}", style),
            f"{since}: {change.summary}",
            indent=2,
        )


def _plain(change: Change) -> dict[str, object]:
    return {**asdict(change), "alert": change.alert}
