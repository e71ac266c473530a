"""GGUF models through libllama: the only module of the server that knows of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from draftproof.core.errors import UsageError
from draftproof.core.law import Ids
from draftproof.engine.backend import check_vocabulary
from draftproof.engine.backends.llama import LONGER_TESTED, LlamaBackend, LlamaOptions
from draftproof.engine.backends.llama_eagle import LlamaEagle
from draftproof.engine.backends.llama_follower import LlamaFollower
from draftproof.engine.backends.llama_head import LlamaHead
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.draft.pace import Costs, time_row
from draftproof.engine.guidance import HEADER, Guides
from draftproof.engine.libllama import CacheType, ContextOptions, Grammar, Model, ModelOptions
from draftproof.engine.libllama.openmp import aside
from draftproof.engine.shape import Constraint
from draftproof.engine.slot import Models
from draftproof.server.served import About, Served

if TYPE_CHECKING:
    from draftproof.server.load import Files

_OUTPUTS = 64
_ROWS_TESTED = 8
_MOST_ROWS_TESTED = 16
"""A row for each slot is tested, up to so many."""
_ROWS_OF_DRAFT_TESTED = 2
"""A draft model reads one token of an answer after the other: beyond a row for each slot there is nothing to find out."""
_MOST_COST = 1.05
"""Company is read in batches that are exact where that takes no longer than so many times what one batch of all takes."""


def load(files: Files, said: Callable[[str], None]) -> Served:
    """Loads, checks that the vocabularies agree, and measures what rows cost."""
    said(f"loading {files.target}")
    target = LlamaBackend(files.target, _options(files))
    draft: LlamaBackend | None = None
    head: LlamaHead | None = None
    eagle: LlamaEagle | None = None
    try:
        if files.draft is not None:
            said(f"loading {files.draft}")
        if files.draft is not None and files.eagle:
            eagle = LlamaEagle(target, files.draft)
        elif files.draft is not None:
            draft = LlamaBackend(files.draft, _options(files, draft=True))
            check_vocabulary(target, draft.vocab, draft.vocabulary)
        head = LlamaHead(target) if files.head else None
        follower = head or eagle
        of_head = _seconds(target, follower) if follower and files.measure else 0.0
    except BaseException:
        for helper in (draft, eagle):
            if helper is not None:
                helper.close()
        target.close()
        raise
    model = target.model
    costs = partial(_costs, target, draft, of_head) if files.measure else None
    return Served(
        name=files.alias or str(files.target),
        path=str(files.target),
        models=Models(target, draft, NgramPool(), costs, head, eagle, partial(_abandon, target, draft)),
        vocabulary=model.vocab,
        template=model.chat_template() or "",
        about=_about(target, costs),
        draft_path="" if files.draft is None else str(files.draft),
        grammar=partial(_constraint, model, Guides(model.vocab)),
    )


def _abandon(*backends: LlamaBackend | None) -> None:
    for backend in backends:
        if backend is not None:
            backend.abandon()


def _options(files: Files, *, draft: bool = False) -> LlamaOptions:
    head = files.head and not draft
    model = ModelOptions(
        mmap=files.mmap,
        extra_buffers=files.repack,
        gpu_layers=files.gpu_layers,
        heads=head,
        check=files.check_tensors,
    )
    context = ContextOptions(
        tokens=files.context,
        sequences=files.slots,
        batch=files.batch,
        outputs=_OUTPUTS,
        threads=files.threads,
        token_threads=1 if files.exact_prompts else 0,
        flash=files.flash,
        keys=_cache_type(files.cache_type_k),
        values=_cache_type(files.cache_type_v),
    )
    # what a seed gives under rejection sampling depends on the numbers of the draft too
    exact = files.exact_prompts
    least = _ROWS_OF_DRAFT_TESTED if draft and not exact else _ROWS_TESTED
    longer = () if draft else LONGER_TESTED
    return LlamaOptions(
        model,
        context,
        strict=files.strict,
        most_cost=math.inf if exact else _MOST_COST,
        exact_prompts=exact,
        test_rows=max(least, min(files.slots, _MOST_ROWS_TESTED)),
        test_longer=longer,
        hidden=head,
    )


def _seconds(target: LlamaBackend, head: LlamaFollower) -> float:
    """What a token costs that is drafted from hidden rows. Needs a sequence of the target that is free."""
    followed = target.sequence()
    seconds = aside(partial(time_row, head))
    followed.close()
    return seconds


def _costs(target: LlamaBackend, draft: LlamaBackend | None, of_head: float) -> Costs:
    """From the tests of rows, which are made when they are asked for."""
    of_draft = draft.row_costs.of(1) if draft else 0.0
    return Costs(target.row_costs, of_draft, of_head, target.rows_together)


def _cache_type(name: str) -> CacheType:
    try:
        return CacheType[name.upper()]
    except KeyError as error:
        known = ", ".join(t.name.lower() for t in CacheType)
        raise UsageError(f'There is no cache type "{name}".', f"Known: {known}.") from error


def _about(backend: LlamaBackend, costs: Callable[[], Costs] | None) -> About:
    model = backend.model
    return About(
        ftype=model.description.split(" ", 2)[-1],
        n_ctx_train=model.trained_context,
        n_embd=model.width,
        n_params=model.parameters,
        size=model.size_bytes,
        vocab_type=int(model.library.lib.llama_vocab_type(model.vocab.pointer)),
        notes=partial(_notes, backend, costs),
    )


def _notes(backend: LlamaBackend, costs: Callable[[], Costs] | None) -> dict[str, object]:
    source = backend.model.library.source
    if costs is None:
        return {"ms_of_rows": [], "ms_of_draft_token": None, "library": source}
    found = costs()
    return {
        "max_rows_together": backend.rows_together[-1],
        "cost_of_exact_company": round(backend.cost_of_exact_company, 3),
        "ms_of_rows": [round(1000 * s, 3) for s in found.target.rows],
        "ms_of_more_rows": {str(n): round(1000 * s, 3) for n, s in found.target.more},
        "ms_of_draft_token": round(1000 * (found.draft or found.head), 3),
        "library": source,
    }


class _Allowed:
    """A grammar's state as the engine asks for it."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar

    def allowed(self, ids: Ids) -> NDArray[np.bool_]:
        return self._grammar.allowed(ids)

    def advance(self, token: int) -> None:
        self._grammar.accept(token)


def _constraint(model: Model, guides: Guides, text: str) -> Constraint:
    """Of a grammar in GBNF or in llguidance's notation."""
    return guides.guide(text) if text.startswith(HEADER) else _Allowed(Grammar.parse(model, text))
