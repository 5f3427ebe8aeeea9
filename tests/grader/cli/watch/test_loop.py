"""The loop of `grade watch`, with a real judge and a screen that records its views."""

from __future__ import annotations

import queue
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.cli.watch.loop import KEYS, Submit, WatchLoop
from grader.cli.watch.screen import Shows, View
from grader.course.manifest import Course, Exercise, load_course
from grader.errors import GraderError
from grader.results import ExerciseResult, Status, Visibility
from grader.student.progress import Standing
from grader.student.workspace import Workspace
from tests.grader.builders import checked
from tests.grader.builders import exercise as an_exercise

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
RIGHT = b"def greeting(name):\n    return f'Hello, {name}!'\n"
WRONG = b"def greeting(name):\n    return name\n"
SLOW = b"import time\ntime.sleep(3)\n" + RIGHT
# Has no verdict before it is called off, even on a busy machine.
NEVER = b"import time\ntime.sleep(600)\n"


class Face:
    """Records every view and every status."""

    def __init__(self) -> None:
        self.views: list[View] = []
        self.statuses: list[str] = []
        self._changed = threading.Condition()

    def draw(self, view: View) -> None:
        with self._changed:
            self.views.append(view)
            self._changed.notify_all()

    def status(self, text: str) -> None:
        with self._changed:
            self.statuses.append(text)
            self._changed.notify_all()

    def scrolled(self, view: View, pages: int) -> int:
        return max(0, view.top + pages)

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        with self._changed:
            assert self._changed.wait_for(until, 60), (self.views[-1:], self.statuses[-3:])

    @property
    def judged(self) -> list[View]:
        """The views that came with a verdict."""
        return [view for view in self.views if "judged in" in view.status]


def _plot(exercise: Exercise) -> str:
    return f"{exercise.id}.png"


class Running:
    """A loop in a thread, in a clone of the plain course."""

    def __init__(self, course: Course, submit: Submit | None = None) -> None:
        self.course, self.face, self._submit = course, Face(), submit
        self._ended: list[BaseException | None] = []
        self._thread = threading.Thread(target=self._run)

    def begin(self) -> None:
        """Begin with the greeting as it is now."""
        self.loop = WatchLoop(Workspace(self.course), self.face, _plot, self._submit)
        self._thread.start()
        self.face.wait(lambda: bool(self.face.views))

    def _run(self) -> None:
        try:
            self.loop.run(self.course.exercise("greeting"))
        except (GraderError, OSError) as error:
            self._ended.append(error)
        else:
            self._ended.append(None)

    def write(self, source: bytes, exercise: str = "greeting") -> None:
        """Write a file in one step, so the loop never reads half of it. The save is not reported."""
        draft = self.course.root / "draft.py"
        draft.write_bytes(source)
        draft.replace(self.course.folder / self.course.exercise(exercise).file)

    def save(self, source: bytes, exercise: str = "greeting") -> None:
        """Save a file."""
        self.write(source, exercise)
        self.saved(exercise)

    def saved(self, *exercises: str) -> None:
        """Report a save of these exercises."""
        self.loop.later(self.loop.save)(exercises)

    def press(self, keys: str) -> None:
        for key in keys:
            self.loop.later(self.loop.press)(key)

    def verdicts(self, count: int) -> View:
        """Return the newest view, after this many verdicts."""
        self.face.wait(lambda: len(self.face.judged) >= count)
        return self.face.judged[-1]

    def drawn(self, holds: Callable[[View], bool]) -> View:
        """Wait until the newest view fits, and return it."""
        self.face.wait(lambda: bool(self.face.views) and holds(self.face.views[-1]))
        return self.face.views[-1]

    def end(self) -> BaseException | None:
        self.press("q")
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self._ended[0]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A fresh clone of the plain course, with time limits that no test reaches."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    manifest = tmp_path / "exercises" / "course.toml"
    manifest.write_text(
        re.sub(r"(?m)^seconds = \d+$", "seconds = 3600", manifest.read_text("utf-8"))
    )
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(tmp_path / "exercises", tmp_path / "tests" / "stubs", ignore=ignored)
    return load_course(tmp_path)


@pytest.fixture
def running(course: Course) -> Iterator[Running]:
    """A loop that the test begins. It must end without an error."""
    loop = Running(course)
    yield loop
    assert loop.end() is None


