"""Which laws the tests call, recorded for `grade verify`, which proves that each of them can fail."""

from __future__ import annotations

from collections.abc import Iterable

from grader.course.suite import SuiteTest
from grader.judge.assignment import LawCall


class Recorder:
    """The laws that the tests of one judgment call, but for those that other laws call."""

    def __init__(self) -> None:
        self._calls: dict[LawCall, None] | None = None
        self._test: SuiteTest | None = None
        self._depth = 0
        self._asked: dict[str, None] = {}

    def begin(self, *, on: bool) -> None:
        """A new judgment."""
        self._calls, self._test = {} if on else None, None

    def begin_test(self, test: SuiteTest) -> None:
        """A new test of the judgment."""
        self._test, self._depth, self._asked = test, 0, {}

    def ask(self, names: Iterable[str]) -> None:
        """The test asks the student's code for these names, or sends them to a probe."""
        if self._calls is not None:
            self._asked |= dict.fromkeys(names)

    def begin_law(self) -> bool:
        """Whether the call of a law that begins is to be recorded, by `end_law`."""
        if self._calls is None or self._test is None or self._depth:
            return False
        self._depth += 1
        return True

    def end_law(
        self, law: str, targets: tuple[str, ...], saboteurs: tuple[str, ...], *, held: bool
    ) -> None:
        """Record a law; without a target of its own it is about all that the test asked for so far."""
        self._depth -= 1
        test = self._test
        if self._calls is None or test is None:
            return
        names = targets or tuple(self._asked)
        self._calls[LawCall(test.visibility, test.name, law, names, saboteurs, held)] = None

    def end(self) -> tuple[LawCall, ...]:
        """All that was recorded, each call once; the recorder is off."""
        calls, self._calls = self._calls or {}, None
        return tuple(calls)


# A judge judges one submission at a time.
recorder = Recorder()
