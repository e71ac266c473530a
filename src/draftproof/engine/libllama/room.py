"""Whether a key-value cache fits into memory. libllama would fill it with zeros until the system ends the process."""

from __future__ import annotations

from pathlib import Path

from draftproof.engine.libllama.model import Model

BITS = {0: 32, 1: 16, 2: 4.5, 3: 5, 6: 5.5, 7: 6, 8: 8.5, 20: 4.5, 30: 16}
"""Of one number, by ggml's type, scales included."""


def cache_bytes(model: Model, cells: int, keys: int, values: int) -> int:
    """Size of the cache of `cells` tokens; 0 where the model's header does not tell, as with running states."""
    header = model.metadata
    architecture = header.get("general.architecture", "")

    def number(name: str, default: int = 0) -> int:
        value = header.get(f"{architecture}.{name}", "")
        return int(value) if value.isdecimal() else default

    heads = number("attention.head_count")
    if not heads:
        return 0
    width = number("embedding_length") // heads
    key_bits = number("attention.key_length", width) * BITS[keys]
    value_bits = number("attention.value_length", width) * BITS[values]
    return int(cells * number("block_count") * number("attention.head_count_kv", heads) * (key_bits + value_bits) / 8)


def available_bytes() -> int | None:
    """Memory that this process can still have; None where the system does not tell."""
    found = [_meminfo(), _control_group()]
    return min((n for n in found if n is not None), default=None)


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _control_group() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = (folder / "memory.max").read_text(), (folder / "memory.current").read_text()
    except OSError:
        return None
    return int(limit) - int(used) if limit.strip().isdecimal() else None
