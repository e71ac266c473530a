"""Settings of a request that do not reach the places where drafts are verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from draftproof.core.candidates import Leading
from draftproof.core.chain import Chain
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import Sampling
from draftproof.engine.backend import Rows
from draftproof.engine.emit import Emitted
from draftproof.engine.generate import Generation
from draftproof.engine.shape import Shaper
from draftproof.liars.liar import Liar


@contextmanager
def shaping(shaper: Shaper, sampling: Sampling) -> Iterator[None]:
    """The shaper follows other settings meanwhile."""
    asked, shaper.chain = shaper.chain, Chain(sampling)
    try:
        yield
    finally:
        shaper.chain = asked


class _Forgetful(Shaper):
    """Shapes by `elsewhere` before the position `until`, and as asked from there on."""

    until = 0
    elsewhere: Sampling

    def law(self, logits: NDArray[Any], leading: Leading | None = None) -> TokenLaw:
        if len(self.context) >= self.until:
            return super().law(logits, leading)
        with shaping(self, self.elsewhere):
            return super().law(logits)


def forgetting(change: Callable[[Sampling], Sampling]) -> type[Generation]:
    """Generations that judge drafted tokens by the law after other settings."""

    class Forgetting(Generation):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self._forgetful = _Forgetful(self.job.sampling, self._coin, self.context, settings.get("constraint"))
            self._forgetful.elsewhere = change(self.job.sampling)
            self._shaper = self._forgetful

        def _judge(self, rows: Rows) -> list[Emitted]:
            self._forgetful.until = len(self.context) + len(self._draft.tokens)
            return super()._judge(rows)

    return Forgetting


def _no_penalties(s: Sampling) -> Sampling:
    return replace(s, repeat_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0)


def _ignores(name: str, what: str, report: str, fails: tuple[str, ...], change: Callable[[Sampling], Sampling]) -> Liar:
    also = {"sampling/unchanged": "the same fault, where its settings meet it"}
    if name == "temperature-ignored":
        also["sampling/distribution"] = "few samples at temperature 0.7 are drawn, and few of them have a known law"
    story = f"applies {what} to tokens that were not drafted only"
    return Liar(name, story, report, fails, also, generation=forgetting(change))


FAMILY: tuple[Liar, ...] = (
    _ignores(
        "penalties-ignored",
        "penalties",
        "https://github.com/sgl-project/sglang/pull/22049",
        ("sampling/parameters",),
        _no_penalties,
    ),
    _ignores(
        "bias-ignored",
        "logit_bias",
        "https://github.com/sgl-project/sglang/issues/10617",
        ("sampling/parameters",),
        lambda s: replace(s, logit_bias=()),
    ),
    _ignores(
        "top-k-ignored",
        "top-k",
        "https://github.com/NVIDIA/TensorRT-LLM/pull/5627",
        ("sampling/distribution", "logprobs/well_formed", "sampling/parameters"),
        lambda s: replace(s, top_k=0),
    ),
    _ignores(
        "min-p-ignored",
        "min-p",
        "https://github.com/vllm-project/vllm/issues/42744",
        ("sampling/parameters",),
        lambda s: replace(s, min_p=0.0),
    ),
    _ignores(
        "temperature-ignored",
        "the temperature",
        "https://github.com/vllm-project/vllm/pull/10198",
        ("sampling/temperature",),
        lambda s: s if s.greedy else replace(s, temperature=1.0),
    ),
)
