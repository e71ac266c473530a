"""`draftproof compare URL_A URL_B`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from draftproof.auditing import AuditConfig, Baseline, Budget, Report, all_comparisons, audit
from draftproof.auditing.events import Event, FactsGathered
from draftproof.auditing.pair import Fields, Other, open_pair_of
from draftproof.cli.given import by_commas
from draftproof.cli.output import Listeners
from draftproof.cli.output_options import Outputs, output_options
from draftproof.client.http import require_listening
from draftproof.core.errors import UsageError
from draftproof.core.facts import Facts
from draftproof.core.probe import Effort
from draftproof.report.page import Page
from draftproof.report.progress import LOADING, ProgressReporter
from draftproof.report.terminal import TerminalReporter, write_facts

_EPILOG = """\b
Examples:
  draftproof compare http://127.0.0.1:8080 http://127.0.0.1:8081
  draftproof compare http://127.0.0.1:8080 --against yesterday.jsonl.gz
  draftproof compare http://127.0.0.1:8080 http://127.0.0.1:8080 --fields-b '{"speculative": false}'
\b
Exit codes: 0 the same, 1 they differ, 3 undecided, 4 a server cannot be reached; others as for `draftproof check`."""


@click.command(epilog=_EPILOG, context_settings={"auto_envvar_prefix": "DRAFTPROOF", "show_default": True})
@click.argument("first")
@click.argument("second", required=False, default="")
@click.option(
    "--against",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    metavar="FILE",
    help="In place of a second server: the evidence file of an earlier audit. Its questions are asked again.",
)
@click.option(
    "--fields-a", default="{}", show_default=False, metavar="JSON", help="Fields for every request to the first server."
)
@click.option("--fields-b", default="{}", show_default=False, metavar="JSON", help="The same for the second server.")
@click.option(
    "--same-seeds", is_flag=True, help="You expect the same tokens for the same seed: others are then a fault."
)
@click.option(
    "--effort",
    type=click.Choice([e.value for e in Effort]),
    default=Effort.QUICK.value,
    help="How small a distance of the two laws must be excluded: total variation 0.15 (quick), 0.05 (standard), 0.015 (deep).",
)
@click.option("--alpha", type=float, default=1e-6, help="Probability that two servers of one law are told apart.")
@click.option("--checks", multiple=True, metavar="NAMES", help="Only these: logprobs, greedy, seeds, law, by commas.")
@click.option(
    "--budget",
    default="",
    show_default=False,
    metavar="LIMITS",
    help='The most to spend, as in "requests=500,seconds=60".',
)
@click.option("--seed", type=int, default=None, help="Decides which seeds the requests get.")
@click.option(
    "--api-key-env", default=None, metavar="NAME", help="Environment variable that holds the first server's key."
)
@click.option("--api-key-env-b", default=None, metavar="NAME", help="The same for the second server.")
@click.option("--timeout", type=float, default=30.0, metavar="SECONDS", help="Longest silence of a server.")
@click.option("--out", type=click.Path(path_type=Path), default=None, metavar="FILE", help="Evidence file.")
@output_options
def compare(
    first: str,
    second: str,
    against: Path | None,
    fields_a: str,
    fields_b: str,
    same_seeds: bool,
    effort: str,
    alpha: float,
    checks: tuple[str, ...],
    budget: str,
    seed: int | None,
    api_key_env: str | None,
    api_key_env_b: str | None,
    timeout: float,
    out: Path | None,
    outputs: Outputs,
) -> int:
    """Are two servers, or one in two configurations, or today's and yesterday's, the same? FIRST and SECOND are URLs."""
    outputs.require_writable()
    with outputs.telling_trouble():
        config = AuditConfig(
            url=first,
            effort=Effort(effort),
            alpha=alpha,
            checks=tuple(by_commas(checks)),
            budget=Budget.parse(budget),
            seed=seed,
            api_key_env=api_key_env,
            timeout=timeout,
            out=out,
        )
        fields = (_fields(fields_a, "--fields-a"), _fields(fields_b, "--fields-b"))
        other = Other(second, against, api_key_env_b, fields, same_seeds)
        for url in filter(None, (first, second)):
            require_listening(url)
        report = _run(config, other, outputs, outputs.baseline())
    return outputs.finish(report)


def _run(config: AuditConfig, other: Other, outputs: Outputs, baseline: Baseline) -> Report:
    page, verbosity = Page(outputs.human_file), outputs.verbosity
    progress = ProgressReporter(sys.stderr)
    show = TerminalReporter(page, verbosity, alpha=config.alpha)
    second: list[Facts] = []

    def introduce(event: Event) -> None:
        if isinstance(event, FactsGathered):
            page.line("compared with", f" what {other.against} holds of" if other.against else "")
            write_facts(page, second[0], verbosity)

    try:
        listen = Listeners([progress, show, introduce] if verbosity >= 0 else [show])
        reach = open_pair_of(other, second.append)
        if verbosity >= 0:
            progress.expect(LOADING)
        return audit(config, listen=listen, checks=all_comparisons(), open_target=reach, baseline=baseline)
    finally:
        progress.close()


def _fields(text: str, option: str) -> Fields:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} is not JSON: {error}.", _FIELDS) from None
    if not isinstance(found, dict) or any(isinstance(v, dict | list) for v in found.values()):
        raise UsageError(f"{option}: {text!r} is no object of plain values.", _FIELDS)
    return tuple(found.items())


_FIELDS = """Write it as --fields-b '{"speculative": false}'."""
