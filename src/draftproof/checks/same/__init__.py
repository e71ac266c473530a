"""Questions put to two servers at once, or to one in two configurations: are they the same? One line here adds one."""

from __future__ import annotations

from draftproof.checks.check import AnyCheck
from draftproof.checks.same import greedy, law, logprobs, seeds

COMPARISONS: tuple[AnyCheck, ...] = (logprobs.CHECK, greedy.CHECK, seeds.CHECK, law.CHECK)
