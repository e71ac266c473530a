"""Honest servers: every mode, and nothing wrong. Whatever fails on one of them is a false alarm."""

from __future__ import annotations

from dataclasses import replace

from draftproof.core.speculation import OFF, DraftModel, NgramLookup, NgramMod, Speculation
from draftproof.liars.company import Unhurried
from draftproof.liars.fronts import openai
from draftproof.liars.liar import DRAFTING, Liar
from draftproof.liars.prose import in_prose
from draftproof.liars.vllm_words import vllm
from draftproof.server.served import Served

NGRAM = Speculation(
    types=("ngram-simple", "ngram-mod"),
    ngram_simple=NgramLookup(size_n=2, size_m=4),
    ngram_mod=NgramMod(n_match=2, n_min=1, n_max=4),
)
MIXED = replace(NGRAM, types=("ngram-simple", "draft-simple"))


def _with_head(served: Served) -> Served:
    """The draft model takes the place of a prediction head."""
    return replace(served, models=replace(served.models, draft=None, head=served.models.draft), draft_path="")


def _ruled(rule: str) -> Speculation:
    return replace(DRAFTING, rule=rule)


def _honest(mode: str, story: str, speculation: Speculation, **other: object) -> Liar:
    return Liar(f"honest-{mode}", story, "", (), speculation=speculation, **other)  # type: ignore[arg-type]


FAMILY: tuple[Liar, ...] = (
    _honest("plain", "does not speculate", OFF),
    _honest("rejection", "drafts with a model and verifies by rejection sampling", DRAFTING),
    _honest("match", "drafts with a model and keeps what the target draws itself", _ruled("match")),
    _honest("greedy", "drafts with a model at temperature 0, and says that it does not above", _ruled("greedy")),
    _honest("ngram", "drafts what was said before", NGRAM),
    _honest("mixed", "drafts what was said before, or else with a model", MIXED),
    _honest("mtp", "drafts with a prediction head", replace(DRAFTING, types=("draft-mtp",)), served=_with_head),
    _honest("one-slot", "makes one answer at a time", DRAFTING, slots=1),
    _honest("equal", "drafts with the very model that verifies", DRAFTING, model="equal"),
    _honest(
        "countable", "serves the countable pair", replace(DRAFTING, draft=DraftModel(n_max=5)), model="countable-8"
    ),
    _honest("end", "serves a pair that can end its answers", DRAFTING, model="countable-end"),
    _honest(
        "slow", "takes a little time for each token, so that requests have company", DRAFTING, generation=Unhurried
    ),
    _honest("openai", "has OpenAI's routes only", DRAFTING, front=openai),
    _honest("vllm", "drafts with a model, and speaks as vLLM does", DRAFTING, front=vllm, served=in_prose),
)
