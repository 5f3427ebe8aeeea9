"""What `grade watch` shows: a view, and whatever draws it."""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec

from grader.course.manifest import Exercise
from grader.results import ExerciseResult

__all__ = ["Face", "Shows", "View"]


class Shows(enum.Enum):
    """What is on the screen."""

    EXERCISE = "exercise"
    LIST = "list"
    ALL = "all"


class View(msgspec.Struct, frozen=True):
    """What there is to see: results of one exercise or of all, a hint by its number, notes, a status."""

    exercise: Exercise
    shows: Shows = Shows.EXERCISE
    results: tuple[ExerciseResult, ...] = ()
    hint: int | None = None
    notes: str = ""
    status: str = ""


class Face(Protocol):
    """What shows a view."""

    def draw(self, view: View) -> None:
        """Show all of it."""

    def status(self, text: str) -> None:
        """Show that the status is this now; all else stays."""
