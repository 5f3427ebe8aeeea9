"""A Python that an unprivileged user can start, and how to become that user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grader.sandbox.arena import AS_NOBODY

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def as_nobody() -> Iterator[list[str]]:
    """Yield the command that starts our Python as nobody, or an empty list if none can be started.

    Our Python may lie in a home folder that is closed to others. Then this uses the system's Python of the
    same version with our packages, in a virtual environment, since a fork server ignores PYTHONPATH.
    """
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        yield []
        return
    if _starts([sys.executable]):
        yield [*AS_NOBODY, sys.executable, "-B"]
        return
    # The private root hides /tmp, so the environment is elsewhere.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="audit-python-") as folder:
        python = _environment(Path(folder))
        yield [*AS_NOBODY, str(python), "-B"] if python is not None else []


def _environment(folder: Path) -> Path | None:
    folder.chmod(0o755)
    python = shutil.which(
        f"python{sys.version_info.major}.{sys.version_info.minor}", path="/usr/bin"
    )
    if python is None:
        return None
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    found = folder / "bin" / "python"
    return found if _starts([str(found)]) else None


def _starts(command: list[str]) -> bool:
    ask = [*AS_NOBODY, *command, "-B", "-c", "import grader.audit.auditor"]
    try:
        return subprocess.run(ask, capture_output=True, check=False, cwd="/").returncode == 0
    except OSError:
        return False
