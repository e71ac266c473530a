"""What a request asks for in the way of speculation, in llama-server's words, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass, fields

MOST_DRAFTED = 1024
"""The longest draft that may be asked for: what each length costs is weighed at every token."""


def _at_least(owner: object, **least: float) -> None:
    """Raises ValueError for a field below its least value, or a NaN."""
    for name, low in least.items():
        value = getattr(owner, name)
        if not value >= low:
            raise ValueError(f"{name} must be at least {low:g}, not {value!r}")


def _no_longer(owner: object, name: str) -> None:
    """Raises ValueError for a draft that is too long."""
    if getattr(owner, name) > MOST_DRAFTED:
        raise ValueError(f"{name} must be at most {MOST_DRAFTED}, not {getattr(owner, name)!r}")


@dataclass(frozen=True, slots=True)
class DraftModel:
    """A smaller model drafts `n_max` tokens at most. It stops where its most likely token has less than `p_min`, but not
    before `n_min` tokens: a draft that was begun is never thrown away, which would depend on the tokens drawn for it."""

    n_max: int = 3
    n_min: int = 0
    p_min: float = 0.0

    def __post_init__(self) -> None:
        _at_least(self, n_max=0, n_min=0, p_min=0)
        _no_longer(self, "n_max")
        if self.p_min > 1:
            raise ValueError(f"p_min must be at most 1, not {self.p_min!r}")


@dataclass(frozen=True, slots=True)
class NgramLookup:
    """The last `size_n` tokens are looked up in what was said; up to `size_m` tokens that followed are drafted.

    `min_hits`: how often the n-gram must have been followed so.
    """

    size_n: int = 12
    size_m: int = 48
    min_hits: int = 1

    def __post_init__(self) -> None:
        _at_least(self, size_n=1, size_m=1, min_hits=1)
        _no_longer(self, "size_m")


@dataclass(frozen=True, slots=True)
class NgramMod:
    """A pool that all requests share maps the hash of `n_match` tokens to the token that followed last.

    A draft of fewer than `n_min` tokens is not worth a batch and not made; `n_max` is the most.
    """

    n_match: int = 24
    n_min: int = 48
    n_max: int = 64

    def __post_init__(self) -> None:
        _at_least(self, n_match=1, n_min=0, n_max=1)
        _no_longer(self, "n_max")


@dataclass(frozen=True, slots=True)
class Speculation:
    """`types` are tried in their order; the first that has a draft is verified. ("none",) switches speculation off.

    `rule` "auto": greedy at temperature 0, rejection above; match where a memory that requests share drafts beside another
    type, for a seeded answer must not depend on other requests. `n_max` caps every type, None does not. `adaptive`: drafts
    become shorter, down to none, where accepting does not pay for the rows. `strict`: no batch has more rows than the model
    computes bit for bit like single ones.
    """

    types: tuple[str, ...] = ("none",)
    rule: str = "auto"
    n_max: int | None = None
    adaptive: bool = True
    strict: bool = False
    draft: DraftModel = DraftModel()
    ngram_simple: NgramLookup = NgramLookup()
    ngram_map_k: NgramLookup = NgramLookup()
    ngram_map_k4v: NgramLookup = NgramLookup()
    ngram_mod: NgramMod = NgramMod()

    def __post_init__(self) -> None:
        if self.n_max is not None:
            _at_least(self, n_max=0)
            _no_longer(self, "n_max")
        if not self.types:
            raise ValueError('types must name a kind of speculation; ("none",) switches it off')

    @property
    def wanted(self) -> bool:
        """Whether any drafter is asked for."""
        return set(self.types) != {"none"} and self.n_max != 0


OFF = Speculation()

SETTINGS: tuple[str, ...] = tuple(f.name for f in fields(Speculation))
