"""The kinds of pairs that there are as files: each shows a server something that the others do not.

A pair is a target and, unless the target predicts for itself, a draft that is a noisy copy of it. All are random and seeded;
the seeds are those of which every named fault of speculation shows clearly (`power.fault_strengths`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from draftproof.core.distribution import Law, log_softmax
from draftproof.core.errors import UsageError
from draftproof.countable import gguf, mamba, story
from draftproof.countable.incremental import Context, LanguageModel
from draftproof.countable.mamba import Recurrence
from draftproof.countable.oracle import CountablePair
from draftproof.countable.vocabulary import Vocabulary
from draftproof.countable.weights import Architecture, Tensors, noisy, random_weights, rounded

PROMPT: Context = (1, 2, 3, 1, 2)
"""In letters `bcdbc`."""

LETTERS = Vocabulary.of_letters(story.ALPHABET)


@dataclass(frozen=True, slots=True)
class Source:
    """What one model file is written from."""

    vocabulary: Vocabulary
    sizes: gguf.Sizes
    tensors: Tensors

    def model(self) -> LanguageModel:
        return gguf.model(self.sizes, self.tensors)


@dataclass(frozen=True, slots=True)
class Kind:
    """A pair by name. `about` says what it is there for; `serve` what llama-server needs, after `-m target.gguf`, to speculate.

    `make` gives target and draft, no draft where the target has a prediction head.
    """

    name: str
    about: str
    make: Callable[[], tuple[Source, Source | None]]
    serve: str = "-md {draft} --spec-type draft-simple"

    @property
    def model_name(self) -> str:
        """The name of the target, by which the pair is known."""
        return story.NAME if self.name == "letters" else f"countable-{self.name}"


def _letters() -> tuple[Source, Source]:
    target = story.target_weights()
    draft = story.draft_weights(target)
    return Source(LETTERS, story.ARCHITECTURE, target), Source(LETTERS, story.ARCHITECTURE, draft)


def _with_noise(target: Source, noise: float, seed: int) -> tuple[Source, Source]:
    return target, replace(target, tensors=noisy(target.tensors, noise, seed))


def _llama(vocabulary: Vocabulary, seed: int) -> Source:
    sizes = Architecture(vocabulary=len(vocabulary.pieces))
    return Source(vocabulary, sizes, random_weights(sizes, seed))


END_SEED, END_DRAFT_SEED = 24, 1


def _end() -> tuple[Source, Source]:
    return _with_noise(_llama(Vocabulary.of_letters(story.ALPHABET, end=True), END_SEED), 0.7, END_DRAFT_SEED)


HEAD_SEED, HEAD_NOISE = 150, 0.3


def _head() -> tuple[Source, None]:
    """The head reads tokens as the trunk does and thinks like a noisy copy of its first block, so that it is often right."""
    sizes = Architecture(family="mimo2")
    tensors = dict(random_weights(sizes, HEAD_SEED))
    copy = noisy(tensors, HEAD_NOISE, HEAD_SEED)
    first, own = "blk.0.", f"blk.{sizes.blocks}."
    tensors[f"{own}attn_qkv.weight"] = np.concatenate([copy[f"{first}attn_{part}.weight"] for part in "qkv"])
    for part in ("attn_norm", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"):
        tensors[f"{own}{part}.weight"] = copy[f"{first}{part}.weight"]
    join = tensors[f"{own}nextn.eh_proj.weight"]
    tensors[f"{own}nextn.eh_proj.weight"] = rounded(np.eye(*join.shape) + HEAD_NOISE * join)
    return Source(LETTERS, sizes, tensors), None


MAMBA_SEED, MAMBA_DRAFT_SEED = 150, 4


def _mamba() -> tuple[Source, Source]:
    sizes = Recurrence()
    return _with_noise(Source(LETTERS, sizes, mamba.random_weights(sizes, MAMBA_SEED)), 0.5, MAMBA_DRAFT_SEED)


PIECES = (b"a", b"b", b"\xc3", b"\xa9", b"\xe2", b"\x82", b"\xac", b"\xc3\xa9", b"\xf0\x9f", b"\x98\x80")
"""Two letters, the bytes of e acute and of the euro sign, e acute whole, and the halves of an emoji of four bytes."""
BYTES_SEED, BYTES_DRAFT_SEED = 88, 1


def _bytes() -> tuple[Source, Source]:
    return _with_noise(_llama(Vocabulary(PIECES), BYTES_SEED), 0.7, BYTES_DRAFT_SEED)


ORDER_SEED, ORDER_DRAFT_SEED = 185, 3


def _order() -> tuple[Source, Source]:
    target, draft = _with_noise(_llama(LETTERS, ORDER_SEED), 0.7, ORDER_DRAFT_SEED)
    return target, replace(draft, vocabulary=Vocabulary.of_letters("edcbafgh"))


SIZE_SEED, SIZE_DRAFT_SEED = 81, 3


def _size() -> tuple[Source, Source]:
    target = _llama(LETTERS, SIZE_SEED)
    longer = _llama(Vocabulary.of_letters("abcdefghi"), SIZE_DRAFT_SEED)
    tensors = dict(noisy(target.tensors, 0.7, SIZE_DRAFT_SEED))
    for name in ("token_embd.weight", "output.weight"):
        tensors[name] = np.concatenate([tensors[name], longer.tensors[name][len(LETTERS.pieces) :]])
    return target, replace(longer, tensors=tensors)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("letters", "eight letters, and the law of the public report on llama-speculative", _letters),
        Kind("end", "eight letters and a token that ends the text", _end),
        Kind(
            "head",
            "a target that predicts for itself (mimo2, one multi-token-prediction block)",
            _head,
            # the default wants ten tokens: llama-server dies of fewer
            serve="--spec-type draft-mtp --no-spec-draft-backend-sampling",
        ),
        Kind("mamba", "a recurrent pair, whose memory cannot be rolled back", _mamba),
        Kind("bytes", "tokens that are pieces of UTF-8 characters", _bytes),
        Kind("order", "a draft whose first five tokens stand in another order than the target's", _order),
        Kind("size", "a draft with one token more than the target", _size),
    )
}


class _Cut:
    """A draft's law, given that its token is one of the target's."""

    def __init__(self, whole: LanguageModel, vocabulary: int) -> None:
        self.whole = whole
        self.vocabulary = vocabulary
        self.context = whole.context

    def logprobs(self, contexts: Sequence[Context]) -> Law:
        return log_softmax(self.logits(contexts))

    def logits(self, contexts: Sequence[Context]) -> Law:
        law: Law = self.whole.logits(contexts)[:, : self.vocabulary]
        return law


def named_kind(name: str) -> Kind:
    """Raises UsageError that lists the names."""
    if name not in KINDS:
        raise UsageError(f'There is no kind "{name}" of countable pair.', f"Known: {', '.join(KINDS)}.")
    return KINDS[name]


@cache
def pair(name: str) -> CountablePair:
    """The pair of that kind in memory. Raises UsageError."""
    kind = named_kind(name)
    target, draft = kind.make()
    drafts: LanguageModel | None = draft.model() if draft else None
    if drafts is not None and drafts.vocabulary > len(target.vocabulary.pieces):
        drafts = _Cut(drafts, len(target.vocabulary.pieces))
    return CountablePair(target.model(), drafts, name=kind.model_name, vocabulary=target.vocabulary)
