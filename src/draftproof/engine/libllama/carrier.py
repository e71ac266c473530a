"""Where a libllama may lie on this machine. Knows paths and package versions, nothing of what is inside.

Order: the file that DRAFTPROOF_LIBLLAMA names, the `xllamacpp` wheel (its extension module exports libllama's functions;
it is never imported), the library that `llama-cpp-python` built.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from draftproof.engine.libllama.errors import LibraryMissing, UnsupportedBuild

VARIABLE = "DRAFTPROOF_LIBLLAMA"
PINNED = "2026.10.11549"
LLAMA_CPP_PYTHON = "0.3.36"
REMEDY = f"Run: pip install 'xllamacpp=={PINNED}', or let {VARIABLE} name a libllama."


@dataclass(frozen=True, slots=True)
class Carrier:
    """A file that should hold libllama. `source` names it for people; `has_heads`: its prediction-head calls were tested."""

    path: Path
    source: str
    has_heads: bool = False


def find() -> Carrier:
    """The first libllama of the search order. Raises LibraryMissing, or UnsupportedBuild for another version of a package."""
    for look in (_from_variable, _from_xllamacpp, _from_llama_cpp_python):
        carrier = look()
        if carrier is not None:
            return carrier
    raise LibraryMissing("There is no libllama on this machine.", REMEDY)


def _from_variable() -> Carrier | None:
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    path = Path(value)
    if not path.is_file():
        raise LibraryMissing(f"{VARIABLE} names {value}, which is no file.", f"Unset it, or correct it. {REMEDY}")
    return Carrier(path, str(path))


def _from_xllamacpp() -> Carrier | None:
    return _from_package("xllamacpp", "xllamacpp", PINNED, lambda folder: folder.glob("xllamacpp.*.so"), has_heads=True)


def _from_llama_cpp_python() -> Carrier | None:
    names = ("libllama.so", "libllama.dylib", "llama.dll")
    return _from_package(
        "llama_cpp", "llama-cpp-python", LLAMA_CPP_PYTHON, lambda folder: (folder / "lib" / name for name in names)
    )


def _from_package(
    module: str, package: str, version: str, files: Callable[[Path], Iterable[Path]], *, has_heads: bool = False
) -> Carrier | None:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    found = importlib.metadata.version(package)
    if found != version:
        raise UnsupportedBuild(
            f"{package} {found} is installed; the structures of {version} are known.",
            f"Run: pip install '{package}=={version}', or let {VARIABLE} name a libllama.",
        )
    for folder in spec.submodule_search_locations:
        for path in files(Path(folder)):
            if path.is_file():
                return Carrier(path, f"{package} {found}", has_heads)
    return None
