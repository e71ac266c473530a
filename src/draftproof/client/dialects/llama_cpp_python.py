"""llama-cpp-python's own server: OpenAI's routes with llama.cpp's sampler names, text in and out.

It gives logprobs only where it was started with logits_all, by OpenAI's old parallel lists, any number of alternatives.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.client.described import owner
from draftproof.client.dialect import Survey
from draftproof.client.dialects.openai import OpenAI
from draftproof.client.openai_ask import LLAMA, Names


@dataclass(frozen=True, slots=True)
class LlamaCppPython(OpenAI):
    """`n` is ignored, so there are no batches; nor does it say anything of its speculation.

    No grammar is sent: one that no token can fulfil ends its whole process (seen in 0.3.36).
    """

    name: str = "llama_cpp_python"
    paths: tuple[str, ...] = ()
    names: Names = LLAMA

    def recognise(self, survey: Survey) -> str:
        return "/v1/models says owned_by me" if owner(survey) == "me" else ""


DIALECT = LlamaCppPython()
