"""Where draftproof serve answers otherwise than llama-server, and why; written out as docs/llama-server-differences.md.

python -m tests.clients.differences > docs/llama-server-differences.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.clients import bad_requests
from tests.clients.replay import Difference, differences, of_itself, recorded
from tests.clients.served import DRAFTING, TARGET, serve


@dataclass(frozen=True)
class Reason:
    """`kinds` of differences at places that match `where` are meant. `theirs`, `ours`: what the page says is there."""

    name: str
    kinds: str
    where: str
    theirs: str
    ours: str
    why: str
    only_when_drafting: bool = False

    def covers(self, found: Difference) -> bool:
        return found.kind in self.kinds.split() and re.fullmatch(self.where, found.where) is not None


_LOGPROBS = r".*(completion_probabilities|logprobs/content)\[\]"
_IDENTITY = r"/(data\[\]|models\[\])/(id|name|model|aliases\[\]|created)|/model_(alias|path)"
_ANSWER = r"(\[\])?/(id|created|model|system_fingerprint|timings/.*)"

NEVER_EQUAL = (re.compile(_IDENTITY), re.compile(_ANSWER))
"""Names, times and identifiers: they differ between any two servers."""

REASONS = (
    Reason(
        "logprobs of drafted tokens",
        "value length",
        rf"{_LOGPROBS}(/logprob|/top_logprobs|/top_probs)",
        "`0.0` and an empty list (placeholders)",
        "the target's own logprob and alternatives",
        "every token is emitted with its own row of the target's logits",
        only_when_drafting=True,
    ),
    Reason(
        "logprobs of drafted tokens, streamed",
        "added type",
        r"\[\](/completion_probabilities|/choices\[\]/logprobs)",
        "missing or null",
        "as for any other token",
        "the same",
        only_when_drafting=True,
    ),
    Reason(
        "`logprobs` of /v1/completions",
        "added",
        r"(\[\])?/choices\[\]/logprobs/(tokens|token_logprobs|top_logprobs|text_offset)",
        "`content` only, the form of the chat route",
        "also `tokens`, `token_logprobs`, `top_logprobs`, `text_offset`",
        "OpenAI's form for this route, which evaluation harnesses read",
    ),
    Reason(
        "`speculation` in answers",
        "added",
        r"(\[\])?/speculation",
        "none",
        "requested, effective, reason, drafter, rule, counts by position",
        "an answer says how it was made",
    ),
    Reason("`ignored` in answers", "added", r"(\[\])?/ignored", "none", "list of names", "no field is swallowed"),
    Reason(
        "`speculative.rule`",
        "added",
        r".*/(generation_settings|params)/speculative\.rule",
        "none",
        "the rule that was asked for",
        "the rule decides whether the law or the text per seed is kept",
        only_when_drafting=True,
    ),
    Reason(
        "`speculative.types`",
        "value",
        r".*/(generation_settings|params)/speculative\.types",
        "`none` in /props, `none,draft-simple` in answers",
        "`draft-simple` in both",
        "computed from the drafters in use",
        only_when_drafting=True,
    ),
    Reason(
        "`speculation`, `drafting` in /props",
        "added",
        r"/(speculation|drafting)",
        "none",
        "the drafters in use; settings, draft model, measured costs",
        "a server says that it speculates",
    ),
    Reason(
        "`reasoning_format`",
        "value",
        r".*/reasoning_format",
        "`deepseek`",
        "`none`",
        "thoughts are not cut out of the text",
    ),
    Reason("`owned_by`, `build_info`", "value", r"/data\[\]/owned_by|/build_info", "llama.cpp's", "draftproof's", ""),
    Reason("`endpoint_props`", "value", "/endpoint_props", "as started", "false", "settings cannot be changed by POST"),
    Reason("`ui`", "value", "/ui", "as started", "as started", "the recorded one ran without its page"),
    Reason("`media_marker`", "value", "/media_marker", "random text", "empty", "only text is served"),
)

ON_PURPOSE: Mapping[str, str] = {
    "the text of a seed": (
        "The same, by the same random numbers, with and without speculation under `match`, with n-gram drafters and with "
        "`draft-eagle3`. Not with XTC (llama-server's flips and draws share random words), `mirostat` (it draws no number "
        "where one token is left), a grammar, or `typical_p` that no sorting sampler follows: there the law is the same, "
        "and the text another one."
    ),
    "a seeded answer in company, or with another drafter": (
        "The same tokens as alone with `speculative.rule: match`, with n-gram drafters and with `draft-eagle3`; with a draft model "
        "the default rule keeps the law, and the text depends on the draft's length."
    ),
    "`echo`, `max_tokens: 0`": (
        "Prompt tokens come with their logprobs; llama-server ignores `echo` and makes one token. Without `echo` the prompt is "
        "read for the next request, in both."
    ),
    "`speculative.*`, `speculative: false`": "Work for each request; llama-server takes and ignores them.",
    "drafts that cannot pay": (
        "Not made, whatever was asked for at the start: a line on standard error and the answers' `reason` say so. "
        "llama-server drafts all the same, as `--no-spec-adaptive` or `speculative.adaptive: false` do here."
    ),
    "`draft-eagle3`": (
        "The same drafts. A target whose layers libllama does not show is refused at start-up; llama-server's process ends at "
        "the first request."
    ),
    "prompts in the cache": (
        "A prompt that is asked again is not read at all: the logits after it are kept (llama-server reads its last token "
        "again, alone, which may change their last bits). The first answered token is never a drafted one, so that a seeded "
        "answer does not depend on who was here before."
    ),
    "/tokenizer_info, `prompt` of /tokenize": "vLLM's routes for clients that tokenize through the server.",
    "texts of entries": (
        "`token` and `bytes` are those of the entry's own token. llama-server tells the text that was set free with it: none for a "
        "token that is held back for a stop string, several for the one after; it leaves out tokens of half a character and those "
        "of a stop string."
    ),
    "`logprobs: 0`, `top_logprobs: 0`": "The token's own logprob without alternatives; llama-server tells none.",
    "`return_tokens`": "On OpenAI's routes too, as `tokens` of a choice.",
    "`usage`, `timings` of several choices or prompts": (
        "All of them together; llama-server tells those of the first. With `stream_options.include_usage` /v1/completions ends "
        "with an event for it, as OpenAI's does."
    ),
    "`seed` in settings": "The one that was drawn, where a random one was asked for; llama-server repeats the request's.",
    "a full context": (
        "An answer that fills it has one token more: the last one is never read. `truncated` says that the answer ended for that, "
        "not that the context is full."
    ),
    "a begun answer": (
        "`content` has what was made; llama-server puts what was begun before it, but not when it streams. "
        "`continue_final_message: false` begins another answer instead; llama-server carries on all the same."
    ),
    "two begun answers at the end of the messages": (
        "Taken, and the last one is carried on; llama-server refuses them with 400. An empty one opens the assistant's turn here, "
        "there it does not."
    ),
    "stop strings that are empty": "Passed over; llama-server ends the answer with its first token.",
    "`typical_p` beside tokens of probability 0": (
        "They play no part. In llama-server `top_n_sigma`, a ban or a large DRY penalty before it make the entropy not a number, "
        "and which token is left is a matter of its sorting."
    ),
    "`response_format`, JSON schemas": (
        "Work on all three routes, and the whole answer is the document; llama-server looks at `response_format` in chats only, "
        "and lets a document stand in a code block there, by another grammar, that passes over what it cannot say: texts differ in "
        "spaces. `json_schema` on /completion gives the same grammar, and the same text."
    ),
    "also taken": ("-1 for `repeat_last_n` and `dry_penalty_last_n`: all of the context."),
    "routes that are not there": (
        "404 for /infill, embeddings, reranking, /v1/messages, /v1/responses, POST /props, actions of slots; llama-server serves "
        "them, or answers 501 where it was not started for them."
    ),
    "`n`": "Up to 128 choices take turns on the slots; llama-server needs a slot for each.",
    "pages of other origins": "Refused unless they are named with --cors-origin.",
}

_ALIKE = "the same"


def found() -> Iterator[tuple[bool, str, Difference]]:
    """Every difference that is not a matter of course: whether drafts were made, the route, what it is."""
    for mode, flags in (("plain", TARGET), ("draft-simple", DRAFTING)):
        with serve(*flags) as url:
            seen = [*of_itself(url, mode), *_replayed(url, mode)]
        for path, difference in seen:
            if not any(pattern.fullmatch(difference.where) for pattern in NEVER_EQUAL):
                yield mode != "plain", path, difference


def _replayed(url: str, mode: str) -> Iterator[tuple[str, Difference]]:
    for temperature in (0, 1):
        for recording in recorded(mode, temperature).values():
            for difference in differences(url, recording):
                # above temperature 0 a seed means another text: keys and types are compared, not values
                if temperature == 0 or difference.kind not in ("value", "length"):
                    yield recording["path"], difference


def unexplained(seen: Iterable[tuple[bool, str, Difference]]) -> list[tuple[str, Difference]]:
    """Differences without a reason; those that only drafting excuses count where none was done."""
    return [
        (path, difference)
        for drafting, path, difference in seen
        if not any(r.covers(difference) and (drafting or not r.only_when_drafting) for r in REASONS)
    ]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _said(said: tuple[int, Any]) -> str:
    status, error = said
    if error is None:
        return str(status)
    return f"{status} {error['type']}: {error['message']}"


def refusals(url: str) -> list[str]:
    """Rows: how each server answers what nobody should send."""
    theirs = bad_requests.recorded()
    rows = []
    for name, case in bad_requests.CASES.items():
        ours = bad_requests.ask(url, case)
        rows.append(_row(name, _said(theirs[name]), _ALIKE if ours == theirs[name] else _said(ours)))
    return rows


PAGE = """# draftproof serve beside llama-server

