"""The pairs of `kinds` as files: one model or two, and what is known of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftproof.core.errors import UsageError
from draftproof.countable import gguf, kinds, story
from draftproof.countable.law import Model, by_text, joint_law, next_law, next_laws
from draftproof.countable.oracle import CountablePair

FORMAT = 1
NAMES = ("target.gguf", "draft.gguf", "law.json")


def open_pair(directory: Path) -> CountablePair:
    """The pair target.gguf, draft.gguf of a directory, by whose path it goes. Raises UsageError.

    Without draft.gguf the target must have a prediction head.
    """
    target, draft = directory / NAMES[0], directory / NAMES[1]
    if not draft.is_file() and target.is_file() and gguf.read(target).head is not None:
        return CountablePair(target, None, name=str(directory))
    return CountablePair(target, draft, name=str(directory))


def write_pair(directory: Path, *, force: bool = False, kind: str = "letters") -> tuple[Path, ...]:
    """Write target.gguf, draft.gguf (unless the target predicts for itself) and law.json; the same bytes every time.

    Returns their paths. Raises UsageError when one is there already (unless `force`), the directory cannot be written, or there
    is no such kind.
    """
    chosen = kinds.named_kind(kind)
    sources = [source for source in chosen.make() if source is not None]
    paths = tuple(directory / name for name in (*NAMES[: len(sources)], NAMES[2]))
    there = [path for path in (directory / name for name in NAMES) if path.exists()]
    if there and not force:
        raise UsageError(f"{there[0]} is there already.", "Pass --force to overwrite it.")
    laws = json.dumps(published_laws(kind), indent=1, ensure_ascii=False) + "\n"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for stale in set(there) - set(paths):
            stale.unlink()
        for path, source, suffix in zip(paths, sources, ("", "-draft"), strict=False):
            gguf.write(path, chosen.model_name + suffix, source.vocabulary, source.sizes, source.tensors)
        paths[-1].write_text(laws, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror or error}.") from error
    return paths


def published_laws(kind: str = "letters") -> dict[str, Any]:
    """What law.json holds: exact probabilities at temperature 1 after `prompt`, all by letter or text.

    `target`, `draft`: law of the `first` token, of the second given the first, and the joint law of three (across a token that
    ends the text too). `pieces`: the bytes of each token in hexadecimal. `format` counts the versions of this layout. Of the
    built-in pair also `story`: the law of the `top_k` likeliest after `prompt` + `given`, and the `seed`, `draft_seed`, `noise`
    that made the weights.
    """
    pair = kinds.pair(kind)
    prompt = "".join(pair.alphabet[token] for token in kinds.PROMPT)
    told = {"format": FORMAT, "name": pair.name, "alphabet": pair.alphabet, "prompt": prompt}
    if kind == "letters":
        told |= {"seed": story.SEED, "draft_seed": story.DRAFT_SEED, "noise": story.NOISE, "story": _story(pair)}
    else:
        told["pieces"] = [piece.hex() for piece in pair.pieces]
    return told | {
        "target": _laws(pair.target_logits, pair.alphabet),
        "draft": _laws(pair.draft_logits, pair.alphabet),
    }


def _story(pair: CountablePair) -> dict[str, Any]:
    law = next_law(pair.target_logits, story.ids(story.PROMPT + story.FIRST), story.SAMPLING)
    return {
        "given": story.FIRST,
        "top_k": story.SAMPLING.top_k,
        "temperature": story.SAMPLING.temperature,
        "target": by_text(pair.alphabet, law, digits=6),
    }


def _laws(model: Model, alphabet: str) -> dict[str, Any]:
    second = next_laws(model, [(*kinds.PROMPT, token) for token in range(len(alphabet))])
    return {
        "first": by_text(alphabet, next_law(model, kinds.PROMPT)),
        "second_given_first": {first: by_text(alphabet, law) for first, law in zip(alphabet, second, strict=True)},
        "joint_of_three": by_text(alphabet, joint_law(model, kinds.PROMPT, 3)),
    }
