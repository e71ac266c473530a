"""The sampling checks on a server that judges its drafts by other settings than were asked for, and on the same one unbroken."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftproof.auditing import AuditConfig, audit
from draftproof.core.chain import Chain
from draftproof.core.law import TokenLaw
from draftproof.core.sampling import Sampling
from draftproof.core.speculation import DraftModel, Speculation
from draftproof.core.verdict import Verdict
from draftproof.countable.files import write_pair
from draftproof.engine.emit import Emitted, Origin
from draftproof.engine.generate import Generation
from draftproof.engine.shape import Shaper
from draftproof.server.load import Files, load_files
from draftproof.server.run import Background, Options
from draftproof.server.served import Defaults

pytestmark = pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="there is no libllama")

DRAFT = Speculation(types=("draft-simple",), rule="match", adaptive=False, draft=DraftModel(n_max=3))
CHECKS = ("sampling/parameters", "sampling/temperature", "sampling/structure", "sampling/unchanged")
Change = Callable[[Shaper], None]


def judging_by(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that were drafted are judged by a shaper after `change`; the next free one as it should be."""
    law, advance, judge = Shaper.law, Shaper.advance, Generation._judge
    drafted = {}

    def judged(self: Generation, rows: Any) -> list[Emitted]:
        drafted[id(self._shaper)] = len(self.context) + len(self._draft.tokens)
        return judge(self, rows)

    def shaped(self: Shaper, logits: Any, leading: Any = None) -> TokenLaw:
        if len(self.context) >= drafted.get(id(self), 0):
            return law(self, logits, leading)
        kept = self.chain, self._constraint
        change(self)
        try:
            return law(self, logits)
        finally:
            self.chain, self._constraint = kept

    def moved(self: Shaper, token: int) -> None:
        try:
            advance(self, token)
        except ValueError:  # the grammar does not know what to do with the token
            self._constraint = None
            self.context.append(token)

    monkeypatch.setattr(Generation, "_judge", judged)
    monkeypatch.setattr(Shaper, "law", shaped)
    monkeypatch.setattr(Shaper, "advance", moved)


def stuttering(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token after accepted drafts comes twice."""
    judge = Generation._judge

    def judged(self: Generation, rows: Any) -> list[Emitted]:
        emitted = judge(self, rows)
        last = emitted[-1]
        if last.origin is not Origin.PLAIN and self.finish is None:
            emitted.append(self._emit(last.token, last.origin, rows[-1], self._shaper.law(rows[-1]), None))
        return emitted

    monkeypatch.setattr(Generation, "_judge", judged)


def sampling(**changed: Any) -> Change:
    def change(shaper: Shaper) -> None:
        if not shaper.sampling.greedy or "temperature" not in changed:
            shaper.chain = Chain(replace(shaper.sampling, **changed))

    return change


def without_grammar(shaper: Shaper) -> None:
    shaper._constraint = None


def verdicts(folder: Path, *checks: str) -> tuple[dict[str, Verdict], dict[str, tuple[str, ...]], str]:
    target, draft, _ = write_pair(folder / "pair")
    served = load_files(Files(target, draft, context=4096, slots=8), Defaults(speculation=DRAFT))
    with Background(served, Options(8)) as server:
        report = audit(AuditConfig(server.url, checks=checks, seed=20, out=folder / "evidence.jsonl.gz"))
    told = "\n".join(f"{o.check}: {o.judgement.verdict}: {o.judgement.summary}" for o in report.outcomes)
    return (
        {o.check: o.judgement.verdict for o in report.outcomes},
        {o.check: o.judgement.codes for o in report.outcomes},
        told,
    )


NO_PENALTIES = {name: getattr(Sampling(), name) for name in ("repeat_penalty", "presence_penalty", "frequency_penalty")}


@pytest.mark.parametrize(
    ("check", "change", "code"),
    [
        ("sampling/parameters", sampling(**NO_PENALTIES), "IGNORED"),
        ("sampling/parameters", sampling(logit_bias=()), "IGNORED"),
        ("sampling/parameters", sampling(top_k=0), "IGNORED"),
        ("sampling/parameters", sampling(min_p=0.0), "IGNORED"),
        ("sampling/parameters", sampling(repeat_last_n=2), "MISAPPLIED"),
        ("sampling/temperature", sampling(temperature=1e-3), "GREEDY"),
        ("sampling/temperature", sampling(temperature=1.0), "WRONG_TEMPERATURE"),
        ("sampling/structure", without_grammar, "UNGRAMMATICAL"),
        ("sampling/unchanged", sampling(temperature=0.3), "CHANGED"),
    ],
)
def test_a_setting_that_does_not_reach_drafted_tokens_is_found(
    check: str, change: Change, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judging_by(change, monkeypatch)
    found, codes, told = verdicts(tmp_path, check)
    assert found == {check: Verdict.FAIL}, told
    assert code in codes[check], told


def test_doubled_tokens_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stuttering(monkeypatch)
    found, codes, told = verdicts(tmp_path, "sampling/structure")
    assert found == {"sampling/structure": Verdict.FAIL}, told
    assert "DOUBLED" in codes["sampling/structure"], told


def test_the_same_server_unbroken_passes(tmp_path: Path) -> None:
    found, _, told = verdicts(tmp_path, *CHECKS)
    assert set(found.values()) == {Verdict.PASS}, told
