"""Which fields of a request have no effect, and so stand in the answer's `ignored`.

Listed is what asks for something that does not happen. A sampler's setting that another one leaves without work, as `dry_base`
without `dry_multiplier`, is served: `generation_settings` has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from draftproof.core.speculation import Speculation
from draftproof.server.schema import Body, Generate, NativeCompletion
from draftproof.server.served import Served
from draftproof.server.speculating import without_effect
from draftproof.server.synonyms import asked_alternatives, overruled

_OF_STREAMS = ("return_progress", "timings_per_token")
_KNOWN_WITHIN = {"prompt": ("prompt_string", "multimodal_data"), "content": ("type", "text")}
"""By field: what is read of objects that it may have, or that its list may have."""
_OF_FORMATS: Mapping[str, tuple[set[str], set[str]]] = {
    "text": ({"type"}, set()),
    "json_object": ({"type", "schema"}, set()),
    "json_schema": ({"type", "json_schema"}, {"schema", "name", "strict", "description"}),
}
"""By type: the fields that are read of a response_format, and those of its json_schema."""


def ignored_fields(
    request: Generate, served: Served, speculation: Speculation, unread: Iterable[str] = ()
) -> tuple[str, ...]:
    """Their names in order, those within objects with their path.

    speculation: the one that the request asks for. unread: what its chat template does not read.
    """
    names = {*unknown(request), *overruled(request), *without_effect(request, speculation), *_without_use(request)}
    names.update(unread)
    if request.model not in (None, "", served.name, served.path):
        names.add("model")
    return tuple(sorted(names))


def unknown(body: Body) -> set[str]:
    """Names that nobody knows."""
    names = set(_set(body.model_extra or {}))
    for owner in ("speculative", "stream_options", "messages"):
        names |= {f"{owner}.{name}" for part in _parts(body, owner) if isinstance(part, Body) for name in unknown(part)}
    for owner, known in _KNOWN_WITHIN.items():
        objects = [part for part in _parts(body, owner) if isinstance(part, dict)]
        names |= {f"{owner}.{name}" for part in objects for name in _set(part) if name not in known}
    if isinstance(body, Generate) and body.response_format is not None:
        names |= {f"response_format.{name}" for name in _of_format(body.response_format)}
    return names


def _parts(body: Body, field: str) -> list[Any]:
    value = getattr(body, field, None)
    return value if isinstance(value, list) else [value]


def _set(fields: Mapping[str, Any]) -> Iterator[str]:
    """null is the same as absent."""
    return (name for name, value in fields.items() if value is not None)


def _of_format(asked: Mapping[str, Any]) -> Iterator[str]:
    read, read_within = _OF_FORMATS[asked["type"]]  # others are refused
    yield from (name for name in _set(asked) if name not in read)
    within = asked.get("json_schema")
    if "json_schema" in read and isinstance(within, dict):
        yield from (f"json_schema.{name}" for name in _set(within) if name not in read_within)


def _without_use(request: Generate) -> Iterator[str]:
    """Known fields that find nothing to act on."""
    if not request.stream:
        yield from (name for name in _OF_STREAMS if getattr(request, name))
    wants_usage = request.stream_options is not None and request.stream_options.include_usage
    if wants_usage and (not request.stream or isinstance(request, NativeCompletion)):
        yield "stream_options.include_usage"
    if request.post_sampling_probs and asked_alternatives(request)[1] < 0:
        yield "post_sampling_probs"
    if request.dry_base is not None and request.dry_base < 1:
        yield "dry_base"
