"""What a server says of itself, corrected where the gateway knows better.

llama-server's /props calls its speculation "none" while it drafts. /slots tells the truth, and so do the counts in its answers.
"""

from __future__ import annotations

from typing import Any

from draftproof.gateway.upstream import Upstream, says_speculating
from draftproof.gateway.wire import Incoming, Outgoing, end_to_end, marked, parsed
from draftproof.server.errors import Refusal
from draftproof.server.wire import to_json

_TYPES = "speculative.types"
UNNAMED = "drafting, of a kind that the server does not name"


async def answer_props(upstream: Upstream, incoming: Incoming, out: Outgoing) -> None:
    """/props, byte for byte unless its speculation is told wrongly. Raises Lost."""
    headers = incoming.forwarded(upstream.credentials)
    response, body = await upstream.whole("GET", incoming.target, headers)
    props = _object(body) if response.status_code == 200 else None
    said = _params(props).get(_TYPES) if props else None
    why = await _drafting(upstream, incoming) if said in ("none", "") else ""
    if not props or not why:
        head = end_to_end(response.headers.raw, changed=True)
        await out.whole(response.status_code, body, [*head, *marked(f"passed; upstream={upstream.name}")])
        return
    _params(props)[_TYPES] = upstream.types if upstream.types not in ("", "none") else UNNAMED
    props["draftproof"] = {
        "corrected": [{"field": f"default_generation_settings.params.{_TYPES}", "upstream": said, "because": why}]
    }
    head = [*end_to_end(response.headers.raw, changed=True), *marked(f"corrected; upstream={upstream.name}")]
    await out.whole(200, to_json(props), head)


async def _drafting(upstream: Upstream, incoming: Incoming) -> str:
    """By what it is known that the server drafts; "" if it is not. Asks for one token to learn the kind."""
    headers = incoming.forwarded(upstream.credentials)
    live = says_speculating(await upstream.get("/slots", headers))
    if not live and not upstream.drafted:
        return ""
    if not upstream.types:
        ask = {"prompt": [0], "n_predict": 1, "cache_prompt": False}
        try:
            answer = await upstream.post("/completion", ask, [*headers])
        except Refusal:
            answer = {}
        settings = answer.get("generation_settings") if isinstance(answer, dict) else None
        types = settings.get(_TYPES) if isinstance(settings, dict) else None
        upstream.types = types if isinstance(types, str) else ""
    return "/slots says that it speculates" if live else "its answers count drafts"


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = parsed(body)
    except Refusal:
        return None
    return found if isinstance(found, dict) else None


def _params(props: dict[str, Any] | None) -> dict[str, Any]:
    defaults = (props or {}).get("default_generation_settings")
    params = defaults.get("params") if isinstance(defaults, dict) else None
    return params if isinstance(params, dict) else {}
