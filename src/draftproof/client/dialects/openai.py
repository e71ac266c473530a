"""Any server with OpenAI's routes and no closer dialect: text in, text out, no token ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from draftproof.client.described import draft_metrics, model_names, served_models, text, whole
from draftproof.client.dialect import Call, Description, Dialect, Survey
from draftproof.client.openai_ask import COMMON, Names, openai_body
from draftproof.client.openai_wire import CHAT, COMPLETIONS, parse_openai
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.exchange import Exchange


@dataclass(frozen=True, slots=True)
class OpenAI:
    """`model` is the name to ask for. `explicit` sends the neutral value of samplers that OpenAI's API has no name for: servers
    that know them may have other defaults, servers that do not may refuse them. `budget` is the field that limits an answer.
    """

    name: str = "openai"
    paths: tuple[str, ...] = ("/metrics", "/version")
    routes: tuple[str, ...] = (COMPLETIONS, CHAT)
    token_routes: tuple[str, ...] = ()
    batch_routes: tuple[str, ...] = ()
    grammar_routes: tuple[str, ...] = ()
    prompt_routes: tuple[str, ...] = (COMPLETIONS,)
    reports_drafts: bool = False
    uncached: tuple[tuple[str, Scalar], ...] = ()
    names: Names = COMMON
    model: str = ""
    explicit: bool = True
    budget: str = "max_tokens"

    def recognise(self, survey: Survey) -> str:
        return "/v1/models lists models" if model_names(survey) else ""

    def adapted(self, survey: Survey) -> Dialect:
        return replace(self, model=next(iter(model_names(survey)), ""))

    def plainer(self) -> Dialect | None:
        """First without the neutral values, then with the other name of the budget, which hosted reasoning models insist on."""
        if self.explicit:
            return replace(self, explicit=False)
        return replace(self, budget="max_completion_tokens") if self.budget == "max_tokens" else None

    def describe(self, survey: Survey) -> Description:
        first = next(iter(served_models(survey)), {})
        return Description(
            build=text(survey.obj("/version").get("version")),
            model=text(first.get("id")),
            context=whole(first.get("max_model_len")),
            self_reports=tuple(draft_metrics(survey)),
        )

    def call(self, ask: Ask, route: str) -> Call:
        """Raises InstrumentError for token ids."""
        return Call.of(route, self.body(ask, route) | dict(ask.extra))

    def body(self, ask: Ask, route: str) -> dict[str, Any]:
        return openai_body(ask, route, self.names, model=self.model, budget=self.budget, explicit=self.explicit)

    def parse(self, ask: Ask, exchange: Exchange) -> list[Completion]:
        return parse_openai(ask, exchange)

    def tokenize_call(self, text: str) -> Call | None:  # noqa: ARG002 - ids are of no use where prompts are text
        return None

    def parse_ids(self, exchange: Exchange) -> tuple[int, ...] | None:  # noqa: ARG002
        return None


DIALECT = OpenAI()
