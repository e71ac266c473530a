"""What an answer cost and how it was made: timings, usage, speculation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftproof.engine.slot import Run
from draftproof.server.jobs import Choice
from draftproof.server.speculating import effective, requested


def timings(runs: Sequence[Run], now_s: float | None = None) -> dict[str, Any]:
    """llama-server's `timings`, summed over the runs. now_s: the time of the clock for runs that go on.

    Like there, the first token counts as part of reading the prompt. Draft counts are there where drafts can be.
    """
    counters = [run.generation.counters for run in runs]
    read = sum(len(run.order.job.prompt) - run.reused for run in runs)
    read_ms = sum(1000 * ((run.read_s or _end(run, now_s)) - run.started_s) for run in runs)
    made = sum(c.emitted for c in counters)
    made_ms = sum(1000 * (_end(run, now_s) - (run.read_s or _end(run, now_s))) for run in runs)
    later = sum(max(c.emitted - 1, 0) for c in counters)
    counts: dict[str, Any] = {
        "cache_n": sum(run.reused for run in runs),
        "prompt_n": read,
        "prompt_ms": read_ms,
        "prompt_per_token_ms": read_ms / read if read else 0.0,
        "prompt_per_second": 1000 * read / read_ms if read_ms > 0 else 0.0,
        "predicted_n": made,
        "predicted_ms": made_ms,
        "predicted_per_token_ms": made_ms / later if later else 0.0,
        "predicted_per_second": 1000 * later / made_ms if made_ms > 0 else 0.0,
    }
    if any(run.plan.effective for run in runs):
        counts |= {"draft_n": sum(c.drafted for c in counters), "draft_n_accepted": sum(c.accepted for c in counters)}
    return counts


def progress(choice: Choice, read: int, now_s: float) -> dict[str, Any]:
    """llama-server's `prompt_progress`: `read` tokens of the prompt are held, those in the cache included."""
    run = choice.finished
    elapsed_ms = round(1000 * (now_s - run.started_s))
    return {"total": len(choice.prompt), "cache": run.reused, "processed": read, "time_ms": elapsed_ms}


def _end(run: Run, now_s: float | None) -> float:
    if run.ended_s is not None:
        return run.ended_s
    return run.started_s if now_s is None else now_s


def usage(choices: Sequence[Choice]) -> dict[str, Any]:
    """OpenAI's `usage` of choices: every prompt counts once, every token that was made counts."""
    first = list({choice.index // choice.settings.choices: choice for choice in reversed(choices)}.values())
    prompt = sum(len(choice.prompt) for choice in first)
    made = sum(len(choice.tokens) for choice in choices)
    cached = sum(choice.finished.reused for choice in first)
    return {
        "completion_tokens": made,
        "prompt_tokens": prompt,
        "total_tokens": prompt + made,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def speculation(choice: Choice) -> dict[str, Any]:
    """What was asked for, what was done and why, and what came of it."""
    plan, counters = choice.finished.plan, choice.finished.generation.counters
    silence = "" if counters.drafted else plan.why_nothing(counters.emitted)
    return {
        "requested": requested(choice.settings.asked),
        "effective": effective(plan),
        "reason": "; ".join(filter(None, (plan.reason, silence))),
        "drafter": ",".join(plan.effective) or "none",
        "rule": plan.rule.name if plan.effective else "none",
        "drafts": counters.drafts,
        "drafted": counters.drafted,
        "accepted": counters.accepted,
        "drafted_by_position": list(counters.drafted_by_position),
        "accepted_by_position": list(counters.accepted_by_position),
    }
