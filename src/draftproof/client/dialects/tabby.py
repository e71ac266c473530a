"""TabbyAPI: OpenAI's routes with its own sampler names; /v1/model describes the loaded model and its draft model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from draftproof.client.described import owner, text, whole
from draftproof.client.dialect import Description, Dialect, Survey
from draftproof.client.dialects.openai import OpenAI
from draftproof.client.openai_ask import Names
from draftproof.core.ask import Ask, Scalar

MODEL = "/v1/model"
_NAMES = Names(all_tokens=0)


@dataclass(frozen=True, slots=True)
class Tabby(OpenAI):
    name: str = "tabby"
    paths: tuple[str, ...] = (MODEL,)
    prompt_routes: tuple[str, ...] = ()
    names: Names = _NAMES

    def recognise(self, survey: Survey) -> str:
        if owner(survey) == "tabbyAPI":
            return "/v1/models says owned_by tabbyAPI"
        return f"{MODEL} says owned_by tabbyAPI" if survey.obj(MODEL).get("owned_by") == "tabbyAPI" else ""

    def adapted(self, survey: Survey) -> Dialect:
        return replace(self, model=text(survey.obj(MODEL).get("id")) or "")

    def describe(self, survey: Survey) -> Description:
        parameters = _parameters(survey)
        return Description(
            model=text(survey.obj(MODEL).get("id")),
            context=whole(parameters.get("max_seq_len")),
            slots=whole(parameters.get("max_batch_size")),
            self_reports=tuple(_drafter(parameters)),
        )

    def body(self, ask: Ask, route: str) -> dict[str, Any]:
        body = OpenAI.body(self, ask, route)
        if ask.sampling.repeat_penalty != 1:
            body["penalty_range"] = ask.sampling.repeat_last_n
        return body


def _parameters(survey: Survey) -> dict[str, Any]:
    found = survey.obj(MODEL).get("parameters")
    return found if isinstance(found, dict) else {}


def _drafter(parameters: dict[str, Any]) -> Iterator[tuple[str, Scalar]]:
    """The draft model's name, "none" where the field is there and null."""
    if "draft" in parameters:
        draft = parameters["draft"]
        found = text(draft.get("id")) if isinstance(draft, dict) else None
        yield f"{MODEL} speculative.drafter", found or ("none" if draft is None else "unnamed")


DIALECT = Tabby()
