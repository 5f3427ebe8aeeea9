"""`python -m grader.cli` is `grade`, for where the script is not on the path."""

from __future__ import annotations

from grader.cli import main

if __name__ == "__main__":
    main(prog_name="grade")
