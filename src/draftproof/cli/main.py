"""The `draftproof` command: a group whose commands are imported when they are used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from draftproof import __version__
from draftproof.cli.trouble import tell, tolerate_any_text

COMMANDS: Mapping[str, tuple[str, str]] = {
    "check": ("draftproof.cli.check", "Audit a running server: can its numbers be trusted?"),
    "compare": ("draftproof.cli.compare", "Are two servers, or one then and now, the same?"),
    "watch": ("draftproof.cli.watch", "Audit lightly again and again; tell when a verdict changes."),
    "rejudge": ("draftproof.cli.rejudge", "Judge an evidence file again, offline."),
    "explain": ("draftproof.cli.explain", "What a check claims and cannot see; what a finding or a term means."),
    "serve": ("draftproof.cli.serve", "Serve a model: speculating, and with true logprobs for every token."),
    "gateway": ("draftproof.cli.gateway", "Stand before a speculating server: logprobs come out true."),
    "countable": ("draftproof.cli.countable", "Models small enough to count: write them, print their exact laws."),
    "prove": ("draftproof.cli.prove", "Enumerate every branch of the verification rules: which are exact?"),
    "controls": ("draftproof.cli.controls", "Try the checks on servers of which it is known what is wrong."),
    "demo": ("draftproof.cli.demo", "See a real server make up its logprobs."),
}


class LazyGroup(click.Group):
    """Finds commands by name in `COMMANDS`; turns trouble into a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Never returns: ends the process with the exit code."""
        extra["standalone_mode"] = False
        args = list(sys.argv[1:] if args is None else args)
        try:
            result = super().main(args, *rest, **extra)
            code = result if isinstance(result, int) else 0
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except BrokenPipeError:  # the reader has gone (`| head`)
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - the interpreter flushes it at exit
            code = 0
        except click.Abort:
            code = tell(KeyboardInterrupt(), sys.stderr)
        except (Exception, KeyboardInterrupt) as error:  # the last place where trouble becomes an exit code
            code = tell(error, sys.stderr, verbose=any(a == "--verbose" or a[:2] == "-v" for a in args))
        sys.exit(code)


@click.group(
    cls=LazyGroup,
    epilog="""\b
Examples:
  draftproof check http://127.0.0.1:8080
  draftproof check http://127.0.0.1:8080 --effort standard --json report.json
  draftproof explain logprobs/placeholder
  draftproof demo""",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="draftproof", message="%(prog)s %(version)s")
def cli() -> None:
    """Can the numbers of an LLM server be trusted while it decodes speculatively?"""


def main() -> NoReturn:
    tolerate_any_text()
    cli.main(prog_name="draftproof")
