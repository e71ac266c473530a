"""`draftproof watch URL`."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from draftproof.auditing import AuditConfig, all_checks
from draftproof.auditing.config import select
from draftproof.cli.given import by_commas
from draftproof.core.errors import UsageError, install
from draftproof.core.probe import Effort
from draftproof.report.page import Page
from draftproof.watch.rounds import LATEST_S, LIGHT, SOONEST_S, Change, Ended, Watch, paced
from draftproof.watch.state import State

_EPILOG = f"""\b
Examples:
  draftproof watch http://127.0.0.1:8080
  draftproof watch http://127.0.0.1:8080 --per-hour 2000 --metrics-port 9109 --state watch.sqlite
  draftproof watch http://127.0.0.1:8080 --rounds 1

A round asks {", ".join(LIGHT)}, unless --checks says otherwise. Standard output has one line of JSON per change of a verdict; it
names the last moment that was good and the first that was bad. The watch goes on when it is started again with the same --state."""

_SELDOM = 12
"""Every so many rounds without an audit are told in a line: about once an hour."""


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
    chosen = tuple(by_commas(checks))
    config = AuditConfig(url, Effort(effort), alpha, chosen, api_key_env=api_key_env, timeout=timeout)
    select(all_checks(), chosen)  # a name that is none is told now, and leaves no state behind
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    page, failing, audited = Page(sys.stderr), False, False
    with _metrics(metrics_host, metrics_port) as observe, State(state_file, url, alpha) as state:
        page.line(f"watching {url}: round {state.rounds + 1}, {per_hour:g} requests per hour, state in {state_file}")
        watching, teller = Watch(config, state, folder=folder), _Teller(url, page)
        if watching.unfinished is not None:
            page.line(f"a round was killed half-way; what it had found is in {watching.unfinished}")
        for made, ended in enumerate(paced(watching, per_hour, stop), 1):
            observe(ended)
            teller.tell(ended)
            failing = any(s.verdict == "fail" for s in ended.standing.values())
            audited |= not ended.trouble
            if made == rounds:
                break
    return 1 if failing else 0 if audited else 3


@contextmanager
def _metrics(host: str, port: int | None) -> Iterator[Callable[[Ended], None]]:
    """What takes note of a round. Raises UsageError where metrics cannot be served."""
    if port is None:
        yield lambda _ended: None
        return
    try:
        from draftproof.watch.metrics import Metrics
    except ImportError as error:
        raise UsageError("Metrics need the package prometheus-client.", install("watch")) from error
    metrics = Metrics()
    end = metrics.serve(host, port)
    try:
        yield metrics.add
    finally:
        end()


class _Teller:
    """Each change as JSON on standard output; for people each audit too, and trouble where it begins and seldom after that."""

    def __init__(self, url: str, page: Page) -> None:
        self._url, self._page = url, page
        self._trouble, self._failed = "", 0

    def tell(self, ended: Ended) -> None:
        made, known = ended.made, self._trouble
        self._trouble, self._failed = ended.trouble, self._failed + 1 if ended.trouble else 0
        stamp = f"{made.started_at}  round {made.number}: "
        if not ended.trouble:
            self._page.line(f"{stamp}{made.verdict}, {made.requests} requests, {made.elapsed_s:.1f} s")
        elif ended.trouble != known:
            self._page.line(f"{stamp}{ended.trouble}")
            self._page.line(f"tried again after {SOONEST_S:g} s, later after up to {LATEST_S:g} s", indent=2)
        elif self._failed % _SELDOM == 0:
            self._page.line(f"{stamp}no audit, {self._failed} rounds in a row")
        for change in ended.changes:
            self._tell_change(change)

    def _tell_change(self, change: Change) -> None:
        told = {"url": self._url, **asdict(change), "alert": change.alert}
        sys.stdout.write(json.dumps({"change": told}) + "\n")
        sys.stdout.flush()
        style = "bold red" if change.alert else "green"
        since = f", last seen good at {change.last_good}" if change.alert and change.last_good else ""
        self._page.line(
            (f"{change.name}: {change.before or 'unknown'} -> {change.after}", style),
            f"{since}: {change.summary}",
            indent=2,
        )
