"""Evidence on disk: JSON Lines, gzipped, written as it comes, readable as far as it got."""

from __future__ import annotations

import itertools
import json
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from draftproof.client.locks import lock
from draftproof.core.errors import EvidenceError, InstrumentError
from draftproof.core.exchange import Attempt, Exchange

_GZIP = 31
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 28


class Sink(Protocol):
    """Where exchanges go as they happen. Safe to call from several threads."""

    def write(self, exchange: Exchange) -> None: ...

    def record(self, kind: str, data: Mapping[str, object]) -> None: ...

    def close(self) -> None: ...


class NullSink:
    """Keeps nothing."""

    def write(self, exchange: Exchange) -> None:
        pass

    def record(self, kind: str, data: Mapping[str, object]) -> None:
        pass

    def close(self) -> None:
        pass


class MemorySink:
    """Keeps everything in lists; for tests and short audits."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.records: list[tuple[str, dict[str, object]]] = []

    def write(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    def record(self, kind: str, data: Mapping[str, object]) -> None:
        self.records.append((kind, dict(data)))

    def close(self) -> None:
        pass


class JsonLinesSink:
    """One JSON object with a `kind` per line; gzipped when the name ends in `.gz`.

    What was written is handed to the operating system at least every `flush_s` seconds and on `close`.
    Raises EvidenceError when the file cannot be written; what was written before stays readable.
    """

    def __init__(self, path: Path, *, flush_s: float = 1.0) -> None:
        self.path = path
        self.answers = 0
        """Exchanges written in which the server answered."""
        self.displaced = _displaced(path)
        """Where an earlier file of that name was moved to: evidence is not overwritten."""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._broken: EvidenceError | None = None
        self._size_bytes = 0
        self._dirty = False
        self._gzip = zlib.compressobj(1, zlib.DEFLATED, _GZIP) if path.suffix == ".gz" else None
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as e:
            raise EvidenceError(
                f"Cannot write the evidence file {path}: {e.strerror}.",
                "Name a file in a folder that exists and is yours.",
            ) from e
        if not lock(self._file):
            self._file.close()
            raise EvidenceError(
                f"The evidence file {path} is being written by another audit.", "Name another one with --out."
            )
        with suppress(OSError):  # a device has nothing to cut off
            self._file.truncate(0)
        self._flusher = threading.Thread(target=self._flush_regularly, args=(flush_s,), daemon=True)
        self._flusher.start()

    def write(self, exchange: Exchange) -> None:
        self.record("exchange", exchange_to_record(exchange))
        self.answers += exchange.status is not None

    def withdraw(self) -> None:
        """Takes the file away again, and puts the one that was there before back in its place."""
        with suppress(EvidenceError):
            self.close()
        if self.path.is_file():
            self.path.unlink()
        if self.displaced is not None:
            self.displaced.rename(self.path)

    def record(self, kind: str, data: Mapping[str, object]) -> None:
        """Append {"kind": kind, **data}. Raises EvidenceError (disk), InstrumentError (data that is no JSON)."""
        try:
            line = json.dumps({"kind": kind, **data}, allow_nan=False, separators=(",", ":")) + "\n"
        except (TypeError, ValueError) as e:
            raise InstrumentError(f"A record of kind {kind!r} cannot be written as JSON: {e}.") from e
        with self._lock:
            self._refuse_if_unusable()
            raw = line.encode()
            self._dirty = True
            self._put(self._gzip.compress(raw) if self._gzip else raw)

    def flush(self) -> None:
        """All records so far can be read by others."""
        with self._lock:
            self._refuse_if_unusable()
            self._sync()

    def close(self) -> None:
        """Ends the file. Closing twice is fine."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._flusher.join()
        with self._lock:
            try:
                if self._gzip and self._broken is None:
                    self._put(self._gzip.flush(zlib.Z_FINISH))
            finally:
                self._file.close()

    def __enter__(self) -> JsonLinesSink:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _flush_regularly(self, flush_s: float) -> None:
        while not self._closed.wait(flush_s):
            with self._lock:
                if self._broken is None:
                    try:
                        self._sync()
                    except EvidenceError:
                        return  # the next record or close tells

    def _refuse_if_unusable(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._closed.is_set():
            raise EvidenceError(f"The evidence file {self.path} is closed already.")

    def _sync(self) -> None:
        if self._dirty:
            self._put(self._gzip.flush(zlib.Z_SYNC_FLUSH) if self._gzip else b"")
            self._dirty = False

    def _put(self, raw: bytes) -> None:
        view = memoryview(raw)
        while view:
            try:
                written = self._file.write(view)
            except OSError as e:
                self._broken = EvidenceError(
                    f"The evidence file {self.path} could not be continued after {self._size_bytes:,} bytes: {e.strerror}.",
                    "Free some space or name a file on another disk; what was written is kept and can be read.",
                )
                raise self._broken from e
            self._size_bytes += written or 0
            view = view[written or 0 :]


def _displaced(path: Path) -> Path | None:
    """Moves a file with content out of the way, to the first free name of the kind `evidence.1.jsonl.gz`.

    None where there is none, or where it is being written by another audit.
    """
    try:
        if not path.is_file() or not path.stat().st_size:
            return None
        with path.open("ab") as file:
            if not lock(file):
                return None  # refused below
        stem, dot, ending = path.name.partition(".")
        for number in itertools.count(1):
            place = path.with_name(f"{stem}.{number}{dot}{ending}")
            if not place.exists():
                return path.rename(place)
    except OSError:
        return None  # that it cannot be written is told when it is opened
    return None


def exchange_to_record(exchange: Exchange) -> dict[str, object]:
    """Plain data for JSON; `exchange_from_record` is its inverse."""
    return {
        "number": exchange.number,
        "method": exchange.method,
        "path": exchange.path,
        "request": exchange.request,
        "status": exchange.status,
        "answer": exchange.answer,
        "attempts": [[a.started_s, a.elapsed_s, a.outcome] for a in exchange.attempts],
        "events": exchange.events,
    }


def exchange_from_record(record: Mapping[str, Any]) -> Exchange:
    """Raises EvidenceError when a field is missing or of the wrong kind."""
    try:
        return Exchange(
            number=int(record["number"]),
            method=str(record["method"]),
            path=str(record["path"]),
            request=str(record["request"]),
            status=None if record["status"] is None else int(record["status"]),
            answer=str(record["answer"]),
            attempts=tuple(Attempt(float(s), float(e), str(o)) for s, e, o in record["attempts"]),
            events=tuple((float(s), int(n)) for s, n in record["events"]),
        )
    except (KeyError, TypeError, ValueError) as e:
        raise EvidenceError(f"An exchange in the evidence cannot be read: {e!r}.") from e


class Records:
    """The records of an evidence file, in order. After iterating, `cut_short` says how the file ended too early ("" = whole)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut_short = ""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.cut_short = ""
        rest = b""
        number = 0
        for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                number += 1
                yield self._record(line, number)
            if len(rest) > _LONGEST_LINE:
                raise EvidenceError(f"{self.path}: line {number + 1} is longer than {_LONGEST_LINE >> 20} MB.")
        if rest:
            self.cut_short = self.cut_short or f"line {number + 1} ends in the middle"

    def _record(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError as e:
            raise EvidenceError(f"{self.path}: line {number} is not JSON: {e}.", "Is this an evidence file?") from e
        if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
            raise EvidenceError(f"{self.path}: line {number} is no record with a kind.", "Is this an evidence file?")
        return record

    def _chunks(self) -> Iterator[bytes]:
        try:
            with self.path.open("rb") as file:
                head = file.read(2)
                file.seek(0)
                yield from self._unzipped(file) if head == b"\x1f\x8b" else iter(lambda: file.read(_CHUNK), b"")
        except OSError as e:
            raise EvidenceError(f"Cannot read the evidence file {self.path}: {e.strerror}.") from e

    def _unzipped(self, file: Any) -> Iterator[bytes]:
        unzip = zlib.decompressobj(_GZIP)
        while raw := file.read(_CHUNK):
            while raw:
                if unzip.eof:
                    unzip = zlib.decompressobj(_GZIP)
                try:
                    out = unzip.decompress(raw, _CHUNK)
                except zlib.error as e:
                    raise EvidenceError(f"{self.path}: the gzip data is damaged: {e}.") from e
                if out:
                    yield out
                raw = unzip.unconsumed_tail or unzip.unused_data
        if not unzip.eof:
            self.cut_short = "the gzip data has no end (was the audit killed?)"


def read_records(path: Path) -> Records:
    """All whole records of an evidence file, read as they are iterated over.

    Raises EvidenceError while iterating for a file that cannot be read or is no evidence; a file that was
    merely cut short yields what is whole and says so in `Records.cut_short`.
    """
    return Records(path)
