"""An EAGLE-3 draft as a backend of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from draftproof.engine.backend import check_vocabulary
from draftproof.engine.backends.llama import LlamaBackend
from draftproof.engine.backends.llama_follower import LlamaFollower, check_target
from draftproof.engine.libllama import Eagle, Model
from draftproof.engine.libllama.eagle import check_fit
from draftproof.engine.libllama.follower import check_build
from draftproof.engine.libllama.rehearsal import rehearse as rehearsed


class LlamaEagle(LlamaFollower):
    """The draft in `path` beside `target`, which shows it three of its layers from here on."""

    def __init__(self, target: LlamaBackend, path: Path, *, rehearse: bool = True) -> None:
        """`rehearse`: first lets another process try whether both work together, for libllama aborts where they do not.

        Raises UsageError for a draft of another model, ModelRejected, ContextRejected.
        """
        check_build(target.memory)
        check_target(target)
        self._draft = Model(target.model.library, path, replace(target.model.options, heads=False, eagle=True))
        try:
            check_fit(target.model, self._draft)
            check_vocabulary(target, self._draft.vocab.size, self._draft.vocab.fingerprint)
            if rehearse:
                rehearsed(target.model, self._draft)
            eagle = Eagle(target.memory, self._draft)
            target.listen(eagle.tap)
        except BaseException:
            self._draft.close()
            raise
        super().__init__(target, eagle)

    def close(self) -> None:
        self.target.listen(None)
        super().close()
        self._draft.close()
