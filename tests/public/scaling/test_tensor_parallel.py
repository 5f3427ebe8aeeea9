"""Small examples for tensor parallelism, on two ranks, which students may read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student

# Rows of the weight: [1, 2] and [3, 4]. At x = [1, 1] the outputs are 3 and 7, and with the bias 13 and 27.
WEIGHT, BIAS = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([10.0, 20.0])


@promise("ColumnParallel", hint="[1, 2] belongs to rank 0, and [3, 4] to rank 1.")
def test_example_column(student: Student) -> None:
    """Rank 0 gives 3 + 10, rank 1 gives 7 + 20, and the gradient of x is [1, 2] + [3, 4]."""
    outputs, gradients = [[[13.0]], [[27.0]]], [[[4.0, 6.0]], [[4.0, 6.0]]]
    check(student, "ColumnParallel", outputs, gradients)


@promise("RowParallel", hint="Rank 0 has the column [1, 3], and rank 1 has [2, 4].")
def test_example_row(student: Student) -> None:
    """Both ranks give [1, 3] + [2, 4] + [10, 20]; for a gradient of ones, the gradient of x is 4 and 6."""
    check(student, "RowParallel", [[[13.0, 27.0]]] * 2, [[[4.0]], [[6.0]]])


def check(student: Student, kind: str, outputs: list[Any], gradients: list[Any]) -> None:
    """Compare a layer's output and gradient of x on each rank with the right ones."""
    xs = {"ColumnParallel": torch.ones(1, 2), "RowParallel": torch.ones(1, 1)}
    ranks = student.once("passes", lambda: student.run("passes", WEIGHT, BIAS, xs))
    reports: list[Any] = [entry(ranks, rank, kind, kind=dict) for rank in range(2)]
    for rank, report in sorted(enumerate(reports), key=waited):
        error, message = report.get("error"), str(report.get("message"))
        if error == "NotImplementedError":
            student.run("raise_unwritten", message)
        assert error is None, f"On rank {rank} your code raised {error}: {message[:300]}"
    for rank, report in enumerate(reports):
        for right, what in ((outputs[rank], "output"), (gradients[rank], "gradient of x")):
            seen: Tensor = entry(report, what)
            assert_close(seen, torch.tensor(right), what=f"the {what} on rank {rank}")


def waited(numbered: tuple[int, Any]) -> bool:
    """Whether a rank only waited for a rank that raised. The other rank's message says more."""
    return "Connection closed" in str(numbered[1].get("message"))
