"""Rules of verification and drafters that change what is sampled. At temperature 0 they are all exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from draftproof.core.coin import Coin
from draftproof.core.law import TokenLaw
from draftproof.countable.catalogue import named
from draftproof.engine.backend import Backend, Sequence
from draftproof.engine.backends.law import LawBackend
from draftproof.engine.draft.drafter import Drafter
from draftproof.engine.generate import Generation, Job
from draftproof.engine.slot import AfterFirst
from draftproof.engine.verify.rule import Decide, Decision, Rule
from draftproof.engine.verify.wrong import WRONG
from draftproof.liars.liar import Liar

_SYNTHETIC = 0.6
_EPSILON, _DELTA = 0.3, 0.09
_BIASED = ("sampling/distribution",)
_GROSS = (*_BIASED, "sampling/temperature", "sampling/unchanged")
"""What so few samples as those of a quick audit show for certain."""


_CONSEQUENCES = {
    "sampling/unchanged": "what is drawn differs from what is drawn without speculation, as far as few samples show it",
    "sampling/temperature": "a rule that prefers likely tokens draws as if it were colder",
    "sampling/parameters": "a rule that lets pass what p excludes lets pass what top-k 1 and min-p exclude",
    "logprobs/well_formed": "a rule that lets pass what p excludes lets pass what top-k excludes",
}


def _besides(fails: tuple[str, ...]) -> dict[str, str]:
    return {check: why for check, why in _CONSEQUENCES.items() if check not in fails}


def judged(decide: Decide) -> type[Generation]:
    """Generations that verify so above temperature 0."""

    class Judged(Generation):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            if not self.job.sampling.greedy:
                self._rule = Rule(self._rule.name, self._rule.summary, decide, draws_drafts=True)

    return Judged


def drafted(make: Callable[[Backend], Drafter]) -> type[Generation]:
    """Generations whose drafts `make` makes from the draft model, above temperature 0."""

    class Drafted(Generation):
        def __init__(
            self, backend: Backend, sequence: Sequence, job: Job, *, drafter: Drafter, **settings: Any
        ) -> None:
            if drafter.name != "none" and not job.sampling.greedy:
                drafter = AfterFirst(make(_draft_model(backend)), len(job.prompt))
            super().__init__(backend, sequence, job, drafter=drafter, **settings)

    return Drafted


def _draft_model(target: Backend) -> Backend:
    return LawBackend(named("story").draft_logits, target.vocab, target.vocabulary, context=target.context)


def _synthetic(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:  # noqa: ARG001 - the fault
    """By the toss of a coin."""
    if coin.at("accept", position).flip(_SYNTHETIC):
        return Decision(x, accepted=True)
    return Decision(int(p.ids[coin.at("residual", position).pick(p.p)]), accepted=False)


def _typical(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:  # noqa: ARG001 - the fault
    """Cai et al. 2024 (Medusa, arXiv 2401.10774): what is likely enough for a law of this entropy is accepted."""
    dense = p.dense()
    entropy = -float((dense[dense > 0] * np.log(dense[dense > 0])).sum())
    if p.at(x) > min(_EPSILON, _DELTA * np.exp(-entropy) * 10):
        return Decision(x, accepted=True)
    return Decision(p.argmax, accepted=False)


def _greedy(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:  # noqa: ARG001 - the fault
    """The target's likeliest token, whatever the temperature."""
    return Decision(p.argmax, accepted=p.argmax == x)


def _always(p: TokenLaw, x: int, q: TokenLaw | None, coin: Coin, position: int) -> Decision:  # noqa: ARG001 - the fault
    return Decision(x, accepted=True)


def _wrong(name: str, wrong: str, report: str, fails: tuple[str, ...] = _BIASED) -> Liar:
    """A rule that `draftproof prove` knows to be wrong."""
    known = next(w for w in WRONG if w.name == wrong)
    return Liar(name, known.summary, report, fails, _besides(fails), generation=judged(known.rule.decide))


def _drafter(name: str, wrong: str, report: str) -> Liar:
    known = next(w for w in WRONG if w.name == wrong)
    return Liar(name, known.summary, report, _BIASED, _CONSEQUENCES, generation=drafted(known.draft))


def _rule(
    name: str,
    story: str,
    report: str,
    decide: Decide,
    fails: tuple[str, ...] = _BIASED,
    may_fail: Mapping[str, str] = MappingProxyType({}),
) -> Liar:
    return Liar(name, story, report, fails, {**_besides(fails), **may_fail}, generation=judged(decide))


FAMILY: tuple[Liar, ...] = (
    _wrong("draft-top", "draft top", "https://github.com/ggml-org/llama.cpp/issues/29975", _GROSS),
    _wrong("rank-residual", "rank residual", "https://github.com/ggml-org/llama.cpp/issues/29975"),
    _wrong("no-residual", "no residual", "https://github.com/ShopeeLLM/Spec-RL/issues/14"),
    _wrong("one-uniform", "one uniform", "https://github.com/xLLM-AI/xllm/pull/2175"),
    _wrong("argmax-acceptance", "greedy acceptance", "https://github.com/lablup/mlxcel/issues/902"),
    _wrong("threshold", "threshold acceptance", "https://github.com/vllm-project/vllm-ascend/issues/7807"),
    _wrong("lenient", "lenient ratio 0.8", "https://github.com/vllm-project/vllm-ascend/issues/7807"),
    _wrong("colder", "temperature 0.5", "https://github.com/vllm-project/vllm/pull/10198"),
    _rule(
        "greedy-verification",
        "takes the target's likeliest token at every drafted place, whatever the temperature",
        "https://github.com/ROCm/ATOM/pull/2318",
        _greedy,
        _GROSS,
        {"randomness/seeds": "answers that chance hardly changes are the same without a seed"},
    ),
    _rule(
        "synthetic",
        "accepts drafts by the toss of a coin, to measure speed",
        "https://github.com/ggml-org/llama.cpp/pull/27711",
        _synthetic,
    ),
    _rule(
        "typical",
        "accepts what is likely enough for the entropy of the place",
        "https://github.com/vllm-project/vllm/pull/39359",
        _typical,
    ),
    _rule(
        "always-accepts",
        "accepts whatever was drafted",
        "https://github.com/openvinotoolkit/openvino.genai/pull/2331",
        _always,
    ),
    _drafter("q-untruncated", "q before truncation", "https://github.com/z-lab/dflash/issues/74"),
    _drafter("top-told-as-drawn", "top told as drawn", "https://github.com/huggingface/transformers/issues/32867"),
)
