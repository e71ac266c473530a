"""Refusals in the form that llama-server and OpenAI's API give them.

UsageError
└── Refusal    a request that is not served: HTTP status, kind, sentence, and further fields of the body
"""

from __future__ import annotations

from typing import Any

from draftproof.core.errors import UsageError

INVALID = "invalid_request_error"


class Refusal(UsageError):
    """`status` of the answer, `kind` is llama-server's "type", `extra` are further fields of the error object."""

    def __init__(self, message: str, status: int = 400, kind: str = INVALID, **extra: Any) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.extra = extra

    @property
    def body(self) -> dict[str, Any]:
        """{"error": {...}}."""
        return {"error": {"code": self.status, "message": self.message, "type": self.kind, **self.extra}}


def refusal(error: Exception) -> Refusal:
    """What a client is told of an error: a wrong request is its own fault, anything else is the server's."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, UsageError):
        return Refusal(str(error))
    if isinstance(error, ValueError):
        return Refusal(f"The request cannot be served: {error}.")
    return Refusal(f"{type(error).__name__}: {error}", 500, "server_error")


def context_exceeded(tokens: int, context: int) -> Refusal:
    """llama-server's error for a prompt that is too long."""
    return Refusal(
        f"request ({tokens} tokens) exceeds the available context size ({context} tokens), try increasing it",
        kind="exceed_context_size_error",
        n_prompt_tokens=tokens,
        n_ctx=context,
    )


def unauthorised() -> Refusal:
    return Refusal("Invalid API Key", 401, "authentication_error")


def not_found() -> Refusal:
    return Refusal("File Not Found", 404, "not_found_error")


def too_large(limit_bytes: int) -> Refusal:
    return Refusal(f"The body of the request is larger than {limit_bytes} bytes.", 413)


def busy(waiting: int) -> Refusal:
    return Refusal(f"{waiting} answers are waiting already, try again later.", 503, "unavailable_error")


def stopping() -> Refusal:
    return Refusal("The server is shutting down.", 503, "unavailable_error")


def unsupported(message: str) -> Refusal:
    return Refusal(message, 501, "not_supported_error")
