"""What a llama-server says of itself, above all of its speculation, before it is asked for anything."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from draftproof.client.answers import flatten
from draftproof.client.dialect import Description, Survey
from draftproof.core.ask import Scalar

_SPEC_COUNTER = re.compile(r"^(\S*spec_decode\S*) (\S+)$", re.MULTILINE)


def described(survey: Survey) -> Description:
    """From /props, /slots, /metrics and /v1/models; what is missing or of the wrong kind is left out."""
    props = survey.obj("/props")
    slots = survey.json("/slots")
    slots = [s for s in slots if isinstance(s, dict)] if isinstance(slots, list) else []
    meta: dict[str, Any] = next((m["meta"] for m in served_models(survey) if isinstance(m.get("meta"), dict)), {})
    defaults = props.get("default_generation_settings")
    defaults = defaults if isinstance(defaults, dict) else {}
    build = _text(props.get("build_info"))
    notes: tuple[str, ...] = ()
    if build == "b0-unknown":
        notes = ("The build calls itself b0-unknown, as library builds of llama-server do: its version is not known.",)
    return Description(
        build=build,
        model=_text(props.get("model_path")) or _text(props.get("model_alias")),
        vocabulary=_whole(meta.get("n_vocab")),
        context=_whole(defaults.get("n_ctx")) or next((_whole(s.get("n_ctx")) for s in slots), None),
        slots=_whole(props.get("total_slots")) or len(slots) or None,
        self_reports=_self_reports(props, defaults, slots, survey.text("/metrics") or ""),
        drafting=_drafting(props),
        notes=notes,
    )


def _self_reports(
    props: Mapping[str, Any], defaults: Mapping[str, Any], slots: list[dict[str, Any]], metrics: str
) -> tuple[tuple[str, Scalar], ...]:
    params = defaults.get("params")
    reports = [
        (f"/props {name}", value)
        for name, value in flatten(params if isinstance(params, dict) else defaults)
        if name.startswith("speculative")
    ]
    if isinstance(props.get("speculation"), dict):
        reports += flatten(props["speculation"], "/props speculation.")
    said = [s["speculative"] for s in slots if isinstance(s.get("speculative"), bool)]
    if said and len(set(said)) == 1:
        reports.append(("/slots speculative", said[0]))
    elif said:
        reports += [(f"/slots[{s.get('id')}] speculative", s.get("speculative")) for s in slots]
    reports += [
        (f"/metrics {name}", float(value)) for name, value in _SPEC_COUNTER.findall(metrics) if _is_number(value)
    ]
    return tuple(reports)


def _drafting(props: Mapping[str, Any]) -> tuple[tuple[str, Scalar], ...]:
    """The field that has draftproof's server draft where it has found that it does not pay; () where it always drafts."""
    drafting = props.get("drafting")
    asked = drafting.get("asked") if isinstance(drafting, dict) else None
    adapts = isinstance(asked, dict) and asked.get("adaptive") is True and asked.get("types") != ["none"]
    return (("speculative.adaptive", False),) if adapts else ()


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def served_models(survey: Survey) -> list[dict[str, Any]]:
    data = survey.obj("/v1/models").get("data")
    return [m for m in data if isinstance(m, dict)] if isinstance(data, list) else []


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
