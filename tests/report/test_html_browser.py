"""The HTML report in a real browser: it renders, folds, follows its links, and runs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.reports import BROKEN_SERVER, evil, judged
from tests.server import browser
from tests.server.browser import Browser

from draftproof.report.html import report_html

pytestmark = pytest.mark.skipif(browser.PROGRAM is None, reason="there is no Chromium")

PHONE, DESK = 360, 1000
CHECK = "document.getElementById('check-sampling-distribution')"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, str, str]]:
    """A browser with the addresses of a report and of one full of text that would do harm."""
    folder: Path = tmp_path_factory.mktemp("pages")
    reports = {"report": judged(*BROKEN_SERVER), "evil": evil()}
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(report_html(report), encoding="utf-8")
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened, (folder / "report.html").as_uri(), (folder / "evil.html").as_uri()


def look(page: Browser, width: int, *, scheme: str = "light", media: str = "") -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.call("Emulation.setEmulatedMedia", media=media, features=features)


def test_report_renders_folds_and_follows_its_links(shown: tuple[Browser, str, str]) -> None:
    page, url, _ = shown
    look(page, DESK)
    page.open(url)
    flat = "[...document.querySelectorAll('figure svg')].filter(s => s.checkVisibility() && s.getBoundingClientRect().height < 100)"
    assert page.evaluate(f"{flat}.length") == 0
    assert page.evaluate(f"{CHECK}.open")
    page.evaluate(f"{CHECK}.querySelector('summary').click()")
    assert not page.evaluate(f"{CHECK}.open")
    page.evaluate("document.querySelector('nav a[href=\"#server\"]').click()")
    assert page.evaluate("location.hash") == "#server"
    assert page.evaluate("document.getElementById('server').getBoundingClientRect().top < 800")


def test_report_fits_a_phone(shown: tuple[Browser, str, str]) -> None:
    page, url, harmful = shown
    look(page, PHONE)
    for address in (url, harmful):
        page.open(address)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_colours_follow_the_scheme(shown: tuple[Browser, str, str]) -> None:
    page, url, _ = shown
    colours = []
    for scheme in ("light", "dark"):
        look(page, DESK, scheme=scheme)
        page.open(url)
        ask = "getComputedStyle({}).{}"
        text = "document.querySelector('figure svg text')"
        colours.append([
            page.evaluate(ask.format("document.documentElement", "backgroundColor")),
            page.evaluate(f"getComputedStyle({text}).fill"),
        ])  # fmt: skip
    assert colours == [["rgb(255, 255, 255)", "rgb(27, 29, 33)"], ["rgb(20, 22, 26)", "rgb(232, 234, 238)"]]


def test_what_is_folded_is_printed(shown: tuple[Browser, str, str]) -> None:
    page, url, _ = shown
    visible = "document.getElementById('check-self-report-speculation-observed').querySelector('dl').checkVisibility()"
    look(page, DESK)
    page.open(url)
    assert page.evaluate(visible) is False
    look(page, DESK, media="print")
    assert page.evaluate(visible) is True


def test_untrusted_text_runs_nothing_and_nothing_is_fetched(shown: tuple[Browser, str, str]) -> None:
    page, url, harmful = shown
    look(page, DESK)
    page.open(harmful)
    assert page.evaluate("document.querySelectorAll('script, img, iframe, i, b, object').length") == 0
    assert "<script>alert(1)</script>" in page.evaluate("document.body.innerText")
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    page.open(url)
    assert page.problems == []
