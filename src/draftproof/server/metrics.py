"""Totals over all answers, by llama-server's names, counted from runs that ended."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.engine.slots import Run


@dataclass(slots=True)
class Totals:
    """Written by the engine thread only."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_s: float = 0.0
    predicted_tokens: int = 0
    predicted_s: float = 0.0
    longest: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    drafts: int = 0
    busy: int = 0
    """Sum over all steps of the answers that were in it."""

    def add(self, run: Run) -> None:
        """A run that ended, well or not."""
        generation, counters = run.generation, run.generation.counters
        ended_s = run.started_s if run.ended_s is None else run.ended_s
        read_s = ended_s if run.read_s is None else run.read_s
        if run.read_s is not None:
            self.prompt_tokens += len(run.order.job.prompt) - run.reused
            self.cached_tokens += run.reused
            self.prompt_s += read_s - run.started_s
        self.predicted_tokens += counters.emitted
        self.predicted_s += ended_s - read_s
        self.longest = max(self.longest, len(generation.context))
        self.draft_tokens += counters.drafted
        self.accepted_tokens += counters.accepted
        self.drafts += counters.drafts


def prometheus(totals: Totals, *, steps: int, processing: int, deferred: int) -> str:
    """The text of /metrics. steps: passes of the model so far."""
    counters: tuple[tuple[str, str, float], ...] = (
        ("prompt_tokens_total", "Number of prompt tokens processed, without cached ones", totals.prompt_tokens),
        ("prompt_tokens_cached_total", "Number of prompt tokens that were held already", totals.cached_tokens),
        ("prompt_seconds_total", "Time in which prompts were read", totals.prompt_s),
        ("tokens_predicted_total", "Number of tokens generated", totals.predicted_tokens),
        ("tokens_predicted_seconds_total", "Time in which tokens were generated", totals.predicted_s),
        ("n_decode_total", "Number of passes of the target model", steps),
        ("n_tokens_max", "Most tokens of one sequence, prompt and answer", totals.longest),
        ("spec_decode_num_draft_tokens_total", "Number of tokens drafted", totals.draft_tokens),
        ("spec_decode_num_accepted_tokens_total", "Number of drafted tokens emitted", totals.accepted_tokens),
        ("spec_decode_num_drafts_total", "Number of drafts verified", totals.drafts),
    )
    gauges: tuple[tuple[str, str, float], ...] = (
        ("prompt_tokens_seconds", "Prompt tokens per second", _rate(totals.prompt_tokens, totals.prompt_s)),
        ("predicted_tokens_seconds", "Tokens generated per second", _rate(totals.predicted_tokens, totals.predicted_s)),
        ("requests_processing", "Number of answers being made", processing),
        ("requests_deferred", "Number of answers waiting", deferred),
        ("n_busy_slots_per_decode", "Mean number of answers in a pass", totals.busy / steps if steps else 0.0),
    )
    return "".join(_lines(counters, "counter") + _lines(gauges, "gauge"))


def _lines(entries: tuple[tuple[str, str, float], ...], kind: str) -> list[str]:
    return [
        f"# HELP llamacpp:{name} {what}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value:.10g}\n"
        for name, what, value in entries
    ]


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
