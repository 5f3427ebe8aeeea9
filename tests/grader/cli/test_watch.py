"""`grade watch` in a real terminal and without one."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grader.cli.watch.loop import KEYS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a pseudo-terminal needs POSIX")
FOOTER = "  ".join(f"{key} {KEYS[key].word}" for key in KEYS if not KEYS[key].needs_server)
RIGHT = "def greeting(name: str) -> str:\n    return f'Hello, {name}!'\n"
PATIENCE_SECONDS = 60


class Terminal:
    """`grade watch` in a pseudo-terminal, 80 columns by 30 lines by default."""

    def __init__(
        self, cwd: Path, *arguments: str, columns: int = 80, lines: int = 30, **environment: str
    ) -> None:
        import pty
        import termios

        self._ours, self._theirs = pty.openpty()
        termios.tcsetwinsize(self._theirs, (lines, columns))
        self.before = termios.tcgetattr(self._theirs)
        inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grader.cli", "watch", *arguments],
            cwd=cwd,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**inherited, "TERM": "xterm-256color", "NO_COLOR": "1", **environment},
            process_group=0,
        )
        self.shown = ""

    def until(self, pattern: str) -> str:
        """Return the output up to the end of the first match."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not (found := re.search(pattern, self.shown, re.DOTALL)):
            ready, _, _ = select.select([self._ours], [], [], max(end - time.monotonic(), 0))
            assert ready, f"{pattern!r} is not in {self.shown!r}"
            self.shown += os.read(self._ours, 65_536).decode()
        shown, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return shown.replace("\r\n", "\n")

    def press(self, key: str) -> None:
        os.write(self._ours, key.encode())

    def ended(self) -> int:
        """Wait for the end and return the exit code. The terminal must be as it was before."""
        import termios

        code = self.process.wait(PATIENCE_SECONDS)
        assert termios.tcgetattr(self._theirs) == self.before
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def terminal(clone: Path) -> Iterator[Terminal]:
    """A watch of a fresh clone."""
    running = Terminal(clone)
    yield running
    running.close()


def save(clone: Path, source: str, exercise: str = "text/greeting.py") -> None:
    (clone / "exercises" / exercise).write_text(source, encoding="utf-8")


