"""Suites under plain pytest: which files are suites, and how tests end. No sandbox starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from grader.course.manifest import Exercise, load_course
from grader.course.suite import SuiteTest
from grader.course.suites import tests_of as declared
from grader.errors import CourseError
from grader.judge import plain
from grader.judge.outcomes import CheckFailed
from grader.judge.plain import SuitePlugin
from grader.judge.suite_run import NotYet
from grader.judge.suite_run import TestEnd as End
from grader.results import Outcome, Visibility

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
COURSE = load_course(PLAIN)
WORDS = COURSE.exercise("word_count")
SUITE = PLAIN / "tests/hidden/text/test_word_count.py"
TESTS = {
    (test.visibility, test.name): test for test in declared(COURSE, WORDS, (Visibility.HIDDEN,))
}


class Run:
    """A stub of a suite run: it records the tests begun and gives each its end."""

    def __init__(self) -> None:
        self.tests = TESTS
        self.session = SimpleNamespace(exercise=WORDS)
        self.begun: list[str] = []
        self.refuses: Exception | None = None
        self.second: End | None = None

    def begin(self, test: SuiteTest) -> None:
        self.begun.append(test.name)
        if self.refuses is not None:
            raise self.refuses

    def end(self, test: SuiteTest, error: BaseException | None) -> End:
        if error is None:
            return End(Outcome.PASSED)
        if isinstance(error, NotYet):
            return End(Outcome.SKIPPED)
        return End(Outcome.FAILED, line=3, function="word_count")

    def carried_forward(
        self, test: SuiteTest, suite: Path, function: Callable[..., None], end: End
    ) -> End:
        assert suite == SUITE
        return self.second or end


@pytest.fixture
def run() -> Run:
    return Run()


def plugin(run: Run | None) -> SuitePlugin:
    return SuitePlugin(cast(Any, lambda path: run if path == SUITE else None))


def item(function: Callable[[Any], None], name: str = "test_case", path: Path = SUITE) -> Any:
    options = SimpleNamespace(getoption=lambda _: False)
    funcargs = {"student": "the student"}
    return SimpleNamespace(
        path=path,
        name=name,
        nodeid=f"x::{name}",
        config=options,
        obj=function,
        funcargs=funcargs,
    )


def failing(student: object) -> None:
    raise CheckFailed("It is wrong.")


# --- a test -----------------------------------------------------------------------------------------


def test_a_test_of_a_suite_begins_and_gets_the_student(run: Run) -> None:
    given: list[object] = []
    assert plugin(run).pytest_pyfunc_call(item(given.append)) is True
    assert (run.begun, given) == (["test_case"], ["the student"])


def test_a_test_of_another_file_is_left_to_pytest(run: Run) -> None:
    other = item(failing, path=PLAIN / "tests/hidden/other.py")
    assert plugin(run).pytest_pyfunc_call(other) is None
    assert run.begun == []


def test_a_failure_passes_only_if_it_was_carried_forward(run: Run) -> None:
    with pytest.raises(CheckFailed):
        plugin(run).pytest_pyfunc_call(item(failing))
    run.second = End(Outcome.FAILED)
    with pytest.raises(CheckFailed):
        plugin(run).pytest_pyfunc_call(item(failing))
    run.second = End(Outcome.PASSED)
    assert plugin(run).pytest_pyfunc_call(item(failing)) is True


def test_a_test_whose_prerequisite_failed_or_whose_package_is_missing_is_skipped(run: Run) -> None:
    with pytest.raises(pytest.skip.Exception, match="not installed"):
        plugin(run).pytest_pyfunc_call(item(failing, name="test_undeclared"))
    run.refuses = NotYet("First correct the other.")
    with pytest.raises(pytest.skip.Exception, match="First correct the other"):
        plugin(run).pytest_pyfunc_call(item(failing))


def reported(of: SuitePlugin, item: Any, when: str, error: BaseException | None) -> dict[str, Any]:
    """Report a phase of an item and return the item's metadata."""
    excinfo = None if error is None else SimpleNamespace(value=error)
    hook = cast(Any, of.pytest_runtest_makereport)(
        item, SimpleNamespace(when=when, excinfo=excinfo)
    )
    next(hook)
    with pytest.raises(StopIteration) as end:
        hook.send("the report")
    assert end.value.value == "the report"
    return of.pytest_json_runtest_metadata(item)


def test_the_end_of_a_call_has_points_a_message_and_a_place(run: Run) -> None:
    passed, failed = (
        reported(plugin(run), item(failing), "call", error) for error in (None, CheckFailed("No."))
    )
    assert (passed["result"], passed["points"], passed["place"]) == ("passed", 1, None)
    assert (failed["result"], failed["points"]) == ("failed", 0)
    assert failed["exercise"] == "word_count" and failed["visibility"] == "hidden"
    assert failed["place"] == {"file": WORDS.file, "line": 3, "function": "word_count"}


def test_a_test_ends_in_its_call_or_in_a_setup_that_fails(run: Run) -> None:
    assert reported(plugin(run), item(failing), "setup", None) == {}
    assert reported(plugin(run), item(failing), "teardown", ValueError()) == {}
    assert reported(plugin(run), item(failing), "setup", ValueError())["result"] == "failed"
    skipped = pytest.skip.Exception("not yet")
    assert reported(plugin(run), item(failing), "call", skipped)["result"] == "skipped"
    undeclared = item(failing, name="test_undeclared")
    assert reported(plugin(run), undeclared, "call", None) == {}


