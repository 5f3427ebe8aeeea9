"""A result as blocks: the text about an exercise, prepared once for every renderer.

Terminal, notebook, report and Markdown draw the same sections, each in its own way. Each must escape them,
since every text in a block may be a stranger's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from grader.findings import details_of, first_line
from grader.results import Cause, ExerciseResult, Outcome, Place, Status, TestResult, Visibility
from grader.text import counted, in_points, listed, number

# The first exercise with problems shows this many findings: one cause at a time.
FIRST_FINDINGS = 3

# How informative a test's message is: mending the first often mends the rest. Exceptions, crashes and loops are
# 0, forbidden functions 1.
_RANKS = {
    Cause.NOTHING: -1,
    Cause.MISTAKE: 2,
    Cause.LAW: 3,
    Cause.SHAPE: 4,
    Cause.TYPE: 4,
    Cause.RAISE: 4,
    Cause.VALUES: 5,
    Cause.OTHER: 5,
    Cause.GRADIENT: 6,
    Cause.NO_TIME: 7,
}

_UNUSABLE = (Cause.SHAPE, Cause.TYPE, Cause.NOTHING)
_WRONG = (Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT)
_MISMATCHES = (*_UNUSABLE, Cause.VALUES, Cause.GRADIENT)

# For each status and outcome, the kind of its mark and the word beside it.
STATUS = {
    Status.PASSED: ("good", "passed"),
    Status.PARTIAL: ("part", "partly passed"),
    Status.FAILED: ("bad", "failed"),
    Status.NOT_ATTEMPTED: ("quiet", "to do"),
    Status.ERROR: ("bad", "error"),
    Status.TIMEOUT: ("bad", "timeout"),
    Status.UNJUDGED: ("look", "not judged"),
}
OUTCOME = {
    Outcome.PASSED: ("good", "passed"),
    Outcome.FAILED: ("bad", "failed"),
    Outcome.NOT_IMPLEMENTED: ("part", "to do"),
    Outcome.ERROR: ("bad", "error"),
    Outcome.TIMEOUT: ("bad", "timeout"),
    Outcome.SKIPPED: ("quiet", "not run"),
}


def status_text(status: Status, *, waiting: bool = False) -> str:
    """Return the words of a status that nothing else explains; if `waiting`, the verdict is still to come."""
    why = " yet" if waiting else ": a fault of the grader"
    return STATUS[status][1] + (why if status is Status.UNJUDGED else "")


class Message(msgspec.Struct, frozen=True):
    """The mistake: a line that names it, and details below."""

    text: str
    details: tuple[str, ...] = ()


class Where(msgspec.Struct, frozen=True):
    """The line to look at."""

    place: Place


class Hint(msgspec.Struct, frozen=True):
    """A thing to try."""

    text: str


class Note(msgspec.Struct, frozen=True):
    """A remark of the grader's own."""

    text: str


class Printed(msgspec.Struct, frozen=True):
    """Printed output of a test, for students on their own machine, or for staff."""

    text: str


Block = Message | Where | Hint | Note | Printed


class Section(msgspec.Struct, frozen=True):
    """The blocks of a test, or of the file as a whole, which has neither test nor title."""

    blocks: tuple[Block, ...]
    test: TestResult | None = None
    title: str = ""

    @property
    def is_part(self) -> bool:
        """Whether it is an unwritten part, which is shown by its title."""
        return self.test is not None and self.title == self.test.message


class Summary(msgspec.Struct, frozen=True):
    """The first findings of an exercise, and counts of further failing tests and of tests that wait."""

    sections: tuple[Section, ...]
    more: int = 0
    waiting: str = ""


