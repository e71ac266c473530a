from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.libllama.models import model, smollm2

from draftproof.core.errors import UsageError
from draftproof.engine.backend import UnknownToken
from draftproof.engine.libllama import Model, ModelOptions, Vocab, load_library

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def vocab() -> Iterator[Vocab]:
    with Model(load_library(), smollm2(), ModelOptions()) as real:
        yield real.vocab


@pytest.mark.parametrize(
    "text", ["Hello, world!", "naïve café — 🙂 日本語", " leading and trailing ", "a\nb\tc", "\0nul", ""]
)
def test_text_comes_back_from_its_tokens(vocab: Vocab, text: str) -> None:
    tokens = vocab.tokenize(text, add_special=False)
    assert vocab.detokenize(tokens).decode() == text
    assert b"".join(map(vocab.piece, tokens)).decode() == text


def test_a_token_may_be_part_of_a_letter(vocab: Vocab) -> None:
    pieces = [vocab.piece(token) for token in vocab.tokenize("𓀀", add_special=False)]
    assert len(pieces) > 1
    assert b"".join(pieces).decode() == "𓀀"


def test_control_tokens_are_text_or_tokens_as_asked(vocab: Vocab) -> None:
    end = "<|im_end|>"
    (token,) = vocab.tokenize(end, add_special=False, parse_special=True)
    assert len(vocab.tokenize(end, add_special=False)) > 1
    assert vocab.is_control(token)
    assert token in vocab.eog
    assert vocab.piece(token) == end.encode()
    assert vocab.piece(token, special=False) == b""
    assert vocab.detokenize([token]) == end.encode()
    assert vocab.detokenize([token], unparse_special=False) == b""


def test_the_longest_piece_is_whole(vocab: Vocab) -> None:
    pieces = [vocab.piece(token) for token in range(vocab.size)]
    assert vocab.detokenize(list(range(vocab.size))) == b"".join(pieces)


def test_special_tokens_are_none_where_there_are_none(vocab: Vocab) -> None:
    assert vocab.bos is not None
    assert vocab.eos is not None
    with model("target.gguf") as target:
        assert (target.vocab.bos, target.vocab.eos, target.vocab.eot) == (None, None, None)
        assert target.vocab.eog == frozenset()
        assert not target.vocab.adds_bos


@pytest.mark.parametrize("token", [-1, 49152, 2**40])
def test_an_unknown_token_is_refused(vocab: Vocab, token: int) -> None:
    for use in (vocab.piece, vocab.is_control, lambda token: vocab.detokenize([1, token])):
        with pytest.raises(UnknownToken):
            use(token)


def test_text_that_is_no_unicode_is_refused(vocab: Vocab) -> None:
    with pytest.raises(UsageError, match="no valid Unicode"):
        vocab.tokenize("a\ud800")


def test_the_fingerprint_tells_vocabularies_apart(vocab: Vocab) -> None:
    with model("target.gguf") as a, model("draft.gguf") as b, model("mtp-hy_v3-v10.gguf") as c:
        assert a.vocab.fingerprint == b.vocab.fingerprint
        assert len({a.vocab.fingerprint, c.vocab.fingerprint, vocab.fingerprint}) == 3