def test_a_session(clone: Path, terminal: Terminal) -> None:
    first = terminal.until("q quit")
    assert "word_count  Counting words  0 / 10  to do" in first
    assert "Count with a dictionary." in first
    assert "Start: open exercises/text/word_count.py, write, and save." in first
    assert FOOTER in first

    save(clone, "def greeting(:\n")
    assert "not valid Python: line 1" in terminal.until("Next: fix exercises/text/greeting.py:1 ")
    save(clone, RIGHT)
    passed = terminal.until(r"judged in \d")
    assert "2.5 / 2.5  passed" in passed
    assert "1 of 3 done" in passed
    assert "Done. Press n for the next one: A running mean" in passed

    terminal.press("h")
    assert "  An f-string." in terminal.until("hint 1 of 3.*q quit")
    terminal.press("l")
    assert "greeting      done   2.5 / 2.5" in terminal.until("1 of 3 done.*q quit")
    terminal.press("a")
    assert "Total: 2.5 of 20 points" in terminal.until("Total.*q quit")
    terminal.press("n")
    terminal.until("A running mean.*q quit")

    terminal.press("q")
    assert terminal.ended() == 0
    assert (
        "1 of 3 done"
        in subprocess.run(
            [sys.executable, "-m", "grader.cli", "list"],
            cwd=clone,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


def test_a_hint_stays_while_it_is_needed(clone: Path, terminal: Terminal) -> None:
    terminal.until("q quit")
    terminal.press("h")
    terminal.until("hint 1 of 3.*q quit")
    # `grade watch` and `grade hint` count each other's hints as seen.
    hint = [sys.executable, "-m", "grader.cli", "hint", "word_count"]
    other = subprocess.run(hint, cwd=clone, check=True, capture_output=True, text=True)
    assert "hint 2 of 3" in other.stdout
    save(clone, "def word_count(text):\n    return {}\n", "text/word_count.py")
    assert "Counting words, hint 1 of 3" in terminal.until(r"judged in \d")
    for number in (3, 1):
        terminal.press("h")
        terminal.until(f"hint {number} of 3.*q quit")
    right = (clone / "solutions" / "text" / "word_count.py").read_text("utf-8")
    save(clone, right, "text/word_count.py")
    # First, the old result was drawn once more, dimmed, with the hint.
    passed = terminal.until(r"10 / 10  passed.*judged in \d").partition("10 / 10  passed")[2]
    assert "hint" not in passed.replace("h hint", "")


def test_a_missing_file_can_be_restored(clone: Path, terminal: Terminal) -> None:
    terminal.until("q quit")
    (clone / "exercises" / "text" / "greeting.py").unlink()
    shown = terminal.until("greeting.py is missing.*q quit")
    assert "`grade reset greeting` restores the stub." in shown
    assert "hand it in" not in shown
    assert "Next: put your file or the stub at exercises/text/greeting.py and save." in shown
    reset = [sys.executable, "-m", "grader.cli", "reset", "greeting"]
    subprocess.run(reset, cwd=clone, check=True, capture_output=True)
    terminal.until("Start: open exercises/text/greeting.py, write, and save.")


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        *(pytest.param(n, marks=pytest.mark.thorough) for n in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_signals_end_it_cleanly(clone: Path, terminal: Terminal, number: int) -> None:
    terminal.until("q quit")
    save(clone, RIGHT)
    terminal.until(r"judged in \d")
    children = psutil.Process(terminal.process.pid).children(recursive=True)
    assert len(children) >= 2
    terminal.process.send_signal(number)
    assert terminal.ended() == (0 if number == signal.SIGINT else 128 + number)
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def test_a_resized_window_is_redrawn(terminal: Terminal) -> None:
    import termios

    terminal.until("q quit")
    termios.tcsetwinsize(terminal._theirs, (20, 50))
    terminal.process.send_signal(signal.SIGWINCH)
    lines = terminal.until("q quit").splitlines()
    assert max(map(len, lines[1:])) <= 60, "a path and its command may stick out"


def test_the_screen_is_redrawn_after_a_pause(clone: Path, terminal: Terminal) -> None:
    import termios

    terminal.until("q quit")
    terminal.process.send_signal(signal.SIGSTOP)
    while psutil.Process(terminal.process.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    # A shell does this between Ctrl-Z and fg.
    termios.tcsetattr(terminal._theirs, termios.TCSANOW, terminal.before)
    terminal.process.send_signal(signal.SIGCONT)
    assert "Start: open exercises/text/word_count.py" in terminal.until("q quit")
    assert not termios.tcgetattr(terminal._theirs)[3] & termios.ECHO
    terminal.press("l")
    terminal.until("greeting      open.*q quit")


def test_advice_about_a_plot_omits_a_course_that_is_found(clone: Path, terminal: Terminal) -> None:
    experiment = clone / "tests" / "plots" / "text" / "plot_word_count.py"
    experiment.parent.mkdir(parents=True)
    experiment.write_text("", encoding="utf-8")
    terminal.until("q quit")
    terminal.press("p")
    assert "`grade hint word_count` helps." in terminal.until("No picture yet.*q quit")


def test_it_begins_with_the_named_exercise_and_polls(clone: Path) -> None:
    running = Terminal(clone, "greeting", "--poll")
    try:
        assert "greeting  A greeting" in running.until("q quit")
        save(clone, RIGHT)
        running.until(r"2.5 / 2.5  passed.*judged in \d")
    finally:
        running.close()


def test_without_a_terminal_it_writes_panels_and_takes_no_keys(clone: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "grader.cli", "watch", "greeting"],
        cwd=clone,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        impatience = threading.Timer(PATIENCE_SECONDS, process.kill)
        impatience.start()
        lines: list[str] = []
        try:
            for mark in ("Start: open", "judged in"):
                while not (lines and mark in lines[-1]):
                    lines.append(process.stdout.readline())
                    assert lines[-1], f"{mark!r} is not in {lines}"
                save(clone, RIGHT)
        finally:
            process.send_signal(signal.SIGINT)
            # Until it ends or is killed: a shell that starts pytest in the background may have SIGINT ignored.
            process.wait()
            impatience.cancel()
        assert process.returncode == 0
        assert process.stderr.read() == ""
    text = "".join(lines)
    assert "  + greeting  A greeting [of a kind]  2.5 / 2.5  passed\n" in text
    assert text.isascii()
    assert "\x1b" not in text
    assert "quit" not in text
    assert "Press" not in text


def test_a_crash_restores_the_terminal(clone: Path) -> None:
    shutil.rmtree(clone / "tests")
    running = Terminal(clone, "greeting")
    try:
        save(clone, RIGHT)
        assert running.ended() == 3
        assert "has no suite" in running.until("no suite")
    finally:
        running.close()


def test_a_dumb_terminal_has_keys_and_answers(clone: Path) -> None:
    running = Terminal(clone, "greeting", TERM="dumb")
    try:
        assert FOOTER in running.until("q quit")
        running.press("h")
        assert "An f-string." in running.until("hint 1 of 3.*q quit")
        save(clone, RIGHT)
        running.until(r"judging greeting\r")
        shown = running.until(r"judged in \d")
        assert FOOTER in shown
        assert "\x1b" not in shown
        for name in ("word_count", "running_mean"):
            right = (clone / "solutions").glob(f"*/{name}.py")
            source = next(iter(right))
            save(clone, source.read_text("utf-8"), f"{source.parent.name}/{name}.py")
            running.until(r"passed.*judged in \d")
        running.press("n")
        running.until("every other exercise is done")
    finally:
        running.close()


def test_an_old_result_is_dimmed_while_a_newer_one_is_judged(clone: Path) -> None:
    running = Terminal(clone, "greeting", NO_COLOR="", COLORTERM="")
    try:
        running.until("quit")
        save(clone, RIGHT.replace("Hello", "Bye"))
        running.until(r"judged in \d")
        save(clone, RIGHT)
        stale = running.until("judging greeting  \\(above: the last result\\)")
        assert "\x1b[2m  ✗ greeting  A greeting" in stale.replace("  \x1b[2m", "\x1b[2m  ")
        assert "\x1b[32m✓\x1b[0m \x1b[2mgreeting" in running.until(r"judged in \d")
    finally:
        running.close()


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_window_breaks_nothing(clone: Path, columns: int) -> None:
    manifest = clone / "exercises" / "course.toml"
    title = "A greeting with a title that no window of sixty columns has room for"
    text = manifest.read_text("utf-8").replace('"A greeting [of a kind]"', f'"{title}"')
    manifest.write_text(text, encoding="utf-8")
    running = Terminal(clone, "greeting", columns=columns, lines=24)
    try:
        shown = running.until("q quit")
        assert title in " ".join(shown.split())
        running.press("l")
        shown += running.until("of 3 done.*q quit")
        assert max(map(len, shown.replace("\x1b[H\x1b[J", "").splitlines())) <= columns
    finally:
        running.close()


def test_usage(clone: Path) -> None:
    running = Terminal(clone, "greting")
    try:
        assert "Did you mean 'greeting'?" in running.until("greeting'.")
        assert running.ended() == 2
    finally:
        running.close()
