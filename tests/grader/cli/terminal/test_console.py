"""States, points and paths are readable on every console."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.text import Text

from grader.cli.terminal import progress as displays
from grader.cli.terminal.console import (
    bar,
    cut,
    hang,
    is_plain,
    marks_for,
    open_console,
    outcome_mark,
    print_lines,
    status_words,
)
from grader.course.manifest import load_course
from grader.results import Outcome, Status
from grader.student.next_step import shown_path
from grader.text import counted, number

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAIN = Path(__file__).parents[2] / "courses" / "plain"


class Terminal(io.StringIO):
    """A stream that says it is a terminal of this encoding."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]  # StringIO's own says None
        return self._encoding

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal with color, wherever the tests run."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def written(stream: io.StringIO, lines: Iterable[Text]) -> str:
    print_lines(open_console(stream), iter(lines))
    return stream.getvalue()


def test_terminal_has_color_and_symbols() -> None:
    assert written(Terminal(), [Text("a", "red")]) == "\x1b[31ma\x1b[0m\n"
    assert marks_for(open_console(Terminal())).good == "✓"


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("NO_COLOR", "0"), ("TERM", "dumb"), ("TERM", "unknown")]
)
def test_no_color(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert written(Terminal(), [Text("a", "bold red")]) == "a\n"


def test_pipe_is_plain() -> None:
    assert written(io.StringIO(), [Text("a", "red")]) == "a\n"
    assert is_plain(open_console(io.StringIO()))
    assert open_console(io.StringIO()).width == 80


def test_width_of_a_pipe_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert open_console(io.StringIO()).width == 60


@pytest.mark.parametrize(
    ("encoding", "plain"), [("utf-8", False), ("UTF8", False), ("cp437", True)]
)
def test_old_code_page_gets_ascii_marks(encoding: str, plain: bool) -> None:
    console = open_console(Terminal(encoding))
    assert is_plain(console) is plain
    assert marks_for(console).good.isascii() is plain


def test_text_is_taken_literally() -> None:
    text = "[red]not red[/red] :smile: [link=x]y[/link] 'quoted' 12"
    assert written(Terminal(), [Text(text)]) == text + "\n"


def test_finished_lines_are_neither_wrapped_nor_cut() -> None:
    long = "a/" * 200 + "b.py:1"
    assert written(Terminal(), [Text(long)]) == long + "\n"


def test_every_status_and_outcome_has_its_words_and_a_mark() -> None:
    for console in (open_console(Terminal()), open_console(io.StringIO())):
        marks = marks_for(console)
        words = {str(status_words(status, marks)[1]) for status in Status}
        assert len(words) == len(Status), "words must tell every status from the others"
        assert all(str(status_words(status, marks)[0]) for status in Status)
        assert all(str(outcome_mark(outcome, marks)) for outcome in Outcome)


def test_hanging_lines() -> None:
    console = open_console(io.StringIO())
    lines = [str(line) for line in hang(console, Text("  - "), Text("word " * 30))]
    assert len(lines) == 2
    assert lines[0].startswith("  - word")
    assert lines[1].startswith("    word")
    assert all(len(line.rstrip()) <= 80 for line in lines)


@pytest.mark.parametrize(
    ("text", "width", "shown"), [("abcdef", 6, "abcdef"), ("abcdefg", 6, "abc..."), ("", 6, "")]
)
def test_cut(text: str, width: int, shown: str) -> None:
    assert str(cut(text, width, marks_for(open_console(io.StringIO())))) == shown


def test_cut_counts_cells_and_not_characters() -> None:
    marks = marks_for(open_console(Terminal()))
    assert cut("你好你好", 6, marks).cell_len <= 6


@pytest.mark.parametrize(
    ("value", "shown"), [(15.0, "15"), (7.5, "7.5"), (0.333, "0.33"), (0.0, "0"), (100.0, "100")]
)
def test_number(value: float, shown: str) -> None:
    assert number(value) == shown


def test_counted() -> None:
    assert [counted(n, "test") for n in (0, 1, 2)] == ["0 tests", "1 test", "2 tests"]


@pytest.mark.parametrize(
    ("done", "whole", "full"), [(0, 6, 0), (0.01, 100, 1), (3, 6, 10), (99.99, 100, 19), (6, 6, 20)]
)
def test_bar_is_full_or_empty_only_at_the_ends(done: float, whole: float, full: int) -> None:
    assert str(bar(open_console(Terminal()), done, whole)) == "  " + "━" * full + "─" * (20 - full)
    assert str(bar(open_console(io.StringIO()), done, whole)) == ""


def test_path_is_relative_if_that_is_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(tmp_path / "a" / "b.py") == os.path.join("a", "b.py")  # noqa: PTH118
    assert shown_path(Path(os.sep)) == os.sep


def test_path_is_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(Path("a\x1b[2J\u202eb.py")) == "a\\x1b[2J\\u202eb.py"


# --- displays -------------------------------------------------------------------------------------


def test_display_is_silent_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    course, stream = load_course(PLAIN), io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with displays.VerifyDisplay(course, 2) as display:
        display.judged(course.exercises[0], "a")
    assert stream.getvalue() == ""


def test_display_counts_the_answers_to_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    course, stream = load_course(PLAIN), Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with displays.VerifyDisplay(course, 2) as display:
        # The stub, two right answers under two seeds each, and three wrong ones.
        for _ in range(8):
            display.judged(course.exercises[0], "a")
        display.judged(course.exercises[1], "a")
        # Its last module ends when the next exercise has begun.
        display.judged(course.exercises[0], "z")
    shown = stream.getvalue()
    assert shown.rindex("greeting") > shown.rindex("word_count")
    assert "word_count" in shown
    assert "/8" in shown
    assert "greeting" in shown
    assert shown.endswith("\x1b[1A\x1b[2K"), "the line is not taken away"
