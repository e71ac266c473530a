"""The weights of one GGUF file."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from draftproof.engine.libllama.errors import ModelRejected
from draftproof.engine.libllama.library import Library
from draftproof.engine.libllama.owner import Owner
from draftproof.engine.libllama.vocab import Vocab

MAGIC = b"GGUF"
TEXT_BYTES = 256
EAGLE = "eagle3"
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to load.

    mmap: map the file rather than copy it. extra_buffers: repack the weights for this processor; faster for long prompts,
    but the rows of a batch then differ from single rows. heads: load the multi-token-prediction blocks too. check: look
    for NaN and infinity in every tensor. gpu_layers: how many layers a graphics processor holds (-1: all). eagle: the file
    is an EAGLE-3 draft, which is no language model without its target.
    """

    mmap: bool = True
    extra_buffers: bool = False
    heads: bool = False
    check: bool = False
    gpu_layers: int = 0
    eagle: bool = False


class Model(Owner):
    """A loaded model. Facts are read from libllama, not from the options. Closing it closes its contexts first."""

    def __init__(
        self, library: Library, path: Path, options: ModelOptions = ModelOptions(), progress: Progress | None = None
    ) -> None:
        """`progress` is called with the share loaded, in [0, 1]; what it raises stops the loading and is raised here.

        Raises ModelRejected for a missing file, another format, an unknown architecture, a truncated file.
        """
        _refuse_other_formats(path)
        self.path = path
        self.options = options
        self._contexts: weakref.WeakSet[Owner] = weakref.WeakSet()
        super().__init__(library, _load(library, path, options, progress), library.lib.llama_model_free)
        self.vocab = Vocab(self)
        try:
            self._check_kind()
        except ModelRejected:
            self.close()
            raise

    def _check_kind(self) -> None:
        lib, path = self.library.lib, self.path
        is_eagle = self.metadata.get("general.architecture") == EAGLE
        if is_eagle and not self.options.eagle:
            raise ModelRejected(
                f"{path} is an EAGLE-3 draft: it works beside its target only.",
                "Name it with -md, and --spec-type draft-eagle3.",
            )
        if self.options.eagle:
            if not is_eagle:
                raise ModelRejected(
                    f"{path} is no EAGLE-3 draft.", "As an ordinary draft model: --spec-type draft-simple."
                )
            return
        if lib.llama_model_has_encoder(self.pointer) or not lib.llama_model_has_decoder(self.pointer):
            raise ModelRejected(f"{path} is not a decoder-only language model.")
        if lib.llama_model_is_diffusion(self.pointer):
            raise ModelRejected(f"{path} is a diffusion model: it has no law of the next token.")

    def adopt(self, context: Owner) -> None:
        """Closes `context` before the model."""
        self._contexts.add(context)

    def close(self) -> None:
        for context in list(self._contexts):
            context.close()
        super().close()

    @property
    def is_recurrent(self) -> bool:
        """Whether any of its memory is a running state rather than one cell for each token."""
        lib = self.library.lib
        return bool(lib.llama_model_is_recurrent(self.pointer) or lib.llama_model_is_hybrid(self.pointer))

    @property
    def trained_context(self) -> int:
        """Tokens that the model was trained to see at once."""
        return int(self.library.lib.llama_model_n_ctx_train(self.pointer))

    @property
    def width(self) -> int:
        """Length of a hidden row."""
        return int(self.library.lib.llama_model_n_embd(self.pointer))

    @property
    def output_width(self) -> int:
        """Length of the hidden rows that a prediction head takes."""
        return int(self.library.lib.llama_model_n_embd_out(self.pointer))

    @property
    def layers(self) -> int:
        return int(self.library.lib.llama_model_n_layer(self.pointer))

    @property
    def heads(self) -> int:
        """Multi-token-prediction blocks in the file, loaded or not."""
        return int(self.library.lib.llama_model_n_layer_nextn(self.pointer))

    @property
    def size_bytes(self) -> int:
        return int(self.library.lib.llama_model_size(self.pointer))

    @property
    def parameters(self) -> int:
        return int(self.library.lib.llama_model_n_params(self.pointer))

    @cached_property
    def description(self) -> str:
        """For people: architecture, size, quantisation."""
        return self._text(partial(self.library.lib.llama_model_desc, self.pointer))

    @cached_property
    def metadata(self) -> dict[str, str]:
        """The scalar values of the file's header, as text."""
        lib, pointer = self.library.lib, self.pointer
        count = lib.llama_model_meta_count(pointer)
        keys = [self._text(partial(lib.llama_model_meta_key_by_index, pointer, i)) for i in range(count)]
        values = [self._text(partial(lib.llama_model_meta_val_str_by_index, pointer, i)) for i in range(count)]
        return dict(zip(keys, values, strict=True))

    def chat_template(self, name: str | None = None) -> str | None:
        """The template of that name (None: the default one), or None when the file has none."""
        ffi = self.library.ffi
        text = self.library.lib.llama_model_chat_template(self.pointer, name.encode() if name else ffi.NULL)
        return None if text == ffi.NULL else ffi.string(text).decode(errors="replace")

    def _text(self, read: Callable[[Any, int], int]) -> str:
        ffi = self.library.ffi
        size = TEXT_BYTES
        while True:
            buffer = ffi.new("char[]", size)
            length = read(buffer, size)
            if length < size:
                return str(ffi.buffer(buffer, max(length, 0))[:].decode(errors="replace"))
            size = length + 1


def _refuse_other_formats(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise ModelRejected(f"{path} cannot be read: {error.strerror}.") from error
    if magic != MAGIC:
        raise ModelRejected(f"{path} is not a GGUF file: it begins with {magic!r}, not with {MAGIC!r}.")


def _go_on(progress: Progress, share: float, _: Any) -> bool:
    progress(share)
    return True


def _load(library: Library, path: Path, options: ModelOptions, progress: Progress | None) -> Any:
    ffi, lib = library.ffi, library.lib
    stopped: list[BaseException] = []

    def stop(_: Any, error: BaseException, __: Any) -> None:
        stopped.append(error)

    params = lib.llama_model_default_params()
    params.n_gpu_layers = options.gpu_layers
    params.load_mode = 1 if options.mmap else 0
    params.use_extra_bufts = options.extra_buffers
    params.check_tensors = options.check
    params.load_mtp = options.heads
    if progress is not None:
        callback = ffi.callback("llama_progress_callback", partial(_go_on, progress), error=False, onerror=stop)
        params.progress_callback = callback
    pointer = library.make(lib.llama_model_load_from_file, str(path).encode(), params)
    if stopped:
        if pointer != ffi.NULL:
            lib.llama_model_free(pointer)
        raise stopped[0]
    if pointer == ffi.NULL:
        raise ModelRejected(
            f"{path} does not load: {library.log.trouble() or 'libllama gives no reason'}.",
            f"Is the file whole, of a kind that {library.source} knows, and is there memory for it?",
        )
    return pointer
