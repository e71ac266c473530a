"""The prediction head of a GGUF model as a backend of its own."""

from __future__ import annotations

from draftproof.engine.backends.llama import LlamaBackend
from draftproof.engine.backends.llama_follower import LlamaFollower, check_target
from draftproof.engine.libllama import Head
from draftproof.engine.libllama.errors import ContextRejected


class LlamaHead(LlamaFollower):
    """The head beside `target`, which must keep hidden rows (`LlamaOptions.hidden`, `ModelOptions.heads`)."""

    def __init__(self, target: LlamaBackend) -> None:
        """Raises ContextRejected when the model has no head, or the library none that is known to work."""
        if not target.options.hidden:
            raise ContextRejected("The target keeps no hidden rows for a prediction head.")
        check_target(target)
        super().__init__(target, Head(target.memory))
