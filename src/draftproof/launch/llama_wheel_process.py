"""The child process of `LlamaWheel`: sets the parameters, starts the server, says where it listens, waits for its input to end."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_ENUMS = {
    "flash_attn_type": ("llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_"),
    "cache_type_k": ("ggml_type", "GGML_TYPE_"),
    "cache_type_v": ("ggml_type", "GGML_TYPE_"),
    "types": ("common_speculative_type", "COMMON_SPECULATIVE_TYPE_"),
}


def _value(library: Any, field: str, value: Any) -> Any:
    if field not in _ENUMS:
        return value
    enum, prefix = _ENUMS[field]
    if isinstance(value, list):
        return [_value(library, field, v) for v in value]
    return getattr(getattr(library, enum), prefix + value.upper().replace("-", "_"))


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    for name, value in json.loads(sys.argv[1]).items():
        *path, field = name.split(".")
        owner: Any = params
        for part in path:
            owner = getattr(owner, part)
        if not hasattr(owner, field):
            raise SystemExit(f"this build of llama-server has no parameter {name}")
        setattr(owner, field, _value(xllamacpp, field, value))
    server = xllamacpp.Server(params)
    sys.stdout.write(f"listening {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)  # the server's threads have no orderly end; nothing of value is lost


if __name__ == "__main__":
    main()
