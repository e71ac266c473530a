"""Prompts that force drafting, and ordinary ones.

A draft model drafts on any prompt. n-gram drafters sleep on ordinary text and wake on text that repeats itself; a grammar
that demands a block of the prompt once more wakes them at any temperature. `ngram-mod` learns across requests, so a
forcing prompt is worth asking twice.
"""

from __future__ import annotations

import random
from dataclasses import replace

from draftproof.core.ask import Ask, Prompt
from draftproof.core.facts import Facts
from draftproof.core.probe import Probe
from draftproof.core.sampling import Sampling

SMALL_VOCABULARY = 64
BLOCK = 80

LIST = "alpha, beta, gamma, delta, epsilon, zeta, eta, theta"
REPEATING = "Repeat:\n" + f"{LIST}.\n" * 5 + "alpha, beta,"
"""Ends inside a line, so that its last tokens stood there before, with more than a whole draft (48 tokens) behind them."""

LINE = f" {LIST}, iota, kappa, lambda, mu."
COPIED = f"List:{LINE}\nList:{LINE}\nList:"

FOREIGN = "🦙🌍 東京 né 🙂你好"
"""Characters of one to four bytes, most of which vocabularies split."""

TOOL = "get_weather"
CALLING = "What is the weather in Paris?"
"""A question for which a model calls that tool."""

ORDINARY = (
    "The lighthouse keeper wrote in his diary that",
    "To make bread at home you first need",
    "In the beginning of the nineteenth century, the railway",
    "The three most important properties of a good measurement are",
    "Dear Sir or Madam, I am writing to ask whether",
)


def is_small(probe: Probe) -> bool:
    """Whether the server's model has a vocabulary small enough to write prompts as arbitrary token ids."""
    return has_letters(probe.facts)


def has_letters(facts: Facts) -> bool:
    """As `is_small`."""
    return facts.token_prompts and facts.vocabulary is not None and facts.vocabulary <= SMALL_VOCABULARY


def letters(probe: Probe, n: int, seed: int) -> tuple[int, ...]:
    """n arbitrary letters of a small vocabulary, the same for the same seed."""
    assert probe.facts.vocabulary is not None
    return tuple(random.Random(seed).choices(range(probe.facts.vocabulary), k=n))


def repeating(probe: Probe) -> Prompt:
    """A prompt whose likely continuation repeats what is in it."""
    if is_small(probe):
        return letters(probe, BLOCK, 80) * 2
    return _as_ids(probe, REPEATING)


def ordinary(probe: Probe, n: int) -> list[Prompt]:
    """Up to five prompts of ordinary text (for a small vocabulary: arbitrary letters, the first the story's own `bcdbc`)."""
    if is_small(probe):
        story = (1, 2, 3, 1, 2)
        return [story, *(letters(probe, 6, seed) for seed in range(1, n))]
    return [_as_ids(probe, text) for text in ORDINARY[:n]]


FEW_ROWS = 62
"""Tokens of a prompt that is worked out by the same kernels as a draft: from 64 rows on, libraries take others. Room for a
draft of 48 tokens after a match of 12."""


def longer(probe: Probe) -> Prompt:
    """All five ordinary texts in one: about 50 tokens, hardly one of them foreseeable."""
    return _as_ids(probe, " ".join(ORDINARY))


PROSE = """When the ferry left the harbour that morning, nobody on the quay knew that it was the last crossing before the storm.
The captain had checked the engines twice, the mate had counted the passengers, and the cook had begun to peel potatoes. A teacher
with eleven pupils sat near the bow and explained how the tides follow the moon. Further back two brothers quarrelled about a map.
Towards noon the wind turned north, and the sea, which had been green and flat, grew dark. The older brother folded the map
and put it into his coat. He asked the mate how far it was to the island, and the mate pointed at a thin grey line and said that
on a good day it took them forty minutes. What happened next was told in many ways. The teacher remembered that"""


def prose(probe: Probe) -> Prompt:
    """A long prompt of ordinary text, 150 tokens and more, whose continuation is open."""
    return _as_ids(probe, " ".join(PROSE.split()))


