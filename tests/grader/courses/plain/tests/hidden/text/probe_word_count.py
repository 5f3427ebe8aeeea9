"""What can only be seen beside the student's module."""

from __future__ import annotations

import sys
from typing import Any


def imported(module: Any, name: str) -> bool:
    """Whether a module of this name is loaded, once the student's code has run."""
    module.word_count("a")
    return name in sys.modules


def counts_of(module: Any, texts: list[str]) -> list[int]:
    """How many words each of the texts has."""
    return [sum(module.word_count(text).values()) for text in texts]
