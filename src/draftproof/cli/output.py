"""Where reports go: a page for people, JSON for programs, and what to do when either cannot be written."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import click

from draftproof.auditing.events import Event, Listener
from draftproof.core.errors import UsageError


class Listeners:
    """Passes every event to each listener. One that breaks is dropped and told of: a report must not end an audit."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)

    def __call__(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception as error:  # the reporter loop
                self._listeners.remove(listener)
                if not isinstance(error, BrokenPipeError):
                    warn(f"the report cannot be continued ({type(error).__name__}: {error}); the audit goes on.")


def warn(message: str) -> None:
    click.echo(f"draftproof: {message}", err=True)


def human_file(json_to: str | None) -> IO[str]:
    """Standard output, unless the JSON report goes there."""
    return sys.stderr if json_to == "-" else sys.stdout


def require_writable(to: str | None, what: str = "The JSON report") -> None:
    """Raises UsageError when a document could not be written, before anything has been spent on it."""
    if to in {None, "-"}:
        return
    path = Path(str(to))
    new = not path.exists()
    try:
        with path.open("a"):
            pass
    except OSError as error:
        raise UsageError(f"{what} cannot be written to {path}: {error.strerror}.", "Name another file.") from error
    if new:
        path.resolve().unlink(missing_ok=True)  # an audit that is killed leaves no empty report


def write_json(document: str, json_to: str | None) -> bool:
    """Writes the document where `--json` says. False (with a message) when that failed."""
    return json_to is None or write(document, json_to, "the JSON report")


def write(document: str, to: str, what: str) -> bool:
    """Writes a document to a file, in place of what was there, or to standard output ("-"). False (with a message) when that
    failed; then what was there is whole.
    """
    try:
        if to == "-":
            sys.stdout.write(document)
            sys.stdout.flush()
        else:
            _replace(Path(to).resolve(), document)
    except BrokenPipeError:
        return True
    except OSError as error:
        warn(f"{what} could not be written to {to}: {error.strerror}. Free some space or name another file.")
        return False
    return True


def _replace(path: Path, document: str) -> None:
    """The new document or the old one stands there at any time, never a part: a disk may be full, or the process killed."""
    there = path.exists()
    if there and not path.is_file():  # a device or a pipe holds nothing that could be kept
        path.write_text(document, encoding="utf-8")
        return
    part = path.with_name(f".draftproof-{os.getpid()}.part")
    try:
        part.write_text(document, encoding="utf-8")
        if there:
            shutil.copymode(path, part)
        part.replace(path)
    except OSError as error:
        if error.errno not in _ONLY_IN_PLACE:
            raise
        path.write_text(document, encoding="utf-8")
    finally:
        part.unlink(missing_ok=True)


_ONLY_IN_PLACE = {errno.EACCES, errno.EPERM, errno.EBUSY}
"""A folder that takes no new file, or a file that was mounted by itself."""


def settle_stdout() -> None:
    """Hands over what is buffered; a reader that has gone (`| head`) is no fault and changes no exit code."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            warn(f"standard output could not be written: {error.strerror}.")
        # What is left in the buffer must not fail a second time when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
