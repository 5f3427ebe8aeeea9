"""Unexplained failures of a class: grouped by the tests' observations, and compared with right answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.gradebook.mistakes import UnnamedGroup, difference, of_group, unnamed_groups
from grader.results import Cause, Entry, Finding, Outcome, Place, TestResult
from tests.grader.builders import checked, entry, exercise

RIGHT = "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
TRIPLED = (
    'def double(x):\n    """Ann\'s."""\n    return 3 * x\n\n\ndef half(x):\n    return x / 2\n'
)


def failed(
    value: str, name: str = "test_double", function: str = "double", cause: Cause = Cause.VALUES
) -> TestResult:
    """Return a failed test that saw this value instead of 4."""
    seen = Finding("The output is {value}, it should be 4.", values={"value": value}, cause=cause)
    place = Place("one/task.py", 1, function)
    return checked(name, Outcome.FAILED, finding=seen, message=f"It is {value}.", place=place)


def groups(
    failures: Mapping[str, tuple[TestResult, ...]],
    sources: Mapping[str, str] | None = None,
    exercises: tuple[str, ...] = (),
) -> list[UnnamedGroup]:
    """Return the groups of a class, given the test results of each student."""
    files = sources or {}
    entries = [entry(exercise(*tests, name="task"), student=who) for who, tests in failures.items()]

    def read(of: Entry) -> dict[str, bytes]:
        return {"task": files.get(of.student.id, TRIPLED).encode()}

    return unnamed_groups(entries, read, exercises)


def students(found: list[UnnamedGroup]) -> list[tuple[str, ...]]:
    return [group.students for group in found]


def test_the_same_observation_is_one_group_and_the_largest_comes_first() -> None:
    found = groups(
        {"ann": (failed("5"),), "bob": (failed("6"),), "cem": (failed("6"),), "dee": (checked(),)}
    )
    assert students(found) == [("bob", "cem"), ("ann",)]
    assert {group.function for group in found} == {"double"}
    assert all(group.id.startswith("task-") for group in found)


def test_values_that_differ_by_rounding_are_one_observation() -> None:
    found = groups({"ann": (failed("6.0000001"),), "bob": (failed("6.0000002"),)})
    assert students(found) == [("ann", "bob")]


def test_students_who_fail_different_tests_are_in_different_groups() -> None:
    both = failed("6"), failed("6", "test_zero")
    assert students(groups({"ann": both, "bob": both[:1]})) == [("ann",), ("bob",)]


def test_each_function_is_a_mistake_of_its_own() -> None:
    ann = failed("6"), failed("1", "test_half", "half")
    found = groups({"ann": ann, "bob": ann[1:]})
    assert [(group.function, group.students) for group in found] == [
        ("half", ("ann", "bob")),
        ("double", ("ann",)),
    ]


def test_a_named_mistake_is_in_no_group() -> None:
    named = failed("6", cause=Cause.MISTAKE)
    timeout = checked("test_double", Outcome.TIMEOUT)
    assert groups({"ann": (named,), "bob": (timeout,), "cem": (checked(),)}) == []


def test_the_shown_file_fails_least_and_is_shortest() -> None:
    sources = {"ann": "x = 1\n", "bob": TRIPLED, "cem": TRIPLED + "# long\n"}
    more = checked("test_zero", Outcome.TIMEOUT)
    alike = {"ann": (failed("6"), more), "bob": (failed("6"),), "cem": (failed("6"),)}
    (group,) = groups(alike, sources)
    assert group.students == ("ann", "bob", "cem")
    assert group.source == TRIPLED.encode()


def test_a_group_keeps_its_id_when_its_students_change() -> None:
    (first,) = groups({"ann": (failed("6"),), "bob": (failed("6"),)})
    (later,) = groups({"bob": (failed("6"),), "zoe": (failed("6"),)})
    assert first.id == later.id
    (other,) = groups({"ann": (failed("7"),)})
    assert other.id != first.id


def test_only_the_named_exercises_are_grouped() -> None:
    assert groups({"ann": (failed("6"),)}, exercises=("other",)) == []
    assert students(groups({"ann": (failed("6"),)}, exercises=("task",))) == [("ann",)]


def test_a_group_is_found_by_its_id() -> None:
    found = groups({"ann": (failed("6"),)})
    assert of_group(found, found[0].id) is found[0]
    with pytest.raises(SubmissionError, match="no group 'task-000000' among 1 group: "):
        of_group(found, "task-000000")


# --- the difference to a right answer -------------------------------------------------------------


@pytest.fixture
def course(tmp_path: Path, write_course: Callable[..., Course]) -> Course:
    return write_course(tmp_path, 'def test_double(student):\n    """Doubles."""\n', solution=RIGHT)


def changed(course: Course, source: str, function: str = "double") -> list[str]:
    """Return the removed and added lines of the difference."""
    group = UnnamedGroup(
        id="task-1",
        exercise="task",
        function=function,
        students=(),
        tests=(),
        source=source.encode(),
    )
    lines = difference(course, course.exercises[0], group)
    return [line for line in lines[2:] if line[0] in "+-"]


def test_the_difference_is_of_the_function_without_comments(course: Course) -> None:
    other = TRIPLED.replace("x / 2", "x * 0.5  # half of it")
    assert changed(course, other) == ["-    return 2 * x", "+    return 3 * x"]


def test_without_the_function_the_whole_file_is_compared(course: Course) -> None:
    whole = ["-    return 2 * x", "+    return 3 * x"]
    assert changed(course, TRIPLED, "") == changed(course, TRIPLED, "Gone.forward") == whole
    assert "+def doubled(x):" in changed(course, TRIPLED.replace("double", "doubled"))


def test_the_nearest_right_answer_is_taken(course: Course) -> None:
    right = course.root / "tests" / "right" / "one" / "task"
    right.mkdir(parents=True)
    added = "def double(x):\n    twice = x + x\n    return twice\n"
    (right / "added.py").write_text(added, encoding="utf-8")
    assert changed(course, added.replace("return twice", "return twice + x")) == [
        "-    return twice",
        "+    return twice + x",
    ]


def test_a_file_that_is_not_python_has_no_difference(course: Course) -> None:
    assert changed(course, "def double(x:\n") == []
    course.solution(course.exercises[0]).unlink()
    assert changed(course, TRIPLED) == []
