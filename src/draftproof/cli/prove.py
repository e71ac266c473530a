"""`draftproof prove`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table

from draftproof.engine.prove import DRAFTED, TOKENS, TOLERANCE, Result
from draftproof.engine.prove import prove as prove_rules

BROKEN = 70


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every number.")
def prove(as_json: bool) -> int:
    """Walk every branch of every verification rule on tables small enough to count.

    Exact rules must have the target's own law to 1e-12, whatever drafts; wrong ones must differ from it by just the amount
    that was computed for them. Nothing is sampled. Exit code 0 only if every rule behaves as stated, else 70.
    """
    results = list(prove_rules())
    click.echo(as_document(results)) if as_json else show(results, Console(file=sys.stdout))
    return 0 if all(r.holds for r in results) else BROKEN


def as_document(results: list[Result]) -> str:
    """All numbers as JSON."""
    rows = [{**asdict(r), "holds": r.holds} for r in results]
    holds = all(r.holds for r in results)
    return json.dumps({"holds": holds, "tolerance": TOLERANCE, "drafted": DRAFTED, "tokens": TOKENS, "results": rows})


def show(results: list[Result], console: Console) -> None:
    """One table of the exact rules, one of the wrong ones, one sentence."""
    exact = Table(title=f"Exact rules: joint law of {TOKENS} tokens against the target's own, drafts of {DRAFTED}")
    for title in ("rule", "drafter", "with", "tables", "largest difference", "tokens a block", ""):
        exact.add_column(
            title, justify="right" if title in {"tables", "largest difference", "tokens a block"} else "left"
        )
    wrong = Table(title="Wrong rules, as controls: distance from the target's law, computed and found")
    for title in ("rule", "what it does", "laws", "total variation", "off from computed", ""):
        wrong.add_column(
            title, justify="right" if title in {"laws", "total variation", "off from computed"} else "left"
        )
    for r in results:
        mark = "as stated" if r.holds else "NOT AS STATED"
        if r.exact:
            exact.add_row(r.rule, r.drafter, r.setting, str(r.cases), f"{r.off:.1e}", f"{r.per_block:.2f}", mark)
        else:
            wrong.add_row(r.rule, r.setting, str(r.cases), f"{r.tv:.4f}", f"{r.off:.1e}", mark)
    console.print(exact)
    console.print(wrong)
    failed = [r for r in results if not r.holds]
    exact_rows = sum(r.exact for r in results)
    if failed:
        console.print(f"{len(failed)} of {len(results)} do not behave as stated.")
    else:
        console.print(
            f"All {exact_rows} exact combinations have the target's law to {TOLERANCE:g}; "
            f"all {len(results) - exact_rows} wrong ones are told apart."
        )
