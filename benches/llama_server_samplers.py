"""The real llama-server in every mode, on every kind of pair, under every sampler: does it draw from the law of its target?

    python -m benches.llama_server_samplers [--kinds end,head] [--modes none] [--samplers xtc] [--answers 192] [--json FILE]

One cell is one mode, kind and sampler setting: `--answers` answers of 12 tokens to each of three prompts (one repeats itself,
for n-gram drafters), and up to `COUNTED` of six tokens to one, so that what joins several tokens shows. Every token after the
first is judged against the exact law of its own context, samplers included, by the e-process of `sampling/distribution`. A
cell is

* broken: the e-value reached 2/ALPHA, or a token came that the samplers exclude;
* sound: no evidence, drafted tokens seen (or no drafter), and a bound on total variation of at most `TARGET_TV`, by
  seeds where the server's draws can be replayed, else by counts of token 2 after token 1;
* inconclusive: anything else.

An honest cell is called broken with probability at most ALPHA; all cells together with at most their number times that.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from draftproof.checks.sampling.assessment import SUSPECT, Assessment, Bound, Coupling
from draftproof.checks.sampling.laws import LawBook, Laws, Prefix
from draftproof.checks.sampling.streams import Stream
from draftproof.client import connect
from draftproof.client.probe import LiveProbe
from draftproof.core.ask import Ask
from draftproof.core.errors import DraftproofError
from draftproof.core.mt19937 import MT19937
from draftproof.core.sampling import NEUTRAL, Sampling
from draftproof.countable import kinds
from draftproof.countable.answers import AnswerLaws, Grammar
from draftproof.countable.files import write_pair
from draftproof.countable.incremental import Context
from draftproof.countable.oracle import CountablePair
from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option

ALPHA = 1e-7
PASS_ERROR = 1e-3
TARGET_TV = 0.1
NOISE = 2e-5
"""Nats; f32 caches agree with the float64 laws to 1.5e-5 at worst."""
TOKENS, SHORT = 12, 6
COUNTED = 2560
LEAST_DRAFTED = 30

PROMPTS: tuple[Context, ...] = ((1, 2, 3, 1, 2, 0, 5), (4, 4, 2, 5, 0, 1, 3, 3), (0, 3, 5, 1, 2, 4, 0, 1) * 10)
"""None is five tokens long: see docs/llama-server-findings.md on stale checkpoints."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How llama-server is started. `needs`: "draft" (a draft model beside the target), "head" (in it), or nothing."""

    types: tuple[str, ...] = ()
    needs: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)


_PROBABILISTIC: Mapping[str, Option] = {"speculative.draft.probabilistic": True}
_HEAD: Mapping[str, Option] = {
    "speculative.draft.backend_sampling": False,
    "speculative.draft.cache_type_k": "F32",
    "speculative.draft.cache_type_v": "F32",
}


def _lookup(name: str) -> dict[str, Option]:
    return {f"speculative.{name}.size_n": 2, f"speculative.{name}.size_m": 4}


_MOD: Mapping[str, Option] = {
    "speculative.ngram_mod.n_match": 2,
    "speculative.ngram_mod.n_min": 1,
    "speculative.ngram_mod.n_max": 4,
}