class Problem(msgspec.Struct, frozen=True):
    """Tests with the same cause at the same place, represented by the first.

    The `others` fail there, too, with other numbers, and are shown with it. The `followers` test functions that
    use this one, and have nothing to work with.
    """

    tests: tuple[TestResult, ...]
    others: tuple[TestResult, ...] = ()
    followers: tuple[TestResult, ...] = ()

    @property
    def first(self) -> TestResult:
        """The test to show."""
        return self.tests[0]

    @property
    def more(self) -> int:
        """The number of tests that fail like the first one, or at the same place."""
        return len(self.tests) + len(self.others) - 1

    @property
    def every_test(self) -> tuple[TestResult, ...]:
        """All tests that it represents."""
        return (*self.tests, *self.others, *self.followers)

    def joined(self, other: Problem) -> Problem:
        """Return a problem that also includes the tests of another one at the same place."""
        return Problem(
            self.tests,
            (*self.others, *other.tests, *other.others),
            self.followers + other.followers,
        )

    def followed(self, other: Problem) -> Problem:
        """Return a problem that also includes the tests of another one, in a function that uses this one."""
        return Problem(self.tests, self.others, (*self.followers, *other.every_test))


def problems(exercise: ExerciseResult) -> list[Problem]:
    """Return the causes of failures, the most informative first and unwritten parts last."""
    alike: dict[tuple[Outcome, str, Place | None], list[TestResult]] = {}
    for test in exercise.tests:
        if test.outcome not in (Outcome.PASSED, Outcome.SKIPPED):
            # Messages that a student may not read cannot be compared.
            words = test.message or test.name
            alike.setdefault((test.outcome, words, test.place), []).append(test)
    wrong = {test.subject for test in exercise.tests if test.outcome in _WRONG} - {""}

    def order(finding: Problem) -> tuple[bool, bool, int]:
        """Unwritten parts come last, and a function comes after the functions that it uses."""
        test = finding.first
        unwritten = test.outcome is Outcome.NOT_IMPLEMENTED
        return unwritten, not wrong.isdisjoint(test.uses), _rank(test)

    causes: list[Problem] = []
    # A named mistake includes all mismatches of its function.
    for finding in sorted((Problem(tuple(tests)) for tests in alike.values()), key=order):
        for at, cause in enumerate(causes):
            if _tells(cause.first, finding.first):
                causes[at] = cause.joined(finding)
                break
            if _starves(cause.first, finding.first):
                causes[at] = cause.followed(finding)
                break
        else:
            causes.append(finding)
    return causes


def _rank(test: TestResult) -> int:
    """Return the rank of a test: lower is more informative; among equals, the earlier test comes first."""
    if _has_ended(test) and test.cause is Cause.OTHER:
        return 0
    return 1 if test.refused else _RANKS[test.cause]


def _starves(told: TestResult, test: TestResult) -> bool:
    """Return whether a test uses a function that returns nothing usable, and so has nothing to work with."""
    if told.subject not in test.uses or told.refused or test.refused:
        return False
    if test.cause is Cause.RAISE:
        return True  # it refuses the other function's value
    unusable = _has_ended(told) or told.cause in _UNUSABLE
    return unusable and (_has_ended(test) or test.cause in _UNUSABLE)


def _tells(told: TestResult, test: TestResult) -> bool:
    """Return whether the message of one test makes another's superfluous."""
    if not (told.message and test.message):
        return False
    sentence, other = (first_line(each.finding) for each in (told, test))
    if told.mistake and told.mistake == test.mistake:
        return True  # whatever each says about it
    if told.cause is test.cause in (Cause.MISTAKE, Cause.LAW) and sentence == other:
        return True  # a known mistake is one mistake, in all of its places
    twins = (told.visibility, test.visibility) == (Visibility.PUBLIC, Visibility.HIDDEN)
    if told.cause is test.cause is Cause.GRADIENT and twins and "" != told.subject == test.subject:
        return True  # forward and backward of a class, with one wrong gradient
    if told.refused and test.refused and told.place is not None and test.place is not None:
        # One way has several names: a function, and the operators that it runs.
        return told.place.function == test.place.function
    if told.outcome is not test.outcome or not _at_one_line(told.place, test.place):
        return False
    if _has_ended(test):
        # One line and one type of exception; only the sizes in the messages differ.
        return _plain(told) == _plain(test)
    if told.cause is test.cause is Cause.MISTAKE:
        return twins
    if told.cause is test.cause is Cause.LAW:
        # If their details are equal, both need the same correction.
        return details_of(told.finding) == details_of(test.finding) != ()
    if test.cause not in _MISMATCHES or test.refused:
        return told.cause is test.cause and sentence == other
    return told.cause is Cause.MISTAKE or (twins and told.cause is test.cause)


