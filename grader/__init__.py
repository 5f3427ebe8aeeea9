"""Lab Bench: judge PyTorch exercises in a process that the submission never shares.

from grader import grade

result = grade("my-submission", course="course", exercises=["glu"])
print(result.score, "of", result.max_score)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Result", "__version__", "grade"]

if TYPE_CHECKING:
    from grader.grading import grade
    from grader.results import Result


def __getattr__(name: str) -> Any:
    # Imported on first use: a sandbox imports this package, too, and must not contain the judge.
    if name == "grade":
        from grader.grading import grade

        return grade
    if name == "Result":
        from grader.results import Result

        return Result
    raise AttributeError(f"module 'grader' has no attribute {name!r}")
