"""Requests as they come over the wire, by llama-server's and OpenAI's names.

Every field that is declared here is served or refused, or listed in the answer as ignored where it has no effect; so is what is not
declared. null means the same as absent everywhere.
"""

from __future__ import annotations

import threading
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from draftproof.server.errors import Refusal
from draftproof.server.fields import Flag, Number, Text, TokenId, Whole, between, check_only, only, refuse

MOST_STOPS = 64
MOST_CHOICES = 128
MOST_BREAKERS = 64
MOST_TOOLS = 128
LARGEST_SEED = 2**64 - 1

PromptPart = TokenId | Text
Prompt = Text | list[PromptPart | list[PromptPart] | dict[str, Any]] | dict[str, Any]
Bias = list[list[TokenId | Text | Number | Flag]] | dict[str, Number | Flag]
Choices = Annotated[Whole, AfterValidator(between(1, MOST_CHOICES))]
Alternatives = Annotated[Whole, AfterValidator(between(0))]
Stops = Annotated[list[Text], Field(max_length=MOST_STOPS)]


_BUILDING = threading.Lock()
"""A validator is built when it is first needed, which not every version of pydantic does in two threads at once."""


class Body(BaseModel):
    """A JSON object. `model_extra` has the fields that nobody knows."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, protected_namespaces=(), defer_build=True)

    @classmethod
    def read(cls, body: object) -> Self:
        """From any thread. Raises Refusal."""
        if not isinstance(body, dict):
            raise Refusal("The body must be a JSON object.")
        if not cls.__pydantic_complete__:
            with _BUILDING:
                cls.model_rebuild()
        try:
            read = cls.model_validate(body)
        except ValidationError as error:
            refuse(error)
        check_only(read)
        return read


class SpeculativeFields(Body):
    """How to speculate, as an object; the same fields are known as "speculative.n_max" and so on."""

    type: Text | list[Text] | None = None
    types: Text | list[Text] | None = None
    rule: Text | None = None
    n_max: Whole | None = None
    n_min: Whole | None = None
    p_min: Number | None = None
    adaptive: Flag | None = None
    strict: Flag | None = None


class StreamOptions(Body):
    include_usage: Flag | None = None


class Sampled(Body):
    """Sampler settings: llama-server's names."""

    temperature: Number | None = None
    dynatemp_range: Number | None = None
    dynatemp_exponent: Number | None = None
    top_k: Whole | None = None
    top_p: Number | None = None
    min_p: Number | None = None
    top_n_sigma: Number | None = None
    typical_p: Number | None = None
    xtc_probability: Number | None = None
    xtc_threshold: Number | None = None
    repeat_penalty: Number | None = None
    repeat_last_n: Whole | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    dry_multiplier: Number | None = None
    dry_base: Number | None = None
    dry_allowed_length: Whole | None = None
    dry_penalty_last_n: Whole | None = None
    dry_sequence_breakers: Annotated[list[Text], Field(max_length=MOST_BREAKERS)] | None = None
    mirostat: Whole | None = None
    mirostat_tau: Number | None = None
    mirostat_eta: Number | None = None
    min_keep: Whole | None = None
    samplers: Text | list[Text] | None = None
    logit_bias: Bias | None = None
    seed: Annotated[Whole, AfterValidator(between(-(2**63), LARGEST_SEED))] | None = None
    ignore_eos: Flag | None = None
    adaptive_target: Any = only(-1.0, -1, why="the adaptive sampler is not supported")
    backend_sampling: Any = only(False, why="samplers always run in the engine")


class Generate(Sampled):
    """What the three routes that make text have in common."""

    model: Text | None = None
    n_predict: Annotated[Whole, AfterValidator(between(-1, 2**31 - 1))] | None = None
    max_completion_tokens: Annotated[Whole, AfterValidator(between(-1, 2**31 - 1))] | None = None
    max_tokens: Annotated[Whole, AfterValidator(between(-1, 2**31 - 1))] | None = None
    stop: Text | Stops | None = None
    n: Choices | None = None
    n_cmpl: Choices | None = None
    stream: Flag | None = None
    stream_options: StreamOptions | None = None
    n_probs: Alternatives | None = None
    post_sampling_probs: Flag | None = None
    return_tokens: Flag | None = None
    return_origins: Flag | None = None
    return_progress: Flag | None = None
    timings_per_token: Flag | None = None
    cache_prompt: Flag | None = None
    id_slot: Annotated[Whole, AfterValidator(between(-1))] | None = None
    grammar: Text | None = None
    json_schema: dict[str, Any] | Flag | None = None
    response_format: dict[str, Any] | None = None
    grammar_lazy: Any = only(False, why="a grammar acts from the first token on")
    grammar_triggers: Any = only([], why="a grammar acts from the first token on")
    speculative: Flag | SpeculativeFields | None = None
    speculative_type: Annotated[Text | list[Text] | None, Field(alias="speculative.type")] = None
    speculative_types: Annotated[Text | list[Text] | None, Field(alias="speculative.types")] = None
    speculative_rule: Annotated[Text | None, Field(alias="speculative.rule")] = None
    speculative_n_max: Annotated[Whole | None, Field(alias="speculative.n_max")] = None
    speculative_n_min: Annotated[Whole | None, Field(alias="speculative.n_min")] = None
    speculative_p_min: Annotated[Number | None, Field(alias="speculative.p_min")] = None
    speculative_adaptive: Annotated[Flag | None, Field(alias="speculative.adaptive")] = None
    speculative_strict: Annotated[Flag | None, Field(alias="speculative.strict")] = None
    lora: Any = only([], why="adapters are not supported")
    n_indent: Any = only(0, why="lines of a least indent are not supported")
    t_max_predict_ms: Any = only(-1, 0, why="a limit of time is not supported; use n_predict")


class NativeCompletion(Generate):
    """POST /completion"""

    prompt: Prompt
    response_fields: list[Text] | None = None


class OpenAICompletion(Generate):
    """POST /v1/completions"""

    prompt: Prompt
    echo: Flag | None = None
    logprobs: Alternatives | Flag | None = None
    best_of: Choices | None = None
    suffix: Any = only("", why="text cannot be filled in before a suffix")


class Message(Body):
    role: Text
    content: Text | list[dict[str, Any]] | None = None
    name: Text | None = None
    reasoning_content: Text | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: Text | None = None


class Conversation(Body):
    """Messages, and how they become a text."""

    messages: list[Message]
    tools: Annotated[list[dict[str, Any]], Field(max_length=MOST_TOOLS)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: Flag | None = None
    continue_final_message: Flag | None = None


class ChatCompletion(Conversation, Generate):
    """POST /v1/chat/completions"""

    logprobs: Flag | None = None
    top_logprobs: Alternatives | None = None
    tool_choice: Text | dict[str, Any] | None = None
    parallel_tool_calls: Flag | None = None
    functions: Any = only([], why="use tools")
    function_call: Any = only("none", "auto", why="use tool_choice")
    audio: Any = only(why="only text is made")
    modalities: Any = only(["text"], why="only text is made")


class Tokenize(Body):
    """POST /tokenize, by llama-server's names or by vLLM's: prompt and add_special_tokens, which is true there by default."""

    content: Text | list[PromptPart] | None = None
    prompt: Text | None = None
    add_special: Flag | None = None
    add_special_tokens: Flag | None = None
    parse_special: Flag | None = None
    with_pieces: Flag | None = None


class Detokenize(Body):
    """POST /detokenize"""

    tokens: list[TokenId] | None = None


class ApplyTemplate(Conversation):
    """POST /apply-template"""
