"""Checks against servers of which it is known what is wrong: how often is a fault caught, how often is one made up?"""

from __future__ import annotations

import fnmatch
import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

from draftproof import __version__
from draftproof.auditing import AuditConfig, all_checks
from draftproof.auditing.config import select
from draftproof.auditing.live import open_live
from draftproof.auditing.runner import Audit
from draftproof.auditing.selftest import Controls, require_sound
from draftproof.core.errors import UsageError
from draftproof.core.probe import Effort
from draftproof.core.terms import Terms
from draftproof.core.verdict import Verdict
from draftproof.liars import HONEST, LIARS, liar
from draftproof.liars.hosting import hosted
from draftproof.liars.liar import Liar
from draftproof.stats.intervals import Interval, clopper_pearson

ERROR = 0.05
"""With which each interval errs."""
_BAD = (Verdict.FAIL, Verdict.ERROR)


@dataclass(frozen=True, slots=True)
class Run:
    """One audit of one server: what each check said, and the findings of those that failed."""

    liar: str
    seed: int
    verdicts: Mapping[str, Verdict]
    codes: Mapping[str, tuple[str, ...]]

    def wrong(self) -> list[str]:
        """Every verdict that is not as it must be, in words."""
        server = liar(self.liar)
        missed = [
            f"{name} should fail on {server.name}, and says {verdict}"
            for name, verdict in self.verdicts.items()
            if name in server.fails and verdict is not Verdict.FAIL
        ]
        accused = [
            f"{name} should not fail on {server.name}, and says {verdict} {', '.join(self.codes.get(name, ()))}".rstrip()
            for name, verdict in self.verdicts.items()
            if verdict is Verdict.ERROR or (verdict is Verdict.FAIL and not _expected(server, name))
        ]
        return missed + accused


def _expected(server: Liar, check: str) -> bool:
    return check in server.fails or check in server.may_fail


