"""Write and grade the sample class, then show scores, the JSON of one student, a table and the report.

Run by `make demo`. What each submission shows stands in examples/README.md.
Every line that is run is shown, so that it can be typed again.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from sample_class import EXERCISES, FOLDER, write_class

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = "demo"


def grade(*words: str) -> None:
    """Run a command as one would type it, from the repository's root."""
    print(f"\n$ grade {shlex.join(words)}", flush=True)
    command = [sys.executable, "-m", "grader.cli", *words]
    code = subprocess.run(command, check=False, cwd=ROOT).returncode
    if code != 0:
        sys.exit(f"demo: this ended with exit code {code}, and should not have.")


def main() -> None:
    """From a folder of submissions to a report."""
    write_class(ROOT / FOLDER)
    print(f"The sample class: {FOLDER.as_posix()}")
    results, report = f"{OUTPUT}/results", f"{OUTPUT}/report"
    given = [word for name in EXERCISES for word in ("--exercise", name)]
    grade("batch", FOLDER.as_posix(), "-o", results, *given)
    grade("similar", results)
    grade("export", results, "--format", "csv", "-o", f"{OUTPUT}/scores.csv")
    grade("report", results, "-o", report)
    print(f"\n$ head -n 20 {results}/results/halfway.json")
    lines = (ROOT / results / "results" / "halfway.json").read_text(encoding="utf-8").splitlines()
    print("\n".join(lines[:20]))
    print(f"\nThe gradebook and a JSON file a student:   {results}")
    print(f"A table for a spreadsheet:                 {OUTPUT}/scores.csv")
    print(f"The report, to open in a browser:          {report}/staff/index.html")


if __name__ == "__main__":
    main()
