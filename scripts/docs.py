"""Writes the generated parts of the documentation: whatever stands between these two lines in a Markdown page.

    <!-- generated: NAME -->
    <!-- end -->

    python scripts/docs.py            write them
    python scripts/docs.py --check    name the pages that are stale, exit 1

What the code does not say (public reports, what was seen of servers) stands in docs.toml beside this file.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from draftproof.auditing import all_checks, all_comparisons, runner
from draftproof.auditing.outcome import EXIT_CODES
from draftproof.auditing.safety import ROWS
from draftproof.checks.check import AnyCheck
from draftproof.cli.main import cli
from draftproof.client.dialect import Dialect
from draftproof.client.dialects import DIALECTS
from draftproof.core.facts import Facts
from draftproof.core.probe import TARGET_TV, Effort
from draftproof.report.meanings import meanings
from draftproof.stats.faults import FAULTS, Needs

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for its neighbour, when this is run as a script
from scripts import docs_controls  # noqa: E402 - found by the line above

COMMAND = "python scripts/docs.py"
BLOCK = re.compile(r"(<!-- generated: (?P<name>[a-z ]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
CODE = re.compile(r"[A-Z]{2}[A-Z_]*")

SERVERS: Mapping[str, Facts] = {
    "llama-server with the countable pair": Facts(
        "",
        "llama_server",
        "",
        vocabulary=8,
        slots=8,
        reports_drafts=True,
        routes=("/completion", "/v1/completions", "/v1/chat/completions"),
        token_prompts=True,
        max_alternatives=8,
        batch_seeds=8,
        batch_prompts=64,
        batch_draws=64,
        grammar=True,
        prompt_routes=("/v1/completions",),
        countable="countable-8",
    ),
    "any other OpenAI-compatible server": Facts(
        "",
        "openai",
        "",
        routes=("/v1/completions", "/v1/chat/completions"),
        max_alternatives=20,
        prompt_routes=("/v1/completions",),
    ),
}
"""For which servers costs are told."""

BARE = Facts("", "openai", "", seeds=False)
"""A server that can do nothing: what is not applicable to it says when a check is not."""


def every() -> tuple[AnyCheck, ...]:
    return (*all_checks(), *all_comparisons())


@cache
def told() -> dict[str, Any]:
    """What docs.toml holds."""
    return tomllib.loads((Path(__file__).parent / "docs.toml").read_text(encoding="utf-8"))


def codes() -> dict[str, list[str]]:
    """Every code in upper case that a check may say, with the names of the checks that do ("" stands for the audit itself)."""
    found: dict[str, list[str]] = {}
    for check in every():
        for code in sorted({c for module in _modules(check) for c in _capitals(module)}):
            found.setdefault(code, []).append(check.name)
    for code in sorted(_capitals(runner)):
        found.setdefault(code, []).append("")
    return found


def _modules(check: AnyCheck) -> list[ModuleType]:
    """The check's module, and those of its own package that it is made of."""
    module = inspect.getmodule(check.judge)
    assert module is not None
    package = module.__name__.rpartition(".")[0]
    parts = {inspect.getmodule(value) for value in vars(module).values() if hasattr(value, "__module__")}
    used = [p for p in parts if p is not None and p is not module and p.__name__.startswith(f"{package}.")]
    return [module, *sorted(used, key=lambda p: p.__name__)]


def _capitals(module: ModuleType) -> set[str]:
    nodes = ast.walk(ast.parse(inspect.getsource(module)))
    return {
        n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) and CODE.fullmatch(n.value)
    }


def checks_block() -> str:
    return "\n".join(line for check in every() for line in _section(check))


def _section(check: AnyCheck) -> Iterator[str]:
    module = inspect.getmodule(check.judge)
    collect = inspect.getdoc(check.collect)
    odds = (
        "Statistical: it spends a part of the audit's false-alarm probability (`--alpha`)."
        if check.statistical
        else "Fails on contradictions only: it spends none of the audit's false-alarm probability."
    )
    spoils = ", ".join(ROWS[aspect] for aspect in check.aspects) or "nothing: it tells, and does not accuse"
    yield from (f"## {check.name}", "", f"*{_line(inspect.getdoc(module))}*", "")
    yield f"- **Claim:** {check.claim}"
    yield f"- **How it decides:** {_line(inspect.getdoc(check.judge))}"
    if collect:
        yield f"- **How it asks:** {_line(collect)}"
    yield f"- **False alarms:** {odds}"
    yield f"- **Cannot see:** {check.blind_to}"
    if reason := check.applies(BARE):
        yield f"- **Not applicable where:** {reason}."
    yield f"- **A failure spoils:** {spoils}"
    yield f"- **Remedy:** {check.remedy}"
    yield f"- **Findings:** {_linked_codes(check)}"
    yield from ("", f"| requests, about | {' | '.join(Effort)} |", f"|---|{'---|' * len(Effort)}")
    for server, facts in SERVERS.items():
        yield f"| {server} | {' | '.join(f'{check.requests(facts, effort):,}' for effort in Effort)} |"
    yield from (
        "",
        "| evidence that the check is tried on before every audit | verdict it must get | finding |",
        "|---|---|---|",
    )
    for example in check.examples:
        yield f"| {example.name} | {example.verdict.replace('_', ' ')} | {', '.join(map(_code, example.codes))} |"
    reports = [r for r in told()["reports"] if r["check"] == check.name]
    if reports:
        yield from ("", "Public reports of what it looks for:", "")
        yield from (f"- [{r['name']}]({r['url']}): {r['told']}" for r in reports)
    yield ""


def _linked_codes(check: AnyCheck) -> str:
    own = [code for code, names in codes().items() if check.name in names and code in meanings().findings]
    return ", ".join(f"[`{code}`](findings.md#{code.lower()})" for code in own)


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _code(text: str) -> str:
    return f"`{text}`"


