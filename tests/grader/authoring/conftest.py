"""Judges that are kept from one test to the next."""

from __future__ import annotations

import pytest

from grader.judge import pool
from tests.grader.command import kept


@pytest.fixture
def kept_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make trial runs use kept judges. Only for tests that do not change a course between two runs."""
    monkeypatch.setattr(pool, "judges", kept.judges)
