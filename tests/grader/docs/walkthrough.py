"""Follow a page of the documentation: write its files, run its commands and compare their output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
__all__ = ["ROOT", "matches", "run", "steps"]

# A fenced block. A line with a file name before it makes it the content of that file, or its end.
BLOCK = re.compile(
    r"^(?:`([^`\n]+)`(, at its end)?:\n\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
# Symbols on a terminal and their replacements elsewhere.
SYMBOLS = {"✓": "+", "✗": "x", "→": ">"}


def steps(page: str) -> Iterator[tuple[str, str]]:
    """Yield files (name, content) and commands ("$ command", shown output) of the page in order."""
    files: dict[str, str] = {}
    for name, added, kind, body in BLOCK.findall(page):
        assert (kind == "console") != bool(name), (
            f"a block of {kind} that is not a file: {body[:80]}"
        )
        if name:
            files[name] = f"{files[name]}\n\n{body}" if added else body
            yield name, files[name]
            continue
        for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            typed, _, shown = command.partition("\n")
            yield f"$ {typed}", shown


def plain(text: str) -> str:
    """Return the text as it is printed outside of a terminal."""
    return re.sub(r"^(\s*)([✓✗→])", lambda at: at[1] + SYMBOLS[at[2]], text, flags=re.MULTILINE)


def pattern(shown: str) -> str:
    """Return a pattern for the output that a page shows. A line `...` matches any lines."""
    lines = [".*" if line == "..." else re.escape(line + "\n") for line in shown.splitlines()]
    return "".join(lines)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command from the page with the `grade` of this installation."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env={**inherited, "PATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=900,
    )


def matches(shown: str, printed: str) -> bool:
    """Return whether a command printed the text on the page. Without text, any output is fine."""
    return not shown or re.fullmatch(pattern(plain(shown)), printed, re.DOTALL) is not None
