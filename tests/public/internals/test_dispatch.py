"""Small examples for OperatorLogger, log_operators, count_operators and matmul_flops."""

from __future__ import annotations

from typing import Any

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

A, B, C = (2, 3), (3, 5), (2, 5)


@promise(
    "OperatorLogger",
    points=3,
    hint="OperatorCall(str(func), the inputs' shapes, the outputs'); return the result.",
)
def test_example_logger(student: Student) -> None:
    """x @ y and relu(x) are aten.mm.default and aten.relu.default, with the shapes of their tensors."""
    right: Any = [("aten.mm.default", (A, B), (C,)), ("aten.relu.default", (A,), (A,))]
    value = check_program(student, "x @ y; result = torch.relu(x)", right)
    assert value is not None, "torch.relu(x) is None in the block: return what func returned."
    assert_close(value, torch.ones(A), what="torch.relu(x) in the block")


@promise(
    "OperatorLogger",
    points=4,
    hint="Look for tensors in lists and in kwargs, too, and before func runs.",
)
def test_example_shapes(student: Student) -> None:
    """Input shapes are those of all tensors in torch.cat's list, of torch.add's out, and of x before x.t_()."""
    for program, name, inputs, output in (
        ("torch.cat([x, x])", "cat.default", (A, A), (4, 3)),
        ("torch.add(x, x, out=x)", "add.out", (A, A, A), A),
        ("x.t_()", "t_.default", (A,), (3, 2)),
    ):
        check_program(student, f"result = {program}", [(f"aten.{name}", inputs, (output,))])


@promise(
    "log_operators", points=2, hint="with OperatorLogger() as logger: result = f(*args, **kwargs)"
)
def test_example_log_operators(student: Student) -> None:
    """log_operators gives f's result and its one call, aten.mul.Tensor."""
    report = student.run("logged", torch.ones(2, 3))
    assert_close(entry(report, "result"), torch.full(A, 2.0), what="f's result")
    calls = [("aten.mul.Tensor", (A,), (A,))]
    assert_equal(entry(report, "calls"), calls, what="the calls")


@promise("count_operators", hint="The most frequent name stands first.")
def test_example_counts(student: Student) -> None:
    """One mm and two t give {"aten.t.default": 2, "aten.mm.default": 1}."""
    rows = [["aten.mm.default", (A, B), (C,)], *[["aten.t.default", (A,), ((3, 2),)]] * 2]
    right = {"aten.t.default": 2, "aten.mm.default": 1}
    counts = student.function("count_operators")(student.made("calls", rows))
    assert_equal(counts, right, what="the dict")


@promise("matmul_flops", points=2, hint="2 * m * k * n; in addmm the first tensor is the bias.")
def test_example_flops(student: Student) -> None:
    """addmm of a bias (5,), (2, 3) and (3, 5) takes 60 operations, bmm of 4 such products 240."""
    for name, inputs, right in (("addmm", ((5,), A, B), 60), ("bmm", ((4, *A), (4, *B)), 240)):
        rows = [[f"aten.{name}.default", inputs, ((*inputs[-1][:-2], *C),)]]
        flops = student.function("matmul_flops")(student.made("calls", rows))
        assert_equal(flops, right, what=f"the operations of {name}")


def check_program(student: Student, program: str, right: Any) -> Any:
    before, calls, result = entry(student.run("recorded", program), kind=tuple, count=3)
    assert before == 0, "A new logger has calls already: give each one a list of its own."
    assert_equal(calls, right, what=f"logger.calls of `{program}`")
    return result
