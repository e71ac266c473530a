"""An open libllama whose structures are known to be read as it writes them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import cffi

from draftproof.engine.libllama import cdefs, logs
from draftproof.engine.libllama.carrier import REMEDY, Carrier
from draftproof.engine.libllama.cdefs import Layout
from draftproof.engine.libllama.errors import UnsupportedBuild
from draftproof.engine.libllama.openmp import wait_briefly

CONTEXT_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "type_k": 1,
    "type_v": 1,
    "embeddings": False,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
    "kv_unified": False,
    "n_samplers": 0,
}
MODEL_DEFAULTS = {
    "split_mode": 1,
    "main_gpu": 0,
    "vocab_only": False,
    "check_tensors": False,
    "use_extra_bufts": True,
    "no_host": False,
    "no_alloc": False,
    "load_mtp": False,
}
"""What every known build sets by default. In a wrong layout the booleans are read from the wrong place."""


@dataclass(frozen=True, slots=True)
class Library:
    """`lib` holds the C functions and `ffi` their types. `source` and `layout` say which build it is.

    NOTE: the functions are not safe against wrong arguments: libllama aborts the process. Only the owner classes of this
    package call them.
    """

    ffi: Any = field(repr=False)
    lib: Any = field(repr=False)
    source: str
    layout: str
    has_heads: bool
    log: logs.Log = field(repr=False)
    ear: logs.Ear = field(repr=False)

    @property
    def version(self) -> str:
        """libllama's own version string. It does not tell builds apart."""
        return str(self.ffi.string(self.lib.llama_version()).decode())

    @property
    def system(self) -> str:
        """The instruction sets that the library was built for."""
        return str(self.ffi.string(self.lib.llama_print_system_info()).decode()).strip(" |")

    def make(self, function: Any, *arguments: Any) -> Any:
        """The pointer that `function` gives. Where it is NULL, `log.trouble` has the reason.

        Where nobody wants the log, the thousands of lines of a success are not heard; a failure is tried once more, to hear why.
        """
        self.log.forget()
        if not logs.LOGGER.isEnabledFor(logging.WARNING):
            self.ear.close()
            try:
                made = function(*arguments)
            finally:
                self.ear.open()
            if made != self.ffi.NULL:
                return made
        return function(*arguments)


def open_carrier(carrier: Carrier) -> Library:
    """Loads the shared library, finds its layout and silences its log. Raises UnsupportedBuild."""
    wait_briefly()
    layout, ffi = _find_layout(carrier)
    lib = ffi.dlopen(str(carrier.path))
    missing = [name for name in cdefs.REQUIRED if not hasattr(lib, name)]
    if missing:
        raise UnsupportedBuild(f"{carrier.source} lacks {', '.join(missing)}.", REMEDY)
    log = logs.Log()
    ear = logs.Ear(ffi, lib, log)
    lib.llama_backend_init()
    has_heads = carrier.has_heads and all(hasattr(lib, name) for name in cdefs.HEAD)
    return Library(ffi, lib, carrier.source, layout.name, has_heads, log, ear)


def _find_layout(carrier: Carrier) -> tuple[Layout, Any]:
    probe = cffi.FFI()
    probe.cdef(cdefs.PROBE)
    try:
        lib: Any = probe.dlopen(str(carrier.path))
        of_model = probe.new("blob *", lib.llama_model_default_params())
        of_context = probe.new("blob *", lib.llama_context_default_params())
    except (OSError, AttributeError) as error:
        raise UnsupportedBuild(f"{carrier.source} cannot be used as a libllama: {error}", REMEDY) from error
    for layout in cdefs.LAYOUTS:
        ffi: Any = cffi.FFI()
        ffi.cdef(cdefs.declarations(layout))
        model = ffi.cast("struct llama_model_params *", of_model)
        context = ffi.cast("struct llama_context_params *", of_context)
        if _has(model, MODEL_DEFAULTS) and _has(context, CONTEXT_DEFAULTS) and context.ctx_other == ffi.NULL:
            return layout, ffi
    known = ", ".join(layout.name for layout in cdefs.LAYOUTS)
    raise UnsupportedBuild(
        f"{carrier.source} is a build of llama.cpp with unknown structures; the builds around {known} are known.",
        REMEDY,
    )


def _has(params: Any, expected: dict[str, int]) -> bool:
    return all(getattr(params, name) == value for name, value in expected.items())
