"""The flags of `draftproof serve` that say how answers are drawn where a request does not: llama-server's, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from draftproof.cli.given import read_file, read_object
from draftproof.cli.together import together
from draftproof.core.errors import UsageError
from draftproof.core.sampling import Sampling

_FILE = click.Path(path_type=Path)
_NO_BREAKERS = "none"
_SAMPLING: Mapping[str, tuple[tuple[str, ...], type, str]] = {
    "temperature": (("--temp", "--temperature"), float, "0: always the likeliest token. Default: 0.8."),
    "top_k": (("--top-k",), int, "Only so many of the likeliest tokens; 0: all. Default: 40."),
    "top_p": (("--top-p",), float, "Only the likeliest tokens that have this probability together. Default: 0.95."),
    "min_p": (("--min-p",), float, "Only tokens with this share of the likeliest one's probability. Default: 0.05."),
    "top_n_sigma": (
        ("--top-nsigma", "--top-n-sigma"),
        float,
        "Only logits within so many standard deviations of the largest; -1: off. Default: -1.",
    ),
    "typical_p": (
        ("--typical", "--typical-p"),
        float,
        "Locally typical tokens of this probability together. Default: 1.",
    ),
    "xtc_probability": (("--xtc-probability",), float, "How often the top choices are left out. Default: 0."),
    "xtc_threshold": (("--xtc-threshold",), float, "From which probability a token is a top choice. Default: 0.1."),
    "repeat_penalty": (("--repeat-penalty",), float, "Divides the logits of tokens that occurred; 1: off. Default: 1."),
    "repeat_last_n": (("--repeat-last-n",), int, "Among so many last tokens; -1: all. Default: 64."),
    "presence_penalty": (("--presence-penalty",), float, "Taken from logits of tokens that occurred. Default: 0."),
    "frequency_penalty": (("--frequency-penalty",), float, "The same, for each time that they did. Default: 0."),
    "dry_multiplier": (("--dry-multiplier",), float, "DRY, against repetitions; 0: off. Default: 0."),
    "dry_base": (("--dry-base",), float, "DRY: how the penalty grows with their length. Default: 1.75."),
    "dry_allowed_length": (("--dry-allowed-length",), int, "DRY: so long they are free. Default: 2."),
    "dry_penalty_last_n": (("--dry-penalty-last-n",), int, "DRY: in so many last tokens; -1: all. Default: 64."),
    "dynatemp_range": (
        ("--dynatemp-range",),
        float,
        "The temperature follows the entropy, so far; 0: off. Default: 0.",
    ),
    "dynatemp_exponent": (("--dynatemp-exp",), float, "By this power of it. Default: 1."),
    "mirostat": (("--mirostat",), int, "1 or 2: in place of all truncating samplers; 0: off. Default: 0."),
    "mirostat_eta": (("--mirostat-lr",), float, "Mirostat's learning rate. Default: 0.1."),
    "mirostat_tau": (("--mirostat-ent",), float, "Mirostat's entropy in bits. Default: 5."),
}
SAMPLING = together(
    *(click.option(*flags, name, type=kind, help=about) for name, (flags, kind, about) in _SAMPLING.items()),
    click.option(
        "--dry-sequence-breaker",
        "breakers",
        multiple=True,
        metavar="TEXT",
        help="DRY: where repetitions end, in place of the default texts; none for nowhere. Repeatable.",
    ),
    click.option("--samplers", metavar="NAMES", help="Which samplers, in which order; names with ; between them."),
    click.option("--sampler-seq", "--sampling-seq", "letters", metavar="LETTERS", help="The same, by their letters."),
    click.option("--ignore-eos", is_flag=True, help="Answers go on where the model would end them."),
    click.option("--grammar", metavar="GBNF", help="A grammar that answers keep to, where a request asks for none."),
    click.option("--grammar-file", type=_FILE, help="The same, from a file."),
    click.option("-j", "--json-schema", metavar="JSON", help="The same, of a JSON schema."),
    click.option("-jf", "--json-schema-file", type=_FILE, help="The same, from a file."),
    click.option("-s", "--seed", type=int, default=-1, help="-1: another for each request."),
    click.option(
        "-n",
        "--predict",
        "--n-predict",
        "max_tokens",
        type=click.IntRange(-1),
        default=-1,
        help="Most tokens of an answer; -1: until the context is full.",
    ),
)


def read_sampling(base: Sampling, given: Mapping[str, Any]) -> Sampling:
    """The server's default samplers, changed by flags. Takes its own from `given`; raises ValueError for a bad value."""
    changed = {name: value for name in _SAMPLING if (value := given[name]) is not None}
    if given["samplers"] is not None and given["letters"] is not None:
        raise ValueError("--samplers and --sampler-seq say the same: name one of them")
    if given["samplers"] is not None:
        changed["samplers"] = tuple(name for name in given["samplers"].split(";") if name)
    if given["letters"] is not None:
        from draftproof.server.settings import sampler_names

        changed["samplers"] = tuple(sampler_names(given["letters"]))
    return replace(base, **changed)


def read_breakers(default: tuple[str, ...], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Texts that end a repetition."""
    named: tuple[str, ...] = given["breakers"]
    return tuple(text for text in named if text != _NO_BREAKERS) if named else default


def read_structure(given: Mapping[str, Any]) -> str:
    """The grammar of every answer, "" for none. Raises UsageError."""
    flags = ("grammar", "grammar_file", "json_schema", "json_schema_file")
    named = [name for name in flags if given[name] is not None]
    if len(named) > 1:
        raise UsageError("There is more than one grammar.", f"Name one of --{', --'.join(named).replace('_', '-')}.")
    if not named:
        return ""
    flag, value = named[0], given[named[0]]
    text: str = read_file(value) if flag.endswith("_file") else value
    if not flag.startswith("json"):
        return text
    from draftproof.server.structure import of_schema

    return of_schema(read_object(text, "The JSON schema"))