def findings_block() -> str:
    """Raises KeyError for a code without a meaning, and for a meaning without a code."""
    said, meant = codes(), {**meanings().findings, **meanings().states}
    if said.keys() ^ meant.keys():
        raise KeyError(f"meanings.toml and the checks disagree on {sorted(said.keys() ^ meant.keys())}")
    lines = []
    for code in sorted(meanings().findings):
        by = [f"[{name}](checks.md#{slug(name)})" if name else "any check" for name in said[code]]
        lines += [f"### {code}", "", f"{meant[code]}", "", f"Said by {', '.join(by)}.", ""]
    return "\n".join(lines)


def states_block() -> str:
    rows = "\n".join(f"| `{state}` | {meaning} |" for state, meaning in sorted(meanings().states.items()))
    return f"| word | meaning |\n|---|---|\n{rows}"


def terms_block() -> str:
    return "\n".join(f"* **{term}**: {meaning}" for term, meaning in meanings().terms.items())


def exit_codes_block() -> str:
    return "\n".join(
        ["| code | meaning |", "|---|---|", *(f"| {code} | {text} |" for code, text in EXIT_CODES.items())]
    )


def efforts_block() -> str:
    rows = "\n".join(f"| `{effort}` | {TARGET_TV[effort]:g} |" for effort in Effort)
    return f"| `--effort` | a pass excludes a total variation above |\n|---|---|\n{rows}"


def rules_block() -> str:
    knows = {
        Needs.TARGET: "target",
        Needs.DRAFT: "target and draft",
        Needs.LOOKAHEAD: "target and draft, one token ahead",
    }
    rows = [f"| `{f.name}` | {f.description} | {knows[f.needs]} |" for f in FAULTS]
    return "\n".join(["| name | the server ... | what must be known to bet on it |", "|---|---|---|", *rows])


def dialects_block() -> str:
    """What each dialect asks by, and what docs.toml tells of its server."""
    said = told()["dialects"]
    head = "| server | native routes | alternatives | token ids | prompt logprobs | counts of drafts | seen for real |"
    rows = [
        f"| {said[d.name]['server']} (`{d.name}`) | {_names(r for r in d.routes if not r.startswith('/v1/'))} "
        f"| {said[d.name]['alternatives']} | {'prompts and answers' if d.token_routes else _ids(d)} "
        f"| {_names(d.prompt_routes)} | {said[d.name]['counts']} | {said[d.name]['seen']} |"
        for d in DIALECTS
    ]
    return "\n".join([head, "|---|---|---|---|---|---|---|", *rows])


def _names(routes: Iterable[str]) -> str:
    return ", ".join(f"`{route}`" for route in routes) or "-"


def _ids(dialect: Dialect) -> str:
    """Of a dialect whose prompts are text: whether its reader finds ids in an answer."""
    ids: str = told()["dialects"][dialect.name].get("ids", "-")
    return ids


def places_block() -> str:
    """Where each kind of server is asked what it is."""
    return "\n".join(f"* `{d.name}`: {_names(d.paths)}" for d in DIALECTS)


def commands_block() -> str:
    return "\n".join(_command(cli, "draftproof", None))


def _command(command: click.Command, path: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, **command.context_settings)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"## {path}", "", f"`{path} {usage}`", "", _line((command.help or "").partition("\f")[0]), "")
    options = [p for p in command.get_params(context) if isinstance(p, click.Option)]
    yield from ("| option | default | environment | meaning |", "|---|---|---|---|")
    yield from (_option(option, context) for option in options)
    yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _command(child, f"{path} {name}", context)


def _option(option: click.Option, context: click.Context) -> str:
    names = ", ".join(_code(name) for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else option.make_metavar(context).replace("|", "\\|")
    default = option.to_info_dict()["default"]
    shown = "" if option.is_flag or option.multiple or default in (None, "") or callable(default) else f"`{default}`"
    return f"| {names} {value} | {shown} | {_variable(option, context)} | {option.help or ''} |".replace("  |", " |")


def _variable(option: click.Option, context: click.Context) -> str:
    if isinstance(option.envvar, str):
        return _code(option.envvar)
    prefix = context.command.context_settings.get("auto_envvar_prefix")
    known = prefix and option.allow_from_autoenv and not option.is_eager
    return _code(f"{prefix}_{(option.name or '').upper()}") if known else ""


BLOCKS: Mapping[str, Callable[[], str]] = {
    **docs_controls.BLOCKS,
    "checks": checks_block,
    "commands": commands_block,
    "dialects": dialects_block,
    "efforts": efforts_block,
    "exit codes": exit_codes_block,
    "findings": findings_block,
    "places": places_block,
    "rules": rules_block,
    "states": states_block,
    "terms": terms_block,
}


def pages() -> list[Path]:
    """Every Markdown page of the project."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def filled(text: str) -> str:
    """The page with its generated blocks as they should be. Raises KeyError for a block that is not known."""
    return BLOCK.sub(lambda m: f"{m[1]}{BLOCKS[m['name']]().strip()}\n{m[4]}", text)


def stale() -> list[Path]:
    """Pages with a block that is not what the code says."""
    texts = ((page, page.read_text(encoding="utf-8")) for page in pages())
    return [page for page, text in texts if filled(text) != text]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def main() -> int:
    wrong = stale()
    if "--check" in sys.argv[1:]:
        for page in wrong:
            sys.stdout.write(f"{page.relative_to(ROOT)} is stale: run {COMMAND}\n")
        return 1 if wrong else 0
    for page in wrong:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
        sys.stdout.write(f"{page.relative_to(ROOT)} written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
