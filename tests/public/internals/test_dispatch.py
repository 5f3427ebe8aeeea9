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
    short = {
        "Take str(func), not func.__name__.": [(name[5:], *rest) for name, *rest in right],
        "Take str(func), not func.name().": [
            (name.replace(".default", "").replace(".", "::"), *rest) for name, *rest in right
        ],
        "The overload is missing in the name: take str(func).": [
            (name.removesuffix(".default"), *rest) for name, *rest in right
        ],
    }
    value = check_program(student, "x @ y; result = torch.relu(x)", right, short)
    assert value is not None, "torch.relu(x) is None in the block: return what func returned."
    assert_close(value, torch.ones(A), what="torch.relu(x) in the block")


@promise(
    "OperatorLogger",
    points=4,
    hint="Look for tensors in lists and in kwargs, too, and before func runs.",
)
def test_example_shapes(student: Student) -> None:
    """torch.cat leaves all shapes of its list, torch.add that of its out, x.t_() that from before it."""
    for program, name, inputs, output, wrong, told in (
        ("torch.cat([x, x])", "cat.default", (A, A), (4, 3), (), "Tensors in lists are missing."),
        ("torch.add(x, x, out=x)", "add.out", (A, A, A), A, (A, A), "Keywords' tensors are missing."),
        ("x.t_()", "t_.default", (A,), (3, 2), ((3, 2),), "The input shape is that after the call."),
    ):  # fmt: skip
        right, known = (f"aten.{name}", inputs, (output,)), (f"aten.{name}", wrong, (output,))
        again = {"func runs twice: run it once.": [(*right[:2], (A,))]}
        check_program(student, f"result = {program}", [right], {told: [known], **again})


@promise(
    "log_operators", points=2, hint="with OperatorLogger() as logger: result = f(*args, **kwargs)"
)
def test_example_log_operators(student: Student) -> None:
    """log_operators gives f's result and its one call, aten.mul.Tensor."""
    report = student.run("logged", torch.ones(2, 3))
    wrong = {"That is no pair: return result, logger.calls.": "no pair"}
    assert_close(entry(report, "result"), torch.full(A, 2.0), what="f's result", mistakes=wrong)
    told = "The number 2 leaves a shape: only tensors have one."
    calls, numbers = [("aten.mul.Tensor", (A,), (A,))], [("aten.mul.Tensor", (A, ()), (A,))]
    assert_equal(entry(report, "calls"), calls, what="the calls", mistakes={told: numbers})


@promise("count_operators", hint="The most frequent name stands first.")
def test_example_counts(student: Student) -> None:
    """One mm and two t give {"aten.t.default": 2, "aten.mm.default": 1}."""
    rows = [["aten.mm.default", (A, B), (C,)], *[["aten.t.default", (A,), ((3, 2),)]] * 2]
    right = {"aten.t.default": 2, "aten.mm.default": 1}
    wrong = {"The most frequent one has to stand first.": dict(reversed(right.items()))}
    wrong["Each name counts once: count how often it stands there."] = dict.fromkeys(right, 1)
    counts = student.function("count_operators")(student.made("calls", rows))
    assert_equal(counts, right, what="the dict", mistakes=wrong)


@promise("matmul_flops", points=2, hint="2 * m * k * n; in addmm the first tensor is the bias.")
def test_example_flops(student: Student) -> None:
    """addmm of a bias (5,), (2, 3) and (3, 5) takes 60 operations, bmm of 4 such products 240."""
    for name, inputs, right in (("addmm", ((5,), A, B), 60), ("bmm", ((4, *A), (4, *B)), 240)):
        rows = [[f"aten.{name}.default", inputs, ((*inputs[-1][:-2], *C),)]]
        wrong = {"The 2 is missing.": right // 2, "The batch size is missing.": 60}
        wrong["Each entry takes k additions, too: 2 * k operations."] = right * 5 // 6
        wrong["The bias is counted, too: count the product alone."] = right + 10
        flops = student.function("matmul_flops")(student.made("calls", rows))
        assert_equal(flops, right, what=f"the operations of {name}", mistakes=wrong)


def check_program(student: Student, program: str, right: Any, mistakes: Any) -> Any:
    before, calls, result = entry(student.run("recorded", program), kind=tuple, count=3)
    assert before == 0, "A new logger has calls already: give each one a list of its own."
    assert_equal(calls, right, what=f"logger.calls of `{program}`", mistakes=mistakes)
    return result