MODES: Mapping[str, Mode] = {
    "none": Mode(),
    "draft-simple": Mode(("draft-simple",), "draft"),
    "draft-simple, probabilistic": Mode(("draft-simple",), "draft", _PROBABILISTIC),
    "ngram-simple": Mode(("ngram-simple",), options=_lookup("ngram_simple")),
    "ngram-map-k": Mode(("ngram-map-k",), options=_lookup("ngram_map_k")),
    "ngram-map-k4v": Mode(("ngram-map-k4v",), options=_lookup("ngram_map_k4v")),
    "ngram-mod": Mode(("ngram-mod",), options=_MOD),
    "ngram-cache": Mode(("ngram-cache",)),
    "draft-mtp": Mode(("draft-mtp",), "head", _HEAD),
    "draft-mtp, probabilistic": Mode(("draft-mtp",), "head", {**_HEAD, **_PROBABILISTIC}),
    "ngram-simple + draft-simple, probabilistic": Mode(
        ("ngram-simple", "draft-simple"), "draft", {**_lookup("ngram_simple"), **_PROBABILISTIC}
    ),
    "ngram-mod + draft-mtp, probabilistic": Mode(
        ("ngram-mod", "draft-mtp"), "head", {**_HEAD, **_MOD, **_PROBABILISTIC}
    ),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What a request asks of the samplers. `grammar`: halves of the alphabet by turns."""

    sampling: Sampling = NEUTRAL
    grammar: bool = False


_USUAL = Sampling(temperature=0.8, top_k=6, top_p=0.95, min_p=0.05)

SETTINGS: Mapping[str, Setting] = {
    "neutral": Setting(),
    "repeat penalty": Setting(Sampling(repeat_penalty=1.5)),
    "frequency, presence": Setting(Sampling(frequency_penalty=0.4, presence_penalty=0.6)),
    "dry": Setting(Sampling(dry_multiplier=1.0, dry_base=1.75, dry_allowed_length=1)),
    "top_n_sigma": Setting(Sampling(top_n_sigma=1.0)),
    "top_k": Setting(Sampling(top_k=3)),
    "typ_p": Setting(Sampling(typical_p=0.7)),
    "top_p": Setting(Sampling(top_p=0.8)),
    "min_p": Setting(Sampling(min_p=0.15)),
    "xtc": Setting(Sampling(xtc_probability=0.5, xtc_threshold=0.1)),
    "temperature .7": Setting(Sampling(temperature=0.7)),
    "temperature 1.5": Setting(Sampling(temperature=1.5)),
    "dynatemp": Setting(Sampling(dynatemp_range=0.7)),
    "mirostat 1": Setting(Sampling(mirostat=1, mirostat_tau=1.5)),
    "mirostat 2": Setting(Sampling(mirostat=2, mirostat_tau=1.5)),
    "logit_bias": Setting(Sampling(logit_bias=((0, 1.5), (3, -1.0), (5, -math.inf)))),
    "grammar": Setting(grammar=True),
    "usual": Setting(_USUAL),
    "usual, penalties, dry": Setting(
        Sampling(
            temperature=0.8,
            top_k=6,
            top_p=0.95,
            min_p=0.05,
            repeat_penalty=1.2,
            dry_multiplier=0.8,
            dry_allowed_length=1,
        )
    ),
    "usual, xtc": Setting(
        Sampling(temperature=0.8, top_k=6, top_p=0.95, min_p=0.05, xtc_probability=0.5, xtc_threshold=0.1)
    ),
    "usual, grammar": Setting(_USUAL, grammar=True),
    "xtc, grammar": Setting(Sampling(xtc_probability=0.5, xtc_threshold=0.1), grammar=True),
    "mirostat 2, grammar": Setting(Sampling(mirostat=2, mirostat_tau=1.5), grammar=True),
    "penalties last": Setting(Sampling(top_k=5, repeat_penalty=1.5, samplers=("top_k", "temperature", "penalties"))),
}


def grammar_of(pair: CountablePair) -> Grammar:
    """Tokens 0 to 3, then 4 to 7, by turns without end; a text may end after either four."""
    low, high = ("".join(pair.alphabet[i] for i in half) for half in (range(4), range(4, 8)))
    ends = () if pair.end is None else (pair.end,)

    def allowed(prefix: Context) -> Sequence[int]:
        return (4, 5, 6, 7) if len(prefix) % 2 else (0, 1, 2, 3, *ends)

    return Grammar(f"root ::= ([{low}] [{high}])*", allowed)


class AnswerBook(LawBook):
    """A `LawBook` for every sampler: one prompt per stream, and the state of penalties, mirostat and grammar along the answer."""

    def __init__(self, pair: CountablePair, setting: Setting) -> None:
        super().__init__(pair, (), None, NOISE)
        self.pair = pair
        grammar = grammar_of(pair) if setting.grammar else None
        self._answers = {p: AnswerLaws(pair.target_logits, p, setting.sampling, grammar) for p in PROMPTS}

    def laws(self, number: int, stream: Stream, tokens: Sequence[tuple[Prefix, int]]) -> Laws:  # noqa: ARG002 - a stream has one prompt
        assert isinstance(stream.prompt, tuple)
        p, sure = self._answers[stream.prompt].laws([prefix for prefix, _ in tokens])
        p = np.where(np.isnan(p), 1 / self.cells, p)
        contexts = [(*stream.prompt, *prefix) for prefix, _ in tokens]
        warmth = stream.sampling.temperature if stream.sampling.temperature > 0 else 1.0
        q = np.exp(self.pair.draft_logits(contexts) / warmth)
        x = np.array([token for _, token in tokens], dtype=np.int64)
        return Laws(p, np.zeros(len(p)), q / q.sum(axis=1, keepdims=True), None, x, np.array(sure), by_id=True)


@dataclass(frozen=True, slots=True)
class Cell:
    """What was found. `tv`: bound on total variation, None where there is none; `by`: "seeds" or "counts"."""

    mode: str
    kind: str
    setting: str
    verdict: str
    why: str
    answers: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    log_e: float = 0.0
    tv: float | None = None
    by: str = ""


@dataclass
class Asking:
    """Asks one server under one setting, with seeds of its own.

    A memory that cannot be rolled back comes wrong out of the prompt cache, which is another question: it is not used there.
    """

    probe: LiveProbe
    pair: CountablePair
    setting: Setting
    seed: int

    def stream(self, prompt: Context, answers: int, tokens: int) -> Stream:
        grammar = grammar_of(self.pair).text if self.setting.grammar else ""
        uncached = (("cache_prompt", False),) if self.pair.name in {"countable-mamba", "countable-head"} else ()
        first, self.seed = self.seed, self.seed + answers
        ask = Ask(prompt, tokens, 0, self.setting.sampling, first, count=answers, grammar=grammar, extra=uncached)
        found = list(self.probe.ask_many([ask]))
        if bad := next((a for a in found if not a.ok or a.token_ids is None), None):
            raise Refused(str(bad.error))
        samples = tuple(a.token_ids or () for a in found)
        drafted, accepted = (sum(getattr(a, name) or 0 for a in found) for name in ("drafted", "accepted"))
        return Stream(prompt, self.setting.sampling, tuple(range(first, first + answers)), samples, drafted, accepted)


class Refused(DraftproofError):
    """The server does not take the request."""


def cell(mode: str, kind: str, name: str, asking: Asking, answers: int) -> Cell:
    """Asks and judges. For a bound by counts more is asked only where seeds give none."""
    assessment = Assessment(AnswerBook(asking.pair, asking.setting), MT19937)
    counted = asking.stream(PROMPTS[0], answers, SHORT)
    streams = [counted, *(asking.stream(prompt, answers, TOKENS) for prompt in PROMPTS)]
    assessment.observe(streams)
    bound = assessment.bound(streams, PASS_ERROR)
    if bound is None or bound.tv > TARGET_TV:
        more = asking.stream(PROMPTS[0], COUNTED - answers, SHORT)
        streams[0] = _joined(counted, more)
        assessment.observe(streams)
        assessment.coupling = Coupling()  # each bound is made at half of PASS_ERROR: the choice is paid for
        bound = assessment.bound(streams, PASS_ERROR)
    verdict, why = judged(assessment, bound, sum(s.drafted for s in streams), speculates=mode != "none")
    return Cell(
        mode,
        kind,
        name,
        verdict,
        why,
        answers=sum(len(s.samples) for s in streams),
        tokens=assessment.later.tokens,
        drafted=sum(s.drafted for s in streams),
        accepted=sum(s.accepted for s in streams),
        log_e=assessment.later.max_log_e,
        tv=bound.tv if bound else None,
        by=bound.kind if bound else "",
    )


def _joined(one: Stream, other: Stream) -> Stream:
    return replace(
        one,
        seeds=one.seeds + other.seeds,
        samples=one.samples + other.samples,
        drafted=one.drafted + other.drafted,
        accepted=one.accepted + other.accepted,
    )


def judged(assessment: Assessment, bound: Bound | None, drafted: int, *, speculates: bool) -> tuple[str, str]:
    """Verdict and why."""
    later, first, limit = assessment.later, assessment.first, -math.log(ALPHA / 2)
    leader = later.leading(1)[0]
    rule = f"rule {leader.name} ({leader.share:.0%})" if leader.fault else "no rule known by name"
    if first.impossible or first.max_log_e >= limit:
        return (
            "broken",
            f"token 1, never speculated: {len(first.impossible)} impossible, e-value exp({first.max_log_e:.0f})",
        )
    if later.impossible:
        return "broken", f"{len(later.impossible)} impossible tokens; {rule}"
    if later.max_log_e >= limit:
        return "broken", f"e-value exp({later.max_log_e:.0f}); {rule}"
    if speculates and drafted < LEAST_DRAFTED:
        return "inconclusive", f"{drafted} tokens drafted"
    if bound is None or bound.tv > TARGET_TV:
        return "inconclusive", "the bound is too wide"
    if bound.kind == "counts" and later.log_e >= SUSPECT:
        return "inconclusive", f"suspicious: e-value exp({later.max_log_e:.1f})"
    return "sound", ""


def sweep(
    kind: str, mode_name: str, settings: Sequence[str], answers: int, directory: Path, say: Callable[[Cell], None]
) -> Iterator[Cell]:
    """All settings on one server of one kind in one mode; started anew where it died."""
    pair, mode = kinds.pair(kind), MODES[mode_name]
    files = directory / kind
    draft = files / "draft.gguf" if mode.needs == "draft" else None
    options = {**EXACT_NUMBERS, **mode.options}
    left = list(settings)
    while left:
        name = left[0]
        try:
            with (
                LlamaWheel(files / "target.gguf", draft=draft, types=mode.types, options=options) as server,
                connect(server.url) as probe,
            ):
                while left:
                    name = left.pop(0)
                    seed = zlib.crc32(f"{kind}/{mode_name}/{name}".encode()) % 2**30
                    try:
                        found = cell(mode_name, kind, name, Asking(probe, pair, SETTINGS[name], seed), answers)
                    except Refused as error:
                        found = Cell(mode_name, kind, name, "inconclusive", f"refused: {error}")
                    say(found)
                    yield found
        except DraftproofError as error:
            left = [other for other in left if other != name]
            found = Cell(mode_name, kind, name, "died", str(error).split("\n")[0][:120])
            say(found)
            yield found


def applies(kind: str, mode: Mode) -> bool:
    """A head drafts only on its own kind, and a kind with a head has no draft beside it."""
    return mode.needs == "" or (mode.needs == "head") == (kind == "head")


def chosen(text: str, known: Mapping[str, object], separator: str = ";") -> list[str]:
    names = [name.strip() for name in text.split(separator) if name.strip()] or list(known)
    if unknown := set(names) - set(known):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; known: {'; '.join(known)}")
    return names


def read(path: Path) -> list[Cell]:
    """The cells of a file that `--json` wrote; none where it is not there."""
    return [Cell(**json.loads(line)) for line in path.read_text().splitlines()] if path.is_file() else []


def table(cells: Sequence[Cell]) -> str:
    """Markdown, one table for each kind: settings by modes. A sound cell shows its bound on total variation."""
    lines = []
    for kind in dict.fromkeys(c.kind for c in cells):
        here = {(c.mode, c.setting): c for c in cells if c.kind == kind}
        modes = [mode for mode in MODES if any(mode == m for m, _ in here)]
        lines += [f"### {kind}", "", f"| | {' | '.join(modes)} |", f"|---|{'---|' * len(modes)}"]
        for setting in (s for s in SETTINGS if any(s == name for _, name in here)):
            shown = (here.get((mode, setting)) for mode in modes)
            lines.append(f"| {setting} | {' | '.join('' if c is None else _short(c) for c in shown)} |")
        lines.append("")
    return "\n".join(lines)


def _short(cell: Cell) -> str:
    if cell.verdict == "sound":
        return f"{cell.tv:.3f}" + ("" if cell.by == "seeds" else " c")
    if cell.verdict == "broken":
        return "**broken** " + ("impossible" if "impossible tokens" in cell.why else f"e^{cell.log_e:.0f}")
    return f"{cell.verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="letters;end;head;mamba;order", help="separated by semicolons")
    parser.add_argument("--modes", default="")
    parser.add_argument("--samplers", default="")
    parser.add_argument("--answers", type=int, default=192, help="to each of the three prompts")
    parser.add_argument(
        "--json", type=Path, help="keep the cells there, one object a line; those in it are not tried again"
    )
    parser.add_argument("--table", action="store_true", help="print the cells of the --json file as Markdown, and end")
    options = parser.parse_args()
    if options.table:
        print(table(read(options.json)))
        return
    began = time.monotonic()
    cells: list[Cell] = []
    done = {(c.kind, c.mode, c.setting) for c in read(options.json)} if options.json else set()
    with tempfile.TemporaryDirectory() as name:
        for kind in chosen(options.kinds, kinds.KINDS):
            write_pair(Path(name) / kind, kind=kind)
            for mode in chosen(options.modes, MODES):
                if not applies(kind, MODES[mode]):
                    continue

                def say(cell: Cell) -> None:
                    tv = "" if cell.tv is None else f"TV <= {cell.tv:.3f} by {cell.by}"
                    print(
                        f"{cell.kind:8} {cell.mode:28.28} {cell.setting:22} {cell.verdict:12} {cell.tokens:6} "
                        f"{cell.drafted:6} {cell.accepted:6}  {tv:24} {cell.why}",
                        flush=True,
                    )
                    if options.json:
                        with options.json.open("a", encoding="utf-8") as out:
                            out.write(json.dumps(asdict(cell)) + "\n")

                settings = [s for s in chosen(options.samplers, SETTINGS) if (kind, mode, s) not in done]
                cells += sweep(kind, mode, settings, options.answers, Path(name), say)
    count = {verdict: sum(c.verdict == verdict for c in cells) for verdict in dict.fromkeys(c.verdict for c in cells)}
    print(f"{len(cells)} cells: {count}; {sum(c.tokens for c in cells)} tokens; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
