"""`python -P -m grader.cli` runs `grade` where the script is not on the path.

Without -P (or -I), Python would import modules from the current folder first, such as a student's `json.py`.
"""

from __future__ import annotations

from grader.cli import main

if __name__ == "__main__":
    main(prog_name="grade")
