"""From a request to what the engine is asked for: every setting with its value, and what had to be ignored."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from draftproof.core.sampling import Sampling
from draftproof.core.speculation import Speculation
from draftproof.server.breakers import breakers_of
from draftproof.server.errors import Refusal
from draftproof.server.ignored import ignored_fields
from draftproof.server.schema import LARGEST_SEED, ChatCompletion, Generate, NativeCompletion, OpenAICompletion
from draftproof.server.served import BREAKERS, Served
from draftproof.server.speculating import read_speculation, with_strictness
from draftproof.server.structure import read_grammar
from draftproof.server.synonyms import CHOICES, MAX_TOKENS, asked_alternatives, first_of
from draftproof.server.tools.asked import Calling, read_calling
from draftproof.server.tools.form import CallForm
from draftproof.server.vocabulary import Vocabulary

RANDOM_SEEDS = (-1, 0xFFFF_FFFF)
LETTERS = {
    "d": "dry",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "s": "top_n_sigma",
    "m": "min_p",
    "t": "temperature",
    "x": "xtc",
    "e": "penalties",
}
"""llama-server's letters for samplers."""
MOST_ALTERNATIVES = 4096
_PLAIN = (
    "temperature",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_p",
    "min_p",
    "top_n_sigma",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "min_keep",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What one request asks for, complete.

    `asked` is the speculation that it asks for, `speculation` what the server makes of it. `seed` is the seed of its first choice,
    drawn already if it was to be random. `max_tokens` -1: until the context is full.
    `alternatives` -1: no logprobs. `calling`: how tools may be called. `ignored` names fields that had no effect.
    """

    sampling: Sampling
    asked: Speculation
    speculation: Speculation
    seed: int
    max_tokens: int
    stops: tuple[str, ...] = ()
    breakers: tuple[str, ...] = BREAKERS
    grammar: str = ""
    alternatives: int = -1
    post_sampling: bool = False
    ignore_eos: bool = False
    choices: int = 1
    reuse: bool = True
    slot: int | None = None
    echo: bool = False
    stream: bool = False
    include_usage: bool = False
    return_tokens: bool = False
    return_origins: bool = False
    return_progress: bool = False
    timings_per_token: bool = False
    response_fields: tuple[str, ...] = ()
    calling: Calling | None = None
    ignored: tuple[str, ...] = ()


def read_settings(request: Generate, served: Served, unread: Iterable[str] = ()) -> Settings:
    """Every setting of a request. unread: fields that its chat template does not read.

    Raises Refusal for values that cannot be served.
    """
    named = request.dry_sequence_breakers
    breakers = served.defaults.breakers if named is None else tuple(named)
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    try:
        sampling = _sampling(request, served, breakers)
        speculation = read_speculation(request, served)
    except ValueError as error:
        raise Refusal(f"{error}.") from error
    grammar = read_grammar(request, served.defaults.grammar)
    served.constraint(grammar)  # refuses what cannot be had; to compile it may take long, and is done once
    limit = first_of(request, MAX_TOKENS)
    return Settings(
        sampling,
        asked=speculation,
        speculation=with_strictness(speculation, request, served, greedy=sampling.greedy),
        seed=_seed(request.seed, served),
        max_tokens=served.defaults.max_tokens if limit is None else limit,
        stops=tuple(stops),
        breakers=breakers,
        grammar=grammar,
        alternatives=_alternatives(request, served.vocabulary.size),
        post_sampling=bool(request.post_sampling_probs),
        ignore_eos=_ignores_eos(request, served),
        choices=_choices(request),
        reuse=served.defaults.reuse if request.cache_prompt is None else request.cache_prompt,
        slot=None if request.id_slot in (None, -1) else request.id_slot,
        echo=isinstance(request, OpenAICompletion) and bool(request.echo),
        stream=bool(request.stream),
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        return_tokens=bool(request.return_tokens),
        return_origins=bool(request.return_origins),
        return_progress=bool(request.return_progress),
        timings_per_token=bool(request.timings_per_token),
        response_fields=tuple((isinstance(request, NativeCompletion) and request.response_fields) or ()),
        ignored=ignored_fields(request, served, speculation, unread),
    )


def with_tools(settings: Settings, request: ChatCompletion, form: CallForm | None, served: Served) -> Settings:
    """The same, and what the request says of tools. form: how the model writes calls, None if unknown. Raises Refusal."""
    calling = read_calling(request, form, served.vocabulary, settings.grammar)
    if calling is None:
        return settings
    calling.constraint(served)  # refuses what cannot be had
    return replace(settings, calling=calling)


def _sampling(request: Generate, served: Served, breakers: tuple[str, ...]) -> Sampling:
    given: dict[str, Any] = {name: value for name in _PLAIN if (value := getattr(request, name)) is not None}
    if "temperature" in given:
        given["temperature"] = max(0.0, given["temperature"])
    if given.get("dry_base", 1.0) < 1:
        del given["dry_base"]  # as llama-server does: its own default
    if request.top_k is not None:
        given["top_k"] = max(0, request.top_k)
    if request.samplers is not None:
        given["samplers"] = tuple(sampler_names(request.samplers))
    bias = read_bias(request.logit_bias or (), served.vocabulary)
    if _ignores_eos(request, served):
        bias += [(token, -math.inf) for token in sorted(served.models.target.eog)]
    sampling = replace(served.defaults.sampling, **given, logit_bias=tuple(bias))
    if sampling.dry_multiplier:
        if request.dry_sequence_breakers is not None and not breakers:
            raise ValueError("dry_sequence_breakers must be a non-empty array of strings")
        sampling = replace(sampling, dry_breakers=breakers_of(breakers, served.vocabulary))
    return sampling


def _ignores_eos(request: Generate, served: Served) -> bool:
    return served.defaults.ignore_eos if request.ignore_eos is None else request.ignore_eos


def sampler_names(samplers: str | Sequence[str]) -> Iterable[str]:
    """From llama-server's letters, or names as they are. Raises ValueError for unknown letters."""
    if not isinstance(samplers, str):
        return samplers
    unknown = sorted(set(samplers) - LETTERS.keys())
    if unknown:
        raise ValueError(f"unknown sampler letters {''.join(unknown)!r}; known are {''.join(LETTERS)!r}")
    return [LETTERS[letter] for letter in samplers]


def read_bias(given: Any, vocabulary: Vocabulary) -> list[tuple[int, float]]:
    """[[id or text, bias]] or {"id or text": bias}; false bans. A text is every one of its tokens. Raises ValueError."""
    pairs = list(given.items()) if isinstance(given, dict) else given
    bias: list[tuple[int, float]] = []
    for pair in pairs:
        if len(pair) != 2 or pair[1] is True or isinstance(pair[1], str) or isinstance(pair[0], (bool, float)):
            raise ValueError(f"logit_bias {list(pair)!r} must be a token id or a text, and a number or false")
        key, value = pair
        if isinstance(key, str) and isinstance(given, dict) and key.lstrip("-").isdecimal():
            key = int(key)
        tokens = vocabulary.tokenize(key, add_special=False) if isinstance(key, str) else [key]
        for token in tokens:
            if not 0 <= token < vocabulary.size:
                raise ValueError(f"logit_bias names token {token}; ids are 0 to {vocabulary.size - 1}")
            bias.append((token, -math.inf if value is False else value))
    return bias


def seed_of_choice(seed: int, choice: int) -> int:
    """The seed of a request's choice 0, 1, and so on: the request's own and those that follow it.

    Those that would mean a random one are stepped over, and the largest is followed by 0: asked for alone, each gives its choice
    again. seed: none of RANDOM_SEEDS.
    """
    following = seed + choice + sum(seed < skipped <= seed + choice for skipped in RANDOM_SEEDS)
    return following if following <= LARGEST_SEED else following - LARGEST_SEED - 1


def _seed(asked: int | None, served: Served) -> int:
    seed = served.defaults.seed if asked is None else asked
    return secrets.randbits(31) if seed in RANDOM_SEEDS else seed


def _choices(request: Generate) -> int:
    choices = first_of(request, CHOICES) or 1
    if isinstance(request, OpenAICompletion) and request.best_of not in (None, choices):
        raise Refusal("Field 'best_of': none of the choices is left out; ask for n choices and take the best")
    return choices


def _alternatives(request: Generate, vocab: int) -> int:
    if isinstance(request, ChatCompletion) and request.top_logprobs and not request.logprobs:
        raise Refusal("top_logprobs requires logprobs to be set to true")
    name, asked = asked_alternatives(request)
    if asked > MOST_ALTERNATIVES and vocab > MOST_ALTERNATIVES:
        raise Refusal(f"Field '{name}': at most {MOST_ALTERNATIVES} alternatives for each token, not {asked}")
    return asked
