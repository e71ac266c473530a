"""A document is written as a whole, or what was there before stays."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from draftproof.cli.output import require_writable, write

LONG = "new " * 2000


@contextmanager
def room_for(size_bytes: int) -> Iterator[None]:
    """No file can become larger than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text("old")
    path.chmod(0o640)
    return path


def test_a_report_takes_the_place_of_an_earlier_one(report: Path) -> None:
    assert write(LONG, str(report), "the report")
    assert report.read_text() == LONG
    assert report.stat().st_mode & 0o777 == 0o640
    assert list(report.parent.iterdir()) == [report]


def test_a_report_for_which_there_is_no_room_leaves_the_earlier_one_whole(
    report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with room_for(100):
        assert not write(LONG, str(report), "the report")
    assert report.read_text() == "old"
    assert list(report.parent.iterdir()) == [report]
    assert f"the report could not be written to {report}: File too large" in capsys.readouterr().err


def test_a_link_stays_one(report: Path) -> None:
    link = report.with_name("latest.json")
    link.symlink_to(report)
    assert write(LONG, str(link), "the report")
    assert link.is_symlink()
    assert report.read_text() == LONG


def test_a_file_that_cannot_be_replaced_is_written_where_it_is(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    assert write(LONG, str(report), "the report")
    assert report.read_text() == LONG
    assert list(report.parent.iterdir()) == [report]


def test_asking_whether_a_file_can_be_written_changes_nothing(report: Path) -> None:
    require_writable(str(report))
    link = report.with_name("link.json")
    link.symlink_to("nothing.json")
    for name in ("new.json", "link.json"):
        require_writable(str(report.with_name(name)))
    assert report.read_text() == "old"
    assert sorted(report.parent.iterdir()) == [link, report]
