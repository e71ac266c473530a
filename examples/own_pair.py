"""Writes a countable pair of another size than the built-in one: a target of ten letters and a draft that is a noisy copy.

python examples/own_pair.py mine
draftproof countable law mine --prompt abc
"""

from __future__ import annotations

import sys
from pathlib import Path

from draftproof.countable import gguf
from draftproof.countable.weights import Architecture, noisy, random_weights

ALPHABET = "abcdefghij"
SHAPE = Architecture(vocabulary=len(ALPHABET), width=16, blocks=1, heads=4, kv_heads=2, hidden=32)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    target = random_weights(SHAPE, seed=1)
    gguf.write(folder / "target.gguf", "mine", ALPHABET, SHAPE, target)
    gguf.write(folder / "draft.gguf", "mine-draft", ALPHABET, SHAPE, noisy(target, 0.7, seed=2))


if __name__ == "__main__":
    main()
