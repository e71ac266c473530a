"""LM Studio: OpenAI's routes with its own sampler names, and the same under /api/v0, whose answers count drafts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from draftproof.client.described import scalar, served_models, text, whole
from draftproof.client.dialect import Description, Dialect, Survey
from draftproof.client.dialects.openai import OpenAI
from draftproof.client.openai_ask import LLAMA, Names
from draftproof.client.openai_wire import CHAT, COMPLETIONS

MODELS = "/api/v0/models"
_OWN = ("/api/v0/completions", "/api/v0/chat/completions")


@dataclass(frozen=True, slots=True)
class LMStudio(OpenAI):
    """Its own routes first: OpenAI's do not count drafts. Whether a route gives logprobs is tried out."""

    name: str = "lm_studio"
    paths: tuple[str, ...] = (MODELS,)
    routes: tuple[str, ...] = (*_OWN, COMPLETIONS, CHAT)
    prompt_routes: tuple[str, ...] = ()
    reports_drafts: bool = True
    names: Names = LLAMA

    def recognise(self, survey: Survey) -> str:
        listed = served_models(survey, MODELS)
        return f"{MODELS} lists models and their state" if listed and all("state" in m for m in listed) else ""

    def adapted(self, survey: Survey) -> Dialect:
        return replace(self, model=text(_loaded(survey).get("id")) or "")

    def describe(self, survey: Survey) -> Description:
        model = _loaded(survey)
        kind = [scalar(model[name]) for name in ("arch", "quantization") if name in model]
        notes = () if model.get("state") == "loaded" else ("No model was loaded: the first listed one is asked for.",)
        return Description(
            model=" ".join(str(x) for x in (model.get("id"), *kind) if x) or None,
            context=whole(model.get("loaded_context_length")) or whole(model.get("max_context_length")),
            notes=notes,
        )


def _loaded(survey: Survey) -> dict[str, Any]:
    """The first loaded language model, else the first one, else {}."""
    listed = [m for m in served_models(survey, MODELS) if m.get("type") in ("llm", "vlm", None)]
    return next((m for m in listed if m.get("state") == "loaded"), next(iter(listed), {}))


DIALECT = LMStudio()
