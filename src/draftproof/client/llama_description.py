"""What a llama-server says of itself, above all of its speculation, before it is asked for anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftproof.client.answers import flatten
from draftproof.client.described import draft_metrics, served_models, text, whole
from draftproof.client.dialect import Description, Survey
from draftproof.core.ask import Scalar


def described(survey: Survey) -> Description:
    """From /props, /slots, /metrics and /v1/models; what is missing or of the wrong kind is left out."""
    props = survey.obj("/props")
    slots = survey.json("/slots")
    slots = [s for s in slots if isinstance(s, dict)] if isinstance(slots, list) else []
    meta: dict[str, Any] = next((m["meta"] for m in served_models(survey) if isinstance(m.get("meta"), dict)), {})
    defaults = props.get("default_generation_settings")
    defaults = defaults if isinstance(defaults, dict) else {}
    build = text(props.get("build_info"))
    notes: tuple[str, ...] = ()
    if build == "b0-unknown":
        notes = ("The build calls itself b0-unknown, as library builds of llama-server do: its version is not known.",)
    return Description(
        build=build,
        model=text(props.get("model_path")) or text(props.get("model_alias")),
        vocabulary=whole(meta.get("n_vocab")),
        context=whole(defaults.get("n_ctx")) or next((whole(s.get("n_ctx")) for s in slots), None),
        slots=whole(props.get("total_slots")) or len(slots) or None,
        drafting=_drafting(props),
        self_reports=(*_self_reports(props, defaults, slots), *draft_metrics(survey)),
        notes=notes,
    )


def _self_reports(
    props: Mapping[str, Any], defaults: Mapping[str, Any], slots: list[dict[str, Any]]
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
    return tuple(reports)


def _drafting(props: Mapping[str, Any]) -> tuple[tuple[str, Scalar], ...]:
    """The field that has draftproof's server draft where it has found that it does not pay; () where it always drafts."""
    drafting = props.get("drafting")
    asked = drafting.get("asked") if isinstance(drafting, dict) else None
    adapts = isinstance(asked, dict) and asked.get("adaptive") is True and asked.get("types") != ["none"]
    return (("speculative.adaptive", False),) if adapts else ()
