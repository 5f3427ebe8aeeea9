"""The panel of a result: its contents, their order, and the advice. Nothing is judged."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.cli.terminal.console import open_console
from grader.cli.terminal.result import show_complete, show_result
from grader.course.assignments import CourseAssignment, Exam
from grader.course.manifest import load_course
from grader.results import (
    Environment,
    ExerciseResult,
    Outcome,
    Place,
    Result,
    Status,
    TestResult,
    Visibility,
)
from grader.student.blocks import problems
from grader.student.next_step import Asked, Guide
from grader.student.progress import Standing
from tests.grader import builders

PLAIN = Path(__file__).parents[2] / "courses" / "plain"


def a_test(number: int, outcome: Outcome = Outcome.FAILED, **changes: Any) -> TestResult:
    """Return the test of this number. Unless it passed, it has two lines of message and line 10 + number."""
    given: dict[str, Any] = {"title": f"Title {number}", "visibility": Visibility.HIDDEN}
    given["duration_seconds"] = 0.25
    if outcome is not Outcome.PASSED:
        given["message"] = f"Finding {number}.\nDetail {number}."
        given["hint"] = f"Hint {number}."
        given["place"] = Place("text/word_count.py", 10 + number, "word_count")
    return builders.checked(f"test_{number}", outcome, **{**given, **changes})


def exercise(
    *tests: TestResult,
    name: str = "word_count",
    status: Status = Status.PARTIAL,
    score: float = 4,
    **changes: Any,
) -> ExerciseResult:
    """An exercise with these tests."""
    given = {"title": f"The {name}", "chapter": "text", "status": status, "score": score}
    tests = tests or (a_test(1),)
    return builders.exercise(*tests, name=name, worth=10.0, **{**given, **changes})


def untouched(name: str) -> ExerciseResult:
    """An exercise that nobody has begun."""
    stub = a_test(1, Outcome.NOT_IMPLEMENTED, message="Not attempted yet", place=None)
    message = "Not attempted yet: it is still the stub."
    status = Status.NOT_ATTEMPTED
    return exercise(stub, name=name, status=status, score=0, message=message, settled=True)


def result(*exercises: ExerciseResult) -> Result:
    """A result with these exercises."""
    environment = Environment("0", "3.11", "", "any", ("landlock", "seccomp"))
    return builders.result(*exercises, seed=5, duration_seconds=2.5, environment=environment)


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guide:
    """A guide through a fresh clone, which is the current folder."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    shutil.copytree(tmp_path / "exercises", tmp_path / "tests" / "stubs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return Guide(load_course(tmp_path), tmp_path / "exercises")


def shown(guide: Guide, *exercises: ExerciseResult, verbose: bool = False) -> str:
    stream = io.StringIO()
    show_result(open_console(stream), result(*exercises), guide, verbose=verbose)
    return stream.getvalue()


# --- findings -------------------------------------------------------------------------------------


def test_findings_keep_their_order_and_end_with_unwritten_parts() -> None:
    unwritten = a_test(1, Outcome.NOT_IMPLEMENTED)
    skipped, passed = a_test(3, Outcome.SKIPPED), a_test(4, Outcome.PASSED)
    found = problems(exercise(unwritten, a_test(2), skipped, passed, a_test(5)))
    assert [finding.first.name for finding in found] == ["test_2", "test_5", "test_1"]


def test_findings_with_the_same_words_at_the_same_place_are_one() -> None:
    first = a_test(1)
    same = a_test(2, message=first.message, place=first.place)
    elsewhere = a_test(3, message=first.message)
    otherwise = a_test(4, Outcome.ERROR, message=first.message, place=first.place)
    found = problems(exercise(first, same, elsewhere, otherwise))
    assert [[test.name for test in each.tests] for each in found] == [
        ["test_4"],
        ["test_1", "test_2"],
        ["test_3"],
    ]


# --- the panel ------------------------------------------------------------------------------------


