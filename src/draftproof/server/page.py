"""The page at /: one file, which a browser may run and style by its own parts only."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from functools import cache
from importlib.resources import files

from starlette.responses import Response


@cache
def _page() -> tuple[str, dict[str, str]]:
    html = files("draftproof.server").joinpath("page.html").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        f"script-src {_hashes(html, 'script')}; style-src {_hashes(html, 'style')}"
    )
    headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return html, headers


def _hashes(html: str, tag: str) -> str:
    parts = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    return " ".join(f"'sha256-{b64encode(hashlib.sha256(part.encode()).digest()).decode()}'" for part in parts)


def page() -> Response:
    """The page, with a policy under which nothing but its own script runs, and nothing is loaded from anywhere."""
    html, headers = _page()
    return Response(html, media_type="text/html; charset=utf-8", headers=headers)
