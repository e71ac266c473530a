"""Serves a countable pair with the real llama-server of the wheel (pip install '.[all]') until Enter is pressed.

draftproof countable write pair
python examples/serve_pair.py pair                       the target alone
python examples/serve_pair.py pair --draft               with the draft, as llama-server does it by default
python examples/serve_pair.py pair --draft --broken      and with drafts accepted by coin toss, an option for benchmarks
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from draftproof.launch.llama_wheel import EXACT_NUMBERS, LlamaWheel, Option


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a countable pair with the real llama-server.")
    parser.add_argument("folder", type=Path, help="what `draftproof countable write` wrote")
    parser.add_argument("--draft", action="store_true", help="speculate with draft.gguf")
    parser.add_argument("--broken", action="store_true", help="accept drafts by coin toss (needs --draft)")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    arguments = parser.parse_args()
    options: dict[str, Option] = {**EXACT_NUMBERS, "port": arguments.port}
    if arguments.broken:
        options["speculative.synth_len"] = 2.5
    server = LlamaWheel(
        arguments.folder / "target.gguf",
        draft=arguments.folder / "draft.gguf" if arguments.draft else None,
        types=["draft-simple"] if arguments.draft else [],
        options=options,
    )
    with server:
        sys.stdout.write(f"listening on {server.url}; Enter stops it\n")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main()
