"""`python -P -m grader.cli` is `grade`, for where the script is not on the path.

Without -P (or -I) Python takes a module in the current folder, a student's `json.py`, for its own.
"""

from __future__ import annotations

from grader.cli import main

if __name__ == "__main__":
    main(prog_name="grade")
