"""Findings that are known and accepted for now: they do not fail an audit, and change nothing else that it says."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from draftproof.auditing.outcome import UNDECIDED, Accepted, Outcome, acceptable
from draftproof.core.errors import UsageError
from draftproof.core.verdict import Verdict

_ENTRY = (
    'An entry is [[accepted]] with check = "...", code = "...", and perhaps reason = "..." and expires = 2027-01-31.'
)
_HEAD = """\
# Findings that `draftproof check --baseline` accepts: they do not fail the audit. Say why, and until when:
# reason = "...", expires = 2027-01-31
# The code INCONCLUSIVE accepts that a check could not decide: take it out where you want to know.
"""
_DECIDED = {Verdict.PASS, Verdict.FAIL, Verdict.NOT_APPLICABLE}


def _today() -> date:
    return datetime.now(UTC).date()


@dataclass(frozen=True, slots=True)
class Weighed:
    """How outcomes count under a baseline.

    `verdicts`: one per outcome, `pass` in place of a failure all of whose findings are accepted. `accepted`: the entries that
    were found. `expired`, `stale`: sentences on entries that count no more, and on those that are found no more.
    """

    verdicts: tuple[Verdict, ...]
    accepted: tuple[Accepted, ...] = ()
    expired: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Baseline:
    """Accepted findings. `today` (UTC) decides which have expired: an entry counts up to and on its last day."""

    entries: tuple[Accepted, ...] = ()
    today: date = field(default_factory=_today)

    def weigh(self, outcomes: Iterable[Outcome]) -> Weighed:
        """A check that was not run, not decided or broke leaves its entries as they are: neither found nor stale. An entry for
        one that is not decided is never stale, for that may be chance.
        """
        verdicts: list[Verdict] = []
        found: list[Accepted] = []
        expired: list[str] = []
        stale: list[str] = []
        by_check: dict[str, list[Accepted]] = {}
        for entry in self.entries:
            by_check.setdefault(entry.check, []).append(entry)
        for outcome in outcomes:
            judgement = outcome.judgement
            codes = set(acceptable(judgement))
            entries = by_check.get(outcome.check, [])
            valid = [e for e in entries if e.code in codes and not self._is_over(e)]
            found += valid
            over = [e for e in entries if self._is_over(e) and e.code in codes]
            expired += [f"accepted until {e.expires} only, and still found: {e.name}" for e in over]
            if judgement.verdict in _DECIDED:
                stale += [_stale(e) for e in entries if e.code not in codes and e.code != UNDECIDED]
            whole = bool(codes) and codes == {e.code for e in valid}
            verdicts.append(Verdict.PASS if whole else judgement.verdict)
        return Weighed(tuple(verdicts), tuple(found), tuple(expired), tuple(stale))

    def _is_over(self, entry: Accepted) -> bool:
        return entry.expires is not None and entry.expires < self.today

    def updated(self, outcomes: Iterable[Outcome]) -> Baseline:
        """All that these outcomes fail for or leave open; entries that stood here keep reason and date, stale ones are left out."""
        outcomes = tuple(outcomes)
        known = {(e.check, e.code): e for e in self.entries}
        decided = {o.check for o in outcomes if o.judgement.verdict in _DECIDED}
        kept = [e for e in self.entries if e.check not in decided]
        failed = [
            known.get((o.check, code), Accepted(o.check, code)) for o in outcomes for code in acceptable(o.judgement)
        ]
        return Baseline((*failed, *(e for e in kept if e not in failed)), self.today)

    def toml(self) -> str:
        """The file that `read_baseline` reads."""
        return "\n".join([_HEAD, *map(_entry_toml, self.entries)])


def read_baseline(path: Path, checks: Collection[str]) -> Baseline:
    """The baseline in a TOML file. Raises UsageError for a file that is none, or that names no check of `checks`."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The baseline {path} cannot be read: {error.strerror}.", "Name another file.") from error
    except ValueError as error:  # no UTF-8, no TOML
        raise UsageError(f"The baseline {path} is no TOML: {error}.", _ENTRY) from error
    listed = document.pop("accepted", [])
    if document or not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        odd = ", ".join(map(repr, document)) or "accepted"
        raise UsageError(f"The baseline {path} holds {odd}, which is no list of entries.", _ENTRY)
    entries = [_entry(f"{path}, entry {n}", entry, checks) for n, entry in enumerate(listed, 1)]
    names = [entry.name for entry in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"The baseline {path} has {', '.join(twice)} twice.", "Leave one of them.")
    return Baseline(tuple(entries))


def _entry(where: str, entry: Mapping[str, Any], checks: Collection[str]) -> Accepted:
    unknown = entry.keys() - {"check", "code", "reason", "expires"}
    if unknown:
        raise UsageError(f"{where}: {', '.join(sorted(unknown))} is not known.", _ENTRY)
    texts = [entry.get("check"), entry.get("code"), entry.get("reason", "")]
    if not all(isinstance(text, str) for text in texts) or not (texts[0] and texts[1]):
        raise UsageError(f"{where}: check and code must be there, and be texts, as must a reason.", _ENTRY)
    expires = entry.get("expires")
    if expires is not None and type(expires) is not date:
        raise UsageError(f"{where}: expires = {expires!r} is no date.", "Write it as expires = 2027-01-31.")
    check, code, reason = map(str, texts)
    if check not in checks:
        near = difflib.get_close_matches(check, checks, n=1)
        remedy = f"Did you mean {near[0]}?" if near else "`draftproof explain` lists all checks."
        raise UsageError(f"{where}: there is no check {check!r}.", remedy)
    return Accepted(check, code, reason, expires)


def _stale(entry: Accepted) -> str:
    return f"stale entry of the baseline: {entry.name} is accepted, but not found any more; take it out"


def _entry_toml(entry: Accepted) -> str:
    lines = ["[[accepted]]", f"check = {_text(entry.check)}", f"code = {_text(entry.code)}"]
    lines += [f"reason = {_text(entry.reason)}"] if entry.reason else []
    lines += [f"expires = {entry.expires.isoformat()}"] if entry.expires else []
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    # JSON's escapes are TOML's too, but for the one control character that JSON lets stand.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
