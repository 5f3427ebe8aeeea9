"""Judges that stay from one test to the next."""

from __future__ import annotations

import pytest

from grader.judge import pool
from tests.grader.command import kept


@pytest.fixture
def kept_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial run starts no judges of its own. For tests in which no course changes between two of them."""
    monkeypatch.setattr(pool, "judges", kept.judges)
