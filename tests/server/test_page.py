"""The page, in a real browser: tokens arrive coloured by origin, with their numbers; untrusted text stays text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.server import browser
from tests.server.browser import Browser
from tests.server.loopback import DRAFT

from draftproof.server.app import Access
from draftproof.server.load import load_table
from draftproof.server.run import Background, Options
from draftproof.server.served import Defaults
from draftproof.server.vocabulary import Letters

pytestmark = pytest.mark.skipif(browser.PROGRAM is None, reason="there is no Chromium")

EVIL = ["<img src=x onerror=alert(1)>", "<script>alert(2)</script>", "&lt;b&gt;", '"', "\n", "é", "</div>", "h"]


class Evil(Letters):
    """Tokens that would do harm if a page took them for markup."""

    def __init__(self) -> None:
        super().__init__([letter.encode() for letter in "abcdefgh"])
        self._pieces = [text.encode() for text in EVIL]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, str]]:
    served = replace(load_table("story", Defaults(speculation=DRAFT)), vocabulary=Evil(), name="<b>story</b>")
    folder: Path = tmp_path_factory.mktemp("browser")
    options = Options(slots=2, access=Access(keys=["secret"]))
    with Background(served, options) as server, Browser(folder) as opened:
        opened.open(server.url)
        opened.evaluate("at('key').value = 'secret'; at('key').dispatchEvent(new Event('change'))")
        opened.wait_for("at('model').textContent !== ''")
        yield opened, server.url


def run(page: Browser, **fields: Any) -> None:
    for name, value in fields.items():
        page.evaluate(f"at({name!r}).value = {value!r}")
    page.evaluate("at('form').requestSubmit()")
    page.wait_for("!at('go').disabled && at('numbers').textContent.includes('drafter')")


def test_tokens_are_coloured_by_origin_and_counted(page: tuple[Browser, str]) -> None:
    shown, _ = page
    run(shown, prompt="bcdbc", n_predict="60", seed="3", temperature="1")
    kinds = shown.evaluate("[...document.querySelectorAll('#text span')].map(s => s.className)")
    assert len(kinds) == 60
    assert set(kinds) == {"plain", "accepted", "recovered", "bonus"}
    told = shown.evaluate("at('numbers').innerText").split()
    assert told[told.index("accepted") + 1] == str(kinds.count("accepted"))
    assert "draft token 3" in shown.evaluate("at('positions').innerText")
    colours = shown.evaluate(
        "['accepted', 'recovered', 'bonus'].map(k => getComputedStyle(document.querySelector('#text .' + k)).backgroundColor)"
    )
    assert len(set(colours)) == 3


def test_pointing_at_a_token_shows_its_alternatives(page: tuple[Browser, str]) -> None:
    shown, _ = page
    run(shown, prompt="bcdbc", n_predict="8", seed="3", n_probs="3")
    point = "document.querySelectorAll('#text span')[2].dispatchEvent(new PointerEvent('pointerenter'))"
    shown.evaluate(point)
    assert "logprob -" in shown.evaluate("at('token').textContent")
    assert shown.evaluate("document.querySelectorAll('#alternatives tr').length") >= 3
    assert shown.evaluate("document.querySelectorAll('#alternatives tr.taken').length") == 1


def test_untrusted_text_stays_text(page: tuple[Browser, str]) -> None:
    shown, _ = page
    run(shown, prompt="abcdefgh", n_predict="200", seed="5", temperature="2")
    for i in range(0, 200, 7):
        shown.evaluate(f"document.querySelectorAll('#text span')[{i}].click()")
    text = shown.evaluate("at('text').textContent")
    assert EVIL[0] in text
    assert EVIL[1] in text
    assert shown.evaluate("document.querySelectorAll('img, #text script, b').length") == 0
    assert shown.evaluate("at('model').textContent").startswith("<b>story</b>")


def test_an_answer_can_be_stopped_and_errors_are_shown(page: tuple[Browser, str]) -> None:
    shown, _ = page
    stop = "document.querySelectorAll('#text span').length > 5 && at('stop').click()"
    shown.evaluate(f"window.watcher = new MutationObserver(() => {{ {stop} }})")
    shown.evaluate("watcher.observe(at('text'), {childList: true, subtree: true})")
    shown.evaluate("at('n_predict').value = '3500'; at('form').requestSubmit()")
    shown.wait_for("document.querySelectorAll('#text span').length > 5")
    shown.wait_for("!at('go').disabled")
    shown.evaluate("watcher.disconnect()")
    assert shown.evaluate("document.querySelectorAll('#text span').length") < 3500
    assert shown.evaluate("at('trouble').textContent") == ""
    shown.evaluate("at('prompt').value = 'xyz'; at('form').requestSubmit()")
    shown.wait_for("at('trouble').textContent.includes('token')")
    shown.evaluate("at('prompt').value = 'bcdbc'; at('n_predict').value = '10'")


def test_nothing_went_wrong_and_nothing_was_loaded_from_elsewhere(page: tuple[Browser, str]) -> None:
    shown, url = page
    harmless = ("401", "400", "favicon")
    assert [p for p in shown.problems if not any(h in p for h in harmless)] == []
    loaded = shown.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    assert all(name.startswith(url) for name in loaded)
