"""The proof: on every table of the catalogue, exact rules have the target's law, wrong ones the law that was computed for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from draftproof.core.distribution import Law, shape, total_variation
from draftproof.core.sampling import GREEDY, NEUTRAL, Sampling
from draftproof.core.speculation import DraftModel, NgramLookup, NgramMod, Speculation
from draftproof.countable.tables import TABLES, TablePair
from draftproof.engine.backends.table import TableBackend
from draftproof.engine.draft import kind
from draftproof.engine.draft.drafter import Drafter
from draftproof.engine.draft.kind import Setup
from draftproof.engine.draft.model import ModelDrafter
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.draft.pace import Costs, LengthPolicy, Paced
from draftproof.engine.draft.several import FirstOf
from draftproof.engine.passes import RowCosts
from draftproof.engine.verify import RULES
from draftproof.engine.verify.exact import answer_law, block_law, law_of, target_law
from draftproof.engine.verify.rule import Rule
from draftproof.engine.verify.wrong import WRONG, Wrong
from draftproof.stats.verification import Step

TOLERANCE = 1e-12
DRAFTED = 2
TOKENS = 3
_FEW = tuple(t for t in TABLES if t.name in {"plain", "ties", "zeros in q"})
_COSTS = Costs(RowCosts((1.0, 1.4, 1.7)), 0.05)
"""Rows so dear that what was accepted so far changes how much is drafted."""
_REPETITIVE = (0, 1, 2, 0, 1, 2, 0, 1)
_LOOKUP = NgramLookup(size_n=1, size_m=4)
_NGRAMS = Speculation(
    ngram_simple=_LOOKUP,
    ngram_map_k=_LOOKUP,
    ngram_map_k4v=NgramLookup(size_n=1, size_m=2),
    ngram_mod=NgramMod(n_match=2, n_min=0, n_max=8),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One rule with one drafter on all tables.

    `cases` laws were compared. `off`: the largest difference of a probability from what is stated (the target's law, or the
    computed one). `tv`: the largest total variation from the target's law, and `table` where it is that large. `per_block`:
    tokens that a block emits, on the table where they are most; at 1 nothing was ever accepted and nothing proved.
    """

    rule: str
    drafter: str
    setting: str
    cases: int
    off: float
    tv: float
    table: str
    exact: bool
    per_block: float

    @property
    def holds(self) -> bool:
        """Whether the rule behaves as stated: exact, or wrong by just what was computed and visibly so."""
        return self.off <= TOLERANCE and self.per_block > 1 and (self.exact or self.tv > TOLERANCE)


@dataclass(frozen=True, slots=True)
class _Drafting:
    """A way to draft: `open(draft model, drawn)`. `memory`: how much of the context it looks at, None for all."""

    name: str
    open: Callable[[TableBackend, bool], Drafter]
    memory: int | None = 1
    context: tuple[int, ...] = (0,)


def _model(
    backend: TableBackend, drawn: bool, sampling: Sampling = NEUTRAL, p_min: float = 0.0, n_min: int = 0
) -> Drafter:
    settings = DraftModel(n_max=DRAFTED, n_min=n_min, p_min=p_min)
    return ModelDrafter(backend, backend.sequence(), sampling, settings, drawn=drawn)


def _ngram(name: str, backend: TableBackend, drawn: bool) -> Drafter:
    return kind(name).open(Setup(backend, _NGRAMS, drawn=drawn, pool=NgramPool(64)))


def _head(backend: TableBackend, drawn: bool) -> Drafter:
    return kind("draft-mtp").open(
        Setup(backend, Speculation(draft=DraftModel(n_max=DRAFTED)), drawn=drawn, head=backend)
    )


def _eagle(backend: TableBackend, drawn: bool) -> Drafter:
    return kind("draft-eagle3").open(
        Setup(backend, Speculation(draft=DraftModel(n_max=DRAFTED)), drawn=drawn, eagle=backend)
    )


def _both(backend: TableBackend, drawn: bool) -> Drafter:
    return FirstOf((_ngram("ngram-cache", backend, drawn), _model(backend, drawn)))


def _adaptive(backend: TableBackend, drawn: bool) -> Drafter:
    return Paced(_model(backend, drawn), LengthPolicy(_COSTS, DRAFTED))


