"""Tests of path, of flow_matching_loss with a model that knows the answer, and of sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_gradients,
    entry,
    exactly,
    laws,
    promise,
    within,
)
from grader.judge.student import Student

# With this many rows, two samples of one distribution differ by less than CLOSE (seven standard deviations).
ROWS, CLOSE = 20000, {"rtol": 0.0, "atol": 0.035}
# Tolerances for a few matrix products in float32, which may be added up in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-4}
# The modes of two models, each with two submodules.
MODES = [[True, False, True], [False, True, False]]


# --- the path ------------------------------------------------------------------------------------


# There is only one row: test_times_of_rows judges which dimension a time belongs to.
@promise("path", points=4, hint="(1 - t) * x0 + t * x1.")
def test_point(code: Student, draw: Draw) -> Cases:
    """The point is on the line from x0 at t = 0 to x1 at t = 1."""
    for t in (0.0, 1.0, draw.number(0.1, 0.4), draw.number(0.6, 0.9)):
        result = code.function("path")(draw.normal(1, 6), draw.normal(1, 6), torch.tensor([t]))
        yield f"the point at t = {t:.2f}", any_gradients(entry(result, 0))


@promise("path", points=3, hint="The derivative by t: x1 - x0.")
def test_velocity(code: Student, draw: Draw) -> Cases:
    """The velocity leads from x0 to x1, and is the same at all times."""
    result = code.function("path")(draw.normal(5, 6), draw.normal(5, 6), draw.uniform(5))
    yield "the velocity", any_gradients(entry(result, 1))


@promise("path", points=4, hint="t.reshape(-1, 1, 1): as many dimensions as x0, the rows first.")
def test_times_of_rows(code: Student, draw: Draw) -> Cases:
    """Each row has its own time, for points and for images."""
    for shape in [(5, 5), (4, 4, 4), (3, 2, 4, 3)]:
        x0, x1, t = draw.normal(*shape), draw.normal(*shape), draw.uniform(shape[0])
        result = code.function("path")(x0, x1, t)
        yield f"the points for an x0 of shape {shape}", any_gradients(entry(result, 0))


# --- the loss ------------------------------------------------------------------------------------


# The model knows x1, computes the velocity from it, and adds drawn numbers: only these are left in the loss.
@promise("flow_matching_loss", points=6, hint="mse_loss(model(x, t), velocity).")
def test_loss(code: Student, draw: Draw) -> Cases:
    """The loss is the mean squared difference between the model's velocity and that of the path."""
    for shape in [(6, 1), (4, 4), (3, 2, 3)]:
        report = code.run("known", wide(draw, *shape), wide(draw, *shape))
        what = f"the loss, for an x1 of shape {shape}, of a model that is off by drawn numbers"
        yield what, within(entry(report, "loss"), **SUMS)


@promise("flow_matching_loss", points=2, hint="Only sampling needs no gradient.")
def test_gradient(code: Student, draw: Draw) -> Cases:
    """The gradient of the loss reaches the model's parameters."""
    report = code.run("known", wide(draw, 6, 1), wide(draw, 6, 1))
    yield (
        "the gradient of the numbers by which the model is off",
        within(entry(report, "gradient"), **SUMS),
    )


@promise("flow_matching_loss", points=4, hint="torch.rand(len(x1)): one time for each row.")
def test_times(code: Student, draw: Draw) -> Cases:
    """The model gets times (rows,), one for each row, drawn evenly from 0 to 1."""
    report = drawn(code, draw, draw.uniform(4, low=0.05, high=0.95))
    yield "the shape of the model's t", entry(report, "shape")
    yield "the shares of times below some edges", within(entry(report, "times"), **CLOSE)
    yield (
        "the share of rows with a time above the time of the row before",
        within(entry(report, "rising"), **CLOSE),
    )


@promise("flow_matching_loss", points=3, hint="torch.randn, of the shape of x1.")
def test_noise(code: Student, draw: Draw) -> Cases:
    """Each number of the noise is drawn from the standard normal distribution."""
    report = drawn(code, draw, draw.uniform(6, low=-1.5, high=1.5))
    yield "the shares of noise below some edges", within(entry(report, "noise"), **CLOSE)
    both = within(entry(report, "both columns"), **CLOSE)
    yield "the shares of rows with noise below some edges in both columns", both


