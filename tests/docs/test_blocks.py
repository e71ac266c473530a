from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.blocks import Block, blocks, is_open, matches, run

PAGE = """
<!-- run -->

```console
$ printf 'a\\nb 1.5\\nc\\n'; (exit 3)
a
...
$ echo $?
3
```

```console
$ not marked
```

<!-- run: draft -->
```console
$ echo one \\
    two
one two
```
"""


def test_marked_blocks_are_found_with_their_commands() -> None:
    first, second = blocks(PAGE)
    assert (first.mode, second.mode) == ("", "draft")
    assert second.steps == (("echo one \\\n    two", "one two\n"),)


@pytest.mark.parametrize(
    ("begun", "whole"),
    [
        ("cat \\", "cat \\\n  x"),
        ("cat <<'END'\nx", "cat <<'END'\nx\nEND"),
        ("echo 'a", "echo 'a\n'"),
        ('echo "', 'echo "\nb"'),
    ],
)
def test_a_command_goes_on_while_something_is_open(begun: str, whole: str) -> None:
    assert is_open(begun)
    assert not is_open(whole)


def test_a_block_runs_in_one_shell(tmp_path: Path) -> None:
    for block in blocks(PAGE):
        run(block, tmp_path)


def test_another_output_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the page shows"):
        run(Block("", (("echo a", "b\n"),)), tmp_path)


@pytest.mark.parametrize(
    ("shown", "seen", "exact", "loose"),
    [
        ("a 1\n", "a 1\n", True, True),
        ("n  -1.25, 3e-07 x\n", "n  -100.5, 17 x\n", False, True),
        ("a ... b\n", "a c d b\n", True, True),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True, True),
        ("a  1 b\n", "a      12 b\n", False, True),
        ("FAIL  x\n", "pass  x\n", False, False),
        ("a\n", "a\nb\n", False, False),
    ],
)
def test_what_may_differ(shown: str, seen: str, exact: bool, loose: bool) -> None:
    assert matches(shown, seen, exact=True) is exact
    assert matches(shown, seen, exact=False) is loose