def test_a_save_is_answered(running: Running) -> None:
    running.begin()
    assert running.face.views[0].results[0].status is Status.NOT_ATTEMPTED
    running.save(WRONG)
    (wrong,) = running.verdicts(1).results
    assert wrong.status is not Status.PASSED
    running.save(RIGHT)
    (right,) = running.verdicts(2).results
    assert (right.name, right.status) == ("greeting", Status.PASSED)
    workspace = Workspace(running.course)
    assert workspace.standings()["greeting"] is Standing.DONE


def test_only_what_changed_is_judged(running: Running) -> None:
    running.write(RIGHT)
    running.begin()
    running.verdicts(1)
    running.saved("greeting")
    running.face.wait(lambda: any("without a change" in each for each in running.face.statuses))
    running.save(b"x = 1\n", "word_count")
    view = running.verdicts(2)
    assert view.exercise.id == "word_count"
    assert [result.name for result in view.results] == ["word_count"]
    assert len(running.face.judged) == 2


def test_a_save_without_a_change_shows_its_exercise(running: Running) -> None:
    running.write(RIGHT)
    running.begin()
    running.verdicts(1)
    running.press("n")
    running.drawn(lambda view: view.exercise.id != "greeting")
    running.saved("greeting")
    view = running.drawn(lambda view: view.exercise.id == "greeting")
    assert view.results[0].status is Status.PASSED
    running.face.wait(lambda: any("without a change" in each for each in running.face.statuses))


def test_of_several_saves_the_exercise_shown_is_answered(running: Running) -> None:
    running.begin()
    running.write(RIGHT)
    running.write(b"x = 1\n", "word_count")
    running.saved("greeting", "word_count")
    assert running.verdicts(1).exercise.id == "greeting"


def test_passing_never_moves_on(running: Running) -> None:
    running.begin()
    running.save(RIGHT)
    assert running.verdicts(1).exercise.id == "greeting"
    # The exercise stays until a key turns to another.
    running.press("h")
    assert running.drawn(lambda view: view.hint == 1).exercise.id == "greeting"
    running.press("n")
    assert running.drawn(lambda view: view.exercise.id != "greeting").exercise.id == "running_mean"
    running.press("n")
    running.drawn(lambda view: view.exercise.id == "word_count")


def test_the_newest_save_wins(running: Running) -> None:
    running.begin()
    running.save(NEVER + RIGHT)
    running.drawn(lambda view: view.status == "judging greeting")
    running.save(NEVER + WRONG)
    running.save(RIGHT)
    (result,) = running.verdicts(1).results
    assert result.status is Status.PASSED
    # Verdicts come in order: one on an older save would come before this one.
    running.save(WRONG)
    running.verdicts(2)
    assert [view.results[0].status for view in running.face.judged] == [
        *(Status.PASSED, Status.FAILED)
    ]


def test_a_syntax_error_needs_no_judge_and_calls_off_the_last_one(running: Running) -> None:
    running.begin()
    running.save(NEVER + RIGHT)
    running.save(b"def greeting(:\n")
    view = running.drawn(lambda view: view.results[0].status is Status.ERROR)
    assert "not valid Python: line 1" in view.results[0].message
    assert not running.face.judged


def test_hints_come_one_by_one_and_start_again(running: Running) -> None:
    running.begin()
    for number in (1, 2, 3, 1):
        running.press("h")
        running.drawn(lambda view, number=number: view.hint == number)  # type: ignore[misc]


def test_a_hint_stays_until_the_exercise_passes(running: Running) -> None:
    running.begin()
    running.press("hh")
    running.drawn(lambda view: view.hint == 2)
    running.save(WRONG)
    assert running.verdicts(1).hint == 2
    running.save(WRONG + b"# again\n")
    assert running.verdicts(2).hint == 2
    running.loop.later(running.loop.draw)()
    running.save(b"def greeting(:\n")
    assert running.drawn(lambda view: view.results[0].status is Status.ERROR).hint == 2
    running.press("h")
    running.drawn(lambda view: view.hint == 3)
    running.save(RIGHT)
    view = running.drawn(lambda view: view.results[0].status is Status.PASSED)
    assert view.hint is None
    # The key still shows hints afterwards.
    running.press("h")
    running.drawn(lambda view: view.hint == 1)