@promise(
    "flow_matching_loss",
    hint="Hand generator on to both functions that draw.",
    word="the sandbox says that numbers repeat",
)
def test_generator(code: Student, draw: Draw) -> Cases:
    """The generator's state decides the loss, and the global random state stays as it is."""
    seeds, around = [draw.seed() for _ in range(2)], [draw.seed() for _ in range(3)]
    report = code.run("repeated", draw.normal(9, 2), [seeds[0], *seeds], around)
    yield "the list of results with the same seed, and with another one,", report


@promise(
    "flow_matching_loss",
    hint="Call neither train() nor eval(): both are up to the caller.",
    word="the sandbox says which mode it is in",
)
def test_mode_of_the_loss(code: Student, draw: Draw) -> Cases:
    """The model stays in its mode."""
    after = [code.run("modes", "loss", modes, draw.normal(2, 2)) for modes in MODES]
    yield "the modes of two models after the loss", exactly(after)


# --- sampling ------------------------------------------------------------------------------------


# This velocity depends only on x: test_times_of_steps judges the times.
@promise("sample", points=6, hint="x = x + model(x, t) / steps.")
def test_euler(code: Student, draw: Draw) -> Cases:
    """Each step adds the velocity at its beginning, times the length of the step."""
    for shape in [(3, 2), (2, 3, 2)]:
        for steps in (1, 2, draw.size(5, 9)):
            report = code.run("followed", draw.normal(2, 2), draw.normal(*shape), steps)
            what = f"the samples for an x0 of shape {shape} and {steps} steps"
            yield what, within(entry(report, "samples"), **SUMS)


@promise("sample", points=3, hint="The times are 0, 1 / steps, and so on, each as (rows,).")
def test_times_of_steps(code: Student, draw: Draw) -> Cases:
    """The model is called once in each step, with the time at its beginning for each row."""
    report = code.run("followed", draw.normal(2, 2), draw.normal(3, 2), draw.size(3, 7))
    yield "the list of the times with which the model was called", entry(report, "times")


@promise("sample", points=3, hint="model.eval() before the first step.")
def test_evaluation_mode(code: Student, draw: Draw) -> Cases:
    """The model is in evaluation mode, so that dropout drops nothing."""
    x = draw.normal(4, 3)
    yield "the samples of a model with dropout", code.run("sampled", draw.seed(), x, 3)


@promise(
    "sample",
    points=2,
    hint="Remember the mode of each module, and set it in a finally.",
    word="the sandbox says which mode it is in",
)
def test_modes(code: Student, draw: Draw) -> Cases:
    """Afterwards, every submodule is in the mode in which it was before, even if the model raised."""
    for breaks in (False, True):
        x0 = draw.normal(2, 2)
        after = [code.run("modes", "sample", modes, x0, breaks) for modes in MODES]
        what = "after a model that raised" if breaks else "after sampling"
        yield f"the modes of two models {what}", exactly(after)


@promise(
    "sample",
    hint="with torch.no_grad(), and x = x + ..., not x += ....",
    word="code that returns x0 passes, too",
)
def test_laws(student: Student) -> None:
    """The result has no graph, and x0 stays as it is."""
    seen = laws.observe(student, "sample", student.made("network", 1), torch.randn(4, 3), 2)
    graph = seen.checked().result("requires_grad")
    assert not graph, "The samples have a graph: follow the velocity under torch.no_grad()."
    laws.check_changes_nothing(student, "sample", student.made("network", 1), torch.randn(4, 3), 2)


# --- helpers of the tests ------------------------------------------------------------------------


def drawn(code: Student, draw: Draw, edges: Tensor) -> Any:
    """Return how the noise and the times are distributed that the loss draws for many rows."""
    return code.run("drawn", wide(draw, ROWS, 2), edges)


def wide(draw: Draw, *shape: int) -> Tensor:
    """Draw normal numbers in float64, so that dividing by a small 1 - t loses no digits that matter."""
    return draw.normal(*shape, dtype=torch.float64)
