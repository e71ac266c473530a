"""`draftproof check URL`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from draftproof.auditing import AuditConfig, Baseline, Budget, Expectation, Report, audit
from draftproof.auditing.events import Event, PlanMade
from draftproof.auditing.outcome import EXIT_CODES
from draftproof.cli.given import by_commas
from draftproof.cli.output import Listeners
from draftproof.cli.output_options import Outputs, output_options
from draftproof.core.probe import Effort
from draftproof.report.page import Page
from draftproof.report.planned import write_plan
from draftproof.report.progress import LOADING, ProgressReporter
from draftproof.report.terminal import TerminalReporter

_EXIT_TABLE = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())

_EPILOG = f"""\b
Examples:
  draftproof check http://127.0.0.1:8080
  draftproof check http://127.0.0.1:8080 --checks logprobs,sampling/greedy_parity
  draftproof check http://127.0.0.1:8080 --checks sampling/distribution --samples 1000
  draftproof check https://llm.example --api-key-env LLM_KEY --budget "requests=500,seconds=60"
\b
Exit codes:
{_EXIT_TABLE}
\b
Every option can be set by the environment too: DRAFTPROOF_EFFORT=deep."""


@click.command(epilog=_EPILOG, context_settings={"auto_envvar_prefix": "DRAFTPROOF", "show_default": True})
@click.argument("url", envvar="DRAFTPROOF_URL")
@click.option(
    "--effort",
    type=click.Choice([e.value for e in Effort]),
    default=Effort.QUICK.value,
    help="How small a deviation a pass must exclude: total variation 0.15 (quick), 0.05 (standard), 0.015 (deep).",
)
@click.option("--alpha", type=float, default=1e-6, help="Probability that a sound server fails, for the whole audit.")
@click.option("--checks", multiple=True, metavar="NAMES", help="Only these: names, families or globs, by commas.")
@click.option(
    "--budget",
    default="",
    show_default=False,
    metavar="LIMITS",
    help='The most to spend, as in "requests=500,seconds=60".',
)
@click.option(
    "--samples", type=int, default=None, help="Samples to draw in sampling checks; prints counts beside the law."
)
@click.option(
    "--seed", type=int, default=None, help="Decides which seeds the requests get; the same one repeats an audit."
)
@click.option("--api-key-env", default=None, metavar="NAME", help="Environment variable that holds the API key.")
@click.option(
    "--law",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=None,
    help="Folder of the countable pair that the server runs (see `draftproof countable`).",
)
@click.option("--timeout", type=float, default=30.0, metavar="SECONDS", help="Longest silence of the server.")
@click.option(
    "--expect-speculation",
    type=click.Choice([e.value for e in Expectation]),
    default=Expectation.UNKNOWN.value,
    help="What you know: a server that should speculate and is not seen to do so is not passed.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Look at the server, print the plan and its cost, stop. Sends a few requests of one token.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="Evidence file; a new one here if not given.",
)
@click.option(
    "--resume",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    metavar="FILE",
    help="Go on from the audit whose evidence this is: the same server, more --effort or what was left undecided.",
)
@output_options
def check(
    url: str,
    effort: str,
    alpha: float,
    checks: tuple[str, ...],
    budget: str,
    samples: int | None,
    seed: int | None,
    api_key_env: str | None,
    law: Path | None,
    timeout: float,
    expect_speculation: str,
    dry_run: bool,
    out: Path | None,
    resume: Path | None,
    outputs: Outputs,
) -> int:
    """Audit the server at URL: are its logprobs measurements, is its text the model's, does it tell the truth of itself?"""
    outputs.require_writable()
    with outputs.telling_trouble():
        config = AuditConfig(
            url=url,
            effort=Effort(effort),
            alpha=alpha,
            checks=tuple(by_commas(checks)),
            budget=Budget.parse(budget),
            seed=seed,
            samples=samples,
            api_key_env=api_key_env,
            law=law,
            timeout=timeout,
            out=out,
            expect_speculation=Expectation(expect_speculation),
            resume=resume,
        )
        report = _run(config, outputs, outputs.baseline(), dry_run=dry_run)
    return outputs.finish(report)


def _run(config: AuditConfig, outputs: Outputs, baseline: Baseline, *, dry_run: bool) -> Report:
    page, verbosity = Page(outputs.human_file), outputs.verbosity
    progress = ProgressReporter(sys.stderr)
    show = _Plan(page, verbosity) if dry_run else TerminalReporter(page, verbosity, alpha=config.alpha)
    try:
        listen = Listeners([progress, show] if verbosity >= 0 else [show])
        if verbosity >= 0:
            progress.expect(LOADING)
        return audit(config, listen=listen, dry_run=dry_run, baseline=baseline)
    finally:
        progress.close()


class _Plan:
    """Shows the plan of a dry run, and nothing else."""

    def __init__(self, page: Page, verbosity: int) -> None:
        self._page, self._verbosity = page, verbosity

    def __call__(self, event: Event) -> None:
        if isinstance(event, PlanMade):
            write_plan(self._page, event.plan, self._verbosity)
