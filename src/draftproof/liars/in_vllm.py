"""Defects of other families in vLLM's words, where its own reports have them: the fault is the same, and must be seen there too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from draftproof.liars import descriptions, parameters, placeholders, prompts, rules, stopping, streams, values
from draftproof.liars.liar import Liar
from draftproof.liars.prose import in_prose
from draftproof.liars.vllm_words import vllm
from draftproof.server.served import Served


def _in_vllm(
    family: Sequence[Liar],
    name: str,
    number: str,
    fails: tuple[str, ...] = (),
    may_fail: Mapping[str, str] = MappingProxyType({}),
    model: Callable[[Served], Served] = in_prose,
) -> Liar:
    """number: that of the report, with its kind. fails: where they are others than those of the same defect in our own words.

    model: in place of `in_prose`.
    """
    base = next(liar for liar in family if liar.name == name)
    fails = fails or base.fails
    may = {check: why for check, why in {**base.may_fail, **may_fail}.items() if check not in fails}
    return replace(
        base,
        name=f"vllm-{name}",
        story=f"{base.story}, in vLLM's words",
        report=f"https://github.com/vllm-project/{number}",
        fails=fails,
        may_fail=may,
        front=vllm,
        served=model,
        model="story",
    )


def _letters(served: Served) -> Served:
    """The eight letters of the story, where a bias shows in few samples."""
    return served


_LISTED_ALONE = "a placeholder has the chosen token in its list, so that it is a value beside others"

FAMILY: tuple[Liar, ...] = (
    _in_vllm(
        placeholders.FAMILY,
        "placeholder-ngram",
        "vllm/issues/17876",
        ("logprobs/placeholder", "logprobs/rescored", "logprobs/well_formed", "logprobs/units"),
        {"randomness/history": _LISTED_ALONE, "randomness/concurrency": _LISTED_ALONE},
    ),
    _in_vllm(values.FAMILY, "drafts-own", "vllm/issues/34497"),
    _in_vllm(values.FAMILY, "shifted", "vllm/issues/34497"),
    _in_vllm(values.FAMILY, "at-temperature", "vllm/issues/9453"),
    _in_vllm(prompts.FAMILY, "echo-overwritten", "vllm/issues/53488"),
    _in_vllm(streams.FAMILY, "stream-last-only", "vllm/pull/37795"),
    _in_vllm(rules.FAMILY, "lenient", "vllm-ascend/issues/7807", model=_letters),
    _in_vllm(parameters.FAMILY, "temperature-ignored", "vllm/pull/10198"),
    _in_vllm(parameters.FAMILY, "min-p-ignored", "vllm/issues/42744"),
    _in_vllm(stopping.FAMILY, "stop-late", "vllm/pull/47616"),
    _in_vllm(descriptions.FAMILY, "metrics-of-their-own", "vllm/issues/42508"),
    _in_vllm(descriptions.FAMILY, "bypass-logprobs", "vllm/issues/34497"),
)
