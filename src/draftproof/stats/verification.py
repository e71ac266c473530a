"""One verification step as a joint law: which token is emitted, and whether it is the accepted draft.

Symbols as in Leviathan, Kalman, Matias 2023 (arXiv 2211.17192, Alg. 1): p target, q draft. Every array is
float64[..., vocab]; leading axes are independent rows. Knows nothing of models or of tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftproof.core.distribution import Law


@dataclass(frozen=True, slots=True)
class Step:
    """What a rule may look at. `q` None: the draft is not known.

    `next_top`[..., x] is the draft's highest probability after x, for rules that look one token ahead; None: not known.
    """

    p: Law
    q: Law | None = None
    next_top: Law | None = None

    @property
    def draft(self) -> Law:
        """q, or the target in its place where the draft is not known."""
        return self.p if self.q is None else self.q


@dataclass(frozen=True, slots=True)
class Outcome:
    """`accepted`[..., x]: x was drafted and accepted. `instead`[..., x]: x was emitted otherwise. Together they sum to 1."""

    accepted: Law
    instead: Law

    @property
    def law(self) -> Law:
        """Law of the emitted token."""
        return self.accepted + self.instead


def verify(proposal: Law, acceptance: Law, replacement: Law) -> Outcome:
    """Draw x from `proposal`, keep it with probability `acceptance`[x], else draw from `replacement`, which ignores x."""
    accepted = proposal * acceptance
    rejected = np.clip(1 - accepted.sum(axis=-1, keepdims=True), 0, None)
    return Outcome(accepted, rejected * replacement)


def ratio(p: Law, q: Law) -> Law:
    """min(1, p/q), the acceptance probability; 1 where q is 0, so that nothing is divided by 0."""
    return np.minimum(1.0, np.divide(p, q, out=np.ones_like(p), where=q > 0))


def residual(p: Law, q: Law) -> Law:
    """max(p - q, 0), normalised; p itself where nothing is left (p = q up to rounding)."""
    return normalised(np.maximum(p - q, 0.0), p)


def residual_by_order(p: Law, q: Law, order_p: NDArray[np.int64], order_q: NDArray[np.int64]) -> Law:
    """The residual of two candidate arrays subtracted entry by entry, whatever tokens stand in them."""
    left = np.maximum(np.take_along_axis(p, order_p, -1) - np.take_along_axis(q, order_q, -1), 0.0)
    out = np.zeros_like(p)
    np.put_along_axis(out, order_p, left, -1)
    return normalised(out, p)


def by_probability(law: Law) -> NDArray[np.int64]:
    """Token ids, most likely first, ties by the lower id."""
    return np.argsort(-law, axis=-1, kind="stable")


def by_index(law: Law) -> NDArray[np.int64]:
    """Token ids in their own order, those of probability 0 last: the candidates left by a truncation."""
    return np.argsort(law <= 0, axis=-1, kind="stable")


def top(law: Law) -> Law:
    """All mass on the most likely token, ties to the lower id."""
    out = np.zeros_like(law)
    np.put_along_axis(out, law.argmax(axis=-1)[..., None], 1.0, -1)
    return out


def tempered(law: Law, temperature: float) -> Law:
    """law^(1/temperature), normalised. temperature > 0."""
    return normalised((law / law.max(axis=-1, keepdims=True)) ** (1 / temperature), law)


def nucleus(law: Law, mass: float) -> Law:
    """The shortest list of most likely tokens that holds at least `mass`, normalised (top-p)."""
    order = by_probability(law)
    ranked = np.take_along_axis(law, order, -1)
    before = np.cumsum(ranked, axis=-1) - ranked
    out = np.zeros_like(law)
    np.put_along_axis(out, order, np.where(before < mass, ranked, 0.0), -1)
    return normalised(out, law)


def entropy(law: Law) -> Law:
    """float64[..., 1], nats."""
    logs = np.log(law, out=np.zeros_like(law), where=law > 0)
    nats: Law = -(law * logs).sum(axis=-1, keepdims=True)
    return nats


def normalised(weights: Law, otherwise: Law) -> Law:
    """weights / sum, or `otherwise` in rows whose sum is 0."""
    mass = weights.sum(axis=-1, keepdims=True)
    return np.where(mass > 0, weights / np.where(mass > 0, mass, 1.0), otherwise)


def shared_gumbel_replacement(p: Law, q: Law) -> Law:
    """Law of the replacement when the draft's Gumbel noise draws it too: argmax(log residual + the same noise), given a rejection.

    In exponential clocks E_i (Gumbel = -log E) the draft is the first of E_i/q_i, at time m ~ Exp(1) independent of which
    one it is. The others then still wait q_i m plus a fresh Exp(1), so residual token i rings at c_i m plus an
    exponential of rate w_i, with w the residual and c_i = q_i/w_i. With s = time/m the first one is i with probability
    w_i * integral from c_i of ds / (1 - Q(s) + W(s) s)^2, where W(s), Q(s) sum w, q over the tokens with c < s.
    """
    w = residual(p, q)
    c = np.divide(q, w, out=np.full_like(q, np.inf), where=w > 0)
    order = np.argsort(c, axis=-1, kind="stable")
    start, rate = np.take_along_axis(c, order, -1), np.take_along_axis(w, order, -1)
    live = np.isfinite(start)
    weight = np.cumsum(rate, axis=-1)
    offset = 1 - np.cumsum(np.where(live, np.take_along_axis(q, order, -1), 0.0), axis=-1)
    end = np.concatenate([start[..., 1:], np.full_like(start[..., :1], np.inf)], axis=-1)
    begun = 1 / (offset + weight * np.where(live, start, 1.0))
    ended = np.where(np.isfinite(end), 1 / (offset + weight * np.where(np.isfinite(end), end, 1.0)), 0.0)
    pieces = np.where(live, (begun - ended) / np.where(live, weight, 1.0), 0.0)
    from_here = np.cumsum(pieces[..., ::-1], axis=-1)[..., ::-1]
    out = np.zeros_like(p)
    np.put_along_axis(out, order, rate * from_here, -1)
    return normalised(out, p)


def one_uniform(p: Law, q: Law) -> Outcome:
    """The uniform number u that rejected the draft (u q >= p) also draws from the residual, by inverse CDF in token order.

    Token j follows the rejected x when u lies in [a_x, 1) and in j's interval of the residual's CDF R, so it is emitted
    with probability F(R_j) - F(R_j-1), F(t) = sum over x of q_x max(t, a_x), with a the acceptance probabilities.
    """
    shape = p.shape
    p, q = p.reshape(-1, shape[-1]), q.reshape(-1, shape[-1])
    a = ratio(p, q)
    edges = np.minimum(np.cumsum(residual(p, q), axis=-1), 1.0)
    edges[:, -1] = 1.0
    edges = np.concatenate([np.zeros_like(edges[:, :1]), edges], axis=-1)
    order = np.argsort(a, axis=-1)
    a_sorted, q_sorted = np.take_along_axis(a, order, -1), np.take_along_axis(q, order, -1)
    row = 2.0 * np.arange(len(p))[:, None]
    below = np.searchsorted((a_sorted + row).ravel(), (edges + row).ravel(), side="right").reshape(edges.shape)
    below -= np.arange(len(p))[:, None] * shape[-1]
    zero = np.zeros((len(p), 1))
    mass = np.concatenate([zero, np.cumsum(q_sorted, axis=-1)], axis=-1)
    moment = np.concatenate([zero, np.cumsum(q_sorted * a_sorted, axis=-1)], axis=-1)
    f = edges * np.take_along_axis(mass, below, -1) + moment[:, -1:] - np.take_along_axis(moment, below, -1)
    return Outcome(np.minimum(p, q).reshape(shape), np.clip(np.diff(f, axis=-1), 0.0, None).reshape(shape))
