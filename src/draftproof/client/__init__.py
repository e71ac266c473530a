"""How to ask a server: HTTP as evidence, dialects, facts, the one-token oracle, and the probe that checks use."""

from __future__ import annotations

from draftproof.client.evidence import JsonLinesSink, MemorySink, NullSink, Sink, read_records
from draftproof.client.facts import connect
from draftproof.client.http import Http
from draftproof.client.patience import Budget, Limits
from draftproof.client.probe import LiveProbe

__all__ = [
    "Budget",
    "Http",
    "JsonLinesSink",
    "Limits",
    "LiveProbe",
    "MemorySink",
    "NullSink",
    "Sink",
    "connect",
    "read_records",
]
