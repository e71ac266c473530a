"""`draftproof serve` as a process: what it says, how it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf
import httpx2
import numpy as np
import pytest
from benches.gguf_like import write_like
from click import Context, Option
from click.testing import CliRunner

from draftproof.cli.main import cli
from draftproof.cli.serve_options import default_threads, slot_context
from draftproof.countable.files import write_pair
from draftproof.launch.own_server import OwnServer

FIXED = ("--no-spec-adaptive",)
OTHER = Path(__file__).parent.parent / "data" / "countable-independent" / "mtp-hy_v3-v10.gguf"
EAGLE = OTHER.with_name("eagle-draft.gguf")
COMMAND = [sys.executable, "-m", "draftproof", "serve"]


@contextmanager
def started(*flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """URL and process of a server; it is killed if it has not ended by itself."""
    command = [*COMMAND, "--port", "0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("draftproof serves http://127.0.0.1:"), line
        yield line.split()[-1], process
    finally:
        process.kill()
        process.communicate()


def until_it_says(process: subprocess.Popen[str], words: str) -> str:
    """Standard error up to the line with these words."""
    assert process.stderr is not None
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_middle_of_a_stream_is_a_clean_end(number: signal.Signals) -> None:
    with started("--table", "countable-8", "-c", "8000", "--seed", "1") as (url, process):
        body = {"prompt": "bcdbc", "n_predict": 8000, "stream": True, "n_probs": 2}
        with httpx2.stream("POST", f"{url}/completion", json=body, timeout=20) as stream:
            lines = (line for line in stream.iter_lines() if line)
            next(lines)
            sent = time.monotonic()
            process.send_signal(number)
            last = list(lines)[-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == 503
        process.wait(timeout=5)
        assert time.monotonic() - sent < 3
        assert process.returncode == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_flags_reach_the_answers() -> None:
    flags = [
        "--spec-draft-n-max",
        "5",
        "--spec-draft-sampling",
        "greedy",
        "--temp",
        "0.25",
        "--alias",
        "mine",
        "-np",
        "3",
    ]
    with started("--table", "story", *flags) as (url, process):
        props = httpx2.get(f"{url}/props").json()
        assert props["default_generation_settings"]["params"]["temperature"] == 0.25
        assert (props["model_alias"], props["total_slots"]) == ("mine", 3)
        told = httpx2.post(f"{url}/completion", json={"prompt": "abc", "n_predict": 9}).json()["speculation"]
        assert told["effective"] == {"types": ["draft-simple"], "rule": "match", "n_max": 5, "strict": False}
        process.terminate()
        process.wait(timeout=5)


def test_command_lines_of_llama_server_are_taken(tmp_path: Path) -> None:
    """What is so anyway is passed over in silence, what has no effect is told, and what samplers are to do is done."""
    (tmp_path / "template.jinja").write_text("{{ messages[0].content }}{{ more }}")
    as_it_is = ["--no-warmup", "--metrics", "--jinja", "-cb", "--no-context-shift", "-ngl", "all", "--slots"]
    nothing = [
        "-ub",
        "512",
        "--mlock",
        "-tb",
        "2",
        "-kvu",
        "-ngld",
        "9",
        "--timeout",
        "600",
        "-lv",
        "3",
        "--numa",
        "distribute",
    ]
    sampling = ["--samplers", "top_k;temperature", "--presence-penalty", "0.4", "--dry-multiplier", "0.5"]
    sampling += [
        "--dry-sequence-breaker",
        "a",
        "--dry-sequence-breaker",
        "b",
        "--ignore-eos",
        "--seed",
        "7",
        "--mirostat-ent",
        "3",
    ]
    template = ["--chat-template-file", str(tmp_path / "template.jinja"), "--chat-template-kwargs", '{"more": "bc"}']
    command = ("--table", "story", *as_it_is, *nothing, *sampling, *template, "--api-key", "one,two")
    with started(*command) as (url, process):
        keys = [{"Authorization": f"Bearer {key}"} for key in ("one", "two", "one,two")]
        answers = [
            httpx2.post(f"{url}/completion", json={"prompt": "abc", "n_predict": 3}, headers=key) for key in keys
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 401]
        found = answers[0].json()["generation_settings"]
        assert (found["samplers"], found["presence_penalty"]) == (["top_k", "temperature"], 0.4)
        assert (found["dry_multiplier"], found["dry_sequence_breakers"]) == (0.5, ["a", "b"])
        assert (found["ignore_eos"], found["seed"], found["mirostat_tau"]) == (True, 7, 3.0)
        assert answers[0].json()["content"] == answers[1].json()["content"]
        messages = {"messages": [{"role": "user", "content": "a"}]}
        assert httpx2.post(f"{url}/apply-template", json=messages, headers=keys[0]).json() == {
            "prompt": "abc",
            "ignored": [],
        }
        told = messages | {"chat_template_kwargs": {"more": "d"}}
        assert httpx2.post(f"{url}/apply-template", json=told, headers=keys[0]).json() == {
            "prompt": "ad",
            "ignored": [],
        }
        props = httpx2.get(f"{url}/props", headers=keys[0]).json()
        assert props["default_generation_settings"]["params"]["seed"] == 7
        process.terminate()
        assert process.stderr is not None
        said = process.stderr.readline()
    names = (
        "--kv-unified, --log-verbosity, --mlock, --numa, --spec-draft-ngl, --threads-batch, --timeout, --ubatch-size"
    )
    assert said == f"without effect here: {names}\n"


def test_what_is_being_made_can_be_kept_back() -> None:
    with started("--table", "story", "--no-slots", "--sampler-seq", "kt") as (url, _):
        assert httpx2.get(f"{url}/slots").json()["error"]["code"] == 501
        props = httpx2.get(f"{url}/props").json()
        assert props["endpoint_slots"] is False
        assert props["default_generation_settings"]["params"]["samplers"] == ["top_k", "temperature"]
        assert props["default_generation_settings"]["params"]["seed"] == 0xFFFF_FFFF


@pytest.mark.real
def test_a_grammar_holds_for_answers_that_ask_for_none(pair: Path) -> None:
    files = ("-m", str(pair / "target.gguf"), "-md", str(pair / "draft.gguf"))
    with started(*files, "--grammar", 'root ::= ("ab" | "ba")+') as (url, _):
        asked = {"prompt": "abc", "n_predict": 20, "seed": 3, "temperature": 1.0, "speculative.adaptive": False}
        answers = [httpx2.post(f"{url}/completion", json=asked | more).json() for more in ({}, {"grammar": ""})]
        assert answers[0]["speculation"]["drafted"] > 0
        assert len(answers[0]["content"]) >= 18
        assert set(re.findall("..", answers[0]["content"])) <= {"ab", "ba"}
        assert not set(answers[1]["content"]) <= set("ab")
    assert "The grammar does not parse" in refused(*files, "--grammar", "root ::= (")


@pytest.mark.real
def test_a_file_with_values_that_are_no_numbers_can_be_refused(pair: Path, tmp_path: Path) -> None:
    old = gguf.GGUFReader(pair / "target.gguf")
    tensors = [(tensor.name, np.array(tensor.data), None) for tensor in old.tensors]
    tensors[0][1].flat[3] = np.nan
    damaged = str(write_like(old, tmp_path / "damaged.gguf", tensors, {}))
    assert "has invalid data" in refused("-m", damaged, "--port", "0", "--check-tensors")


def refused(*flags: str) -> str:
    """What the command says before it ends with exit code 2."""
    result = CliRunner().invoke(cli, ["serve", *flags])
    assert result.exit_code == 2, result.output
    return result.output


def test_a_taken_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run([*COMMAND, "--table", "story", "--port", str(port)], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"Port {port} of 127.0.0.1 is taken." in done.stderr
    assert "--port 0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "Name one model"),
        (["--table", "story", "-m", "x.gguf"], "Name one model"),
        (["--table", "nonsense"], 'no countable model "nonsense"'),
        (["--table", "story", "--spec-type", "nonsense"], 'no drafter "nonsense"'),
        (["--table", "story", "--top-p", "-1"], "top_p"),
        (["--table", "story", "--spec-draft-n-max", "-1"], "n_max"),
        (["--table", "story", "--spec-draft-p-min", "7"], "p_min"),
        (["--table", "story", "--host", "no.such.host.invalid"], "no address"),
        (["--table", "story", "--api-key-file", "nowhere"], "nowhere cannot be read"),
        (["--table", "story", "--chat-template-file", "nowhere"], "nowhere cannot be read"),
        (["--table", "story", "--chat-template", "chatml"], "is no Jinja template"),
        (["--table", "story", "--chat-template-kwargs", "[]"], "must be a JSON object"),
        (["--table", "story", "--samplers", "top_k;nix"], "unknown sampler nix"),
        (["--table", "story", "--sampler-seq", "kz"], "unknown sampler letters 'z'"),
        (["--table", "story", "--samplers", "top_k", "--sampler-seq", "k"], "name one of them"),
        (["--table", "story", "--grammar", 'root ::= "a"'], "Grammars are not supported"),
        (["--table", "story", "--grammar", "x", "-j", "{}"], "Name one of --grammar, --json-schema."),
        (["--table", "story", "-j", "{"], "no JSON"),
        (["--table", "story", "--grammar-file", "nowhere"], "nowhere cannot be read"),
    ],
)
def test_wrong_flags_are_told(flags: list[str], words: str) -> None:
    command = [*COMMAND, "--port", "0", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_chat_template_is_told_at_start(tmp_path: Path) -> None:
    (tmp_path / "broken.jinja").write_text("{% for %}")
    command = [*COMMAND, "--port", "0", "--table", "story", "--chat-template-file", str(tmp_path / "broken.jinja")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "The chat template is broken" in done.stderr


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with target.gguf and draft.gguf, and files that are like a model, but none."""
    folder = tmp_path_factory.mktemp("pair")
    target, _, _ = write_pair(folder)
    whole = target.read_bytes()
    (folder / "none.gguf").write_text("hello")
    (folder / "cut.gguf").write_bytes(whole[:10_000])
    (folder / "begun.gguf").write_bytes(b"GGUF")
    (folder / "odd.gguf").write_bytes(whole.replace(b"llama", b"lxama"))
    return folder


