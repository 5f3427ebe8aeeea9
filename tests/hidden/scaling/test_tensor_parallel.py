"""Tests of tensor_parallel: each layer, and both in turn, on the ranks of one launch."""

from __future__ import annotations

import random
from typing import Any

from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, promise, within
from grader.judge.student import Student

RANKS = 2
# The number of ranks divides all of them, so that a check of the wrong size fails no other test.
IN, HIDDEN, OUT = 6, 4, 8
# Tolerances for sums in float32, in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-5}
COLUMN, ROW = "ColumnParallel", "RowParallel"
IN_VAIN = (
    "A rank waited for the others in vain: every rank has to call the same collectives, in the "
    "same order."
)


# --- ColumnParallel ------------------------------------------------------------------------------


@promise("ColumnParallel.__init__", points=3, hint="linear.weight.chunk(ranks)[rank].")
def test_column_parameters(code: Student, draw: Draw) -> Cases:
    """Each rank has its rows of the weight, and its part of the bias."""
    yield "the list of the ranks' parameters", by_rank(code, COLUMN, "parts", "parameters")


@promise("ColumnParallel.forward", points=6, hint="linear(x, self.weight, self.bias).")
def test_column_output(code: Student, draw: Draw) -> Cases:
    """Each rank returns its part of the outputs."""
    yield "the list of the ranks' outputs", by_rank(code, COLUMN, "column", "output")


@promise("ColumnParallel.forward", points=2, hint="Only the gradient of x is summed.")
def test_column_gradients(code: Student, draw: Draw) -> Cases:
    """The gradients of weight and bias are those of the rank's own outputs."""
    yield "the list of the ranks' gradients", by_rank(code, COLUMN, "column", "gradients")


@promise("ColumnParallel.forward", points=6, hint="In backward: dist.all_reduce of the gradient.")
def test_column_gradient_of_x(code: Student, draw: Draw) -> Cases:
    """The gradient of x is the sum over the ranks, on every rank."""
    yield "the list of the ranks' gradients of x", by_rank(code, COLUMN, "column", "x")


@promise("ColumnParallel.__init__", hint="self.bias = None.")
def test_column_without_bias(code: Student, draw: Draw) -> Cases:
    """A linear layer without a bias is fine."""
    yield "the list of the ranks' outputs", by_rank(code, COLUMN, "without bias", "output")


# --- RowParallel ---------------------------------------------------------------------------------


@promise("RowParallel.__init__", points=3, hint="linear.weight.chunk(ranks, dim=1)[rank].")
def test_row_parameters(code: Student, draw: Draw) -> Cases:
    """Each rank has its columns of the weight, and the whole bias."""
    yield "the list of the ranks' parameters", by_rank(code, ROW, "parts", "parameters")


@promise("RowParallel.forward", points=8, hint="dist.all_reduce of x @ self.weight.T.")
def test_row_output(code: Student, draw: Draw) -> Cases:
    """The ranks' products are added, and every rank has the sum."""
    yield "the list of the ranks' outputs", by_rank(code, ROW, "without bias", "output")


@promise("RowParallel.forward", points=1, hint="Add the bias to the sum, not to each product.")
def test_row_bias(code: Student, draw: Draw) -> Cases:
    """The bias is added once."""
    yield "the list of the ranks' outputs", by_rank(code, ROW, "row", "output")


@promise("RowParallel.forward", points=6, hint="The backward of the sum passes the gradient on.")
def test_row_gradients(code: Student, draw: Draw) -> Cases:
    """The incoming gradient is the same on all ranks and is not summed: x and weight get their own part."""
    yield "the list of the ranks' gradients of x", by_rank(code, ROW, "without bias", "x")
    gradients = by_rank(code, ROW, "without bias", "gradients")
    yield "the list of the ranks' gradients of the weight", gradients


@promise("RowParallel.forward", points=2, hint="total + self.bias, after the sum over the ranks.")
def test_row_gradient_of_bias(code: Student, draw: Draw) -> Cases:
    """The gradient of the bias is whole on every rank."""
    gradients = by_rank(code, ROW, "row", "gradients", "bias")
    yield "the list of the ranks' gradients of the bias", gradients


# --- both ----------------------------------------------------------------------------------------


@promise("RowParallel", points=2, hint="The outputs are right: what do the gradients lack?")
def test_both(code: Student, draw: Draw) -> Cases:
    """Both layers in turn, with an activation in between, compute the same as two layers in one process."""
    for part in ("output", "x", "gradients"):
        yield f"the list of the ranks' {part}, for both layers", by_rank(code, ROW, "both", part)


@promise(
    "ColumnParallel.__init__",
    hint="if linear.out_features % ranks: raise ValueError(...).",
    word="the sandbox says that it raised",
)
def test_column_refuses(code: Student, draw: Draw) -> Cases:
    """Outputs that the ranks cannot divide are a ValueError that names out_features."""
    yield "the list of errors for 3 outputs on 2 ranks", refused(code, COLUMN, "out_features")


