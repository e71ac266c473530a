"""Models become something to serve: countable ones from the catalogue, GGUF files through libllama."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from draftproof.core.errors import UsageError, install
from draftproof.engine.backends.law import LawBackend
from draftproof.engine.draft.ngram_pool import NgramPool
from draftproof.engine.slot import Models
from draftproof.server.served import LLAMA_DEFAULTS, About, Defaults, Served
from draftproof.server.vocabulary import Letters

_TABLE_CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class Files:
    """GGUF files and how to run them. `context`: tokens of one slot, 0 for what the model was trained for. `slots`: at once.

    strict: only arithmetic that gives a drafted token the very numbers of a plain one. exact_prompts: how prompts are cut or
    kept changes no number either, which makes long ones slow. head: with the target's prediction
    head, which drafts. eagle: `draft` is an EAGLE-3 draft. measure: what rows cost, for drafts as long as pays.
    check_tensors: no value of a file may be infinite or no number.
    """

    target: Path
    draft: Path | None = None
    alias: str = ""
    context: int = 0
    slots: int = 1
    threads: int = 1
    batch: int = 512
    strict: bool = True
    exact_prompts: bool = False
    flash: bool = True
    mmap: bool = True
    repack: bool = False
    check_tensors: bool = False
    gpu_layers: int = 0
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    measure: bool = True
    head: bool = False
    eagle: bool = False


def load_table(name: str, defaults: Defaults = LLAMA_DEFAULTS, *, context: int = 0, draft: bool = True) -> Served:
    """A model of the catalogue, with its own draft. Raises UsageError for an unknown name."""
    from draftproof.countable.catalogue import named  # it writes GGUF files too, and takes long to import

    pair = named(name)
    vocabulary = f"letters {pair.alphabet}"
    context = context or _TABLE_CONTEXT
    eog = () if pair.end is None else (pair.end,)
    target = LawBackend(pair.target_logits, pair.vocabulary, vocabulary, eog=eog, context=context)
    drafter = LawBackend(pair.draft_logits, pair.vocabulary, vocabulary, eog=eog, context=context) if draft else None
    return Served(
        name=name,
        path=f"countable:{name}",
        models=Models(target, drafter, NgramPool()),
        vocabulary=Letters(pair.pieces, pair.end),
        about=About(ftype="exact", n_ctx_train=context),
        defaults=defaults,
        draft_path=f"countable:{name}-draft" if draft else "",
    )


def load_files(files: Files, defaults: Defaults = LLAMA_DEFAULTS, said: Callable[[str], None] | None = None) -> Served:
    """A GGUF model, and its draft model if there is one. `said` hears what is being done.

    Raises UsageError for files that do not fit, and what libllama's binding raises.
    """
    try:
        from draftproof.server import load_llama
    except ImportError as error:
        raise UsageError(
            f"Models in GGUF files need libllama ({error}).",
            install("serve"),
        ) from error
    return replace(load_llama.load(files, said or (lambda _: None)), defaults=defaults)
