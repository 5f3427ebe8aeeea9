"""Grade the sample class, one submission after the other, and show scores, JSON and where they are.

Run by `make demo`. The submissions are by nobody; what each of them shows stands in examples/README.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLASS = ROOT / "examples" / "class"
RESULTS = ROOT / "demo"


def grade(submission: Path) -> dict[str, object]:
    """The result of one submission, as `grade run --json FILE` writes it."""
    file = RESULTS / f"{submission.name}.json"
    command = ["run", "--course", str(ROOT), "--submission", str(submission), "--json", str(file)]
    # 0 is full marks, 1 is below; anything else is no result.
    code = subprocess.run([sys.executable, "-m", "grader.cli", *command], check=False).returncode
    if code not in (0, 1):
        sys.exit(f"demo: grading {submission.name} ended with exit code {code}.")
    result: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    return result


def main() -> None:
    """Grade everybody, then one line each."""
    RESULTS.mkdir(exist_ok=True)
    results = []
    for submission in sorted(path for path in CLASS.iterdir() if path.is_dir()):
        print(f"\n=== {submission.name} ===", flush=True)
        results.append(grade(submission))
    print("\n=== the class ===")
    for result in results:
        name = result["submission"]["name"]  # type: ignore[index]  # as the schema says
        print(f"{result['score']:>6} / {result['max_score']}  {name}")
    print(f"\nThe results as JSON, one file a submission: {RESULTS}")


if __name__ == "__main__":
    main()
