"""The built-in pair as files: two models and what is known of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftproof.core.errors import UsageError
from draftproof.countable import gguf, story
from draftproof.countable.law import Model, by_text, joint_law, next_law, next_laws
from draftproof.countable.oracle import CountablePair

FORMAT = 1
NAMES = ("target.gguf", "draft.gguf", "law.json")


def open_pair(directory: Path) -> CountablePair:
    """The pair target.gguf, draft.gguf of a directory, by whose path it goes. Raises UsageError."""
    return CountablePair(directory / NAMES[0], directory / NAMES[1], name=str(directory))


def write_pair(directory: Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write target.gguf, draft.gguf and law.json; the same bytes every time. Returns their paths.

    Raises UsageError when one is there already (unless `force`) or the directory cannot be written.
    """
    paths = tuple(directory / name for name in NAMES)
    there = [path for path in paths if path.exists()]
    if there and not force:
        raise UsageError(f"{there[0]} is there already.", "Pass --force to overwrite it.")
    target = story.target_weights()
    draft = story.draft_weights(target)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        gguf.write(paths[0], story.NAME, story.ALPHABET, story.ARCHITECTURE, target)
        gguf.write(paths[1], f"{story.NAME}-draft", story.ALPHABET, story.ARCHITECTURE, draft)
        paths[2].write_text(json.dumps(published_laws(), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror or error}.") from error
    return paths


def published_laws() -> dict[str, Any]:
    """What law.json holds: exact probabilities at temperature 1 after `prompt`, all by letter or text.

    `story`: the law of the `top_k` likeliest after `prompt` + `given`. `target`, `draft`: law of the `first` token, of the
    second given the first, and the joint law of three. `seed`, `draft_seed`, `noise` made the weights; `format` counts
    the versions of this layout.
    """
    pair = story.build()
    told = next_law(pair.target_logits, story.ids(story.PROMPT + story.FIRST), story.SAMPLING)
    return {
        "format": FORMAT,
        "name": story.NAME,
        "alphabet": story.ALPHABET,
        "prompt": story.PROMPT,
        "seed": story.SEED,
        "draft_seed": story.DRAFT_SEED,
        "noise": story.NOISE,
        "story": {
            "given": story.FIRST,
            "top_k": story.SAMPLING.top_k,
            "temperature": story.SAMPLING.temperature,
            "target": by_text(story.ALPHABET, told, digits=6),
        },
        "target": _laws(pair.target_logits),
        "draft": _laws(pair.draft_logits),
    }


def _laws(model: Model) -> dict[str, Any]:
    prompt = story.ids(story.PROMPT)
    second = next_laws(model, [(*prompt, token) for token in range(len(story.ALPHABET))])
    return {
        "first": by_text(story.ALPHABET, next_law(model, prompt)),
        "second_given_first": {
            first: by_text(story.ALPHABET, law) for first, law in zip(story.ALPHABET, second, strict=True)
        },
        "joint_of_three": by_text(story.ALPHABET, joint_law(model, prompt, 3)),
    }
