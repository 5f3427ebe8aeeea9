"""An autograder for Classroom 50: CLASSROOM/autograders/ASSIGNMENT/autograder.py in your repository.

Its runner starts this script in the student's checkout and reads the result.json that it writes. Set the
runtime's `python` to 3.12, and GRADER to a place from which pip installs Lab Bench. Put the course (the output
of `grade release`) beside this script as `course/`. It is published for the runner to fetch, and anyone who
finds the address can read it: use public suites, not hidden ones.
"""

from __future__ import annotations

import sys

# This script may be in the student's checkout, whose modules must not shadow Python's.
if not sys.flags.safe_path:
    del sys.path[0]

import os
import secrets
import subprocess
import venv
from pathlib import Path

GRADER = os.environ.get("LAB_BENCH", "lab-bench==0.1.0")
# What pip needs besides: where it finds PyTorch for CPUs alone, say.
PIP_OPTIONS: list[str] = os.environ.get("LAB_BENCH_PIP_OPTIONS", "").split()
# Where in a student's repository the files lie.
SUBMISSION = os.environ.get("LAB_BENCH_SUBMISSION", "exercises")

HERE = Path(__file__).resolve().parent
ENVIRONMENT = Path(os.environ.get("RUNNER_TEMP", HERE)) / "lab-bench"


def main() -> int:
    """Install, judge, write result.json. 0 says that it was graded; anything else, that we failed."""
    grade = str(ENVIRONMENT / "bin" / "grade")
    if not Path(grade).is_file():
        _install()
    course, result = str(HERE / "course"), str(ENVIRONMENT / "result.json")
    judge = [grade, "run", "--course", course, "--submission", SUBMISSION, "--json", result]
    # 0 is full marks, 1 is below; anything else is a fault, and no result.
    if (code := _run_quoted(judge)) not in (0, 1):
        return code
    write = [grade, "export", result, "--format", "classroom50", "-o", "result.json"]
    return subprocess.run(write, check=False).returncode


def _install() -> None:
    venv.create(ENVIRONMENT, with_pip=True)
    pip = [str(ENVIRONMENT / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *PIP_OPTIONS, GRADER], check=True)


def _run_quoted(command: list[str]) -> int:
    """Run it; what a student's code printed goes to the log, and is not taken for a command there."""
    token = secrets.token_hex(16)
    sys.stdout.write(f"::stop-commands::{token}\n")
    sys.stdout.flush()
    code = subprocess.run(command, check=False).returncode
    sys.stdout.write(f"\n::{token}::\n")
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    sys.exit(main())
