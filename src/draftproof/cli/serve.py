"""`draftproof serve`."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from draftproof.cli import starting
from draftproof.cli.given import by_commas, read_file, read_lines, read_object
from draftproof.cli.llama_flags import without_effect
from draftproof.cli.serve_options import (
    LISTENING,
    MODELS,
    RUNNING,
    SPECULATING,
    default_threads,
    read_speculation,
    slot_context,
)
from draftproof.cli.serve_sampling import (
    SAMPLING,
    read_breakers,
    read_sampling,
    read_structure,
)
from draftproof.core.errors import InstrumentError, UsageError, install

if TYPE_CHECKING:
    from draftproof.server.load import Files
    from draftproof.server.run import Options
    from draftproof.server.served import Defaults, Served

_EPILOG = """\b
Examples:
  draftproof serve -m target.gguf -md draft.gguf
  draftproof serve -m model.gguf --spec-type ngram-mod --port 0
  draftproof serve --table countable-8
\b
Then:
  curl http://127.0.0.1:8080/completion -d '{"prompt": "bcdbc", "n_predict": 12, "n_probs": 3}'
  draftproof check http://127.0.0.1:8080
\b
Flags are llama-server's where it has them."""


@click.command(epilog=_EPILOG, context_settings={"auto_envvar_prefix": "DRAFTPROOF_SERVE", "show_default": True})
@MODELS
@RUNNING
@SAMPLING
@SPECULATING
@LISTENING
def serve(**given: Any) -> None:
    """Serve a model with llama-server's API and OpenAI's: speculating, and with true logprobs for every token."""
    logging.basicConfig(
        level=logging.WARNING if given["verbose"] else logging.CRITICAL, format="%(levelname)s %(message)s"
    )
    from draftproof.server.listening import listen

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy is yet to come; its threads would spin and do nothing
    if flags := without_effect():
        click.echo(f"without effect here: {', '.join(flags)}", err=True)
    gc.disable()  # until it serves: none of what is imported and loaded is garbage
    with listen(given["host"], given["port"]) as listening:
        served = _load(given)
        _import_server()
        if (template := _template(given)) is not None:
            served = _with_template(served, template)
        served.constraint(served.defaults.grammar)  # a bad one is told now
        from draftproof.server import run

        run.Server(served, _options(given), partial(_ready, served, given)).run_on(listening)


def _loading(what: str) -> None:
    """A model begins to load, which is not done in Python. Meanwhile the web framework is imported, which takes as long."""
    _say(what)
    threading.Thread(target=_import_early, daemon=True).start()


def _import_early() -> None:
    with contextlib.suppress(UsageError):  # the main thread meets it too
        _import_server()


def _import_server() -> None:
    try:
        importlib.import_module("draftproof.server.run")
    except ImportError as error:
        remedy = install("serve")
        raise UsageError(f"The server needs packages that are not installed ({error}).", remedy) from error


def _template(given: dict[str, Any]) -> str | None:
    """A chat template in place of the model's own."""
    text: str | None = given["chat_template"]
    if text is not None and "{" not in text:
        raise UsageError(
            f'--chat-template "{text}" is no Jinja template, and names of templates are not known here.',
            "Leave it out for the model's own template, or name a file with --chat-template-file.",
        )
    return text if given["chat_template_file"] is None else read_file(given["chat_template_file"])


def _with_template(served: Served, source: str) -> Served:
    from draftproof.server.chat import ChatTemplate

    ChatTemplate(source, served.vocabulary).compile()
    return replace(served, template=source)


def _ready(served: Served, given: dict[str, Any], url: str) -> None:
    starting.over()
    click.echo(f"draftproof serves {url}")
    threading.Thread(target=_measure, args=(served, given), daemon=True).start()