def foreign(probe: Probe) -> tuple[Prompt, str, str]:
    """A prompt to be continued by characters of several bytes, the same as text, and the grammar that forces them or ""."""
    text = f"{FOREIGN}\n" * 4
    return _as_ids(probe, text), text, quoted(FOREIGN) if probe.facts.grammar else ""


MARKERS = ("zanthorel", "quibblemir", "dreskilow", "fomulanty", "pelgravix", "mirovandu", "ostrekline", "yablotern")


def private(probe: Probe, n: int) -> list[tuple[str, Prompt]]:
    """Up to eight prompts that repeat themselves, each with a word that stands in no other one ("" for a small vocabulary:
    there the block of letters itself is in no other one).
    """
    if is_small(probe):
        return [("", letters(probe, BLOCK // 2, 90 + i) * 2) for i in range(n)]
    texts = [(word, f"{word}, {LIST}.\n" * 5 + f"{word},") for word in MARKERS[:n]]
    return [(word, _as_ids(probe, text)[-FEW_ROWS:] if probe.facts.token_prompts else text) for word, text in texts]


def _as_ids(probe: Probe, text: str) -> Prompt:
    ids = probe.tokenize(text) if probe.facts.token_prompts else None
    return ids or text


def quoted(text: str) -> str:
    """The grammar (GBNF) that allows this one text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'root ::= "{escaped}"'


def letter_names(probe: Probe) -> dict[int, str]:
    """The texts of a small vocabulary, whatever the values beside them; {} where the server does not list it."""
    answer = probe.once([Ask(letters(probe, 4, 3), 1, probe.facts.max_alternatives, seed=0)])[0]
    listed = [(a.id, a.text) for token in answer.tokens[:1] for a in token.alternatives or ()]
    listed += [(token.id, token.text) for token in answer.tokens[:1]]
    return {i: text for i, text in listed if i is not None}


def _copy(probe: Probe) -> tuple[Prompt, str] | None:
    """A prompt that holds a block twice, and a grammar that demands the block once more."""
    if not probe.facts.grammar:
        return None
    if not is_small(probe):
        return _as_ids(probe, COPIED), quoted(LINE)
    names = letter_names(probe)
    block = letters(probe, BLOCK, 81)
    if not all(names.get(i, "").isalnum() for i in block):
        return None
    return block * 2 + block[:1], quoted("".join(names[i] for i in block[1:]))


def is_chat(route: str) -> bool:
    """Whether a route wraps the prompt into a chat template, so that no context can be written down for it."""
    return route.endswith("chat/completions")


def on_route(probe: Probe, ask: Ask, route: str) -> Ask | None:
    """The same request on another route: a chat route takes text. None when the text of the prompt's ids is not known."""
    if not is_chat(route) or isinstance(ask.prompt, str):
        return replace(ask, route=route)
    if is_small(probe):
        names = letter_names(probe)
        if not all(i in names for i in ask.prompt):
            return None
        return replace(ask, route=route, prompt="".join(names.get(i, "") for i in ask.prompt))
    texts = (t for t in (REPEATING, *ORDINARY, COPIED) if probe.tokenize(t) == ask.prompt)
    text = next(texts, None)
    return None if text is None else replace(ask, route=route, prompt=text)


def forcing(probe: Probe, *, tokens: int, alternatives: int, temperature: float) -> list[Ask]:
    """Requests that make every known drafter draft, the surest last; send all, in this order.

    A server that drafts only where that pays is told to draft all the same.
    The last two are the same forced copy twice (only where the server takes a grammar), so that `ngram-mod` has learnt it.
    """
    sampling = Sampling(temperature=temperature)
    ask = Ask((), tokens, alternatives, sampling, seed=7, extra=probe.facts.drafting)
    asks = [replace(ask, prompt=prompt) for prompt in (ordinary(probe, 1)[0], repeating(probe))]
    copied = _copy(probe)
    if copied:
        prompt, grammar = copied
        copy = replace(ask, prompt=prompt, max_tokens=max(tokens, 48), grammar=grammar)
        asks += [copy, replace(copy, seed=8)]  # another seed, another Ask: `Probe.once` sends both
    return asks