@pytest.mark.real
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-m", "missing.gguf"], "cannot be read: No such file"),
        (["-m", "."], "cannot be read: Is a directory"),
        (["-m", "none.gguf"], "is not a GGUF file"),
        (["-m", "begun.gguf"], "does not load"),
        (["-m", "cut.gguf"], "corrupted or incomplete"),
        (["-m", "odd.gguf"], "unknown model architecture: 'lxama'"),
        (["-m", "target.gguf", "-md", "cut.gguf"], "cut.gguf does not load"),
        (["-m", "target.gguf", "-md", str(OTHER)], "The draft model has 10 tokens, the target 8."),
        (["-m", "target.gguf", "--spec-type", "draft-mtp"], "has no prediction head"),
        (["-m", "target.gguf", "--spec-type", "draft-simple"], "Name one with -md."),
        (["-m", "target.gguf", "--spec-type", "draft-eagle3"], "Name one with -md."),
        (["-m", "target.gguf", "-md", "draft.gguf", "--spec-type", "draft-eagle3"], "is no EAGLE-3 draft"),
        (
            ["-m", "target.gguf", "-md", str(EAGLE), "--spec-type", "draft-eagle3"],
            "reads the layers 1, 2, 3 of its target",
        ),
        (["-m", "target.gguf", "-md", str(EAGLE)], "--spec-type draft-eagle3"),
        (["-m", "target.gguf", "-md", str(EAGLE), "--spec-type", "draft-eagle3,draft-simple"], "Choose one of them"),
        (["-m", "target.gguf", "-md", str(EAGLE), "--spec-type", "draft-eagle3,draft-mtp"], "Choose one of them"),
        (["-m", "target.gguf", "-ctk", "f7"], 'no cache type "f7"'),
        (["-m", "target.gguf", "-c", "100000000000"], "expected at most 2147418112"),
    ],
)
def test_files_that_cannot_be_served_are_told(
    flags: list[str], words: str, pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pair)
    assert words in refused("--port", "0", *flags)


