"""Multi-token-prediction heads: a block of the model that guesses on from the model's own hidden rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from draftproof.engine.libllama.context import Context
from draftproof.engine.libllama.errors import ContextRejected
from draftproof.engine.libllama.follower import Follower, Hidden, hidden_rows, put_out_hidden_rows


class OutputTap:
    """What the model puts out after its last block: what its own head reads."""

    def open(self, context: Context) -> None:
        put_out_hidden_rows(context)

    def rows(self, context: Context, counts: Sequence[int]) -> list[Hidden]:
        return np.split(hidden_rows(context, sum(counts)).copy(), np.cumsum(counts)[:-1])


class Head(Follower):
    """The prediction head of a target context's model, with a memory of its own for as many sequences."""

    def __init__(self, target: Context) -> None:
        """Makes `target` put out hidden rows.

        Raises ContextRejected when the model has no head, was loaded without it (`ModelOptions.heads`), or the build is not
        the one that heads are known to work with.
        """
        model = target.model
        if not model.heads:
            raise ContextRejected(f"{model.path} has no prediction head.")
        if not model.options.heads:
            raise ContextRejected(f"{model.path} was loaded without its prediction head.")
        put_out_hidden_rows(target)
        context = Context(model, replace(target.options, tokens=target.tokens), beside=target)
        put_out_hidden_rows(context, masked=True)
        super().__init__(context, model.output_width)
