"""`draftproof gateway`."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from draftproof.cli.given import read_lines
from draftproof.core.errors import UsageError, install

_EPILOG = """\b
Examples:
  draftproof gateway --upstream http://127.0.0.1:8080
  draftproof gateway --upstream http://10.0.0.2:8080 --upstream http://10.0.0.3:8080 --port 9000
  draftproof gateway --upstream http://127.0.0.1:8080 --plain http://127.0.0.1:8081
  draftproof gateway --upstream https://llm.example --upstream-key-env LLM_KEY --api-key-file keys.txt
\b
Then:
  curl http://127.0.0.1:8090/completion -d '{"prompt": "bcdbc", "n_predict": 12, "n_probs": 3}'
  draftproof check http://127.0.0.1:8090"""


@click.command(epilog=_EPILOG, context_settings={"auto_envvar_prefix": "DRAFTPROOF_GATEWAY", "show_default": True})
@click.option("--upstream", multiple=True, required=True, metavar="URL", help="A server to stand before. Repeatable.")
@click.option(
    "--plain",
    multiple=True,
    metavar="URL",
    help="A server of the same model that does not speculate: it gets the requests for logprobs, whole. Repeatable.",
)
@click.option(
    "--lanes",
    type=click.IntRange(1, 64),
    default=1,
    help="Stretches of one answer that are re-scored at once; 1: along the numeric path of plain decoding.",
)
@click.option("--host", default="127.0.0.1", help="Who may reach it; the default is this machine only.")
@click.option("--port", type=click.IntRange(0, 65535), default=8090, help="0: any that is free.")
@click.option(
    "--api-key", multiple=True, help="Clients must send one of these. Without any, their keys go on to the upstream."
)
@click.option("--api-key-file", type=click.Path(path_type=Path), help="A file with one key in each line.")
@click.option("--upstream-key-env", metavar="NAME", help="The environment variable with the key for the upstreams.")
@click.option("--cors-origin", multiple=True, metavar="ORIGIN", help="Web pages from there may ask; * for all.")
@click.option("--body-limit", type=click.IntRange(1), default=16, help="Most megabytes of a request.")
@click.option(
    "--silence",
    type=click.FloatRange(1),
    default=600.0,
    help="Seconds after which a silent upstream counts as failed.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Log failures and which upstream is down, without requests or keys."
)
def gateway(
    upstream: tuple[str, ...],
    plain: tuple[str, ...],
    lanes: int,
    host: str,
    port: int,
    api_key: tuple[str, ...],
    api_key_file: Path | None,
    upstream_key_env: str | None,
    cors_origin: tuple[str, ...],
    body_limit: int,
    silence: float,
    verbose: bool,
) -> None:
    """Stand before a speculating server: text passes at its speed, logprobs come out true.

    llama-server fills in placeholders for drafted tokens. The gateway asks it for each of these tokens again, alone, which is never
    speculated, or scores the answer by one request where the server offers that (vLLM, SGLang), and says in the answer what it did.
    Requests without logprobs pass byte for byte.
    """
    logging.basicConfig(level=logging.WARNING if verbose else logging.CRITICAL, format="%(levelname)s %(message)s")
    try:
        from draftproof.gateway.app import Options
        from draftproof.gateway.run import Server, fleet
    except ImportError as error:
        remedy = install("gateway")
        raise UsageError(f"The gateway needs packages that are not installed ({error}).", remedy) from error
    from draftproof.server.listening import listen

    credentials = None
    if upstream_key_env is not None:
        key = os.environ.get(upstream_key_env)
        if not key:
            raise UsageError(f"The environment variable {upstream_key_env} is not set.")
        credentials = [(b"authorization", f"Bearer {key}".encode())]
    keys = [*api_key, *(read_lines(api_key_file) if api_key_file else [])]
    if keys and credentials is None:
        credentials = []  # the client's key is the gateway's own, and goes no further

    options = Options(tuple(keys), cors_origin, body_limit << 20, lanes)
    with listen(host, port) as listening:
        front = fleet(upstream, "upstream", credentials, silence)
        apart = fleet(plain, "plain", credentials, silence) if plain else None
        Server(front, apart, options, _ready).run_on(listening)


def _ready(url: str) -> None:
    click.echo(f"draftproof stands at {url}")
