from __future__ import annotations

import gc
import logging
from pathlib import Path

import pytest
from tests.engine.libllama.models import COUNTABLE, PROMPT, exact, model, read, rows, smollm2

from draftproof.engine.libllama import CacheType, Context, ContextOptions, Model, load_library, room
from draftproof.engine.libllama.errors import Closed, ContextRejected, ModelRejected
from draftproof.engine.libllama.logs import LOGGER, Log

pytestmark = pytest.mark.real


def test_facts_come_from_the_loaded_model() -> None:
    with model("target.gguf") as target:
        assert (target.vocab.size, target.width, target.heads, target.is_recurrent) == (8, 16, 0, False)
        assert target.trained_context == 4096
        assert target.metadata["general.name"] == "target"
        assert target.parameters > 0
        assert target.size_bytes > 0
        assert "F32" in target.description
        template = target.chat_template()
        assert template is not None
        assert "messages" in template
        assert target.chat_template("tool_use") is None


def test_long_metadata_is_not_cut() -> None:
    with Model(load_library(), smollm2()) as real:
        assert real.metadata["tokenizer.chat_template"] == real.chat_template()
        assert len(real.metadata["tokenizer.chat_template"]) > 256


@pytest.mark.parametrize("level", [logging.WARNING, logging.CRITICAL])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: b"", "not a GGUF file"),
        (lambda raw: b"PK\x03\x04" + raw[4:], "not a GGUF file"),
        (lambda raw: raw[:30], "does not load"),
        (lambda raw: raw[:2000], "does not load"),
        (lambda raw: raw[:-100], "does not load.*not within the file bounds"),
        (lambda raw: raw.replace(b"llama", b"lemma"), "does not load.*unknown model architecture: 'lemma'"),
        (lambda raw: raw.replace(b"blk.1.attn_q.weight", b"blk.1.attn_z.weight"), "does not load"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(
    tmp_path: Path, make: object, reason: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the application wants libllama's log or not."""
    assert callable(make)
    path = tmp_path / "model.gguf"
    path.write_bytes(make((COUNTABLE / "target.gguf").read_bytes()))
    with pytest.raises(ModelRejected, match=f"(?s){reason}"), caplog.at_level(level, LOGGER.name):
        Model(load_library(), path)


def test_the_log_of_a_load_is_heard_where_it_is_wanted_only(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    library = load_library()
    monkeypatch.setattr(Log, "write", lambda _, __, text: heard.append(text))
    for level, is_wanted in ((logging.CRITICAL, False), (logging.WARNING, True), (logging.CRITICAL, False)):
        heard.clear()
        path = COUNTABLE / "target.gguf"
        with caplog.at_level(level, LOGGER.name), Model(library, path) as target, Context(target, exact()):
            assert bool(heard) == is_wanted


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRejected, match="No such file"):
        Model(load_library(), tmp_path / "model.gguf")


def test_progress_is_told_and_can_stop_the_loading() -> None:
    seen: list[float] = []
    Model(load_library(), COUNTABLE / "target.gguf", progress=seen.append).close()
    assert seen == sorted(seen)
    assert seen[-1] == 1.0

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Model(load_library(), COUNTABLE / "target.gguf", progress=stop)


def test_what_was_closed_says_so() -> None:
    target = model("target.gguf")
    context = Context(target, exact())
    target.close()
    target.close()
    assert context.is_closed
    for use in (lambda: context.decode(rows(PROMPT)), lambda: context.length(0), lambda: target.vocab.tokenize("a")):
        with pytest.raises(Closed):
            use()


@pytest.mark.parametrize(
    "options",
    [
        exact(sequences=0),
        exact(sequences=257),
        exact(batch=0),
        exact(threads=0),
        exact(-1),
        exact(outputs=-1),
        exact(2**29, sequences=4),
    ],
)
def test_impossible_settings_are_refused(options: object) -> None:
    with model("target.gguf") as target, pytest.raises(ContextRejected):
        Context(target, options)  # type: ignore[arg-type]


def test_a_cache_that_does_not_fit_is_refused_before_the_system_kills_anyone(monkeypatch: pytest.MonkeyPatch) -> None:
    with model("target.gguf") as target:
        with pytest.raises(ContextRejected, match="GiB are available"):
            Context(target, exact(2**30))
        per_token = 2 * 16 * 2 * 4  # keys and values of 16 numbers, two blocks, four bytes
        assert room.cache_bytes(target, 1000, CacheType.F32, CacheType.F32) == 1000 * per_token
        monkeypatch.setattr(room, "available_bytes", lambda: 1024 * per_token - 1)
        with pytest.raises(ContextRejected):
            Context(target, exact(1024))
        monkeypatch.setattr(room, "available_bytes", lambda: None)
        Context(target, exact(1024)).close()


def test_the_size_of_a_cache_is_that_of_its_saved_state() -> None:
    with Model(load_library(), smollm2()) as real, Context(real, ContextOptions(tokens=256, outputs=1)) as context:
        context.decode(rows(list(range(50)), last=0))
        estimate = room.cache_bytes(real, 50, CacheType.F16, CacheType.F16)
        assert estimate == pytest.approx(len(context.save(0)), rel=0.01)


@pytest.mark.parametrize("close", [True, False])
def test_memory_is_given_back(close: bool) -> None:
    def use() -> None:
        target = model("target.gguf")
        context = Context(target, exact(16384))
        read(context, PROMPT)
        if close:
            target.close()

    def grown(times: int) -> int:
        before = resident_kib()
        for _ in range(times):
            use()
        gc.collect()
        return resident_kib() - before

    grown(20)
    assert grown(20) < 12 * 1024  # the caches alone would be 80 MiB


def test_memory_of_a_real_model_is_given_back() -> None:
    path = smollm2()

    def use() -> None:
        with Model(load_library(), path) as real:
            read(Context(real), [1, 2, 3])

    use()
    before = resident_kib()
    for _ in range(4):
        use()
    assert resident_kib() - before < 8 * 1024


def resident_kib() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system does not tell how much memory is resident")
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmRSS"))