def test_panel_has_three_findings_of_the_first_exercise_and_one_of_others(guide: Guide) -> None:
    many = [a_test(number) for number in range(1, 6)]
    panel = shown(guide, exercise(*many), exercise(*many, name="greeting"))
    first, second = panel.split("~ greeting")
    assert [number for number in range(1, 6) if f"Finding {number}." in first] == [1, 2, 3]
    assert "2 more tests do not hold yet: `grade run word_count` shows all." in first
    assert [number for number in range(1, 6) if f"Finding {number}." in second] == [1]
    assert "4 more tests do not hold yet: `grade run greeting` shows all." in second


@pytest.mark.parametrize(("lines", "whole"), [(24, 1), (50, 3)])
def test_low_terminal_shows_the_first_cause_whole(
    guide: Guide, monkeypatch: pytest.MonkeyPatch, lines: int, whole: int
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", str(lines))
    details = "\n".join(f"Detail {number}." for number in range(8))
    tests = [a_test(number, message=f"Finding {number}.\n{details}") for number in range(1, 4)]
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]  # a terminal
    show_result(open_console(stream), result(exercise(*tests)), guide)
    panel = stream.getvalue()
    assert len(panel.splitlines()) <= lines - 2
    assert panel.count("Detail 7.") == panel.count("Finding ") == whole
    assert ("2 more tests do not hold yet" in panel) == (whole == 1)


def test_finding_says_what_where_and_what_to_do(guide: Guide) -> None:
    panel = shown(
        guide, exercise(a_test(1), a_test(2, Outcome.SKIPPED), a_test(3, Outcome.SKIPPED))
    )
    assert (
        "    x Title 1\n"
        "      Finding 1.\n"
        "      Detail 1.\n"
        "      exercises/text/word_count.py:11  in word_count\n"
        "      > Hint 1.\n"
        "    2 more tests wait for this one.\n"
    ) in panel
    assert "Title 2" not in panel


def test_passed_and_untouched_exercises_take_one_line(guide: Guide) -> None:
    passed = exercise(a_test(1, Outcome.PASSED), status=Status.PASSED, score=10)
    lines = shown(guide, passed, untouched("greeting"), untouched("running_mean")).splitlines()
    assert lines[3:6] == [
        "  + word_count    The word_count    10 / 10  passed",
        "  - greeting      The greeting       0 / 10  to do",
        "  - running_mean  The running_mean   0 / 10  to do",
    ]
    assert lines[6:] == [
        "",
        "Total: 10 of 30 points",
        "Next: start with exercises/text/greeting.py; `grade hint greeting` helps.",
    ]


def test_import_error_is_shown_once(guide: Guide) -> None:
    message = "text/word_count.py cannot be imported. Your code raised NameError."
    tests = [a_test(n, Outcome.ERROR, message=message, place=a_test(1).place) for n in (1, 2, 3)]
    panel = shown(guide, exercise(*tests, status=Status.ERROR, score=0, message=message))
    assert panel.count("cannot be imported") == 1
    assert "Title" not in panel
    assert "Hint" not in panel


def test_verbose_panel_has_every_test_the_output_and_the_run(guide: Guide) -> None:
    tests = [
        a_test(1, Outcome.PASSED),
        a_test(2),
        a_test(3, Outcome.SKIPPED, message="Not judged."),
    ]
    panel = shown(guide, exercise(*tests, output="printed\n\nhere\n"), verbose=True)
    assert "    + Title 1  hidden 0.25s\n    x Title 2  hidden 0.25s\n" in panel
    assert "    - Title 3  hidden 0.25s\n      Not judged.\n" in panel
    assert "      | printed\n      |\n      | here\n" in panel
    assert "Seed 5, 2.50 s. Walls: landlock, seccomp.\n" in panel


