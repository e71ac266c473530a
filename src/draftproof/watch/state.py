"""What a watch remembers from one start to the next: its rounds, and what each check said last."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from draftproof.core.errors import EvidenceError, UsageError
from draftproof.core.verdict import Verdict

_SCHEMA = """
create table if not exists watched (url text not null, alpha real not null, log_wealth real);
create table if not exists identity (id text not null);
create table if not exists rounds (
    number integer primary key, started_at text not null, verdict text not null, requests integer not null,
    elapsed_s real not null, alpha real not null, evidence text not null);
create table if not exists standing (
    name text primary key, verdict text not null, since text not null, last_good text not null, codes text not null);
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds of one check: its last decisive verdict, since when, and when it was last good ("" = never). Times are UTC."""

    name: str
    verdict: Verdict
    since: str
    last_good: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One round that came to an end. `alpha` is 0 where there was no audit; `evidence` is the file that was kept ("" = none)."""

    number: int
    started_at: str
    verdict: Verdict
    requests: int
    elapsed_s: float
    alpha: float
    evidence: str = ""


class State:
    """A SQLite file that one watch at a time may use; every round is written as a whole or not at all."""

    def __init__(self, path: Path, url: str, alpha: float) -> None:
        """Raises UsageError for a file in use, of another server or another alpha, EvidenceError for one that cannot be written."""
        self._path = path
        with self._told():
            self._db = sqlite3.connect(path, timeout=0.5, isolation_level=None)
            self._db.execute("pragma locking_mode = exclusive")
            self._db.execute("begin exclusive")
            for statement in filter(str.strip, _SCHEMA.split(";")):
                self._db.execute(statement)
            known = self._db.execute("select url, alpha from watched").fetchone()
            if known is None:
                self._db.execute("insert into watched values (?, ?, null)", (url, alpha))
            if self._db.execute("select id from identity").fetchone() is None:
                self._db.execute("insert into identity values (?)", (secrets.token_hex(4),))
            self._db.execute("commit")
        if known is not None and known != (url, alpha):
            self.close()
            raise UsageError(
                f"{path} belongs to a watch of {known[0]} at alpha {known[1]:g}.", "Name another file with --state."
            )

    @property
    def rounds(self) -> int:
        """Made so far, over all starts."""
        return int(self._db.execute("select coalesce(max(number), 0) from rounds").fetchone()[0])

    @property
    def audits(self) -> int:
        """Rounds in which there was an audit, over all starts."""
        return int(self._db.execute("select count(*) from rounds where alpha > 0").fetchone()[0])

    @property
    def id(self) -> str:
        """Eight hexadecimal digits that tell this watch from every other one."""
        return str(self._db.execute("select id from identity").fetchone()[0])

    @property
    def requests(self) -> int:
        return int(self._db.execute("select coalesce(sum(requests), 0) from rounds").fetchone()[0])

    @property
    def evidence(self) -> frozenset[str]:
        """The names of the files that were kept."""
        kept = self._db.execute("select evidence from rounds where evidence != ''")
        return frozenset(Path(path).name for (path,) in kept)

    @property
    def log_wealth(self) -> float:
        """Log of the evidence gathered over all rounds; -inf before the first."""
        found = self._db.execute("select log_wealth from watched").fetchone()[0]
        return float("-inf") if found is None else float(found)

    def standing(self) -> dict[str, Standing]:
        rows = self._db.execute("select name, verdict, since, last_good, codes from standing")
        return {n: Standing(n, Verdict(v), since, good, tuple(json.loads(codes))) for n, v, since, good, codes in rows}

    def add(self, made: Round, standing: dict[str, Standing], log_wealth: float) -> None:
        """Raises EvidenceError when the disk is full."""
        with self._told():
            self._db.execute("begin")
            values = (
                made.number,
                made.started_at,
                made.verdict,
                made.requests,
                made.elapsed_s,
                made.alpha,
                made.evidence,
            )
            self._db.execute("insert into rounds values (?, ?, ?, ?, ?, ?, ?)", values)
            rows = [(s.name, s.verdict, s.since, s.last_good, json.dumps(s.codes)) for s in standing.values()]
            self._db.executemany("insert or replace into standing values (?, ?, ?, ?, ?)", rows)
            self._db.execute(
                "update watched set log_wealth = ?", (None if log_wealth == float("-inf") else log_wealth,)
            )
            self._db.execute("commit")

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise UsageError(
                    f"{self._path} is in use by another watch.", "Stop that one, or name another file with --state."
                ) from error
            raise EvidenceError(
                f"The state cannot be kept in {self._path}: {error}.", "Name a file that can be written."
            ) from error
        except sqlite3.DatabaseError as error:
            raise UsageError(
                f"{self._path} is no state of a watch: {error}.", "Name another file with --state."
            ) from error