def test_a_hint_is_shown_again_with_its_exercise(running: Running) -> None:
    running.begin()
    running.press("h")
    running.drawn(lambda view: view.hint == 1)
    running.press("l")
    assert running.drawn(lambda view: view.shows is Shows.LIST).hint is None
    running.press("l")
    assert running.drawn(lambda view: view.shows is Shows.EXERCISE).hint == 1
    running.press("n")
    assert running.drawn(lambda view: view.exercise.id == "running_mean").hint is None
    running.save(WRONG)
    assert running.verdicts(1).hint == 1


def test_list_and_back(running: Running) -> None:
    running.begin()
    running.press("l")
    running.drawn(lambda view: view.shows is Shows.LIST)
    running.press("l")
    view = running.drawn(lambda view: view.shows is Shows.EXERCISE)
    assert view.results[0].name == "greeting"


def test_all(running: Running) -> None:
    running.begin()
    running.write(RIGHT)
    running.write(b"x = 1\n", "word_count")
    running.press("a")
    view = running.verdicts(1)
    assert view.shows is Shows.ALL
    assert [result.name for result in view.results] == ["word_count", "greeting", "running_mean"]
    assert view.results[1].status is Status.PASSED


def test_all_with_a_faulty_suite(running: Running) -> None:
    suite = running.course.root / "tests/public/text/test_word_count.py"
    suite.write_text(suite.read_text("utf-8").replace('"a b a"', "nobody"), encoding="utf-8")
    running.begin()
    running.write(b"x = 1\n", "word_count")
    running.write(RIGHT)
    running.press("a")
    view = running.verdicts(1)
    assert [result.name for result in view.results] == ["greeting", "running_mean"]
    assert "is at fault" in view.notes


def test_run_again(running: Running) -> None:
    running.write(RIGHT)
    running.begin()
    running.verdicts(1)
    running.press("r")
    running.verdicts(2)


def test_plot_shows_where_the_picture_is(running: Running) -> None:
    running.begin()
    running.press("p")
    assert running.drawn(lambda view: bool(view.notes)).notes == "greeting.png"


