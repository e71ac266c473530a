"""Logprobs of the prompt's own tokens, which evaluations sum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from draftproof.engine.emit import Emitted
from draftproof.liars.liar import Liar
from draftproof.liars.numbers import Moment, by
from draftproof.liars.retelling import Telling

_LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset", "content")
_PROMPT = ("logprobs/prompt",)


def _generated_only(telling: Telling) -> Any:
    told = telling.told
    if not isinstance(told, dict) or not telling.asked.get("echo") or not told.get("choices"):
        return told
    logprobs, made = told["choices"][0].get("logprobs"), (told.get("usage") or {}).get("completion_tokens", 0)
    if logprobs:
        told["choices"][0]["logprobs"] = {
            name: value[len(value) - made :] if name in _LISTS else value for name, value in logprobs.items()
        }
    return told


def _zero(moment: Moment) -> Emitted:
    return moment.true if moment.answered else replace(moment.true, logprob=0.0)


def _shifted(moment: Moment) -> Emitted:
    if moment.answered or not moment.before or moment.before[-1].row is None:
        return moment.true
    return by(moment.true, moment.before[-1].row)


def _of_draft(moment: Moment) -> Emitted:
    draft = moment.models.draft
    if moment.answered or draft is None or moment.true.position % 2:
        return moment.true
    memory = draft.sequence()
    try:
        return by(moment.true, memory.extend(moment.context, rows=1)[0])
    finally:
        memory.close()


FAMILY: tuple[Liar, ...] = (
    Liar(
        "echo-generated-only",
        "returns the entry of the generated token alone when the prompt's are asked for",
        "https://github.com/ggml-org/llama.cpp/issues/27174",
        _PROMPT,
        retell=_generated_only,
    ),
    Liar(
        "echo-zero",
        "says logprob 0 for every token of the prompt",
        "https://github.com/Blackwellboy/model-serving-minefield",
        _PROMPT,
        numbers=_zero,
    ),
    Liar(
        "echo-shifted",
        "scores the prompt's tokens with the row before theirs",
        "https://github.com/AI-Hypercomputer/maxtext/issues/2103",
        _PROMPT,
        numbers=_shifted,
    ),
    Liar(
        "echo-overwritten",
        "scores half of the prompt's tokens with rows of the drafter, which shares the buffer",
        "https://github.com/vllm-project/vllm/issues/53488",
        _PROMPT,
        numbers=_of_draft,
    ),
)