def test_output_is_shown_at_the_first_finding_that_printed(guide: Guide) -> None:
    lines = "\n".join(f"line {number}" for number in range(9))
    passed = a_test(4, Outcome.PASSED, printed="as it should be")
    tests = [a_test(1), a_test(2, printed=lines), a_test(3, printed="third"), passed]
    panel = shown(guide, exercise(*tests, output="all of it"))
    assert "      > Hint 2.\n      9 lines printed:\n      | line 0\n" in panel
    assert "      | line 4\n      and 4 lines more\n" in panel
    assert "third" not in panel
    whole = shown(guide, exercise(*tests), verbose=True)
    assert "      | line 8\n" in whole
    assert "      1 line printed:\n      | third\n" in whole
    assert "    + Title 4  hidden 0.25s\n      1 line printed:\n      | as it should be\n" in whole
    imported = shown(guide, exercise(a_test(1), output="at import"))
    assert "      1 line printed:\n      | at import\n" in imported


def test_forbidden_names_have_a_heading_of_their_own(guide: Guide) -> None:
    message = "collections.Counter is not allowed here: count with a dictionary of your own."
    place = a_test(1).place
    tests = [a_test(n, message=message, place=place, hint="", refused=True) for n in (1, 2)]
    panel = shown(guide, exercise(*tests, a_test(3)))
    assert "    x Not allowed\n      collections.Counter is not allowed here" in panel
    assert "2 tests end there." in panel
    assert "Title 1" not in panel
    assert "x Title 3" in panel


def test_points_by_the_public_tests_alone_say_so(guide: Guide) -> None:
    public = exercise(a_test(1, visibility=Visibility.PUBLIC))
    assert "points  by the public tests alone" in shown(guide, public)
    assert "by the public tests alone" not in shown(guide, public, exercise(a_test(1)))


