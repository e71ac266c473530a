"""Console blocks of the documentation, run as a reader would run them and compared with what the page shows.

A block is run when the line before its fence says so:

    <!-- run -->            needs no server; every character of the output must be as shown
    <!-- run: draft -->     against a real llama-server of that mode; numbers may differ from those shown

Lines that begin with "$ " are commands, the others what they write. "..." in a line stands for any text, a line that is nothing but
"..." for any lines. All blocks of one page share one folder. http://127.0.0.1:8080 stands for the server.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^<!-- run(?:: (?P<mode>[a-z]+))? -->\n+```console\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN_URL = "http://127.0.0.1:8080"
NUMBER = r"[0-9]+(?:[.,][0-9]+)*(?:e[-+]?[0-9]+)?"
END_OF_OUTPUT = "\x1e"


@dataclass(frozen=True)
class Block:
    """`mode` "" needs no server. `steps` are pairs of a command and the output that the page shows."""

    mode: str
    steps: tuple[tuple[str, str], ...]


def blocks(page: str) -> list[Block]:
    return [Block(found["mode"] or "", _steps(found["body"])) for found in FENCE.finditer(page)]


def _steps(body: str) -> tuple[tuple[str, str], ...]:
    steps: list[tuple[str, str]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], ""))
        elif is_open(steps[-1][0]):
            steps[-1] = (f"{steps[-1][0]}\n{line}", "")
        else:
            command, output = steps[-1]
            steps[-1] = (command, f"{output}{line}\n")
    return tuple(steps)


def is_open(command: str) -> bool:
    """Whether a command goes on in the next line: a quote, a here-document or a backslash is open."""
    here = re.search(r"<<'(\w+)'", command)
    if here:
        return here[1] not in command.splitlines()
    try:
        shlex.split(command)
    except ValueError:
        return True
    return command.endswith("\\")


def run(block: Block, folder: Path, url: str = "", environment: Mapping[str, str] | None = None) -> None:
    """Runs a block in one shell. Raises AssertionError where an output is not the one shown."""
    commands = [command.replace(SHOWN_URL, url) if url else command for command, _ in block.steps]
    script = "".join(f"{{ {c}\n}} 2>&1; said=$?; printf '{END_OF_OUTPUT}'; (exit $said)\n" for c in commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **(environment or {})}
    env.pop("COLUMNS", None)  # pages show whole lines
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    outputs = done.stdout.split(END_OF_OUTPUT)[:-1]
    assert len(outputs) == len(block.steps)
    for (command, shown), output in zip(block.steps, outputs, strict=True):
        seen = output.replace(url, SHOWN_URL) if url else output
        assert matches(shown, seen, exact=not block.mode), f"$ {command}\n{seen}\n--- the page shows ---\n{shown}"


def matches(shown: str, seen: str, *, exact: bool) -> bool:
    """Whether an output is the one shown; not `exact`: up to numbers and the width of gaps."""
    pattern = "".join(_pattern(line, exact=exact) for line in shown.splitlines())
    lines = "".join(f"{line.rstrip()}\n" for line in seen.splitlines())
    return re.fullmatch(pattern, lines) is not None


def _pattern(line: str, *, exact: bool) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    pieces = (_literal(piece, exact=exact) for piece in line.rstrip().split("..."))
    return ".*".join(pieces) + r"\n"


def _literal(text: str, *, exact: bool) -> str:
    if exact:
        return re.escape(text)
    numbers = re.split(f"(-?{NUMBER})", text)
    parts = (f"-?{NUMBER}" if i % 2 else re.escape(part) for i, part in enumerate(numbers))
    return re.sub(r"(?:\\ )+", " +", "".join(parts))
