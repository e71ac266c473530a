"""A server that is told to end while a part of a prompt is read, which may take seconds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import httpx2

from draftproof.countable.catalogue import named
from draftproof.engine.backend import Feed, Rows
from draftproof.engine.backends.law import LawBackend
from draftproof.engine.slot import Models
from draftproof.server.load import load_table
from draftproof.server.run import Background


class _Endless(LawBackend):
    """Reads until it is told to give up."""

    def __init__(self) -> None:
        pair = named("story")
        super().__init__(pair.target_logits, pair.vocabulary, "")
        self.vocabulary = f"letters {pair.alphabet}"
        self.reads, self.abandoned = threading.Event(), threading.Event()

    def extend(self, feeds: Sequence[Feed]) -> list[Rows]:
        self.reads.set()
        if not self.abandoned.wait(20):
            return super().extend(feeds)
        raise RuntimeError("aborted")


def test_what_is_being_read_is_given_up_and_the_client_is_told() -> None:
    target = _Endless()
    served = replace(load_table("story"), models=Models(target, abandon=target.abandoned.set))
    answers: list[httpx2.Response] = []
    with Background(served) as server:
        body = {"prompt": "abc", "n_predict": 4}
        asking = threading.Thread(
            target=lambda: answers.append(httpx2.post(f"{server.url}/completion", json=body, timeout=60))
        )
        asking.start()
        assert target.reads.wait(20)
    asking.join()
    assert target.abandoned.is_set()
    assert (answers[0].status_code, "shutting down" in answers[0].text) == (503, True)
