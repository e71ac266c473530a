"""The `draftproof` command, also as `python -m draftproof`."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Never returns: ends the process with the exit code."""
    if sys.argv[1:2] == ["serve"]:
        from draftproof.cli import starting

        starting.begin()  # before the imports, which take long enough to be interrupted
    from draftproof.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
