"""Which laws the tests call and which mistakes they can name: for `grade verify`, which proves both."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from grader.course.sentences import Sentence
from grader.course.suite import SuiteTest
from grader.judge.assignment import Judgment, LawCall
from grader.results import Visibility


class LawRecorder:
    """The laws that the tests of one judgment call, but for those that other laws call.

    And the sentences about mistakes, of those that it listens for, that the tests' checks cannot tell; and
    faults of the suite that the submission provoked.
    """

    def __init__(self) -> None:
        self._on = False
        self._calls: dict[LawCall, None] = {}
        self._untold: dict[Visibility, list[Sentence]] = {}
        self._provoked: list[tuple[str, str]] = []
        self._test: SuiteTest | None = None
        self._depth = 0
        self._asked: dict[str, None] = {}

    def begin(self, *, on: bool) -> None:
        """A new judgment."""
        self._on, self._test = on, None
        self._calls, self._untold, self._provoked = {}, {}, []

    def listen(self, visibility: Visibility, sentences: Iterable[Sentence]) -> None:
        """Listen for these sentences of a suite."""
        self._untold[visibility] = list(sentences)

    def begin_test(self, test: SuiteTest) -> None:
        """A new test of the judgment."""
        self._test, self._depth, self._asked = test, 0, {}

    def provoke(self, test: SuiteTest, fault: str) -> None:
        """The submission's answer made a test raise what is no check's failure."""
        self._provoked.append((test.name, fault))

    def completed(self, judgment: Judgment) -> Judgment:
        """The judgment with what was recorded; nothing more is."""
        self._on = False
        untold = [(suite, one) for suite, sentences in self._untold.items() for one in sentences]
        return msgspec.structs.replace(
            judgment,
            laws=tuple(self._calls),
            untold=tuple(untold),
            provoked=tuple(self._provoked),
        )

    # --- laws -----------------------------------------------------------------------------------

    def ask(self, names: Iterable[str]) -> None:
        """The test asks the student's code for these names, or sends them to a probe."""
        if self._on:
            self._asked |= dict.fromkeys(names)

    def begin_law(self) -> bool:
        """Whether the call of a law that begins is to be recorded, by `end_law`."""
        if not self._on or self._test is None or self._depth:
            return False
        self._depth += 1
        return True

    def end_law(
        self, law: str, targets: tuple[str, ...], saboteurs: tuple[str, ...], *, held: bool
    ) -> None:
        """Record a law; without a target of its own it is about all that the test asked for so far."""
        self._depth -= 1
        if (test := self._test) is not None:
            names = targets or tuple(self._asked)
            call = LawCall(test.visibility, test.name, law, names, saboteurs, held)
            self._calls[call] = None

    # --- sentences ------------------------------------------------------------------------------

    @property
    def wants_sentences(self) -> bool:
        """Whether there is a sentence of this suite that no check told so far."""
        return self._on and bool(self._awaited())

    def wants(self, sentence: str) -> bool:
        """Whether no check told such a sentence so far."""
        return any(awaited.is_in([sentence]) for awaited in self._awaited())

    def tell(self, sentence: str) -> None:
        """A check can tell this sentence."""
        if self._test is not None:
            awaited = [one for one in self._awaited() if not one.is_in([sentence])]
            self._untold[self._test.visibility] = awaited

    def _awaited(self) -> list[Sentence]:
        return [] if self._test is None else self._untold.get(self._test.visibility, [])


# A judge judges one submission at a time.
recorder = LawRecorder()
