"""The courses in this folder are judged by tests; they are no tests themselves."""

from __future__ import annotations

collect_ignore_glob = ["*"]
