"""The ways to start the real llama-server that the auditor is tried on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option


@dataclass(frozen=True)
class Mode:
    """`draft`: whether the draft model is loaded. `types`, `options` as in `LlamaWheel`."""

    draft: bool = False
    types: Sequence[str] = ()
    options: Mapping[str, Option] = field(default_factory=dict)

    def server(self, target: Path, draft: Path, **options: Option) -> LlamaWheel:
        return LlamaWheel(
            target,
            draft=draft if self.draft else None,
            types=self.types,
            options={**EXACT_NUMBERS, **self.options, **options},
        )


PROBABILISTIC: Mapping[str, Option] = {"speculative.draft.probabilistic": True}

MODES: Mapping[str, Mode] = {
    "no draft": Mode(),
    "draft-simple": Mode(draft=True, types=["draft-simple"]),
    "draft-simple, probabilistic": Mode(draft=True, types=["draft-simple"], options=PROBABILISTIC),
    "ngram-simple": Mode(
        types=["ngram-simple"], options={"speculative.ngram_simple.size_n": 2, "speculative.ngram_simple.size_m": 4}
    ),
    "ngram-mod": Mode(
        types=["ngram-mod"],
        options={
            "speculative.ngram_mod.n_match": 2,
            "speculative.ngram_mod.n_min": 1,
            "speculative.ngram_mod.n_max": 4,
        },
    ),
    "synth_len": Mode(draft=True, types=["draft-simple"], options={"speculative.synth_len": 2.5}),
    "synth_rates": Mode(draft=True, types=["draft-simple"], options={"speculative.synth_rates": [0.5, 0.25, 0.125]}),
    "p_min and n_min": Mode(
        draft=True,
        types=["draft-simple"],
        options={**PROBABILISTIC, "speculative.draft.p_min": 0.45, "speculative.draft.n_min": 2},
    ),
}