def _measure(served: Served, given: dict[str, Any]) -> None:
    """What rows cost, which requests that speculate or have company would else have to wait for; then tells what speculates."""
    from draftproof.server.standing import lines

    with contextlib.suppress(InstrumentError):  # the server ended before
        if given["model"] is not None and (served.defaults.speculation.wanted or given["slots"] > 1):
            _say("measuring what rows cost")
            _ = served.models.target.max_rows_exact
        for line in lines(served):
            click.echo(line, err=True)


def _say(what: str) -> None:
    click.echo(f"{what} ...", err=True)


def _load(given: dict[str, Any]) -> Served:
    from draftproof.server.load import Files, load_files, load_table

    if (given["table"] is None) == (given["model"] is None):
        raise UsageError("Name one model: a file with -m, or a countable one with --table.")
    context = slot_context(given["context"], given["slots"])
    if given["table"] is not None:
        defaults = _defaults(given, has_draft=True)
        served = load_table(given["table"], defaults, context=context)
        served = replace(served, name=given["alias"] or served.name)
    else:
        files = Files(
            given["model"],
            given["draft"],
            slots=given["slots"],
            context=context,
            threads=given["threads"] or default_threads(),
            strict=given["strict"] is not False,
            exact_prompts=given["strict"] is True,
            flash=given["flash_attn"] != "off",
            head="draft-mtp" in (given["spec_type"] or ""),
            eagle="draft-eagle3" in (given["spec_type"] or ""),
            **{name: given[name] for name in _PASSED_ON},
        )
        defaults = _defaults(given, has_draft=files.draft is not None)
        _check_drafts(files, defaults.speculation.types)
        served = load_files(files, defaults, _loading)
    return served


def _check_drafts(files: Files, types: Sequence[str]) -> None:
    """Raises UsageError for drafters that lack a model, or want the same place."""
    if files.draft is None and "draft-simple" in types:
        raise UsageError("draft-simple needs a draft model.", "Name one with -md.")
    if files.draft is None and files.eagle:
        raise UsageError("draft-eagle3 needs an EAGLE-3 draft of the target.", "Name one with -md.")
    if files.eagle and "draft-simple" in types:
        raise UsageError(
            "-md names one draft, which is for draft-simple or for draft-eagle3.", "Choose one of them in --spec-type."
        )
    if files.eagle and files.head:
        raise UsageError(
            "draft-mtp and draft-eagle3 read different hidden rows, and a target keeps one kind.",
            "Choose one of them in --spec-type.",
        )


_PASSED_ON = ("alias", "batch", "mmap", "repack", "check_tensors", "gpu_layers", "cache_type_k", "cache_type_v")


def _defaults(given: dict[str, Any], *, has_draft: bool) -> Defaults:
    from draftproof.server.served import BREAKERS, LLAMA_SAMPLING, Defaults
    from draftproof.server.speculating import read_types

    types = None if given["spec_type"] is None else read_types(given["spec_type"])
    try:
        return Defaults(
            sampling=read_sampling(LLAMA_SAMPLING, given),
            speculation=read_speculation(given, has_draft=has_draft, types=types),
            max_tokens=given["max_tokens"],
            seed=given["seed"],
            reuse=given["cache_prompt"],
            strict_greedy=given["strict"] is None,
            ignore_eos=given["ignore_eos"],
            breakers=read_breakers(BREAKERS, given),
            grammar=read_structure(given),
            template_options=read_object(given["chat_template_kwargs"] or "{}", "--chat-template-kwargs"),
        )
    except ValueError as error:
        raise UsageError(f"{error}.") from error


def _options(given: dict[str, Any]) -> Options:
    from draftproof.server.app import Access
    from draftproof.server.run import Options

    keys = by_commas(given["api_key"])
    if given["api_key_file"] is not None:
        keys += read_lines(given["api_key_file"])
    origins = by_commas(given["cors_origin"])
    access = Access(keys, origins, given["body_limit"] * 2**20, page=given["page"], slots=given["tells_slots"])
    return Options(slots=given["slots"], waiting=given["queue"], access=access)