@pytest.mark.parametrize("whole", [False, True])
def test_a_traceback_ends_in_the_suite_unless_pytest_is_asked_for_all_of_it(
    whole: bool, run: Run
) -> None:
    space: dict[str, Any] = {"failing": failing}
    exec(compile("def test_case(student):\n    failing(student)\n", str(SUITE), "exec"), space)
    with pytest.raises(CheckFailed) as caught:
        space["test_case"](None)
    test = item(failing)
    test.config.getoption = {"fulltrace": whole}.get
    reported(plugin(run), test, "call", caught.value)
    functions = []
    entry = caught.value.__traceback__
    while entry is not None:
        functions.append(entry.tb_frame.f_code.co_name)
        entry = entry.tb_next
    assert functions[-1] == ("failing" if whole else "test_case")


def test_a_traceback_outside_the_suite_is_left_whole() -> None:
    with pytest.raises(CheckFailed) as caught:
        failing(None)
    plain._end_in_suite(caught.value, SUITE)
    assert [entry.name for entry in caught.traceback][-1] == "failing"


# --- suites -----------------------------------------------------------------------------------------


class Sessions:
    """Records the sessions opened, with the source that each judges, and the sessions closed."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, bytes]] = []
        self.closed: list[str] = []

    def session_of(self, course: Any, exercise: Exercise, source: bytes, *_: object) -> Any:
        self.opened.append((exercise.id, source))
        return SimpleNamespace(
            exercise=exercise, close=lambda: self.closed.append(exercise.id), run_seed=0
        )


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    sessions = Sessions()
    monkeypatch.setattr(plain, "session_of", sessions.session_of)
    monkeypatch.setattr(plain, "solution_of", lambda *_: None)
    monkeypatch.setattr(plain, "_warn_always", lambda: None)
    monkeypatch.setattr(plain._Suites, "_source_of_sandboxes", lambda _: None)
    return sessions


def test_a_suite_is_found_only_in_a_suite_folder_of_a_course(
    sessions: Sessions, tmp_path: Path
) -> None:
    suites = plain._Suites(None, 7)
    (tmp_path / "hidden" / "text").mkdir(parents=True)
    for path in (
        PLAIN / "tests/wrong/text/test_word_count.py",
        tmp_path / "hidden/text/test_word_count.py",
    ):
        assert suites.find(path) is None
    found = suites.find(SUITE)
    assert found is not None and found.seed == 7
    assert {visibility for visibility, _ in found.tests} == {Visibility.HIDDEN}
    with pytest.raises(CourseError, match="has no student"):
        SuitePlugin(suites.find).student.__wrapped__(  # type: ignore[attr-defined]
            SuitePlugin(suites.find), SimpleNamespace(path=tmp_path / "test_x.py")
        )


def test_only_the_session_of_the_current_suite_stays_open(sessions: Sessions) -> None:
    suites = plain._Suites(None, 0)
    first = suites.find(SUITE)
    assert suites.find(SUITE) is first and len(sessions.opened) == 1
    suites.find(PLAIN / "tests/public/text/test_greeting.py")
    assert [name for name, _ in sessions.opened] == ["word_count", "greeting"]
    assert sessions.closed == ["word_count"]
    list_of_end = suites.pytest_sessionfinish()
    next(list_of_end)
    with pytest.raises(StopIteration):
        next(list_of_end)
    assert sessions.closed == ["word_count", "greeting"]


def test_the_solution_the_stub_or_the_named_submission_is_judged(
    sessions: Sessions, tmp_path: Path
) -> None:
    stub = (PLAIN / "exercises/text/word_count.py").read_bytes()
    solution = (PLAIN / "solutions/text/word_count.py").read_bytes()
    released, mine = tmp_path / "released", tmp_path / "mine"
    shutil.copytree(PLAIN, released, ignore=shutil.ignore_patterns("solutions", "__pycache__"))
    (mine / "text").mkdir(parents=True)
    (mine / "text/word_count.py").write_bytes(b"# mine\n")
    there = released / SUITE.relative_to(PLAIN)
    for submission, suite in ((None, SUITE), (None, there), (str(mine), SUITE)):
        plain._Suites(submission, 0).find(suite)
    assert [source for _, source in sessions.opened] == [solution, stub, b"# mine\n"]


def test_a_submission_that_cannot_be_judged_ends_pytest_with_a_sentence(
    sessions: Sessions, tmp_path: Path
) -> None:
    other, empty = tmp_path / "other", tmp_path / "empty"
    empty.mkdir()
    (other / "text").mkdir(parents=True)
    (other / "text/greeting.py").write_bytes(b"# mine\n")
    for submission, message in (
        (other, "word_count.py is missing"),
        (empty, "has no file of Plain Python"),
        (tmp_path / "none", "There is no submission at"),
    ):
        with pytest.raises(pytest.UsageError, match=message):
            plain._Suites(str(submission), 0).find(SUITE)
    with pytest.raises(pytest.UsageError, match="nothing"):
        plain._Suites(None, 0).find(SUITE.with_name("test_nothing.py"))
    assert sessions.opened == []
