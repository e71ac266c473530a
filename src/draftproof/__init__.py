"""draftproof: can the numbers that an LLM server gives be trusted when it takes short cuts?

    report = draftproof.audit("http://127.0.0.1:8080")

audits a running server (`draftproof.api`); what it needs is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from draftproof.api import audit, audit_async

__version__ = "0.1.0"
__all__ = ["__version__", "audit", "audit_async"]


def __getattr__(name: str) -> Any:
    if name in {"audit", "audit_async"}:
        return getattr(import_module("draftproof.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
