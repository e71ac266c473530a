from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.libllama.models import model, smollm2

from draftproof.engine.backend import UnknownToken
from draftproof.engine.libllama import Grammar, Model, load_library
from draftproof.engine.libllama.errors import Closed, GrammarRejected

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def target() -> Iterator[Model]:
    with model("target.gguf") as loaded:
        yield loaded


def letters(grammar: Grammar) -> str:
    return "".join("abcdefgh"[i] for i in grammar.allowed().nonzero()[0])


def test_it_follows_the_accepted_tokens(target: Model) -> None:
    with Grammar.parse(target, 'root ::= "a" [bc] ("d" | "e")') as grammar:
        assert letters(grammar) == "a"
        grammar.accept(0)
        assert letters(grammar) == "bc"
        assert letters(grammar) == "bc"
        grammar.accept(2)
        assert list(grammar.allowed([3, 7, 4, 3])) == [True, False, True, True]
        grammar.accept(4)
        assert letters(grammar) == ""


def test_a_token_that_is_not_allowed_is_refused_and_changes_nothing(target: Model) -> None:
    with Grammar.parse(target, 'root ::= "a" "b"') as grammar:
        with pytest.raises(ValueError, match="does not allow token 1"):
            grammar.accept(1)
        for token in (-1, 8):
            with pytest.raises(UnknownToken):
                grammar.accept(token)
        assert letters(grammar) == "a"
        assert grammar.allowed([]).shape == (0,)


def test_a_clone_goes_its_own_way(target: Model) -> None:
    with Grammar.parse(target, 'start ::= "a" | "b" "c"', root="start") as grammar:
        copy = grammar.clone()
        copy.accept(1)
        assert (letters(grammar), letters(copy)) == ("ab", "c")
        copy.close()
        assert letters(grammar) == "ab"


@pytest.mark.parametrize(
    "text", ["", "  ", "root := a", 'start ::= "a"', 'root ::= "a\0"', "root ::= root", "root ::= other"]
)
def test_what_does_not_parse_is_refused(target: Model, text: str) -> None:
    with pytest.raises(GrammarRejected):
        Grammar.parse(target, text)


def test_a_finished_text_allows_the_end_only() -> None:
    with Model(load_library(), smollm2()) as real:
        vocab = real.vocab
        grammar = Grammar.parse(real, 'root ::= "yes" | "no"')
        starts = {vocab.piece(int(token)) for token in grammar.allowed().nonzero()[0]}
        assert {b"yes", b"no", b"y"} <= starts
        for token in vocab.tokenize("yes", add_special=False):
            grammar.accept(token)
        assert set(grammar.allowed().nonzero()[0]) == vocab.eog
        grammar.accept(min(vocab.eog))
    with pytest.raises(Closed):
        grammar.allowed([0])