def test_hostile_text_stays_text(guide: Guide) -> None:
    evil = "[red]x[/red] \x1b[31m\x07 \u202e [link=file:///]y[/link]"
    test = a_test(1, title=evil, message=f"{evil}\n{evil}", hint=evil, place=Place("a", 1, evil))
    panel = shown(guide, exercise(test, output=evil), verbose=True)
    assert panel.count("[red]x[/red]") == 6
    assert all(each.isprintable() or each == "\n" for each in panel)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_table_fits(guide: Guide, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    title = "A title that is long enough to be cut off or to go below the line"
    long = exercise(a_test(1, Outcome.PASSED), title=title)
    line, below = shown(guide, long).splitlines()[3:5]
    assert len(line) <= width
    assert line.startswith("  ~ word_count  ")
    assert line.endswith("4 / 10  partly passed")
    # The whole title is beside the id or below it.
    assert (title in line) == (width >= 200)
    assert ("    A title that is long enough to be" in below) == (width < 200)
    several = shown(guide, long, exercise(a_test(1), name="greeting")).splitlines()[3]
    assert len(several) <= width
    assert several.startswith("  ~ word_count  ")
    assert ("A title that is long" in several) == (width >= 80)


# --- the next step --------------------------------------------------------------------------------


def last_line(guide: Guide, *exercises: ExerciseResult) -> str:
    return shown(guide, *exercises).splitlines()[-1]


def test_next_step_starts_at_the_first_exercise(guide: Guide) -> None:
    step = last_line(guide, untouched("word_count"), untouched("greeting"))
    assert step == "Start with exercises/text/word_count.py; `grade hint word_count` helps."


def test_next_step_fixes_a_begun_exercise_first(guide: Guide) -> None:
    step = last_line(guide, untouched("word_count"), exercise(a_test(7), name="greeting"))
    assert step == "Next: fix exercises/text/greeting.py:17, then run `grade run greeting`."


def test_next_step_finishes_unwritten_parts(guide: Guide) -> None:
    step = last_line(guide, exercise(a_test(1, Outcome.NOT_IMPLEMENTED)))
    assert step == "Next: finish exercises/text/word_count.py:11, then run `grade run word_count`."


def test_next_step_of_a_missing_file(guide: Guide) -> None:
    (guide.submission / "text" / "word_count.py").unlink()
    missing = a_test(1, Outcome.ERROR, message="It is missing.", place=None)
    step = last_line(guide, exercise(missing, status=Status.ERROR, message="It is missing."))
    assert step.startswith("Next: put your file at exercises/text/word_count.py, then run")


def test_next_step_after_a_part_of_the_course(guide: Guide) -> None:
    passed = exercise(a_test(1, Outcome.PASSED), status=Status.PASSED, score=10)
    step = last_line(guide, passed)
    assert step == "Done. Next: start with exercises/text/greeting.py; `grade hint greeting` helps."
    for each in guide.course.exercises:
        shutil.copy(guide.course.solution(each), guide.submission / each.chapter)
    assert last_line(guide, passed).endswith("`grade run --all` judges the whole course.")


def test_next_step_at_the_end(guide: Guide) -> None:
    names = [each.id for each in guide.course.exercises]
    passed = [exercise(a_test(1, Outcome.PASSED), name=n, status=Status.PASSED) for n in names]
    assert (
        last_line(guide, *passed) == "Full marks: every test of every exercise passes. Well done!"
    )


def test_advised_commands_repeat_the_options(guide: Guide) -> None:
    guide = msgspec.structs.replace(guide, run_options=" --seed 4", hint_options=" --course x")
    assert last_line(guide, exercise(a_test(1))).endswith("run `grade run word_count --seed 4`.")
    assert "`grade hint greeting --course x`" in last_line(guide, untouched("greeting"))


# --- the student's own folder ---------------------------------------------------------------------


@pytest.fixture
def own(guide: Guide) -> Guide:
    """A guide through the student's own folder, in which nothing is done."""
    open_ones = {each.id: Standing.OPEN for each in guide.course.exercises}
    return msgspec.structs.replace(guide, standings=open_ones, asked=Asked.BARE)


def with_standings(guide: Guide, **standings: Standing) -> Guide:
    return msgspec.structs.replace(guide, standings={**guide.standings, **standings})


def test_one_exercise_is_shown_with_the_progress(own: Guide) -> None:
    panel = shown(with_standings(own, greeting=Standing.DONE), exercise(a_test(1)))
    assert panel.startswith("Plain Python and NumPy\n\n  ~ word_count")
    assert "\n1 of 3 done\n" in panel
    assert "Total" not in panel
    both = shown(
        with_standings(own, greeting=Standing.DONE), exercise(a_test(1)), untouched("greeting")
    )
    assert "Total: 4 of 20 points" in both


def test_exercise_that_is_not_begun_is_introduced(own: Guide) -> None:
    panel = shown(own, untouched("word_count"))
    assert "    Count with a dictionary.\n    About 10 minutes, gentle.\n" in panel
    assert panel.endswith(
        "\nStart: open exercises/text/word_count.py and run `grade watch`: it answers every save.\n"
    )


@pytest.mark.parametrize(
    ("asked", "command"),
    [(Asked.BARE, ", then run `grade`."), (Asked.WATCHING, " and save.")],
)
def test_next_step_says_how_to_judge_again(own: Guide, asked: Asked, command: str) -> None:
    own = msgspec.structs.replace(own, asked=asked)
    step = last_line(own, exercise(a_test(7)))
    assert step == f"Next: fix exercises/text/word_count.py:17{command}"


def test_missing_file_can_be_restored(own: Guide) -> None:
    (own.submission / "text" / "word_count.py").unlink()
    missing = a_test(1, Outcome.ERROR, message="Hand it in.", place=None)
    panel = shown(own, exercise(missing, status=Status.ERROR, message="Hand it in."))
    stub = "text/word_count.py is missing: `grade reset word_count` restores the stub."
    assert stub in " ".join(panel.split())
    assert "Hand it in" not in panel
    assert panel.endswith(
        "\nNext: put your file or the stub at exercises/text/word_count.py, then run `grade`.\n"
    )


def test_advice_names_the_exercise_only_if_needed(own: Guide) -> None:
    assert "`grade watch greeting`" in last_line(own, untouched("greeting"))
    done = with_standings(own, word_count=Standing.DONE)
    assert "`grade watch`" in last_line(done, untouched("greeting"))


def test_next_step_is_the_first_open_exercise(own: Guide) -> None:
    passed = exercise(a_test(1, Outcome.PASSED), name="greeting", status=Status.PASSED, score=10)
    begun = with_standings(own, word_count=Standing.EDITED_SINCE, greeting=Standing.DONE)
    # Not running_mean, which comes next but needs word_count.
    assert last_line(begun, passed) == (
        "Done. Next: go on with exercises/text/word_count.py, then run `grade`."
    )
    watching = msgspec.structs.replace(begun, asked=Asked.WATCHING)
    assert (
        last_line(watching, passed)
        == "Done. Press n for the next one: A running mean over neighbors."
    )
    ended = with_standings(begun, word_count=Standing.DONE, running_mean=Standing.DONE)
    assert last_line(ended, passed).startswith("Every exercise is done.")


def test_exercises_of_an_exam_are_not_proposed(own: Guide) -> None:
    midterm = CourseAssignment(
        id="midterm", title="Midterm", exercises=("word_count",), exam=Exam()
    )
    passed = exercise(a_test(1, Outcome.PASSED), name="greeting", status=Status.PASSED, score=10)
    course = msgspec.structs.replace(own.course, assignments=(midterm,))
    guide = msgspec.structs.replace(own, course=course, by_all_tests=True, asked=Asked.BY_NAME)
    done = with_standings(guide, greeting=Standing.FULL_MARKS)
    assert "running_mean.py" in last_line(done, passed)
    ended = with_standings(done, running_mean=Standing.FULL_MARKS)
    assert last_line(ended, passed) == "Full marks for every exercise outside of exams. Well done!"


def test_with_a_server_a_changed_file_comes_before_the_next_exercise(own: Guide) -> None:
    passed = exercise(a_test(1, Outcome.PASSED), name="greeting", status=Status.PASSED, score=10)
    watching = msgspec.structs.replace(own, asked=Asked.WATCHING, submit_key="s")
    told = [
        last_line(with_standings(watching, greeting=standing), passed)
        for standing in (Standing.DONE, Standing.EDITED_SINCE, Standing.FULL_MARKS)
    ]
    assert told[0] == "Done. Press s to hand it in."
    assert told[1] == "You changed the file since: it is being judged again."
    assert told[2].startswith("Done. Press n for the next one:")


def test_other_begun_exercises_are_mentioned(own: Guide) -> None:
    begun = with_standings(own, greeting=Standing.BEGUN, running_mean=Standing.DONE)
    assert "Begun and not done: greeting (`grade run greeting`)." in (
        shown(begun, untouched("word_count"))
    )
    assert "Begun" not in shown(begun, exercise(a_test(1)))


def test_with_a_server_only_full_marks_are_done(own: Guide) -> None:
    served = msgspec.structs.replace(own, by_all_tests=True, asked=Asked.BY_NAME)
    served = with_standings(served, word_count=Standing.DONE, running_mean=Standing.FULL_MARKS)
    passed = exercise(a_test(1, Outcome.PASSED), name="greeting", status=Status.PASSED, score=10)
    assert last_line(served, passed) == (
        "Full marks. Next: word_count passes the public tests: hand it in with `grade submit word_count`."
    )
    ended = with_standings(served, word_count=Standing.FULL_MARKS)
    assert last_line(ended, passed) == "Full marks for every exercise. Well done!"
    failed = [a_test(n) for n in range(1, 12)]
    panel = " ".join(shown(served, exercise(*failed)).split())
    # Looking again at a server's verdict is not another hand-in.
    assert "`grade submit --status -v` shows all" in panel
    assert panel.endswith("then run `grade submit word_count`.")


def test_complete(own: Guide) -> None:
    stream = io.StringIO()
    done = dict.fromkeys(own.standings, Standing.DONE)
    show_complete(open_console(stream), with_standings(own, **done))
    assert "3 of 3 done\nEvery exercise is done, as its file is now." in stream.getvalue()
    assert "`grade --all`" in stream.getvalue()