@promise(
    "RowParallel.__init__",
    hint="if linear.in_features % ranks: raise ValueError(...).",
    word="the sandbox says that it raised",
)
def test_row_refuses(code: Student, draw: Draw) -> Cases:
    """Inputs that the ranks cannot divide are a ValueError that names in_features."""
    yield "the list of errors for 3 inputs on 2 ranks", refused(code, ROW, "in_features")


# --- helpers of the tests ------------------------------------------------------------------------


def column_cases(draw: Draw) -> dict[str, Any]:
    """Cases of ColumnParallel: whole layers, and x and the incoming gradient of each rank.

    "numbers" replace the rank's parameters, so that a wrong part of the weight fails only the test about it.
    """
    whole, part = layer(draw, HIDDEN, IN), HIDDEN // RANKS
    of_x = {"x": same(draw, 6, IN), "incoming": own(draw, 6, part)}
    parts = {"weight": own(draw, part, IN), "bias": own(draw, part)}
    no_bias = {"numbers": {"weight": parts["weight"]}, **of_x}
    return {
        "parts": {"layers": [(COLUMN, whole)], **of_x},
        "column": {"layers": [(COLUMN, whole)], "numbers": parts, **of_x},
        "without bias": {"layers": [(COLUMN, (whole[0], None))], **no_bias},
        "odd": {"layers": [(COLUMN, layer(draw, 3, 4))]},
    }


def row_cases(draw: Draw) -> dict[str, Any]:
    """Cases of RowParallel, and one of both layers."""
    first, whole, part = layer(draw, HIDDEN, IN), layer(draw, OUT, HIDDEN), HIDDEN // RANKS
    of_x = {"x": own(draw, 6, part), "incoming": same(draw, 6, OUT)}
    parts = {"weight": own(draw, OUT, part), "bias": same(draw, OUT)}
    no_bias = {"numbers": {"weight": parts["weight"]}, **of_x}
    of_both = {"x": same(draw, 2, 3, IN), "incoming": same(draw, 2, 3, OUT)}
    return {
        "odd": {"layers": [(ROW, layer(draw, 4, 3))]},
        "parts": {"layers": [(ROW, whole)], **of_x},
        "row": {"layers": [(ROW, whole)], "numbers": parts, **of_x},
        "without bias": {"layers": [(ROW, (whole[0], None))], **no_bias},
        "both": {"layers": [(COLUMN, first), (ROW, whole)], **of_both},
    }


def layer(draw: Draw, outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
    """Weight and bias of a whole layer."""
    return draw.normal(outputs, inputs), draw.normal(outputs)


def same(draw: Draw, *shape: int) -> list[Tensor]:
    """The same numbers for all ranks."""
    return [draw.normal(*shape)] * RANKS


def own(draw: Draw, *shape: int) -> list[Tensor]:
    """Different numbers for each rank."""
    return [draw.normal(*shape) for _ in range(RANKS)]


def reports_of(code: Student, kind: str, case: str) -> list[dict[str, Any]]:
    """The ranks' reports on a case, from the one launch for this kind of layer."""
    cases = {COLUMN: column_cases, ROW: row_cases}[kind]

    def ask() -> Any:
        return code.run("group", RANKS, cases(Draw(random.randrange(2**31))))

    ranks = code.once(kind, ask)
    assert not isinstance(ranks, str), IN_VAIN
    reports = [entry(ranks, rank, case, kind=dict, told=IN_VAIN) for rank in range(RANKS)]
    for report in reports:
        message = str(report.get("message"))
        if report.get("error") == "NotImplementedError":
            code.run("raise_unwritten", message)
        assert "Connection closed" not in message and "Timed out" not in message, IN_VAIN
    return reports


def by_rank(code: Student, kind: str, case: str, part: str, *names: str) -> Any:
    """A part of each rank's report. If a rank did not get that far, the test fails and says why."""
    values = []
    for rank, report in enumerate(reports_of(code, kind, case)):
        error, message = report.get("error"), str(report.get("message"))
        told = f"An exception ended rank {rank}: your code raised {error}: {message[:300]}"
        assert part in report, told
        values.append(entry(report, part, *names))
    return within(values, **SUMS)


def refused(code: Student, kind: str, name: str) -> list[Any]:
    """The class of each rank's exception, which has to be a ValueError that names `name`."""
    reports = reports_of(code, kind, "odd")
    for rank, each in enumerate(reports):
        seen = f"{each['error']}: {each.get('message')}" if "error" in each else "nothing"
        fine = each.get("error") == "ValueError" and name in str(each.get("message"))
        assert fine, (
            f"Rank {rank} has to raise a ValueError that names {name}, it raised {seen[:200]}"
        )
    return [each["error"] for each in reports]
