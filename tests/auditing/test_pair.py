"""The second server of a comparison is held for it too."""

from __future__ import annotations

import pytest

from draftproof.auditing.config import AuditConfig
from draftproof.auditing.pair import Other, open_pair_of
from draftproof.client.locks import one_audit_of
from draftproof.core.errors import UsageError

FIRST, SECOND = "http://127.0.0.1:9", "http://127.0.0.1:10"


def test_a_server_that_is_being_audited_is_not_compared_with() -> None:
    with (
        one_audit_of(SECOND),
        pytest.raises(UsageError, match=f"Another audit of {SECOND} is at work"),
        open_pair_of(Other(SECOND))(AuditConfig(FIRST), save=False),
    ):
        pass


def test_both_are_held_and_given_back() -> None:
    with open_pair_of(Other(SECOND))(AuditConfig(FIRST), save=False):
        for url in (FIRST, SECOND):
            with pytest.raises(UsageError, match="at work"), one_audit_of(url):
                pass
    with one_audit_of(FIRST), one_audit_of(SECOND):
        pass


def test_a_server_can_be_compared_with_itself() -> None:
    with open_pair_of(Other(FIRST.replace("127.0.0.1", "localhost")))(AuditConfig(FIRST), save=False):
        pass
