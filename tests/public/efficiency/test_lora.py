"""Small examples for LoRA, which students may read."""

from __future__ import annotations

from typing import Any

import torch

from grader.judge.checks import assert_close, assert_equal, promise
from grader.judge.student import Student

# W, A and B are chosen so that W x = [1, 2], A x = [3] and B A x = [3, -3] at x = [1, 2].
X = torch.tensor([[1.0, 2.0]])


@promise("LoRALinear.forward", hint="alpha / rank is 2 here: [1, 2] + 2 * [3, -3].")
def test_example_forward(student: Student) -> None:
    """For alpha = 2 and rank = 1, [1, 2] + 2 * [3, -3] is [7, -4]."""
    assert_close(student.run("example", X, []), torch.tensor([[7.0, -4.0]]))


@promise("LoRALinear.merge", hint="A merged layer gives base(x): the change is in the weight.")
def test_example_merge(student: Student) -> None:
    """The output is the same after merge()."""
    output = student.run("example", X, ["merge"])
    assert_close(output, torch.tensor([[7.0, -4.0]]), what="the output after merge()")


@promise(
    "LoRALinear.unmerge",
    hint="unmerge() takes out of the weight what merge() added.",
    after="test_example_merge",
)
def test_example_unmerge(student: Student) -> None:
    """The output is the same after merge() and unmerge()."""
    output = student.run("example", X, ["merge", "unmerge"])
    assert_close(output, torch.tensor([[7.0, -4.0]]), what="the output after merge() and unmerge()")


@promise("add_lora", hint="named_modules() knows all submodules by their dotted names.")
def test_example_add_lora(student: Student) -> None:
    """In a model with layers first and inner.first, the name first adapts both."""
    learns: Any = student.run("example_names")
    assert_equal(
        learns,
        ["first.A", "first.B", "inner.first.A", "inner.first.B"],
        what="the names of the parameters that require a gradient",
    )
