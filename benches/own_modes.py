"""What the auditor finds on `draftproof serve`, in every mode.

    python -m benches.own_modes [EFFORT] [MODEL ...]

EFFORT is quick, standard or deep. MODEL: `pair`, the two countable files, in every mode; `mtp`, a countable file with a prediction
head; `eagle3`, a countable target with its EAGLE-3 draft; or a GGUF file, for which the same model without a tenth of its layers
drafts. After a colon, modes by commas: `pair:match,mixed`.

A row for each audit: its exit code, how many checks passed or do not apply, tokens drafted for `sampling/distribution`, requests
and seconds; below it what did neither. Ends with 1 where an audit ends with another exit code than 0.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.shortened import shortened

from draftproof.auditing import AuditConfig, Report, audit
from draftproof.core.probe import Effort
from draftproof.core.verdict import Verdict
from draftproof.countable.files import write_pair
from draftproof.launch.own_server import OwnServer

PAIR = "pair"
_DATA = Path(__file__).parent.parent / "tests" / "data" / "countable-independent"
HEAD = _DATA / "mtp-hy_v3.gguf"
EAGLE = (_DATA / "eagle-target.gguf", _DATA / "eagle-draft.gguf")
ALWAYS = ("--no-spec-adaptive",)
MOD = ("--spec-ngram-mod-n-match", 2, "--spec-ngram-mod-n-min", 1, "--spec-ngram-mod-n-max", 8)
LARGE, SAMPLES = 2**20, 640
"""In quick audits `sampling/distribution` takes so many samples, whatever time they need: then no verdict depends on how busy the
machine is. A model is large from so many bytes on."""
TIMEOUT_S = 600
"""For an answer: a large model writes eight at once."""
RUNNING = ("-np", 8, "-c", 8192, "-t", 1)


def lookup(name: str) -> tuple[object, ...]:
    """Flags for an n-gram drafter that finds something in short texts."""
    flags = f"--spec-ngram-{name}-"
    return ("--spec-type", f"ngram-{name}", f"{flags}size-n", 2, f"{flags}size-m", 8, *ALWAYS)


@dataclass(frozen=True, slots=True)
class Mode:
    """`draft`: whether a draft model is loaded. `flags` of `draftproof serve`."""

    flags: tuple[object, ...] = ()
    draft: bool = False


MODES: Mapping[str, Mode] = {
    "no draft": Mode(),
    "default with a draft": Mode(draft=True),
    "rejection": Mode(("--spec-rule", "rejection", *ALWAYS), draft=True),
    "match": Mode(("--spec-rule", "match", *ALWAYS), draft=True),
    "greedy": Mode(("--spec-rule", "greedy", *ALWAYS), draft=True),
    "ngram-simple": Mode(lookup("simple")),
    "ngram-map-k": Mode(lookup("map-k")),
    "ngram-map-k4v": Mode(lookup("map-k4v")),
    "ngram-mod": Mode(("--spec-type", "ngram-mod", *MOD, *ALWAYS)),
    "ngram-cache": Mode(("--spec-type", "ngram-cache", *ALWAYS)),
    "ngram-mod defaults": Mode(("--spec-type", "ngram-mod")),
    "mixed": Mode(("--spec-type", "ngram-simple,ngram-mod,draft-simple", *lookup("simple")[2:], *MOD), draft=True),
}
HEADED: Mapping[str, Mode] = {"mtp": Mode(("--spec-type", "draft-mtp", *ALWAYS))}
"""For a model with a prediction head."""
EAGLED: Mapping[str, Mode] = {
    "eagle3": Mode(("--spec-type", "draft-eagle3", *ALWAYS), draft=True),
    "eagle3 mixed": Mode(("--spec-type", "ngram-simple,draft-eagle3", *lookup("simple")[2:]), draft=True),
}
"""For a model with an EAGLE-3 draft."""


def served(mode: Mode, model: Path, draft: Path) -> OwnServer:
    """A server in that mode, not started yet."""
    return OwnServer("-m", model, *(("-md", draft) if mode.draft else ()), *RUNNING, *mode.flags)


def audited(mode: Mode, model: Path, draft: Path, out: Path, effort: Effort = Effort.QUICK) -> Report:
    """What an audit says of a server in that mode. `out` is for its evidence."""
    samples = SAMPLES if effort is Effort.QUICK else None
    large = model.stat().st_size > LARGE
    if large:
        mode = Mode(
            (*mode.flags, "--strict"), mode.draft
        )  # or what is kept of a prompt moves the last bits by too much
    with served(mode, model, draft) as server:
        return audit(AuditConfig(server.url, effort=effort, samples=samples, seed=20, timeout=TIMEOUT_S, out=out))


def drafted_for(model: Path, folder: Path) -> tuple[Path, Path]:
    """A model of ordinary size and its draft, which is written to that folder."""
    return model, shortened(model, folder / "draft.gguf")


def undecided(report: Report) -> list[str]:
    """Checks that neither passed nor do not apply, each with what it says."""
    good = (Verdict.PASS, Verdict.NOT_APPLICABLE)
    return [
        f"{o.check}: {o.judgement.verdict}: {o.judgement.summary}"
        for o in report.outcomes
        if o.judgement.verdict not in good
    ]


def drafted(report: Report) -> object:
    """How many tokens were drafted for the samples of `sampling/distribution`."""
    found = (o.judgement.measured for o in report.outcomes if o.check == "sampling/distribution")
    return next((measured.get("drafted") for measured in found), None)


def audits(names: Sequence[str], folder: Path) -> Iterator[tuple[str, Path, Path, str, Mode]]:
    """What is to be audited: a model's name, its file and its draft's, and a mode with its name."""
    for given in names:
        name, _, chosen = given.partition(":")
        modes = {"mtp": HEADED, "eagle3": EAGLED}.get(name, MODES)
        if name == PAIR:
            target, draft, _ = write_pair(folder, force=True)
        else:
            target, draft = {"mtp": (HEAD, HEAD), "eagle3": EAGLE}.get(name) or drafted_for(Path(name), folder)
        for title in chosen.split(",") if chosen else modes:
            yield Path(name).stem, target, draft, title, modes[title]


def main(effort: Effort, names: Sequence[str]) -> int:
    worst = 0
    print("| model | mode | exit | pass | n/a | drafted | requests | s |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "evidence.jsonl.gz"
        for name, model, draft, title, mode in audits(names, Path(folder)):
            out.unlink(missing_ok=True)
            report = audited(mode, model, draft, out, effort)
            worst = max(worst, int(report.exit_code != 0))
            count = Counter(o.judgement.verdict for o in report.outcomes)
            counts = f"{count[Verdict.PASS]} | {count[Verdict.NOT_APPLICABLE]} | {drafted(report)}"
            spent = f"{report.requests} | {report.elapsed_s:.0f}"
            print(f"| {name} | {title} | {report.exit_code} | {counts} | {spent} |", flush=True)
            for line in undecided(report):
                print(f"  {line}", flush=True)
    return worst


if __name__ == "__main__":
    given = sys.argv[1:] or [Effort.QUICK.value]
    sys.exit(main(Effort(given[0]), given[1:] or [PAIR, "mtp", "eagle3"]))