def _at_one_line(one: Place | None, other: Place | None) -> bool:
    """Return whether two places are the same; a student does not know the function of a hidden test's place."""
    if one is None or other is None or (one.file, one.line) != (other.file, other.line):
        return False
    return one.function == other.function or not (one.function and other.function)


def _plain(test: TestResult) -> tuple[str, ...]:
    return () if test.finding is None else test.finding.plain


def _has_ended(test: TestResult) -> bool:
    """Return whether the code itself ended the test."""
    return test.outcome in (Outcome.ERROR, Outcome.TIMEOUT)


def summarized(
    exercise: ExerciseResult, shown: int | None = None, *, printed: bool = False
) -> Summary:
    """Return the findings, each cause once: all of them, or at most `shown`.

    With `printed`, the first finding whose test printed something has the output, too.
    """
    if exercise.untouched:
        return Summary(_remarks(exercise))
    if exercise.message:
        return Summary((fault(exercise), *_remarks(exercise)))
    causes = problems(exercise)
    shown = len(causes) if shown is None else shown
    sections = [_finding(finding) for finding in causes[:shown]]
    for place, finding in enumerate(causes[:shown] if printed else ()):
        if finding.first.printed:
            blocks = (*sections[place].blocks, Printed(finding.first.printed))
            sections[place] = msgspec.structs.replace(sections[place], blocks=blocks)
            break
    return Summary(
        (*sections, *_remarks(exercise)),
        sum(len(finding.every_test) for finding in causes[shown:]),
        _waiting(exercise, "this one" if len(causes) == 1 else "these"),
    )


def in_full(exercise: ExerciseResult) -> tuple[Section, ...]:
    """Return every test with its printed output; if the whole file is at fault, only that fault."""
    if exercise.message and not exercise.untouched:
        return (fault(exercise), *_remarks(exercise))
    sections = (
        msgspec.structs.replace(section, blocks=(*section.blocks, Printed(test.printed)))
        if test.printed
        else section
        for test, section in zip(exercise.tests, every_test(exercise, exercise.tests), strict=True)
    )
    return (*sections, *_remarks(exercise))


def every_test(exercise: ExerciseResult, tests: Sequence[TestResult]) -> tuple[Section, ...]:
    """Return the tests of an exercise, without repeating a cause that is already shown."""
    # The title of the first test with each cause.
    above: dict[tuple[Block, ...], str] = {}
    sections = []
    for test in tests:
        blocks = () if exercise.untouched else blocks_of(test)
        cause = tuple(block for block in blocks if not isinstance(block, Hint))
        if test.message == exercise.message:
            blocks = ()
        elif cause and cause in above and test.outcome is not Outcome.SKIPPED:
            blocks = (Note(f'The same as for "{above[cause]}".'), *blocks[len(cause) :])
        above.setdefault(cause, test.title)
        sections.append(Section(blocks, test, test.title))
    return tuple(sections)


def _remarks(exercise: ExerciseResult) -> tuple[Section, ...]:
    """Return remarks about the file, and about points that were left out or changed."""
    texts = exercise.note, exercise.left_out, exercise.provisional
    notes = [Note(text) for text in texts if text]
    if carried := on_stand_ins(exercise):
        notes.append(Note(carried))
    if (mark := exercise.mark) is not None:
        if exercise.score != mark.judged:
            count = "counts" if exercise.score == 1 else "count"
            words = f"{in_points(exercise.score)} {count}, not {number(mark.judged)}."
            notes.append(Note(words))
        notes += map(Note, (*mark.reasons, *mark.comment.splitlines()))
    notes += map(Note, on_requests(exercise))
    return (Section(tuple(notes)),) if notes else ()


def on_stand_ins(exercise: ExerciseResult) -> str:
    """Return a sentence about the solution's functions that stood in for the student's; empty if none did."""
    tests = [test for test in exercise.tests if test.stood_in]
    if not tests:
        return ""
    names = list(dict.fromkeys(name for test in tests for name in test.stood_in))
    answer, are = ("answers", "is") if len(names) == 1 else ("answer", "are")
    return (
        f"A mistake costs once: in {counted(len(tests), 'test')} of later functions, the course's own "
        f"{listed(names)} {answer} until yours {are} right."
    )