_SIMPLE = _Drafting("draft-simple", _model)
_DRAFTINGS: tuple[_Drafting, ...] = (
    _SIMPLE,
    _Drafting("draft-mtp", _head),
    _Drafting("draft-eagle3", _eagle, 1, (0, 0)),
    _Drafting("draft-simple, top-k 2", partial(_model, sampling=Sampling(top_k=2))),
    _Drafting("draft-simple, temperature 2", partial(_model, sampling=Sampling(temperature=2.0))),
    _Drafting("draft-simple, p_min 0.6", partial(_model, p_min=0.6)),
    _Drafting("draft-simple, p_min 0.6, n_min 2", partial(_model, p_min=0.6, n_min=2)),
    *(
        _Drafting(name, partial(_ngram, name), None, _REPETITIVE)
        for name in ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")
    ),
    _Drafting("ngram-cache,draft-simple", _both, None, (0, 1, 0)),
)
_SAMPLINGS: dict[str, Sampling] = {
    "temperature 0.5": Sampling(temperature=0.5),
    "dynatemp": Sampling(dynatemp_range=0.5),
    "top_k 2": Sampling(top_k=2),
    "top_p 0.7": Sampling(top_p=0.7),
    "min_p, typical_p, top_n_sigma": Sampling(min_p=0.3, typical_p=0.9, top_n_sigma=2.0),
    "penalties": Sampling(repeat_penalty=1.5, presence_penalty=0.3, frequency_penalty=0.4),
    "dry": Sampling(dry_multiplier=1.0, dry_allowed_length=1),
    "xtc": Sampling(xtc_probability=0.3, xtc_threshold=0.2),
    "logit_bias": Sampling(logit_bias=((0, -np.inf), (1, 0.7))),
}
_WHOLE: dict[str, Sampling] = {
    "mirostat 1": Sampling(mirostat=1, mirostat_tau=0.9, mirostat_eta=0.5),
    "mirostat 2": Sampling(mirostat=2, mirostat_tau=0.9, mirostat_eta=0.5),
}


class _Tally:
    """Gathers the comparisons of one row."""

    def __init__(self) -> None:
        self.cases, self.off, self.tv, self.table, self.per_block = 0, 0.0, 0.0, "", 0.0

    def add(self, table: str, law: Law, stated: Law, target: Law, per_block: float) -> None:
        self.cases += 1
        self.off = max(self.off, float(np.abs(law - stated).max()))
        self.per_block = max(self.per_block, per_block)
        if (tv := total_variation(law, target)) > max(self.tv, TOLERANCE):
            self.tv, self.table = tv, table

    def result(self, rule: str, drafter: str, setting: str, *, exact: bool) -> Result:
        return Result(rule, drafter, setting, self.cases, self.off, self.tv, self.table, exact, self.per_block)


def _exact(
    rule: Rule,
    drafting: _Drafting,
    setting: str = "",
    sampling: Sampling = NEUTRAL,
    *,
    tables: Sequence[TablePair] = TABLES,
    whole: bool = False,
    can_truncate: bool = True,
) -> Result:
    if rule.refuses(sampling):
        sampling = replace(sampling, temperature=GREEDY.temperature)
    tally = _Tally()
    for pair in tables:
        target = TableBackend(pair.target, can_truncate=can_truncate)
        draft = TableBackend(pair.draft, can_truncate=can_truncate)
        opened = partial(drafting.open, draft, rule.draws_drafts)
        if whole:
            law = answer_law(rule, target, opened, DRAFTED, TOKENS, context=drafting.context, sampling=sampling)
        else:
            memory = drafting.memory if sampling in {NEUTRAL, GREEDY} else None
            law = law_of(
                rule, target, opened, DRAFTED, TOKENS, context=drafting.context, sampling=sampling, memory=memory
            )
        stated = target_law(target, TOKENS, drafting.context, sampling)
        blocks = block_law(rule, target, opened, DRAFTED, drafting.context, sampling)
        tally.add(pair.name, law, stated, stated, sum(len(tokens) * p for tokens, p in blocks.items()))
    return tally.result(rule.name, drafting.name, setting, exact=True)


def _wrong(wrong: Wrong) -> Result:
    tally = _Tally()
    for pair in TABLES:
        target, draft = TableBackend(pair.target), TableBackend(pair.draft)
        laws = [shape(draft.row((t,)), (t,), NEUTRAL) for t in range(draft.vocab)]
        sure = np.array([[law.max() for law in laws]])
        for token in range(target.vocab):
            p = shape(target.row((token,)), (token,), NEUTRAL)
            opened = partial(wrong.draft, draft)
            law = law_of(wrong.rule, target, opened, wrong.k, 1, context=(token,))
            computed = wrong.computed(Step(p[None], laws[token][None], sure))[0]
            blocks = block_law(wrong.rule, target, opened, wrong.k, (token,))
            tally.add(pair.name, law, computed, p, sum(len(tokens) * q for tokens, q in blocks.items()))
    return tally.result(wrong.name, "draft-simple", wrong.summary, exact=False)


def prove() -> Iterator[Result]:
    """Every exact rule with every drafter and sampler, then every wrong one; each as soon as it is known."""
    for rule in RULES:
        for drafting in _DRAFTINGS:
            yield _exact(rule, drafting)
        yield _exact(rule, _Drafting("draft-simple, adaptive", _adaptive), tables=_FEW, whole=True)
        yield _exact(rule, _SIMPLE, "memory that cannot be rolled back", tables=_FEW, whole=True, can_truncate=False)
    for rule in (r for r in RULES if not r.refuses(NEUTRAL)):
        for name, sampling in _SAMPLINGS.items():
            yield _exact(rule, _SIMPLE, name, sampling, tables=_FEW)
        for name, sampling in _WHOLE.items():
            yield _exact(rule, _SIMPLE, name, sampling, tables=_FEW, whole=True)
    for wrong in WRONG:
        yield _wrong(wrong)