@pytest.mark.real
def test_it_says_at_the_start_what_speculates_and_why_what_was_asked_for_does_not(pair: Path) -> None:
    """Drafting one token of these models costs as much as reading several: no draft can pay."""
    flags = ("-m", str(pair / "target.gguf"), "-md", str(pair / "draft.gguf"), "--spec-type", "draft-simple")
    for more, spoken, refused in (
        ((), "speculation: none by default", True),
        (FIXED, "speculation: draft-simple; ", False),
    ):
        with started(*flags, *more) as (_, process):
            said = until_it_says(process, "speculation: ") + (until_it_says(process, "is not used") if refused else "")
        assert spoken in said
        assert ("draft-simple is not used: not even drafts that are accepted whole would pay" in said) == refused
        assert ("--no-spec-adaptive" in said and '"speculative.adaptive": false' in said) == refused


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ((), "speculation: none, unless a request asks for it"),
        (("--spec-type", "ngram-mod"), "speculation: ngram-mod; rule auto"),
        (
            ("--spec-type", "ngram-mod", "--spec-rule", "match", "--strict"),
            "rule match; lengths as they pay; only rows",
        ),
    ],
)
def test_what_speculates_is_told_in_one_line(flags: tuple[str, ...], line: str) -> None:
    with started("--table", "story", *(flags or ("--spec-type", "none"))) as (_, process):
        said = until_it_says(process, "speculation: ")
        process.terminate()
        _, more = process.communicate(timeout=10)
    assert line in said
    assert len((said + more).splitlines()) == 1


