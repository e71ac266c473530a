"""What a server says of its speculation, and how it counts."""

from __future__ import annotations

from typing import Any

from draftproof.engine.draft.none import NoDrafter
from draftproof.engine.generate import Generation
from draftproof.liars.liar import Liar
from draftproof.liars.retelling import Telling

_REPORTED = ("self_report/speculation_reported",)
_SWITCHES = ("speculative", "speculative.n_max", "speculative.type", "speculative.types")


def _props_deny(telling: Telling) -> Any:
    if telling.path == "/props":
        telling.told["default_generation_settings"]["params"]["speculative.types"] = "none"
    return telling.told


def _slots_deny(telling: Telling) -> Any:
    if telling.path == "/slots":
        return [{**slot, "speculative": False} for slot in telling.told]
    return telling.told


def _answers_deny(telling: Telling) -> Any:
    told = telling.told
    if isinstance(told, dict) and "generation_settings" in told:
        told["generation_settings"]["speculative.types"] = "none"
    return told


class _NeverDrafts(Generation):
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "drafter": NoDrafter()})


class _NotWithLogprobs(Generation):
    def __init__(self, backend: Any, sequence: Any, job: Any, **settings: Any) -> None:
        if job.report.alternatives >= 0:
            settings["drafter"] = NoDrafter()
        super().__init__(backend, sequence, job, **settings)


class _NotWhenSampling(Generation):
    def __init__(self, backend: Any, sequence: Any, job: Any, **settings: Any) -> None:
        if not job.sampling.greedy:
            settings["drafter"] = NoDrafter()
        super().__init__(backend, sequence, job, **settings)


def _switch_unread(path: str, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - a hook
    return {name: value for name, value in asked.items() if name not in _SWITCHES}


def _switch_echoed(telling: Telling) -> Any:
    told = telling.told
    if isinstance(told, dict) and "generation_settings" in told:
        told["generation_settings"] |= {name: telling.asked[name] for name in _SWITCHES if name in telling.asked}
    return told


def _more_accepted(telling: Telling) -> Any:
    told = telling.told
    if isinstance(told, dict) and isinstance(told.get("timings"), dict) and told["timings"].get("draft_n"):
        told["timings"]["draft_n_accepted"] = told["timings"]["draft_n"] + 1
    return told


def _positions_off(telling: Telling) -> Any:
    told = telling.told
    if isinstance(told, dict) and isinstance(told.get("speculation"), dict):
        accepted = told["speculation"].get("accepted_by_position")
        if accepted:
            accepted[0] += 1
    return told


def _frozen(telling: Telling) -> Any:
    """Those of drafts keep the values that they had when they were first asked for."""
    if telling.path != "/metrics":
        return telling.told
    lines = telling.told.splitlines()
    first = telling.kept.setdefault("lines", {line.split()[0]: line for line in lines if "spec_decode" in line})
    return "".join(f"{first.get(line.split()[0], line)}\n" for line in lines)


def _bonus_accepted(telling: Telling) -> Any:
    """/metrics has the token after a draft among the accepted ones, answers have not."""
    if telling.path != "/metrics":
        return telling.told
    lines = [line.rsplit(" ", 1) for line in telling.told.splitlines()]
    drafts = next(int(value) for name, value in lines if name.endswith("num_drafts_total") and name[0] != "#")
    return "".join(
        f"{name} {int(value) + drafts if name.endswith('accepted_tokens_total') and name[0] != '#' else value}\n"
        for name, value in lines
    )


FAMILY: tuple[Liar, ...] = (
    Liar(
        "props-deny",
        'says "none" in /props while it drafts',
        "https://github.com/ggml-org/llama.cpp/pull/28119",
        _REPORTED,
        retell=_props_deny,
    ),
    Liar(
        "slots-deny",
        "says no in /slots while it drafts",
        "https://github.com/ml-explore/mlx-lm/issues/1131",
        _REPORTED,
        retell=_slots_deny,
    ),
    Liar(
        "answers-deny",
        'says "none" in the settings of an answer for which it drafted',
        "https://github.com/ggml-org/llama.cpp/issues/25803",
        _REPORTED,
        retell=_answers_deny,
    ),
    Liar(
        "never-drafts",
        "says everywhere that it speculates and never drafts",
        "https://github.com/waybarrios/vllm-mlx/issues/471",
        (),
        uncaught="what never drafts cannot be told from what no prompt woke, so every check is inconclusive",
        generation=_NeverDrafts,
    ),
    Liar(
        "switch-ignored",
        "shows the switch of a request as taken and drafts all the same",
        "https://github.com/kekzl/imp/issues/1639",
        ("self_report/speculation_switch",),
        reask=_switch_unread,
        retell=_switch_echoed,
    ),
    Liar(
        "bypass-logprobs",
        "does not draft when logprobs are asked for, and says that it speculates",
        "https://github.com/vllm-project/vllm/issues/34497",
        ("self_report/silent_bypass",),
        generation=_NotWithLogprobs,
    ),
    Liar(
        "bypass-sampling",
        "does not draft above temperature 0, and says that it speculates",
        "https://github.com/raullenchai/Rapid-MLX/pull/2655",
        ("self_report/silent_bypass",),
        generation=_NotWhenSampling,
    ),
    Liar(
        "more-accepted",
        "counts more accepted tokens than it drafted",
        "https://github.com/ggml-org/llama.cpp/pull/14104",
        ("self_report/accounting",),
        retell=_more_accepted,
    ),
    Liar(
        "positions-off",
        "counts by position what does not add up to its total",
        "https://github.com/vllm-project/vllm/issues/42508",
        ("self_report/accounting",),
        retell=_positions_off,
    ),
    Liar(
        "metrics-frozen",
        "has totals of drafts that stand still while it drafts",
        "https://github.com/vllm-project/vllm/issues/56101",
        ("self_report/accounting",),
        retell=_frozen,
    ),
    Liar(
        "metrics-of-their-own",
        "counts the token after each draft as accepted in its totals, and not in its answers",
        "https://github.com/vllm-project/vllm/issues/42508",
        ("self_report/accounting",),
        retell=_bonus_accepted,
    ),
)
