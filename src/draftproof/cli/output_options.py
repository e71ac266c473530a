"""What `check`, `compare` and `rejudge` leave behind: their options for documents and baselines, and what these mean."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import click

from draftproof import __version__, auditing
from draftproof.auditing.baseline import Baseline, read_baseline
from draftproof.auditing.outcome import UNCERTAIN, Report
from draftproof.cli.output import require_writable, settle_stdout, warn, write
from draftproof.core.errors import DraftproofError, UsageError, install
from draftproof.report.page import Page

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of document, written by `report_NAME` and `error_NAME` of a module in `report/`, which is imported when it is asked
    for. `extra` are the packages that it needs beyond ours.
    """

    name: str
    title: str
    module: str
    about: str
    extra: tuple[str, ...] = ()

    def of(self, report: Report, differences: tuple[str, ...]) -> str:
        document: str = self._function("report")(report, differences)
        return document

    def of_trouble(self, error: DraftproofError) -> str:
        document: str = self._function("error")(error, __version__)
        return document

    def _function(self, what: str) -> Any:
        return getattr(importlib.import_module(self.module), f"{what}_{self.name}")

    def require(self) -> None:
        """Raises UsageError when a package is missing."""
        for package in self.extra:
            try:
                importlib.import_module(package)
            except ImportError as error:
                raise UsageError(
                    f"The {self.title} report needs the package {package}: {error}.",
                    install("html"),
                ) from error


FORMATS: tuple[Format, ...] = (
    Format("json", "JSON", "draftproof.report.json_report", "a JSON report"),
    Format("html", "HTML", "draftproof.report.html", "a report for a browser", ("matplotlib", "jinja2")),
    Format("junit", "JUnit", "draftproof.report.junit", "a JUnit report (one test case per check)"),
    Format("sarif", "SARIF", "draftproof.report.sarif", "a SARIF 2.1.0 report"),
)
"""One option each, of that name."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What was asked for: files by format, the baseline, and how much to say (-1 quiet, 1 verbose)."""

    files: Mapping[Format, str] = field(default_factory=dict)
    baseline_file: Path | None = None
    new_baseline: Path | None = None
    verbosity: int = 0

    @property
    def human_file(self) -> IO[str]:
        """Standard output, unless a document goes there."""
        return sys.stderr if STANDARD_OUTPUT in self.files.values() else sys.stdout

    def require_writable(self) -> None:
        """Raises UsageError when a document could not be made or written, before anything has been spent on it."""
        named = [Path(to).absolute() for to in self.files.values() if to != STANDARD_OUTPUT]
        named += [path.absolute() for path in (self.new_baseline,) if path is not None]
        both = [to for to in named if named.count(to) > 1]
        if both or list(self.files.values()).count(STANDARD_OUTPUT) > 1:
            raise UsageError(
                f"Two reports cannot both go to {both[0] if both else 'standard output'}.", "Name another file."
            )
        for kind, to in self.files.items():
            kind.require()
            require_writable(to, f"The {kind.title} report")
        if self.new_baseline is not None:
            require_writable(str(self.new_baseline), "The baseline")

    def baseline(self) -> Baseline:
        """What is accepted. Raises UsageError for a file that is no baseline, also where the new one will take its place."""
        self._old()
        return _read(self.baseline_file)

    def _old(self) -> Baseline:
        """What the new baseline takes reasons and dates from: the file in its place, and the one that is in use."""
        there = self.new_baseline if self.new_baseline is not None and self.new_baseline.exists() else None
        first, second = _read(there), _read(self.baseline_file)
        have = {entry.name for entry in first.entries}
        return Baseline((*first.entries, *(entry for entry in second.entries if entry.name not in have)))

    @contextmanager
    def telling_trouble(self) -> Iterator[None]:
        """An audit that cannot be made is a document too."""
        try:
            yield
        except DraftproofError as error:
            for kind in self.files:
                self._write(kind, functools.partial(kind.of_trouble, error))
            raise

    def finish(self, report: Report, differences: tuple[str, ...] = ()) -> int:
        """Writes all documents; returns the exit code: the report's own, 3 for a sound audit that could not be written down."""
        written = [self._write(kind, functools.partial(kind.of, report, differences)) for kind in self.files]
        if self.new_baseline is not None:
            written.append(self._write_baseline(self.new_baseline, report))
        settle_stdout()
        return report.exit_code or (0 if all(written) else UNCERTAIN)

    def _write(self, kind: Format, made: Callable[[], str]) -> bool:
        try:
            document = made()
        except Exception as error:  # the reporter loop
            warn(f"the {kind.title} report could not be made ({type(error).__name__}: {error}).")
            return False
        to = self.files[kind]
        return write(document, to, f"the {kind.title} report") and self._say_written(kind.title, to)

    def _say_written(self, what: str, to: str) -> bool:
        if to != STANDARD_OUTPUT and self.verbosity >= 0:
            Page(self.human_file).line(f"{what} written: {to}")
        return True

    def _write_baseline(self, path: Path, report: Report) -> bool:
        try:
            old = self._old()
        except UsageError as error:
            warn(str(error))
            return False
        return write(old.updated(report.outcomes).toml(), str(path), "the baseline") and self._say_written(
            "Baseline", str(path)
        )


def _read(path: Path | None) -> Baseline:
    if path is None:
        return Baseline()
    return read_baseline(path, [c.name for c in (*auditing.all_checks(), *auditing.all_comparisons())])


def output_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options; the command gets them as `outputs: Outputs`."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> int:
        files = {kind: to for kind in FORMATS if (to := options.pop(f"{kind.name}_to")) is not None}
        quiet, verbose = options.pop("quiet"), options.pop("verbose")
        outputs = Outputs(files, options.pop("baseline"), options.pop("write_baseline"), verbose - quiet)
        return command(*args, outputs=outputs, **options)

    decorated: Callable[..., int] = run
    for option in reversed(list(_options())):
        decorated = option(decorated)
    return decorated


def _options() -> Iterator[Callable[[Callable[..., int]], Callable[..., int]]]:
    for kind in FORMATS:
        yield click.option(
            f"--{kind.name}",
            f"{kind.name}_to",
            envvar=f"DRAFTPROOF_{kind.name.upper()}",
            default=None,
            metavar="FILE",
            help=f"Write {kind.about} too, in place of an earlier one; - is standard output.",
        )
    yield click.option(
        "--baseline",
        type=click.Path(dir_okay=False, path_type=Path),
        default=None,
        metavar="FILE",
        help="Findings that are accepted for now: they are told, and do not fail the audit.",
    )
    yield click.option(
        "--write-baseline",
        type=click.Path(dir_okay=False, path_type=Path),
        default=None,
        metavar="FILE",
        help="Write all that fails into a baseline, in place of an earlier one. Reasons and dates that stand there are kept.",
    )
    yield click.option("-q", "--quiet", is_flag=True, help="Faults (or differences) and the last line only.")
    yield click.option("-v", "--verbose", is_flag=True, help="All findings, statements and tables.")
