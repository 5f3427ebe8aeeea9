"""Output on terminals, pipes, narrow windows and old code pages, and hostile text in it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grader.text import PLAINER

if TYPE_CHECKING:
    from tests.grader.cli.conftest import Grade

ESCAPE = "\x1b"
posix = pytest.mark.skipif(os.name != "posix", reason="a pseudo-terminal needs POSIX")


def on_terminal(cwd: Path, *arguments: str, columns: int = 80, **environment: str) -> str:
    """Return what `grade` writes to a terminal of this width, stdout and stderr together."""
    import fcntl
    import pty
    import struct
    import termios

    inherited = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "COLORTERM")
    }
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.chdir(cwd)
        changed = {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment}
        command = [sys.executable, "-m", "grader.cli", *arguments]
        os.execve(sys.executable, command, {**inherited, **changed})
    written = b""
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:
            break
        if not data:
            break
        written += data
    os.waitpid(child, 0)
    os.close(terminal)
    return written.decode().replace("\r\n", "\n")


@posix
def test_color_and_symbols_on_a_terminal(mixed: Path) -> None:
    shown = on_terminal(mixed, "list")
    assert f"{ESCAPE}[33mword_count" in shown
    shown = on_terminal(mixed, "run", "running_mean")
    assert "○" in shown
    assert "of 3 done" in shown


@posix
def test_progress_is_shown_and_erased(mixed: Path) -> None:
    shown = on_terminal(mixed, "run", "word_count", "greeting")
    assert "word_count (1 of 2)" in shown
    assert "/6" in shown
    assert "greeting (2 of 2)" in shown
    # The line is erased and the cursor is back before the first word of the panel.
    before, _, panel = shown.partition("Plain Python and NumPy")
    assert before.endswith(f"{ESCAPE}[?25h\r{ESCAPE}[1A{ESCAPE}[2K{ESCAPE}[1m")
    assert "tests" not in panel.partition("Every word")[0]


@posix
def test_no_color_writes_no_escape(mixed: Path) -> None:
    for arguments in (["list"], ["hint", "greeting", "-n", "1"], ["run", "running_mean"]):
        assert ESCAPE not in on_terminal(mixed, *arguments, NO_COLOR="1")


@posix
def test_an_empty_no_color_is_ignored(mixed: Path) -> None:
    assert ESCAPE in on_terminal(mixed, "list", NO_COLOR="")


@pytest.mark.thorough
@posix
def test_dumb_terminal_gets_plain_output(mixed: Path) -> None:
    shown = on_terminal(mixed, "run", "word_count", TERM="dumb")
    assert ESCAPE not in shown
    assert shown.isascii()


@posix
@pytest.mark.parametrize("columns", [40, 60])
def test_narrow_terminal(mixed: Path, columns: int) -> None:
    shown = on_terminal(mixed, "run", "word_count", columns=columns, NO_COLOR="1")
    panel = shown[shown.index("Plain Python") :].splitlines()
    long = [line for line in panel if len(line) > columns]
    # Only text to click or paste stays in one piece.
    assert all("word_count.py:" in line for line in long)
    assert any("1.43 / 10" in line for line in panel)
    assert "word_count.py:4  in word_count" in shown


@posix
def test_the_reason_for_no_picture_wraps_between_words(clone: Path) -> None:
    experiment = clone / "tests" / "plots" / "text" / "plot_word_count.py"
    experiment.parent.mkdir(parents=True)
    experiment.write_text("", encoding="utf-8")
    shown = on_terminal(clone, "plot", "word_count", columns=40, NO_COLOR="1")
    assert "No picture yet. Not attempted yet:" in shown.splitlines()
    assert max(map(len, shown.splitlines())) <= 40


def test_narrow_pipe(grade: Grade, mixed: Path) -> None:
    for arguments in (["list"], ["hint", "greeting", "-n", "3"], ["run", "running_mean"]):
        shown = grade(*arguments, cwd=mixed, COLUMNS="60").stdout
        assert all(len(line) <= 60 for line in shown.splitlines() if "running_mean.py" not in line)


def test_pipe_gets_plain_ascii_layout(grade: Grade, mixed: Path) -> None:
    for arguments in (["list"], ["hint", "greeting", "-n", "1"], ["run", "word_count"]):
        done = grade(*arguments, cwd=mixed)
        assert (done.stdout + done.stderr).isascii()
        assert ESCAPE not in done.stdout + done.stderr
        assert not re.search(r" +$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("encoding", ["cp437", "cp1252", "ascii"])
def test_old_code_page(grade: Grade, clone: Path, encoding: str) -> None:
    manifest = clone / "exercises" / "course.toml"
    text = manifest.read_text("utf-8").replace("An f-string.", "An f-string → 你好.")
    manifest.write_text(text, encoding="utf-8")
    done = grade("hint", "greeting", cwd=clone, PYTHONIOENCODING=f"{encoding}:strict")
    assert "An f" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
def test_a_c_locale_gets_ascii_dots(grade: Grade, clone: Path) -> None:
    (clone / "exercises" / "text" / "greeting.py").write_text(
        f"def greeting(name):\n    return '{'long ' * 100}'\n"
    )
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    done = grade("run", "greeting", cwd=clone, **locale)
    assert "..." in done.stdout
    assert "?" not in done.stdout


def test_characters_that_an_encoding_lacks_are_replaced() -> None:
    text = "a… · → x² ✓ Zoë “q” 你 \udc80"  # as prose has them
    assert text.encode("ascii", PLAINER) == b'a... * -> x^2 + Zoe "q" ? ?'


# --- hostile text ---------------------------------------------------------------------------------

HOSTILE = """\
print("\\x1b[2J\\x1b]0;owned\\x07[bold red]big[/] \\u202e\\r\\x08")

def greeting(name: str) -> str:
    raise ValueError("\\x1b[31m[link=x]click[/link] \\u2066" + name)
"""


def test_hostile_output_and_messages(grade: Grade, clone: Path) -> None:
    (clone / "exercises/text/greeting.py").write_text(HOSTILE, encoding="utf-8")
    done = grade("run", "greeting", "-v", cwd=clone)
    assert "[bold red]big[/]" in done.stdout
    assert "[link=x]click[/link]" in done.stdout
    assert "\\x1b[2J" in done.stdout
    assert_harmless(done.stdout)


@posix
@pytest.mark.parametrize("name", ["[red]a[/red]", "a\x1b[31mb\nc", "a\u202eb", b"a\xff\x1bb"])
def test_hostile_names(grade: Grade, mixed: Path, tmp_path: Path, name: str | bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    shutil.copytree(mixed / "exercises", folder)
    done = grade("run", "word_count", "--submission", folder, "--json", tmp_path / "it", cwd=mixed)
    assert "word_count.py:4  in word_count" in done.stdout
    assert "[red]" in done.stdout or isinstance(name, bytes) or "[red]" not in name
    assert_harmless(done.stdout + done.stderr)
    assert (tmp_path / "it").read_bytes().decode()
    assert done.returncode == 1


@posix
def test_hostile_name_in_an_error(grade: Grade, clone: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m\u202e\x07b"
    folder.mkdir()
    done = grade("run", "--submission", folder, cwd=clone)
    assert_harmless(done.stderr)
    assert done.returncode == 2


def assert_harmless(text: str) -> None:
    """Assert that every character is printable or a line feed, and that none reorders the text."""
    assert all(each.isprintable() or each == "\n" for each in text), ascii(text)