def on_requests(exercise: ExerciseResult) -> list[str]:
    """Return the student's regrade requests, each followed by its answer."""
    lines = []
    for request in exercise.requests:
        lines.append(f"Regrade request: “{request.message}”")
        lines.append(f"Answer: {request.answer}" if request.answer else "It is not answered yet.")
    return lines


def remarks(exercise: ExerciseResult) -> str:
    """Return remarks about the points, as lines of text."""
    return plain(block for section in _remarks(exercise) for block in section.blocks)


def fault(exercise: ExerciseResult) -> Section:
    """Return the section about the file as a whole."""
    place = exercise.tests[0].place if exercise.tests else None
    return Section((Message(exercise.message), *_where(place)))


def blocks_of(test: TestResult) -> tuple[Block, ...]:
    """Return the blocks of a test: none if it passed, else the message, the place and the hint."""
    if test.outcome is Outcome.PASSED:
        return ()
    blocks: list[Block] = []
    if test.message:
        first = first_line(test.finding)
        blocks.append(Message(first, details_of(test.finding)) if first else Message(test.message))
    if test.outcome is not Outcome.SKIPPED:
        blocks += _where(test.place)
    # A hint is about the test's subject, not about a crash or a lack of time. Beside a named mistake it would
    # be about something else.
    is_for_it = test.outcome is Outcome.FAILED and test.cause is not Cause.MISTAKE
    if test.hint and (is_for_it or test.outcome is Outcome.NOT_IMPLEMENTED):
        blocks.append(Hint(test.hint))
    if test.carries:
        earns = "earns its points" if test.carries == 1 else "earn their points"
        more = f"{counted(test.carries, 'other test')} passed, but {earns} only once more results are right."
        blocks.append(Note(more))
    return tuple(blocks)


def plain(blocks: Iterable[Block]) -> str:
    """Return the blocks as lines of text, for formats that support nothing else."""
    lines = []
    for block in blocks:
        match block:
            case Where(place):
                lines.append(f"{place.file}:{place.line}")
            case Hint(text):
                lines.append(f"Hint: {text}")
            case Message(text, details):
                lines += (text, *details)
            case Note(text) | Printed(text):
                lines.append(text)
    return "\n".join(lines)


def _finding(finding: Problem) -> Section:
    test, count = finding.first, finding.more + 1
    if test.outcome is Outcome.NOT_IMPLEMENTED:
        # Its own words say more than the tests that meet it.
        needs = Note(f"{counted(count, 'test')} {'needs' if count == 1 else 'need'} it.")
        return Section((*_where(test.place), needs), test, test.message)
    if test.refused:
        # The tests ended before they checked their titles, so the section has another title.
        needs = Note(f"{counted(count, 'test')} {'ends' if count == 1 else 'end'} there.")
        return Section((*blocks_of(test), needs), test, "Not allowed")
    notes: tuple[Note, ...] = ()
    if finding.others:
        fail = "fails" if finding.more == 1 else "fail"
        notes = (Note(f"{counted(finding.more, 'more test')} {fail} there, too."),)
    elif finding.more:
        notes = (Note(f"The same in {counted(finding.more, 'more test')}."),)
    if followers := finding.followers:
        fail = "fails" if len(followers) == 1 else "fail"
        functions = list(dict.fromkeys(follower.subject for follower in followers))
        use = "uses" if len(functions) == 1 else "use"
        text = f"{counted(len(followers), 'test')} of {listed(functions)}, which {use} it, {fail}, too."
        notes = (*notes, Note(text))
    return Section((*blocks_of(test), *notes), test, test.title)


def _where(place: Place | None) -> tuple[Where, ...]:
    return () if place is None else (Where(place),)


def _waiting(exercise: ExerciseResult, which: str) -> str:
    count = sum(test.outcome is Outcome.SKIPPED for test in exercise.tests)
    wait = "waits" if count == 1 else "wait"
    return f"{counted(count, 'more test')} {wait} for {which}." if count else ""
