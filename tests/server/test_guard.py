"""Keys, and web pages of strangers."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server import browser
from tests.server.loopback import PROMPT, Client, serving

from draftproof.server.app import Access

PAGE = "http://page.example"


@pytest.fixture(scope="module")
def locked() -> Iterator[Client]:
    with serving(access=Access(keys=["one", "two"], origins=[PAGE])) as (client, _):
        yield client


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer three"}, {"Authorization": "one"}, {"X-Api-Key": ""}],
    ids=str,
)
def test_without_a_key_nothing_is_told(locked: Client, headers: dict[str, str]) -> None:
    for path in ("/props", "/slots", "/metrics", "/v1/models", "/openapi.json", "/nope"):
        answer = locked.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.json() == {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}
    assert locked.post("/completion", json={"prompt": PROMPT}, headers=headers).status_code == 401


def test_a_client_that_reads_no_answer_while_it_writes_learns_that_its_key_is_wrong(locked: Client) -> None:
    request = urllib.request.Request(str(locked.base_url.join("/completion")), data=bytes(32 << 20))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, timeout=30)


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer two"}, {"X-Api-Key": "one"}], ids=str)
def test_any_of_the_keys_opens(locked: Client, headers: dict[str, str]) -> None:
    assert locked.post("/completion", json={"prompt": PROMPT, "n_predict": 1}, headers=headers).status_code == 200


def test_health_and_page_need_no_key(locked: Client) -> None:
    assert locked.get("/health").status_code == locked.get("/").status_code == 200


def test_web_pages_of_strangers_are_refused(plain: Client, locked: Client) -> None:
    for client in (plain, locked):
        answer = client.post("/completion", json={"prompt": PROMPT}, headers={"Origin": "http://evil.example"})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
        assert client.options("/completion", headers={"Origin": "http://evil.example"}).status_code == 403


def test_the_servers_own_page_may_ask(plain: Client) -> None:
    own = str(plain.base_url).rstrip("/")
    assert (
        plain.post("/completion", json={"prompt": PROMPT, "n_predict": 1}, headers={"Origin": own}).status_code == 200
    )


def test_an_allowed_page_may_ask_with_a_key(locked: Client) -> None:
    headers = {"Origin": PAGE, "Authorization": "Bearer one"}
    answer = locked.post("/completion", json={"prompt": PROMPT, "n_predict": 1}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    asked = {"Origin": PAGE, "Access-Control-Request-Headers": "authorization,content-type"}
    preflight = locked.options("/completion", headers=asked)
    assert preflight.status_code == 200
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == "authorization,content-type"


@pytest.mark.skipif(browser.PROGRAM is None, reason="there is no Chromium")
def test_a_browser_lets_an_allowed_page_send_its_key(tmp_path: Path) -> None:
    ask = """(url, key) => fetch(url + '/completion', {
        method: 'POST',
        headers: {'Authorization': 'Bearer ' + key, 'Content-Type': 'application/json'},
        body: JSON.stringify({prompt: 'bcdbc', n_predict: 3}),
    }).then(answer => answer.status, error => error.name)"""
    with serving() as (page, _), browser.Browser(tmp_path) as shown:
        own = str(page.base_url).rstrip("/")
        shown.open(f"{own}/health")  # the page at / may speak to its own server only
        for origins, got in (([own], 200), ([PAGE], "TypeError")):
            with serving(access=Access(keys=["one"], origins=origins)) as (locked, _):
                url = str(locked.base_url).rstrip("/")
                assert shown.evaluate(f"({ask})({url!r}, 'one')") == got
                if got == 200:
                    assert shown.evaluate(f"({ask})({url!r}, 'two')") == 401


def test_the_page_brings_nothing_from_elsewhere(plain: Client) -> None:
    page = plain.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text.replace("http://www.w3.org", "")
    assert "https://" not in page.text
    assert "innerHTML" not in page.text


def test_the_page_can_be_left_out() -> None:
    with serving(access=Access(page=False)) as (client, _):
        assert client.get("/").status_code == 404
        assert client.get("/props").json()["ui"] is False
