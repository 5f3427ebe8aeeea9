"""Each student is in a gradebook once, with any roster; files are judged and checked only if they must be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import submissions
from grader.course.manifest import load_course
from grader.errors import SubmissionError
from grader.gradebook import Attempt, Gradebook, verdict_key, verdicts
from grader.gradebook.file_review import FileReview
from grader.gradebook.intake import Intake
from grader.gradebook.policy import CountedAttempt, Rules
from grader.gradebook.refusals import notes_on_ids, refuse_other_roster
from grader.gradebook.review import Attention, Reason, most_pressing_first
from grader.gradebook.verdicts import Question, Questions, Verdicts
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.results import ExerciseResult, Outcome, StudentInfo
from grader.submissions import ExerciseFile
from grader.submissions.member import AttemptFile
from tests.grader.builders import checked, exercise

from .conftest import School

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
BEFORE = [
    StudentInfo(id="jdoe", name="Jane Doe", email="jane@uni.edu"),
    StudentInfo(id="pb", name="Piet B", ids={"id_number": "502"}),
]


def test_a_roster_with_other_ids_is_refused() -> None:
    other = [StudentInfo(id="501", ids={"username": "jdoe"}), StudentInfo(id="502", name="Piet")]
    with pytest.raises(
        SubmissionError, match=r"2 of these 2 students are in results under another"
    ):
        refuse_other_roster(BEFORE, other, "results")


@pytest.mark.parametrize(
    "roster",
    [
        BEFORE,
        [*BEFORE, StudentInfo(id="new")],
        # A similar student may be another person.
        [*BEFORE, StudentInfo(id="x", name="Jane Doe")],
        [StudentInfo(id="a"), StudentInfo(id="b")],
        [],
    ],
)
def test_a_roster_with_the_same_ids_or_new_students_is_accepted(roster: list[StudentInfo]) -> None:
    refuse_other_roster(BEFORE, roster, "results")
    refuse_other_roster([], roster, "results")


def moodle(*students: tuple[int, str]) -> dict[str, StudentInfo]:
    return {
        str(number): StudentInfo(
            id=str(number), name=name, ids={"moodle_identifier": f"Participant {number}"}
        )
        for number, name in students
    }


FIRST = moodle((501, "Ada Ok"), (502, "Ben Ok"), (503, "Cem Ok"))


@pytest.mark.parametrize(
    ("week", "words"),
    [
        # Moodle's numbers are new in each assignment.
        (moodle((601, "Ada Ok"), (602, "Ben Ok"), (604, "Dan New")), "such as 601 under 501"),
        # Another site has the same numbers.
        (
            moodle((501, "Zoe Other"), (502, "Yan Other"), (503, "Cem Ok")),
            r"such as 501 \(Zoe Other, there Ada Ok\)",
        ),
    ],
)
def test_a_class_under_other_numbers_or_names_is_refused(
    week: dict[str, StudentInfo], words: str
) -> None:
    with pytest.raises(SubmissionError, match=f"2 of these 3 students .*{words}"):
        refuse_other_roster(FIRST.values(), week.values(), "results")


def test_a_few_students_under_other_numbers_or_names_are_noted() -> None:
    week = FIRST | moodle((503, "Zoe Other"), (601, "Ada Ok"), (604, "Dan New"))
    del week["501"]
    refuse_other_roster(FIRST.values(), week.values(), "results")
    ids, names = notes_on_ids(FIRST, week, "results")
    assert "a part of the points: 601 may be 501." in ids
    assert "please check: 503 (Zoe Other, there Cem Ok)." in names
    # Two people with one name may be other people, and so may a namesake with another id of Canvas.
    doubled = FIRST | moodle((601, "Ada Ok"), (602, "Ada Ok"))
    assert [*notes_on_ids(FIRST, doubled, "results")] == []
    here = StudentInfo(id="7", name="Jane Doe", ids={"canvas_id": "7"})
    other = StudentInfo(id="8", name="Jane Doe", ids={"canvas_id": "8"})
    assert [*notes_on_ids({"7": here}, {"8": other}, "results")] == []


# --- verdicts ---------------------------------------------------------------------------------------

ODD = b"import ctypes\nx = 1\n"
REPORTED = "line 1 imports a module of Python's own tests as it runs (import)"


class Judged:
    """Attempts with odd code at the one exercise of a course, and verdicts on them by this grader."""

    def __init__(self, school: School, book: Gradebook) -> None:
        self._school, self._book = school, book
        self.verdicts = Verdicts(book, school.course, GradingOptions())

    def question(self) -> Question:
        (task,) = self._school.course.exercises
        return Questions(self._school.course, GradingOptions()).about(task, ExerciseFile(ODD))

    def attempt(self, student: str) -> Attempt:
        return self._school.hand_in(self._book, student, ODD)

    def judge(self, attempt: Attempt, outcome: Outcome = Outcome.PASSED) -> ExerciseResult:
        result = exercise(checked(outcome=outcome), name="task", held=(REPORTED,))
        return self.verdicts.judged(attempt, self.question(), Judgment(result, ())).result


def test_the_source_of_a_file_with_a_verdict_is_not_checked_again(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gradebook.open_to_write(school.results) as book:
        there = Judged(school, book)
        ann, bob = there.attempt("ann"), there.attempt("bob")
        first = there.judge(ann)
        assert first.held[0].startswith("line 1 imports ctypes") and first.held[1:] == (REPORTED,)

        def reasons(*_: object) -> tuple[str, ...]:
            raise AssertionError("the verdict is known")

        monkeypatch.setattr(verdicts, "reasons", reasons)
        for attempt in (ann, bob):
            kept = there.verdicts.without_judge(attempt, there.question())
            assert kept is not None and kept.result == first


def test_points_that_a_mistake_of_the_source_check_held_are_free_after_the_next_verdict(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gradebook.open_to_write(school.results) as book:
        there = Judged(school, book)
        ann = there.attempt("ann")
        there.judge(ann)
        # A grader with another source check has another digest.
        monkeypatch.setattr(verdicts, "reasons", lambda *_: ())
        monkeypatch.setattr(verdict_key, "grader_digest", lambda: "mended")
        assert there.verdicts.without_judge(ann, there.question()) is None
        assert there.judge(ann).held == (REPORTED,)


def test_a_timeout_is_no_verdict_for_equal_files_and_a_later_verdict_is_one_for_all(
    school: School,
) -> None:
    with Gradebook.open_to_write(school.results) as book:
        there = Judged(school, book)
        ann, bob = there.attempt("ann"), there.attempt("bob")
        late, question = there.judge(ann, Outcome.TIMEOUT), there.question()
        for attempt in (ann, bob):
            assert there.verdicts.without_judge(attempt, question) is None
        in_this_grading = there.verdicts.without_judge(bob, question, {question.key.key})
        assert in_this_grading is not None and in_this_grading.result == late
        passed = there.judge(bob)
        assert [there.verdicts.is_final(each, question) for each in (ann, bob)] == [False, True]
        kept = there.verdicts.without_judge(ann, question)
        assert kept is not None and kept.result == passed
        assert there.verdicts.is_final(ann, question)


def test_after_a_fault_of_the_grader_an_equal_file_is_judged(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        there = Judged(school, book)
        question = there.question()
        there.verdicts.judged(there.attempt("ann"), question, JudgeFault("no sandbox"))
        now = {question.key.key}
        assert there.verdicts.without_judge(there.attempt("bob"), question, now) is None


# --- entries for staff ------------------------------------------------------------------------------


def test_a_stub_after_work_is_listed_only_if_it_is_the_newest_file(school: School) -> None:
    (task,) = school.course.exercises
    stub = school.course.stub(task).source
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        review = FileReview(book, school.course, [task])
        first, second = (school.hand_in(book, "ann", source) for source in (ODD, stub))

        def listed(attempt: Attempt, source: bytes = stub) -> list[Reason]:
            work, file = book.work(StudentInfo(id="ann")), ExerciseFile(source)
            return [e.kind for e in review.about(work, attempt, task, file)]

        assert listed(second) == [Reason.NO_POINTS]
        assert listed(first, ODD) == listed(first) == []
        school.hand_in(book, "ann", b"x = 3\n")
        assert listed(second) == [], "a regrade of an older file says nothing of the newest"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (b"", "The file is empty; its upload may have failed."),
        (b"def f(x:\n    return x\n", "line 1 is not valid Python, so the file was not run."),
        (b"def f(x):\n    return (x", "line 2 is not valid Python, so the file was not run."),
        (b"# later\n", "The file has only comments."),
    ],
)
def test_a_first_file_that_earns_nothing_is_listed_until_a_newer_one_has_work(
    school: School, source: bytes, what: str
) -> None:
    (task,) = school.course.exercises
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        review = FileReview(book, school.course, [task])

        def listed(source: bytes) -> list[Attention]:
            attempt = school.hand_in(book, "ann", source)
            work, file = book.work(StudentInfo(id="ann")), ExerciseFile(source)
            return review.about(work, attempt, task, file)

        assert listed(school.course.stub(task).source) == [], "an untouched stub is no work"
        assert listed(source) == [Attention(Reason.NO_POINTS, "ann", ("task",), what)]
        assert listed(b"x = 3\n") == []


def test_an_entry_on_a_file_that_cost_no_points_ends_with_the_verdicts(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        there = Judged(school, book)
        book.begin(school.course)
        book.set_policy(Rules(attempts=CountedAttempt.BEST))
        ann = there.attempt("ann")
        school.hand_in(book, "ann", b"# later\n")
        entry = Attention(Reason.NO_POINTS, "ann", ("task",), "The file has only comments.")
        entries = [entry, Attention(Reason.MISNAMED, "ann", ("task",), "Not judged: a.py.")]
        review = FileReview(book, school.course, school.course.exercises)
        assert [*review.still_without_points(entries)] == entries
        there.judge(ann)
        assert [*review.still_without_points(entries)] == entries[1:]


# --- work that earns nothing -------------------------------------------------------------------------


class Downloads:
    """The plain course, a gradebook, and downloads of one student in it, read one after the other."""

    def __init__(self, book: Gradebook, folder: Path) -> None:
        self.course = load_course(PLAIN)
        self._book, self._folder = book, folder
        self._taking = Intake(book, self.course, self.course.exercises)
        self._number = 0
        book.begin(self.course)

    def stub(self, exercise: str) -> bytes:
        return self.course.stub(self.course.exercise(exercise)).source

    def attempt(self, files: dict[str, bytes]) -> submissions.Attempt:
        """Return an attempt with these files."""
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        for name, source in files.items():
            (folder / name).write_bytes(source)
        pieces = (AttemptFile("", folder),)
        student = StudentInfo(id="zed")
        return submissions.Attempt(
            student=student, attempt=self._number, path=folder, members=pieces
        )

    def read(self, *attempts: dict[str, bytes]) -> list[tuple[Reason, str]]:
        """Read a download with these attempts; return the kind and the exercise of each entry kept."""
        with self._book.transaction():
            found = [self.attempt(files) for files in attempts]
            entries = self._taking.take_in(found, all_attempts=False).attention
            self._book.change(attention=most_pressing_first(entries))
        return [(entry.kind, name) for entry in self.listed() for name in entry.exercises]

    def listed(self) -> tuple[Attention, ...]:
        """Return the entries of the gradebook."""
        return self._book.facts.attention


@pytest.fixture
def downloads(tmp_path: Path) -> Iterator[Downloads]:
    with Gradebook.open_to_write(tmp_path / "results") as book:
        yield Downloads(book, tmp_path)


MISNAMED = (Reason.MISNAMED, "greeting")
GREETING = b"def greeting(name):\n    return name\n"
COUNT = b"def word_count(text):\n    return {}\n"


RAISE = '    raise NotImplementedError("greeting: say hello")\n'


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def greet(name):\n    return name\n", "does not define greeting, as the stub does"),
        ("class A:\n    def greeting(name):\n        return name\n", "does not define greeting"),
        (COUNT.decode(), "does not define greeting"),
        (f"def greeting(name):\n    print(name)\n{RAISE}", "The code in greeting still raises"),
        (f"def greeting(name):\n{RAISE}    return name\n", "The code in greeting still raises"),
        (
            f"def greeting(name):\n    return name\ndef greeting(name):\n{RAISE}",
            "The code in greeting still raises",
        ),
        (f"def greeting(name):\n{RAISE}return name\n", "line 3 is not valid Python"),
        # Ordinary wrong answers, and files without work.
        ("def greeting(name):\n    return 1\n", ""),
        ("if True:\n    from words import hello as greeting\n", ""),
        ("greeting = str.upper\n", ""),
        (f"if True:\n    def greeting(name):\n    {RAISE}", ""),
        (f"import os\ndef greeting(name):\n    # Here.\n{RAISE}", ""),
    ],
)
def test_work_that_cannot_run_is_listed(downloads: Downloads, source: str, what: str) -> None:
    listed = downloads.read({"greeting.py": source.encode()})
    assert listed == ([(Reason.NO_POINTS, "greeting")] if what else [])
    assert all(what in entry.what for entry in downloads.listed())


def test_misnamed_work_stays_listed_until_a_newer_download_has_work(downloads: Downloads) -> None:
    assert downloads.read({"greeting_final.py": GREETING}) == [MISNAMED]
    assert downloads.read({"word_count.py": COUNT}) == [MISNAMED]
    assert downloads.read({"greeting.py": downloads.stub("greeting")}) == [MISNAMED]
    assert downloads.read({"greeting.py": GREETING}) == []
    assert downloads.read({"word_count.py": COUNT}) == []


@pytest.mark.parametrize("with_stub", [True, False])
def test_misnamed_work_in_an_older_attempt_of_a_download_is_listed(
    downloads: Downloads, with_stub: bool
) -> None:
    stub = {"greeting.py": downloads.stub("greeting")}
    first = {"greeting_final.py": GREETING} | (stub if with_stub else {})
    assert downloads.read(first, {"word_count.py": COUNT}) == [MISNAMED]
    assert downloads.read(first, {"word_count.py": COUNT}, stub) == [MISNAMED]
    assert downloads.read(first, {"word_count.py": COUNT}, {"greeting.py": GREETING}) == []


def test_attempts_that_differ_only_in_misnamed_files_are_all_listed(downloads: Downloads) -> None:
    both = [MISNAMED, (Reason.MISNAMED, "word_count")]
    assert downloads.read({"greeting_v2.py": GREETING}, {"word_count_v2.py": COUNT}) == both