def test_every_flag_has_a_word_of_help() -> None:
    flags = [p for p in cli.get_command(Context(cli), "serve").params if isinstance(p, Option) and not p.hidden]  # type: ignore[union-attr]
    assert [p.name for p in flags if not p.help] == []


@pytest.mark.parametrize(
    ("modules", "later"),
    [
        ("draftproof.cli.serve", "numpy"),  # how many threads it has is settled first
        ("draftproof.server.load_llama, draftproof.server.speculating", "pydantic"),
        ("draftproof.server.load_llama, draftproof.server.speculating", "starlette"),
    ],
)
def test_what_takes_long_to_import_is_not_imported_before_its_time(modules: str, later: str) -> None:
    """The web framework's is while a model loads."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {modules}, sys; print({later!r} in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


@pytest.mark.real
def test_a_signal_ends_a_stream_that_nobody_reads(pair: Path) -> None:
    flags = ("-m", pair / "target.gguf", "-md", pair / "draft.gguf", "--no-spec-adaptive", "-c", 8000)
    with OwnServer(*flags) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**14)
        connection.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        content = json.dumps({"prompt": "bcdbc", "n_predict": 4000, "n_probs": 3, "stream": True}).encode()
        head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content)
        connection.recv(100)
        began = time.monotonic()
        server.stop()  # raises for another exit code than 0
        assert time.monotonic() - began < 10


def test_context_is_shared_by_the_slots() -> None:
    assert slot_context(8192, 4) == 2048
    assert slot_context(None, 4) == 4096
    assert slot_context(0, 4) == 0
    assert default_threads() >= 1
