"""Any server with OpenAI's routes and no closer dialect: text in, text out, no token ids."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from draftproof.client.dialect import Call, Description, Dialect, Survey
from draftproof.client.openai_wire import CHAT, COMPLETIONS, parse_openai
from draftproof.core.ask import Ask, Completion, Scalar
from draftproof.core.errors import InstrumentError
from draftproof.core.exchange import Exchange

_BAN = -100.0
"""OpenAI's most negative logit bias."""
_VERSIONS = {"/version": "vllm", "/api/version": "ollama", "/get_model_info": "sglang", "/info": "tgi"}


@dataclass(frozen=True, slots=True)
class OpenAI:
    """`model` is the name to ask for. `explicit` sends the neutral value of samplers that OpenAI's API has no name for: servers
    that know them may have other defaults, servers that do not may refuse them.
    """

    name: str = "openai"
    routes: tuple[str, ...] = (COMPLETIONS, CHAT)
    token_routes: tuple[str, ...] = ()
    batch_routes: tuple[str, ...] = ()
    grammar_routes: tuple[str, ...] = ()
    prompt_routes: tuple[str, ...] = (COMPLETIONS,)
    reports_drafts: bool = False
    uncached: tuple[tuple[str, Scalar], ...] = ()
    model: str = ""
    explicit: bool = True

    def recognise(self, survey: Survey) -> str:
        maker = next((name for path, name in _VERSIONS.items() if survey.obj(path)), "")
        if _models(survey):
            return "/v1/models lists models" + (f", and the server looks like {maker}" if maker else "")
        return ""

    def adapted(self, survey: Survey) -> Dialect:
        return replace(self, model=next(iter(_models(survey)), ""))

    def plainer(self) -> Dialect | None:
        return replace(self, explicit=False) if self.explicit else None

    def describe(self, survey: Survey) -> Description:
        version = survey.obj("/version").get("version") or survey.obj("/api/version").get("version")
        info = survey.obj("/info")
        reports: list[tuple[str, Scalar]] = []
        for line in (survey.text("/metrics") or "").splitlines():
            name, _, value = line.rpartition(" ")
            if "spec_decode" in name and not line.startswith("#"):
                reports.append((f"/metrics {name}", value))
        served = survey.obj("/v1/models").get("data")
        first = served[0] if isinstance(served, list) and served and isinstance(served[0], dict) else {}
        context = first.get("max_model_len")
        return Description(
            build=str(version) if version else (str(info["version"]) if info.get("version") else None),
            model=next(iter(_models(survey)), None),
            context=context if isinstance(context, int) else None,
            self_reports=tuple(reports),
        )

    def call(self, ask: Ask, route: str) -> Call:
        if not isinstance(ask.prompt, str) or (ask.also and route == CHAT):
            raise InstrumentError(f"{route} of this server takes text, not token ids.")
        body: dict[str, Any] = {"model": self.model, "max_tokens": ask.max_tokens}
        if route == CHAT:
            body["messages"] = [{"role": "user", "content": ask.prompt}]
            if ask.alternatives:
                body |= {"logprobs": True, "top_logprobs": ask.alternatives}
        else:
            body["prompt"] = [ask.prompt, *ask.also] if ask.also else ask.prompt
            if ask.alternatives:
                body["logprobs"] = ask.alternatives
        body |= self._sampling(ask)
        if ask.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if ask.count > 1:
            body["n"] = ask.count
        if ask.stop:
            body["stop"] = list(ask.stop)
        if ask.echo:
            body["echo"] = True
        body.update(ask.extra)
        return Call.of(route, body)

    def _sampling(self, ask: Ask) -> dict[str, Any]:
        s = ask.sampling
        body: dict[str, Any] = {
            "temperature": s.temperature,
            "top_p": s.top_p,
            "presence_penalty": s.presence_penalty,
            "frequency_penalty": s.frequency_penalty,
        }
        if ask.seed is not None:
            body["seed"] = ask.seed
        if s.logit_bias:
            body["logit_bias"] = {str(token): _BAN if bias == -math.inf else bias for token, bias in s.logit_bias}
        if self.explicit or s.top_k > 0:
            body["top_k"] = s.top_k or -1
        if self.explicit or s.min_p > 0:
            body["min_p"] = s.min_p
        if self.explicit or s.repeat_penalty != 1:
            body["repetition_penalty"] = s.repeat_penalty
        return body

    def parse(self, ask: Ask, exchange: Exchange) -> list[Completion]:
        return parse_openai(ask, exchange)

    def tokenize_call(self, text: str) -> Call | None:
        return Call.of("/tokenize", {"model": self.model, "prompt": text, "add_special_tokens": False})

    def parse_ids(self, exchange: Exchange) -> tuple[int, ...] | None:  # noqa: ARG002 - ids are of no use where prompts are text
        return None


def _models(survey: Survey) -> list[str]:
    data = survey.obj("/v1/models").get("data")
    return (
        [m["id"] for m in data if isinstance(m, dict) and isinstance(m.get("id"), str)]
        if isinstance(data, list)
        else []
    )


DIALECT = OpenAI()
