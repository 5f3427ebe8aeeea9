"""The screen of `grade watch` fits its window, and is plain text without a terminal."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import msgspec
import pytest

from grader.cli.terminal.console import open_console
from grader.cli.watch.loop import KEYS
from grader.cli.watch.screen import Screen, Shows, View
from grader.course.manifest import load_course
from grader.results import Outcome, Place, Status
from grader.student.next_step import Asked, Guide
from grader.student.workspace import Workspace
from tests.grader.builders import checked, exercise

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
CLEAR = "\x1b[H\x1b[J"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # StringIO's own says None
        return "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without color, wherever the tests run."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A fresh clone, which is the current folder."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    shutil.copytree(tmp_path / "exercises", tmp_path / "tests" / "stubs")
    monkeypatch.chdir(tmp_path)
    return Workspace(load_course(tmp_path))


def a_view(workspace: Workspace, findings: int) -> View:
    """An exercise with this many failed tests, each of six lines."""
    message = "Wrong.\n" + "\n".join(f"Detail {number}." for number in range(4))
    tests = tuple(
        checked(
            f"test_{number}",
            Outcome.FAILED,
            message=f"{message}{number}",
            place=Place("text/greeting.py", number + 1, "greeting"),
        )
        for number in range(findings)
    )
    result = exercise(*tests, name="greeting", status=Status.PARTIAL)
    return View(workspace.course.exercise("greeting"), results=(result,), status="judged")


def screen(workspace: Workspace, stream: io.StringIO) -> Screen:
    guide = Guide(workspace.course, workspace.course.folder, asked=Asked.WATCHING)
    # Like the command, which offers keys only on a terminal.
    words = {letter: key.word for letter, key in KEYS.items() if stream.isatty()}
    return Screen(open_console(stream), workspace, guide, words)


def rows(text: str, columns: int) -> int:
    """Return how many rows of a terminal the text takes."""
    return sum(max(1, -(-len(line) // columns)) for line in text.split("\n"))


@pytest.mark.parametrize("hint", [None, 2])
@pytest.mark.parametrize("findings", [1, 3, 9])
@pytest.mark.parametrize(("columns", "lines"), [(100, 40), (60, 24), (60, 14), (40, 12)])
def test_a_view_fits_and_keeps_the_next_step(
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    lines: int,
    findings: int,
    hint: int | None,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    stream = Terminal()
    view = a_view(workspace, findings)
    shown = screen(workspace, stream)
    stream.truncate(0)
    stream.seek(0)
    shown.draw(View(view.exercise, results=view.results, hint=hint, status="judged"))
    picture = stream.getvalue()
    assert picture.startswith(CLEAR)
    picture = picture.removeprefix(CLEAR)
    assert rows(picture, columns) <= lines
    assert "Next: fix" in picture
    assert picture.endswith("\njudged")
    assert ("hint 2 of 3" in picture) == (hint is not None)


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("stale", [False, True])
def test_24_lines_have_room_for_a_whole_cause_and_a_hint(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, columns: int, stale: bool
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "24")
    message = "Wrong.\n" + "\n".join(f"Detail {number}." for number in range(9))
    test = checked(
        "test_0", Outcome.FAILED, message=message, place=Place("text/greeting.py", 3, "")
    )
    result = exercise(test, name="greeting", status=Status.PARTIAL)
    stream = Terminal()
    shown = screen(workspace, stream)
    stream.truncate(0)
    view = View(workspace.course.exercise("greeting"), results=(result,), hint=3, status="judged")
    shown.draw(msgspec.structs.replace(view, judging=stale))
    picture = stream.getvalue().partition(CLEAR)[2]
    assert rows(picture, columns) <= 24
    for whole in ("Detail 0.", "Detail 8.", "greeting.py:3", "Next: fix", "hint 3 of 3", "q quit"):
        assert whole in picture


def test_a_small_window_shows_the_cause_among_many_exercises(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "18")
    untouched = [exercise(name="word_count", status=Status.NOT_ATTEMPTED)] * 30
    (wrong,) = a_view(workspace, 1).results
    stream = Terminal()
    shown = screen(workspace, stream)
    results = (*untouched[:20], wrong, *untouched[20:])
    shown.draw(View(workspace.course.exercises[0], Shows.ALL, results, status="judged"))
    picture = stream.getvalue().partition(CLEAR)[2]
    assert rows(picture, 60) <= 18
    for whole in ("greeting", "Detail 3.", "(30 more exercises below)", "Next: fix"):
        assert whole in picture


def test_a_small_window_scrolls_through_everything(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "16")
    stream = Terminal()
    shown, view = screen(workspace, stream), a_view(workspace, 3)
    view = msgspec.structs.replace(view, hint=1)
    tops, seen = [0], ""
    while True:
        stream.truncate(0)
        shown.draw(msgspec.structs.replace(view, top=tops[-1]))
        picture = stream.getvalue().rpartition(CLEAR)[2]
        assert rows(picture, 60) <= 16
        seen += picture
        if (top := shown.scrolled(msgspec.structs.replace(view, top=tops[-1]), 1)) == tops[-1]:
            break
        tops.append(top)
    assert len(tops) > 2
    for whole in ("Detail 3.0", "Detail 3.2", "greeting.py:3", "Next: fix", "hint 1 of 3"):
        assert whole in seen
    assert "above, 0 below: k, j)" in picture
    at_the_end = msgspec.structs.replace(view, top=tops[-1])
    assert shown.scrolled(at_the_end, -99) == 0 == shown.scrolled(view, -1)
    monkeypatch.setenv("LINES", "99")
    assert screen(workspace, Terminal()).scrolled(view, 1) == 0, "everything is visible"


def test_a_new_status_overwrites_only_the_last_line(workspace: Workspace) -> None:
    stream = Terminal()
    shown = screen(workspace, stream)
    shown.draw(a_view(workspace, 1))
    before = len(stream.getvalue())
    shown.status("judging greeting: 1 of 2 tests")
    assert stream.getvalue()[before:] == "\r\x1b[Kjudging greeting: 1 of 2 tests"


def test_the_scrollback_is_left_alone(workspace: Workspace) -> None:
    stream = Terminal()
    shown = screen(workspace, stream)
    shown.draw(a_view(workspace, 1))
    shown.close()
    for harmful in ("\x1b[3J", "\x1b[2J", "\x1b[?1049h"):
        assert harmful not in stream.getvalue()


def test_the_list_shows_progress(workspace: Workspace) -> None:
    stream = Terminal()
    view = View(workspace.course.exercise("greeting"), shows=Shows.LIST)
    screen(workspace, stream).draw(view)
    assert "0 of 3 done" in stream.getvalue()


def test_without_a_terminal_only_final_results_are_written(workspace: Workspace) -> None:
    stream = io.StringIO()
    shown = screen(workspace, stream)
    shown.draw(View(workspace.course.exercise("greeting"), judging=True))
    shown.status("judging greeting: 1 of 2 tests")
    assert stream.getvalue() == ""
    shown.draw(a_view(workspace, 1))
    assert "Next: fix" in stream.getvalue()
    assert not re.search("[\x00-\x09\x0b-\x1f]", stream.getvalue())


def test_notes_are_cleaned(workspace: Workspace) -> None:
    stream = io.StringIO()
    view = View(workspace.course.exercise("greeting"), notes="\x1b[2Ja\nb")
    screen(workspace, stream).draw(view)
    assert "\\x1b[2Ja\nb\n" in stream.getvalue()
