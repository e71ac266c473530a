"""What can go wrong between Python and libllama, as exceptions that say what to do.

UsageError
├── LibraryMissing     no libllama was found
├── UnsupportedBuild   a libllama was found, but not one whose structures are known
├── ModelRejected      the file is no model that this build can load
├── ContextRejected    the model loads, but not with these settings (or not in this much memory)
├── GrammarRejected    the grammar does not parse
└── InvalidBatch       a batch that libllama would answer by aborting the process
InstrumentError
├── DecodeFailed       llama_decode returned an error
├── SelfTestFailed     the library loads and computes other numbers than it should
└── Closed             an object was used after it was closed
"""

from __future__ import annotations

from draftproof.core.errors import InstrumentError, UsageError


class LibraryMissing(UsageError):
    pass


class UnsupportedBuild(UsageError):
    pass


class ModelRejected(UsageError):
    pass


class ContextRejected(UsageError):
    pass


class GrammarRejected(UsageError):
    pass


class InvalidBatch(UsageError):
    pass


class DecodeFailed(InstrumentError):
    """`code` is what llama_decode returned: 2 aborted, -1 invalid batch, below -1 fatal."""

    def __init__(self, code: int, log: str) -> None:
        reason = {2: "aborted", -1: "invalid batch"}.get(code, "fatal error")
        super().__init__(f"The model could not read a batch: {reason} (code {code}). {log}".rstrip())
        self.code = code


class SelfTestFailed(InstrumentError):
    pass


class Closed(InstrumentError):
    pass
