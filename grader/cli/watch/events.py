"""What happens while `grade watch` watches: saves, keys, tests, verdicts; each is told by its own thread."""

from __future__ import annotations

import msgspec

from grader.course.manifest import Exercise
from grader.judge.warm import Answer, Order

__all__ = ["Crashed", "Event", "Plotted", "Pressed", "Redraw", "Saved", "TestEnded"]


class Saved(msgspec.Struct, frozen=True):
    """The files of these exercises changed; the last one last."""

    ids: tuple[str, ...]


class Pressed(msgspec.Struct, frozen=True):
    """A key."""

    key: str


class Redraw(msgspec.Struct, frozen=True):
    """The terminal has another size."""


class TestEnded(msgspec.Struct, frozen=True):
    """So many tests of an order ended."""

    __test__ = False

    order: Order
    count: int


class Plotted(msgspec.Struct, frozen=True):
    """What the plotting of an exercise said."""

    exercise: Exercise
    text: str


class Crashed(msgspec.Struct, frozen=True):
    """A thread of ours ended."""

    error: Exception


Event = Saved | Pressed | Redraw | TestEnded | Answer | Plotted | Crashed