Requests that were recorded from llama-server (build b11434, a countable pair of models, with and without a draft) are sent to
draftproof serve by `tests/clients/test_parity.py`: no key is missing, every value has the same type, and at temperature 0
texts, token ids, logprobs (to 1e-5), usage, finish reasons and the frames of streams are equal, but for what stands here. This
page is made by `python -m tests.clients.differences`; the test fails when it is out of date or a difference is not on it.

## In answers

{answers}

## On purpose, beyond one answer

{purposes}

## Requests that nobody should send

llama-server's answers are of build b11549. Its bodies of errors have the same form: `error` with `code`, `message`, `type`.
Where it takes a value that it cannot use and says nothing, draftproof serve refuses it.

{refusals}
"""


def page(url: str) -> str:
    """url: a server of the countable target with one slot, for its refusals."""
    answers = [_row("what", "llama-server", "draftproof serve", "why"), _row(*["---"] * 4)]
    answers += [_row(r.name, r.theirs, r.ours, r.why) for r in REASONS]
    purposes = [f"* **{name}**: {text}" for name, text in ON_PURPOSE.items()]
    said = [_row("request", "llama-server", "draftproof serve"), _row(*["---"] * 3), *refusals(url)]
    return PAGE.format(answers="\n".join(answers), purposes="\n".join(purposes), refusals="\n".join(said))


if __name__ == "__main__":
    with serve(*TARGET) as started:
        sys.stdout.write(page(started))