class Server:
    """A fake server of a course. It gives a verdict when the test provides one."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.verdicts: queue.SimpleQueue[ExerciseResult | GraderError] = queue.SimpleQueue()

    def __call__(
        self, exercise: Exercise, source: bytes, tell: Callable[[str], None]
    ) -> ExerciseResult:
        self.sent.append(source)
        tell(f"{exercise.id}: place {len(self.sent)} in the queue")
        verdict = self.verdicts.get(timeout=60)
        if isinstance(verdict, GraderError):
            raise verdict
        return verdict


def served(status: Status, score: float) -> ExerciseResult:
    """Return a verdict on the greeting, from tests that only the server has."""
    hidden = checked(visibility=Visibility.HIDDEN)
    return an_exercise(hidden, name="greeting", worth=2.5, status=status, score=score)


@pytest.fixture
def handing_in(course: Course) -> Iterator[tuple[Running, Server]]:
    """A loop with a server, in which a right answer was judged."""
    server = Server()
    loop = Running(course, server)
    loop.write(RIGHT)
    loop.begin()
    loop.verdicts(1)
    yield loop, server
    assert loop.end() is None


def test_a_key_hands_in_and_the_verdict_is_shown_when_it_comes(
    handing_in: tuple[Running, Server],
) -> None:
    running, server = handing_in
    running.press("ss")
    running.face.wait(lambda: "greeting: place 1 in the queue" in running.face.statuses)
    running.face.wait(lambda: any("already handed in" in text for text in running.face.statuses))
    server.verdicts.put(served(Status.PARTIAL, 1.0))
    view = running.drawn(lambda view: view.served)
    assert view.results[0].score == 1.0 and "1 of 2.5 points from the server" in view.status
    # A save is judged here again. A verdict on an older file does not apply to it.
    running.save(WRONG)
    assert not running.verdicts(2).served
    running.press("s")
    running.face.wait(lambda: "greeting: place 2 in the queue" in running.face.statuses)
    running.save(RIGHT + b"# newer\n")
    running.verdicts(3)
    server.verdicts.put(served(Status.PARTIAL, 0.5))
    view = running.drawn(lambda view: "as you handed it in: 0.5 of 2.5" in view.notes)
    assert not view.served and view.results[0].status is Status.PASSED
    running.press("s")
    server.verdicts.put(served(Status.PASSED, 2.5))
    running.drawn(lambda view: view.served)
    assert server.sent == [RIGHT, WRONG, RIGHT + b"# newer\n"]
    assert Workspace(running.course).standings()["greeting"] is Standing.FULL_MARKS


def test_a_refusal_of_the_server_is_shown_and_can_be_retried(
    handing_in: tuple[Running, Server],
) -> None:
    running, server = handing_in
    running.press("s")
    server.verdicts.put(GraderError("Nothing was handed in. Try again in 2 minutes."))
    view = running.drawn(lambda view: bool(view.notes))
    assert view.notes == "greeting: Nothing was handed in. Try again in 2 minutes."
    running.press("s")
    server.verdicts.put(served(Status.PASSED, 2.5))
    running.drawn(lambda view: view.served)
    # Judging here again brings back the verdict of the local tests.
    running.press("r")
    assert not running.verdicts(2).served


def test_without_a_server_the_key_explains_how_to_submit(running: Running) -> None:
    running.begin()
    running.press("s")
    running.face.wait(lambda: "grade watch --submit" in "".join(running.face.statuses))


def test_a_key_shows_all_printed_output(running: Running) -> None:
    running.write(b"def greeting(name):\n    print('given', name)\n    return name\n")
    running.begin()
    running.verdicts(1)
    running.press("o")
    notes = running.drawn(lambda view: "given" in view.notes).notes
    assert ":\ngiven " in notes


def test_hints_and_notes_stay_when_the_verdict_comes(running: Running) -> None:
    running.begin()
    running.save(SLOW)
    running.drawn(lambda view: view.status == "judging greeting")
    running.press("h")
    running.drawn(lambda view: view.hint == 1)
    running.press("p")
    assert running.drawn(lambda view: bool(view.notes)).hint == 1
    view = running.verdicts(1)
    assert (view.hint, view.notes) == (1, "greeting.png")


def test_every_key_is_in_the_help_and_in_the_docs() -> None:
    shown = CliRunner().invoke(main, ["watch", "--help"]).output
    docs = (Path(__file__).parents[4] / "docs" / "students.md").read_text(encoding="utf-8")
    for letter, key in KEYS.items():
        assert f"\n  {letter}  {key.help}" in shown
    assert re.findall(r"^\| `(.)` \|", docs, re.MULTILINE) == list(KEYS)


def test_j_and_k_scroll_and_a_new_view_begins_at_the_top(running: Running) -> None:
    running.begin()
    running.face.wait(lambda: bool(running.face.judged) or not running.face.views[-1].judging)
    running.press("jjk")
    running.face.wait(lambda: [view.top for view in running.face.views][-3:] == [1, 2, 1])
    running.press("l")
    running.face.wait(lambda: running.face.views[-1].shows is Shows.LIST)
    assert running.face.views[-1].top == 0


def test_unknown_keys_do_nothing(running: Running) -> None:
    running.begin()
    shown = len(running.face.views)
    running.press("xyz ")
    running.press("l")
    running.drawn(lambda view: view.shows is Shows.LIST)
    assert len(running.face.views) == shown + 1


def test_a_faulty_suite_is_reported_and_can_be_retried(running: Running) -> None:
    suite = running.course.root / "tests/public/text/test_greeting.py"
    text = suite.read_text("utf-8")
    suite.write_text(text.replace('("Ada")', "(nobody)"), encoding="utf-8")
    running.write(RIGHT)
    running.begin()
    view = running.drawn(lambda view: bool(view.notes))
    assert "is at fault" in view.notes
    suite.write_text(text, encoding="utf-8")
    running.press("r")
    assert running.verdicts(1).results[0].status is Status.PASSED


def test_a_crashed_thread_ends_the_loop(course: Course) -> None:
    loop = Running(course)
    loop.begin()
    loop.loop.later(loop.loop.crashed)(OSError("no more watches"))
    assert isinstance(loop.end(), OSError)
