"""The flags of `draftproof serve`, which are llama-server's where it has them, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from draftproof.cli.llama_flags import LLAMA_FLAGS
from draftproof.cli.together import together
from draftproof.core.speculation import DraftModel, NgramLookup, NgramMod, Speculation

_FILE = click.Path(path_type=Path)
_SLOT_CONTEXT = 4096
_COUNT = click.IntRange(1)
_DRAFT, _LOOKUP, _MOD = DraftModel(), NgramLookup(), NgramMod()
_LOOKUPS = {"simple": "ngram_simple", "map-k": "ngram_map_k", "map-k4v": "ngram_map_k4v"}
_RULES = {"greedy": "match", "probabilistic": "rejection"}
_LOOKUP_HELP = {
    "size_n": "{}: so many last tokens are looked up.",
    "size_m": "{}: the most tokens of a draft.",
    "min_hits": "{}: how often they must have been followed by the draft.",
}


class _Layers(click.ParamType[int]):
    """A number, or llama-server's words for all layers."""

    name = "layers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return -1 if value in {"all", "auto"} else click.INT.convert(value, param, ctx)


MODELS = together(
    click.option("-m", "--model", type=_FILE, help="The model, a GGUF file."),
    click.option("-md", "--model-draft", "--spec-draft-model", "draft", type=_FILE, help="A draft model for it."),
    click.option("--table", metavar="NAME", help="A countable model of the catalogue instead, without libllama."),
    click.option("-a", "--alias", default="", help="The name that clients see."),
    click.option("--chat-template", metavar="JINJA", help="A Jinja template instead of the model's own."),
    click.option("--chat-template-file", type=_FILE, help="The same, from a file."),
    click.option("--chat-template-kwargs", metavar="JSON", help="An object with what the template is told besides."),
)
RUNNING = together(
    click.option(
        "-c",
        "--ctx-size",
        "context",
        type=click.IntRange(0),
        default=None,
        help="Tokens of all slots together; 0: what the model was trained for, in each. Default: 4096 in each.",
    ),
    click.option("-np", "--parallel", "slots", type=click.IntRange(1, 256), default=1, help="Answers made at once."),
    click.option(
        "-t",
        "--threads",
        type=_COUNT,
        default=None,
        help="Processors that compute. Default: half of them. With --strict a token that is read alone is read by one.",
    ),
    click.option(
        "-b",
        "--batch-size",
        "batch",
        type=click.IntRange(64),
        default=512,
        help="Prompts are read in parts of so many tokens.",
    ),
    click.option(
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        "gpu_layers",
        type=_Layers(),
        default=0,
        help="Layers on a graphics processor; all or -1: all of them.",
    ),
    click.option("-ctk", "--cache-type-k", default="f16", help="Number format of the key cache."),
    click.option("-ctv", "--cache-type-v", default="f16", help="Number format of the value cache."),
    click.option("-fa", "--flash-attn", type=click.Choice(["on", "off", "auto"]), default="auto", help="auto is on."),
    click.option("--mmap/--no-mmap", default=True, help="Map the file rather than copy it into memory."),
    click.option("--repack/--no-repack", default=False, help="Faster prompts; batches then differ from single rows."),
    click.option("--check-tensors", is_flag=True, help="Refuse files with values that are infinite or no numbers."),
    click.option("--cache-prompt/--no-cache-prompt", default=True, help="Keep prompts for the next request."),
    click.option(
        "--strict/--no-strict",
        default=None,
        help="Draft no more tokens, and read prompts in no larger parts, than give bit for bit the numbers of plain decoding, "
        "for all requests and at any cost, or for none. Default: drafts at temperature 0 only.",
    ),
)
SPECULATING = together(
    click.option("--spec-type", default=None, metavar="NAMES", help="Drafters by commas, or none."),
    click.option("--spec-default", is_flag=True, help="Short for --spec-type ngram-mod."),
    click.option(
        "--spec-rule",
        type=click.Choice(["auto", "rejection", "match", "greedy"]),
        default="auto",
        help="How drafts are verified; auto: greedy at temperature 0, rejection above.",
    ),
    click.option("--spec-draft-sampling", type=click.Choice(list(_RULES)), help="llama-server's words for the rule."),
    click.option("--spec-adaptive/--no-spec-adaptive", default=True, help="Shorter drafts where they do not pay."),
    click.option(
        "--spec-draft-n-max",
        "--draft-max",
        "--draft-n",
        "--draft",
        "draft_n_max",
        type=int,
        default=_DRAFT.n_max,
        help="Draft model or head: the most tokens of a draft.",
    ),
    click.option(
        "--spec-draft-n-min",
        "--draft-min",
        "--draft-n-min",
        "draft_n_min",
        type=int,
        default=_DRAFT.n_min,
        help="Draft model or head: p-min does not stop it before so many tokens.",
    ),
    click.option(
        "--spec-draft-p-min",
        "--draft-p-min",
        "draft_p_min",
        type=float,
        default=_DRAFT.p_min,
        help="Draft model or head: it stops where its likeliest token has less than this.",
    ),
    click.option(
        "--spec-ngram-mod-n-match",
        "mod_n_match",
        type=int,
        default=_MOD.n_match,
        help="ngram-mod: so many last tokens are looked up.",
    ),
    click.option(
        "--spec-ngram-mod-n-min",
        "mod_n_min",
        type=int,
        default=_MOD.n_min,
        help="ngram-mod: shorter drafts are not made.",
    ),
    click.option(
        "--spec-ngram-mod-n-max",
        "mod_n_max",
        type=int,
        default=_MOD.n_max,
        help="ngram-mod: the most tokens of a draft.",
    ),
    *(
        click.option(
            f"--spec-ngram-{flag}-{field.replace('_', '-')}",
            f"{section}_{field}",
            type=int,
            default=default,
            help=_LOOKUP_HELP[field].format(f"ngram-{flag}"),
        )
        for flag, section in _LOOKUPS.items()
        for field, default in (
            ("size_n", _LOOKUP.size_n),
            ("size_m", _LOOKUP.size_m),
            ("min_hits", _LOOKUP.min_hits),
        )
    ),
)
LISTENING = together(
    click.option("--host", default="127.0.0.1", help="Who may reach it; the default is this machine only."),
    click.option("--port", type=click.IntRange(0, 65535), default=8080, help="0: any that is free."),
    click.option(
        "--api-key", multiple=True, help="Clients must send one of these (by commas) as Bearer token. Repeatable."
    ),
    click.option("--api-key-file", type=_FILE, help="A file with one key in each line."),
    click.option(
        "--cors-origin",
        "--cors-origins",
        multiple=True,
        metavar="ORIGIN",
        help="Web pages from there (by commas) may ask; * for all.",
    ),
    click.option("--queue", type=click.IntRange(0), default=256, help="How many answers may wait for a slot."),
    click.option("--body-limit", type=click.IntRange(1), default=16, help="Most megabytes of a request."),
    click.option(
        "--page/--no-page", "--webui/--no-webui", "--ui/--no-ui", "page", default=True, help="The page at / to try it."
    ),
    click.option("--slots/--no-slots", "tells_slots", default=True, help="Tell at /slots what is being made."),
    click.option("-v", "--verbose", is_flag=True, help="Log every failure with its traceback."),
    *LLAMA_FLAGS,
)


