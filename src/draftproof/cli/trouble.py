"""Trouble told to a person: what happened, what to do, and the exit code. A traceback only on request."""

from __future__ import annotations

import sys
import traceback
from typing import IO

from draftproof.core.errors import DraftproofError
from draftproof.report.clean import clean

INTERNAL = 70
INTERRUPTED = 130


def tell(error: BaseException, file: IO[str], *, verbose: bool = False) -> int:
    """Writes one or two lines about `error` and returns the exit code that it means."""
    if isinstance(error, KeyboardInterrupt):
        file.write("\ndraftproof: interrupted.\n")
        return INTERRUPTED
    if isinstance(error, DraftproofError):
        file.write(f"draftproof: {clean(error.message)}\n")
        if error.remedy:
            file.write(f"  {clean(error.remedy)}\n")
        code = error.exit_code
    else:
        file.write(f"draftproof: something broke inside draftproof ({type(error).__name__}: {clean(str(error))}).\n")
        file.write("  The evidence gathered so far is kept. Run again with -v for details, and please report it.\n")
        code = INTERNAL
    if verbose:
        file.write("".join(traceback.format_exception(error)))
    return code


def tolerate_any_text() -> None:
    """Standard output and error take every character, whatever their encoding: what it lacks is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
