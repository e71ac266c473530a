from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest
from tests.fakes import FAULTY, SOUND
from tests.report.reports import ACCEPTED, BROKEN_SERVER, evil, judged, made

import draftproof.report.links
from draftproof import __version__
from draftproof.auditing import Report
from draftproof.core.errors import Unreachable
from draftproof.core.verdict import Judgement, Table, Verdict
from draftproof.report.html import MOST_ROWS, error_html, report_html

CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
EMPTY = {"meta", "link", "br", "use"}
ALLOWED = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "nav", "section", "footer", "div"),
    *("h1", "h2", "h3", "h4", "p", "ul", "li", "dl", "dt", "dd", "a", "bdi", "code", "span", "strong", "br"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "figure", "figcaption"),
    *("svg", "g", "path", "defs", "use", "text", "clippath", "rect"),
}


class Page(HTMLParser):
    """What a page is made of. Fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


PAGES = {
    "small": made(),
    "accepted": made(SOUND, FAULTY, accepted=(ACCEPTED,)),
    "broken server": judged(*BROKEN_SERVER),
    "evil": evil(),
}


@pytest.fixture(scope="module", params=PAGES)
def page(request: pytest.FixtureRequest) -> Page:
    return Page(report_html(PAGES[request.param], ("one differs",)))


def test_nothing_is_fetched_and_nothing_is_run(page: Page) -> None:
    assert {tag for tag, _ in page.tags} <= ALLOWED
    assert [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"] == [CSP]
    attributes = [(key, value or "") for _, a in page.tags for key, value in a.items()]
    assert [key for key, _ in attributes if key.startswith("on") or key in {"src", "srcset", "action"}] == []
    assert {value for key, value in attributes if key == "href" and not value.startswith("#")} == {"data:,"}
    assert [value for _, value in attributes if "url(" in value.replace("url(#", "")] == []


def test_ids_are_unique_and_what_refers_to_them_finds_them(page: Page) -> None:
    ids = Counter(str(a["id"]) for _, a in page.tags if "id" in a)
    assert [name for name, n in ids.items() if n > 1] == []
    referred = {str(a["href"])[1:] for _, a in page.tags if str(a.get("href")).startswith("#")}
    referred |= {str(a[k]) for _, a in page.tags for k in ("aria-labelledby", "aria-describedby") if k in a}
    assert referred <= set(ids)


def test_page_has_what_a_screen_reader_goes_by(page: Page) -> None:
    names = Counter(tag for tag, _ in page.tags)
    assert (names["h1"], names["main"], names["header"], names["footer"], names["title"]) == (1, 1, 1, 1, 1)
    assert page.all("html") == [{"lang": "en"}]
    assert names["table"] == names["caption"]
    assert names["details"] == names["summary"]
    assert all(th.get("scope") in {"col", "row"} for th in page.all("th"))
    assert all("aria-labelledby" in section for section in page.all("section"))
    assert all({"role", "aria-labelledby", "aria-describedby"} <= set(svg) for svg in page.all("svg"))
    assert all(div.get("aria-label") for div in page.all("div") if div.get("role") == "region")


def test_verdict_stands_first_and_in_words() -> None:
    text = Page(report_html(PAGES["small"])).text
    assert "ERROR: a fault was found" in " ".join(text.split())
    order = ["a fault was found", "Safe to use?", "What to do", "Checks", "Server"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)


def test_checks_tell_claim_findings_statements_remedy_and_pictures() -> None:
    report = judged(*BROKEN_SERVER)
    page = Page(report_html(report))
    for outcome in report.outcomes:
        for finding in outcome.judgement.findings:
            assert finding.text in page.text
        for statement in outcome.judgement.statements:
            assert statement.text in page.text
    assert "Do not use text sampled from this server" in page.text
    figures = {str(f["id"]) for f in page.all("figure")}
    assert figures == {
        "logprobs-logprobs-rescored",
        "frequencies-sampling-distribution-1",
        "evidence-sampling-distribution",
        "drafting",
    }
    open_ones = [d["id"] for d in page.all("details") if "open" in d]
    assert open_ones == ["check-logprobs-rescored", "check-sampling-distribution"]


def test_accepted_faults_are_shown_as_accepted_and_as_faults() -> None:
    text = " ".join(Page(report_html(PAGES["accepted"])).text.split())
    assert "FAIL: no fault beyond those that are accepted" in text
    assert "logprobs/faulty PLACEHOLDER: b1 <b>does</b> that" in text
    assert "logprobs after it NO logprobs/faulty failed" in text


def test_untrusted_text_is_shown_as_it_is_and_does_nothing() -> None:
    text = report_html(evil())
    page = Page(text)
    assert '<script>alert(1)</script><img src=x onerror="alert(2)">' in page.text
    assert r"\x1b]0;owned\x07\x00\u202eevil\u2066\u200b]]>\ud800 {{ 7 * 7 }}" in page.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    assert "m" * 500 in page.text
    assert "m" * 700 not in text
    assert "(9403 characters more)" in page.text


def test_right_to_left_text_is_isolated() -> None:
    report = made(FAULTY)
    (outcome,) = report.outcomes
    hebrew = "\N{HEBREW LETTER ALEF}\N{HEBREW LETTER BET}"
    changed = replace(outcome, judgement=replace(outcome.judgement, summary=hebrew))
    assert f"<bdi>{hebrew}</bdi>" in report_html(replace(report, outcomes=(changed,)))


def test_long_tables_are_cut_and_say_so() -> None:
    table = Table("t", ("n",), tuple((n,) for n in range(MOST_ROWS + 5)))
    report = made(FAULTY)
    judgement = Judgement(Verdict.FAIL, "x", tables=(table,))
    text = report_html(replace(report, outcomes=(replace(report.outcomes[0], judgement=judgement),)))
    assert "5 more rows are in the JSON report" in text


def test_documentation_is_linked_where_it_has_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draftproof.report.links, "base", lambda: "https://docs.example/")
    links = {str(a["href"]) for a in Page(report_html(judged(BROKEN_SERVER[0]))).all("a")}
    assert "https://docs.example/reference/checks.md#logprobsrescored" in links
    assert "https://docs.example/reference/findings.md#placeholder" in links


def test_audit_that_could_not_be_made_has_a_page() -> None:
    page = Page(error_html(Unreachable("nobody <b>there", "start it"), __version__))
    assert "nobody <b>there" in page.text
    assert "the server cannot be reached" in page.text


def sampled(n: int) -> Report:
    """A control's samples again and again, n of them."""
    report = judged(("sampling/distribution", "the law, by counts"))
    (outcome,) = report.outcomes
    stream = outcome.evidence.streams[0]  # type: ignore[attr-defined]
    many = replace(stream, samples=(stream.samples * (n // len(stream.samples) + 1))[:n], seeds=tuple(range(n)))
    return replace(report, outcomes=(replace(outcome, evidence=replace(outcome.evidence, streams=(many,))),))  # type: ignore[type-var]


def test_size_does_not_grow_with_the_samples() -> None:
    """With 100 000 samples it was the same; they take 13 seconds."""
    small, large = (len(report_html(sampled(n)).encode()) for n in (1_000, 10_000))
    assert large < 1.1 * small < 1_000_000


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_is_enough_in_both_schemes() -> None:
    """WCAG 2.2: 4.5 for text, 3 for lines of pictures."""
    style = resources.files("draftproof.report").joinpath("templates/style.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    for scheme in (light, dark):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", scheme))
        papers = [luminance(colours.pop(name)) for name in ("paper", "panel")]
        colours.pop("line")
        for name, colour in colours.items():
            own = luminance(colour)
            ratios = [(max(own, p) + 0.05) / (min(own, p) + 0.05) for p in papers]
            assert min(ratios) >= (3 if name.startswith("series") else 4.5), (name, colour, ratios)


def test_templates_are_in_the_package() -> None:
    folder = Path(str(resources.files("draftproof.report"))) / "templates"
    assert {p.name for p in folder.iterdir()} >= {"base.html.j2", "report.html.j2", "error.html.j2", "style.css"}
