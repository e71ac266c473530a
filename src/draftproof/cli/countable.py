"""`draftproof countable`: models small enough to count."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from draftproof.core.errors import UsageError
from draftproof.core.sampling import Sampling
from draftproof.countable import kinds, story
from draftproof.countable import law as laws
from draftproof.countable.catalogue import builtin
from draftproof.countable.files import open_pair, write_pair

DIRECTORY = click.Path(path_type=Path)
PROBABILITY = click.FloatRange(0, 1)


@click.group()
def countable() -> None:
    """Targets and drafts of eight to ten tokens, whose laws are known exactly."""


@countable.command()
@click.argument("directory", type=DIRECTORY)
@click.option(
    "--kind",
    type=click.Choice(list(kinds.KINDS)),
    default="letters",
    show_default=True,
    help="Which pair; `draftproof countable list` tells what they are.",
)
@click.option("--force", is_flag=True, help="Overwrite files that are there already.")
def write(directory: Path, kind: str, force: bool) -> None:
    """Write target.gguf, draft.gguf and law.json to DIRECTORY."""
    for path in write_pair(directory, force=force, kind=kind):
        click.echo(f"{path}  {path.stat().st_size} bytes")
    how = kinds.KINDS[kind].serve.format(draft=directory / "draft.gguf")
    click.echo(f"Serve them:  llama-server -m {directory}/target.gguf {how}")


@countable.command(name="list")
def list_kinds() -> None:
    """List the kinds of pairs that `write` knows."""
    width = max(map(len, kinds.KINDS))
    for kind in kinds.KINDS.values():
        click.echo(f"{kind.name:<{width}}  {kind.about}")


@dataclass(frozen=True, slots=True)
class Question:
    """Options of `law` that say what is asked, apart from the sampler's."""

    prompt: str
    given: str
    tokens: int
    draft: bool
    json: bool
    rows: int


@countable.command()
@click.argument("directory", type=DIRECTORY, required=False)
@click.option("--prompt", default=story.PROMPT, show_default=True, help="The prompt, in letters of the model.")
@click.option("--given", default="", help="Tokens generated already, in letters.")
@click.option("--tokens", type=click.IntRange(1), default=1, show_default=True, help="The joint law of so many tokens.")
@click.option("--draft", is_flag=True, help="The law of the draft, not of the target.")
@click.option("--temperature", type=click.FloatRange(0), default=1.0, show_default=True, help="0 takes the likeliest.")
@click.option("--top-k", type=click.IntRange(0), default=0, help="0 keeps all.")
@click.option("--top-p", type=PROBABILITY, default=1.0, help="Keep the likeliest tokens up to this mass.")
@click.option("--min-p", type=PROBABILITY, default=0.0, help="Drop tokens below this share of the likeliest.")
@click.option("--repeat-penalty", type=click.FloatRange(0, min_open=True), default=1.0, help="Above 1 against repeats.")
@click.option("--repeat-last-n", type=click.IntRange(-1), default=64, show_default=True, help="Counts the prompt too.")
@click.option("--presence-penalty", type=float, default=0.0, help="Off the logit of tokens seen.")
@click.option("--frequency-penalty", type=float, default=0.0, help="The same, per time seen.")
@click.option("--logit-bias", multiple=True, metavar="LETTER=NUMBER", help="For example a=-1; a=-inf bans. Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every probability.")
@click.option("--rows", type=click.IntRange(0), default=20, show_default=True, help="Lines of the table; 0 prints all.")
def law(directory: Path | None, logit_bias: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Print the exact law of the next tokens of the pair in DIRECTORY (without one: the built-in pair)."""
    question = Question(
        **{name: options.pop(name) for name in ("prompt", "given", "tokens", "draft", "rows")}, json=as_json
    )
    pair = builtin() if directory is None else open_pair(directory)
    sampling = Sampling(**options, logit_bias=tuple(_bias(pair.alphabet, text) for text in logit_bias))
    context = laws.token_ids(pair.alphabet, question.prompt + question.given)
    model = pair.draft_logits if question.draft else pair.target_logits
    try:
        joint = laws.joint_law(model, context, question.tokens, sampling)
    except ValueError as error:
        raise UsageError(f"There is no law: {error}.") from error
    probabilities = laws.by_text(pair.alphabet, joint)
    click.echo(_as_json(question, sampling, probabilities) if question.json else _as_text(question, probabilities))


def _as_text(question: Question, probabilities: dict[str, float]) -> str:
    who = "draft" if question.draft else "target"
    after = f'"{question.prompt}"' + (f' and "{question.given}"' if question.given else "")
    what = "next token" if question.tokens == 1 else f"next {question.tokens} tokens"
    return f"{who} after {after}, {what}:\n{laws.table(probabilities, question.rows)}"


def _as_json(question: Question, sampling: Sampling, probabilities: dict[str, float]) -> str:
    settings = {name: getattr(sampling, name) for name in Sampling.__slots__}
    asked = {"prompt": question.prompt, "given": question.given, "tokens": question.tokens}
    return json.dumps(
        {"model": "draft" if question.draft else "target", **asked, "sampling": settings, "law": probabilities}
    )


def _bias(alphabet: str, text: str) -> tuple[int, float]:
    letter, _, number = text.partition("=")
    if len(letter) != 1 or not number:
        raise UsageError(f'--logit-bias "{text}" is not LETTER=NUMBER.', "For example: --logit-bias a=-1")
    try:
        return laws.token_ids(alphabet, letter)[0], float(number)
    except ValueError as error:
        raise UsageError(f'--logit-bias "{text}": "{number}" is not a number.') from error
