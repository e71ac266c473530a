"""Addresses of the documentation, as far as the installed package names one."""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata

LABEL = "Documentation"


@cache
def base() -> str:
    """The address that the package gives under "Documentation" (`[project.urls]`), with a slash at its end; "" for none."""
    try:
        listed = metadata.metadata("draftproof").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    pairs = (entry.partition(",") for entry in listed)
    return next((url.strip().rstrip("/") + "/" for label, _, url in pairs if label.strip() == LABEL), "")


def check_url(name: str) -> str:
    """The section on a check; "" where the documentation has no address."""
    return _page("reference/checks.md", name)


def finding_url(code: str) -> str:
    """The section on a finding's code; "" where the documentation has no address."""
    return _page("reference/findings.md", code)


def _page(path: str, heading: str) -> str:
    anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return f"{base()}{path}#{anchor}" if base() else ""
