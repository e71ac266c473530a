"""Flags of llama-server that change nothing in `draftproof serve`, taken so that command lines for it can be used as they are.

Where a flag asks for what is so anyway nothing is said of it. The others are told when the server starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

_AS_IT_IS = (
    ("--cont-batching", "-cb"),
    ("--jinja",),
    ("--log-disable",),
    ("--metrics",),
    ("--no-context-shift",),
    ("--no-mmproj",),
    ("--no-perf",),
    ("--no-warmup",),
    ("--offline",),
    ("--perf",),
    ("--prefill-assistant",),
    ("--skip-chat-parsing",),
    ("--swa-full",),
    ("--warmup",),
)
_SWITCHES = (
    ("--backend-sampling", "-bs"),
    ("--cache-idle-slots",),
    ("--cpu-moe", "-cmoe"),
    ("--kv-offload", "-kvo"),
    ("--kv-unified", "-kvu"),
    ("--log-prefix",),
    ("--log-timestamps",),
    ("--log-verbose",),
    ("--mlock",),
    ("--no-cache-idle-slots",),
    ("--no-cont-batching", "-nocb"),
    ("--no-host",),
    ("--no-jinja",),
    ("--no-kv-offload", "-nkvo"),
    ("--no-kv-unified", "-no-kvu"),
    ("--no-log-prefix",),
    ("--no-log-timestamps",),
    ("--no-op-offload",),
    ("--no-spec-draft-backend-sampling",),
    ("--op-offload",),
    ("--props",),
    ("--reuse-port",),
    ("--spec-draft-backend-sampling",),
)
_WITH_VALUES = (
    ("--cache-ram", "-cram"),
    ("--cache-reuse",),
    ("--checkpoint-min-step", "-cms"),
    ("--cpu-mask", "-C"),
    ("--cpu-mask-batch", "-Cb"),
    ("--cpu-range", "-Cr"),
    ("--cpu-range-batch", "-Crb"),
    ("--cpu-strict",),
    ("--cpu-strict-batch",),
    ("--ctx-checkpoints", "--swa-checkpoints", "-ctxcp"),
    ("--defrag-thold", "-dt"),
    ("--device", "-dev"),
    ("--fit", "-fit"),
    ("--fit-ctx", "-fitc"),
    ("--fit-target", "-fitt"),
    ("--keep",),
    ("--load-mode", "-lm"),
    ("--log-colors",),
    ("--log-file",),
    ("--log-verbosity", "--verbosity", "-lv"),
    ("--main-gpu", "-mg"),
    ("--n-cpu-moe", "-ncmoe"),
    ("--numa",),
    ("--poll",),
    ("--poll-batch",),
    ("--prio",),
    ("--prio-batch",),
    ("--sleep-idle-seconds",),
    ("--slot-prompt-similarity", "-sps"),
    ("--spec-draft-ctx-size", "--ctx-size-draft", "-cd"),
    ("--spec-draft-device", "--device-draft", "-devd"),
    ("--spec-draft-ngl", "--gpu-layers-draft", "--n-gpu-layers-draft", "-ngld"),
    ("--spec-draft-p-split", "--draft-p-split"),
    ("--spec-draft-threads", "--threads-draft", "-td"),
    ("--spec-draft-threads-batch", "--threads-batch-draft", "-tbd"),
    ("--spec-draft-type-k", "--cache-type-k-draft", "-ctkd"),
    ("--spec-draft-type-v", "--cache-type-v-draft", "-ctvd"),
    ("--split-mode", "-sm"),
    ("--sse-ping-interval",),
    ("--tensor-split", "-ts"),
    ("--threads-batch", "-tb"),
    ("--threads-http",),
    ("--timeout", "-to"),
    ("--ubatch-size", "-ub"),
)
_GIVEN = "draftproof.flags_without_effect"


def without_effect() -> Sequence[str]:
    """Those of the running command that were given, and are to be told."""
    return sorted(click.get_current_context().meta.get(_GIVEN, ()))


def _note(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value:
        context.meta.setdefault(_GIVEN, []).append(parameter.opts[0])


_as_it_is = partial(click.option, hidden=True, expose_value=False, help="So it is anyway.")
_told = partial(click.option, hidden=True, expose_value=False, callback=_note, help="Without effect here.")
LLAMA_FLAGS = (
    *(_as_it_is(*names, is_flag=True) for names in _AS_IT_IS),
    *(_told(*names, is_flag=True) for names in _SWITCHES),
    *(_told(*names, multiple=True) for names in _WITH_VALUES),
)
