"""The course in `plain` is judged by tests; it is no test itself."""

from __future__ import annotations

collect_ignore = ["plain"]