@dataclass(frozen=True, slots=True)
class Power:
    """How one check did. `caught`: fails on servers that it must fail on; `alarms`: on honest ones; `strays`: on other liars.

    Intervals are Clopper-Pearson's, each wrong with probability at most `ERROR`, over runs as independent trials. None: no
    such server. `alone` are the liars that no other check must fail on.
    """

    check: str
    caught: Interval | None
    alarms: Interval | None
    strays: Interval | None
    alone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """All runs of an experiment. Not every check need have been tried in every run."""

    effort: Effort
    runs: tuple[Run, ...]

    @property
    def checks(self) -> tuple[str, ...]:
        """Those that were tried, in their order."""
        tried = {check for run in self.runs for check in run.verdicts}
        return tuple(c.name for c in all_checks() if c.name in tried)

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of those that were audited."""
        return tuple(dict.fromkeys(run.liar for run in self.runs))

    def wrong(self) -> list[str]:
        """Every verdict that is not as it must be; [] when the instrument behaves as stated."""
        return [text for run in self.runs for text in run.wrong()]

    def powers(self) -> list[Power]:
        """One for each check, in their order."""
        return [self._power(check) for check in self.checks]

    def _power(self, check: str) -> Power:
        known = {run.liar: liar(run.liar) for run in self.runs}
        caught = self._share(check, (n for n, server in known.items() if check in server.fails))
        alarms = self._share(check, (n for n, server in known.items() if server.honest))
        others = (n for n, server in known.items() if not server.honest and not _expected(server, check))
        strays = self._share(check, others)
        return Power(check, caught, alarms, strays, alone(check))

    def _share(self, check: str, servers: Iterable[str]) -> Interval | None:
        names = set(servers)
        said = [run.verdicts[check] for run in self.runs if run.liar in names and check in run.verdicts]
        return clopper_pearson(sum(v in _BAD for v in said), len(said), ERROR) if said else None


def alone(check: str) -> tuple[str, ...]:
    """The liars that only this check must fail on."""
    return tuple(server.name for server in LIARS if server.fails == (check,))


def chosen(patterns: Sequence[str]) -> tuple[Liar, ...]:
    """The servers that are meant, by names and globs; () means all. Raises UsageError for a pattern that matches none."""
    every = (*HONEST, *LIARS)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(server.name, pattern) for server in every):
            liar(pattern)
    return tuple(s for s in every if not patterns or any(fnmatch.fnmatchcase(s.name, p) for p in patterns))


def run_one(name: str, checks: tuple[str, ...], effort: Effort, seed: int) -> Run:
    """Audits the server `name`, started for this alone. checks: names, families or globs."""
    every = all_checks()
    tested = _self_test()
    with hosted(liar(name)) as url:
        config = AuditConfig(url, effort=effort, seed=seed, checks=checks)
        running = Audit(config, select(every, checks), every, lambda _event: None)
        with open_live(config, save=False) as target:
            report = running.run(target, tested)
    said = {outcome.check: outcome.judgement for outcome in report.outcomes}
    return Run(
        name,
        seed,
        {check: judgement.verdict for check, judgement in said.items()},
        {check: tuple(judgement.codes) for check, judgement in said.items() if judgement.verdict in _BAD},
    )


@cache
def _self_test() -> Controls:
    """Once for all audits."""
    return require_sound(all_checks(), Terms())


def run_matrix(
    servers: Sequence[Liar],
    checks: tuple[str, ...] = (),
    *,
    effort: Effort = Effort.QUICK,
    repeats: int = 1,
    seed: int = 1,
    jobs: int = 1,
    done: Callable[[Run], None] = lambda _: None,
) -> Matrix:
    """Audits every server `repeats` times, with seeds `seed`, `seed` + 1, ..., in `jobs` processes. `done` hears of each run."""
    if repeats < 1 or jobs < 1:
        raise UsageError("--repeats and --jobs must be at least 1.")
    tasks = [(s.name, checks, effort, seed + i) for i in range(repeats) for s in servers]
    runs: list[Run] = []
    if jobs == 1:
        for task in tasks:
            runs.append(run_one(*task))
            done(runs[-1])
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            for run in pool.map(run_one, *zip(*tasks, strict=True)):
                runs.append(run)
                done(run)
    return Matrix(effort, tuple(runs))


def joined(old: Matrix, new: Matrix) -> Matrix:
    """What both say; where both tried a check on a server with the same seed, what `new` says.

    Raises UsageError for other efforts.
    """
    if old.effort is not new.effort:
        raise UsageError(f"The result that is kept was made at effort {old.effort}, this one at {new.effort}.")
    runs = {(run.liar, run.seed): run for run in old.runs}
    for run in new.runs:
        before = runs.get((run.liar, run.seed))
        if before is not None:
            codes = {check: said for check, said in before.codes.items() if check not in run.verdicts}
            run = Run(run.liar, run.seed, {**before.verdicts, **run.verdicts}, {**codes, **run.codes})  # noqa: PLW2901
        runs[run.liar, run.seed] = run
    order = {server.name: n for n, server in enumerate((*HONEST, *LIARS))}
    return Matrix(new.effort, tuple(sorted(runs.values(), key=lambda run: (order[run.liar], run.seed))))


def as_document(matrix: Matrix) -> dict[str, Any]:
    """The result as JSON: every verdict, and what they add up to. `from_document` reads it back."""
    return {
        "version": __version__,
        "effort": str(matrix.effort),
        "wrong": matrix.wrong(),
        "checks": {
            p.check: {"caught": _interval(p.caught), "false_alarms": _interval(p.alarms), "strays": _interval(p.strays)}
            for p in matrix.powers()
        },
        "runs": [{"server": r.liar, "seed": r.seed, "verdicts": r.verdicts, "codes": r.codes} for r in matrix.runs],
    }


def from_document(document: Mapping[str, Any]) -> Matrix:
    """The runs of a document, to be added up by what must fail now. Servers that are no more are left out."""
    known = {server.name for server in (*HONEST, *LIARS)}
    runs = tuple(
        Run(
            run["server"],
            run["seed"],
            {check: Verdict(said) for check, said in run["verdicts"].items()},
            {check: tuple(codes) for check, codes in run["codes"].items()},
        )
        for run in document["runs"]
        if run["server"] in known
    )
    return Matrix(Effort(document["effort"]), runs)


def _interval(interval: Interval | None) -> dict[str, float] | None:
    if interval is None:
        return None
    low, high = round(interval.low, 4), round(interval.high, 4)
    return {"count": interval.count, "n": interval.n, "low": low, "high": high, "error": ERROR}