def slot_context(context: int | None, slots: int) -> int:
    """Tokens of each slot; 0 for what the model was trained for."""
    return _SLOT_CONTEXT if context is None else context // slots


def default_threads() -> int:
    """Half the processors that this process may use: their other halves are seldom real."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, usable // 2)


def read_speculation(given: Mapping[str, Any], *, has_draft: bool, types: tuple[str, ...] | None) -> Speculation:
    """The server's default way to speculate. types None: with the draft model, if there is one. Raises ValueError."""
    if types is None:
        types = ("ngram-mod",) if given["spec_default"] else ("draft-simple",) if has_draft else ("none",)
    lookups: dict[str, Any] = {
        section: NgramLookup(*(given[f"{section}_{field}"] for field in ("size_n", "size_m", "min_hits")))
        for section in _LOOKUPS.values()
    }
    return Speculation(
        types=types,
        rule=_RULES.get(given["spec_draft_sampling"] or "", given["spec_rule"]),
        adaptive=given["spec_adaptive"],
        strict=bool(given["strict"]),
        draft=DraftModel(given["draft_n_max"], given["draft_n_min"], given["draft_p_min"]),
        ngram_mod=NgramMod(given["mod_n_match"], given["mod_n_min"], given["mod_n_max"]),
        **lookups,
    )
