"""Tests of BranchFreeRouter, the three exporters and largest_difference."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, entry
from grader.judge.student import Student

State = dict[str, Tensor]

# The modes of the probe's network and of its submodules, as they are before an export.
MODES = [True, True, False, True, False, True, False]
# The modules of the probe's Given.
EVAL = [False] * 4
ONNX_TOLERANCE: dict[str, Any] = {"rtol": 0.0, "atol": 1e-4}
MOST_BYTES = 1_000_000


# --- BranchFreeRouter ----------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("torch.where(x.mean() > 0, self.positive(x), self.negative(x))")
def test_router(student: Student) -> None:
    """For every batch it has the values of the router, by one decision for the whole batch."""
    check_router(student, new_batches())


@pytest.mark.points(2)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("The condition is x.mean() > 0, as in Router.")
def test_router_near_zero(student: Student) -> None:
    """A mean of 0 is not positive, and a mean just above 0 is."""
    far = new_batches()[0].float()
    near = 1e-9 * far
    zero = torch.tensor([[1.0, -1, 0], [2, -1, -1]])
    check_router(student, [far, near, -near, zero])


@pytest.mark.points(3)
@pytest.mark.place("BranchFreeRouter")
@pytest.mark.word("the sandbox says which objects are the same")
@pytest.mark.hint("self.positive = router.positive, or the router itself as a submodule.")
def test_router_shares(student: Student) -> None:
    """Its two layers are those of the router: shared, not copied, and registered as submodules."""
    report = student.run("shared", router_state())
    assert entry(report, "another") is True, "BranchFreeRouter(router) is the router itself."
    what = "whether each of the router's four parameters is one of BranchFreeRouter's"
    assert_equal(entry(report, "shared"), [True] * 4, what=what)
    assert_equal(entry(report, "count"), 4, what="the number of parameters")


@pytest.mark.points(12)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("No if, no .item(), no bool(): the condition stays a tensor.")
def test_router_exports(student: Student) -> None:
    """torch.export of it keeps both branches, for any batch size."""
    state, xs = router_state(), new_batches()
    report = student.run("branches", state, random.choice(xs[:2]), xs)
    error = entry(report, "error")
    assert error is None, f"torch.export cannot export it, an if on a value? {error}"
    right = [routed(state, x) for x in xs]
    check_values(entry(report, "values"), right, "the exported BranchFreeRouter")


# --- to_torchscript ------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("torch.jit.script(model)")
def test_script(student: Student) -> None:
    """Control flow is kept: an if on a value, and a loop, also after save and load."""
    state, xs = router_state(), new_batches()
    check_script(student.run("scripted_router", state, xs), [routed(state, x) for x in xs])
    check_script(student.run("scripted_loop", xs), [halved(x) for x in xs])


@pytest.mark.points(4)
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("Set the model to eval mode before you script it.")
def test_script_mode(student: Student) -> None:
    """It has the outputs of the model in eval mode."""
    given = scripted_net(student)
    check_script(given["report"], given["right"])


@pytest.mark.points(2)
@pytest.mark.requires("test_script")
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("Note the mode of each submodule before eval(), and set it back at the end.")
def test_script_leaves_the_model(student: Student) -> None:
    """The model is left as it was, with the mode of each submodule."""
    given = scripted_net(student)
    check_left(given["report"], given["state"])


# --- to_exported ---------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("to_exported")
@pytest.mark.hint("dynamic_shapes=({0: torch.export.Dim('batch')},), in eval mode.")
def test_exported(student: Student) -> None:
    """One program has the outputs of the model in eval mode, for every batch size from 1."""
    check_program(student, torch.randn(4, 3).double(), new_batches())


@pytest.mark.points(6)
@pytest.mark.place("to_exported")
@pytest.mark.hint("Export with two rows at least: cat the example with itself.")
def test_exported_from_one_row(student: Student) -> None:
    """An example of one row gives a program for every batch size, and the model is left as it was."""
    # A row may be a table of its own.
    example = torch.randn(1, 3, 3).double()
    given = check_program(student, example, [x[:, None] * torch.randn(3, 1) for x in new_batches()])
    check_left(given["report"], given["state"])
    assert_equal(entry(given["report"], "example"), example, what="example afterwards")
    needs = entry(given["report"], "example_needs")
    assert_equal(needs, False, what="whether example requires a gradient afterwards")


# --- largest_difference --------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("largest_difference")
@pytest.mark.hint("(expected - actual).abs().max().item(), and the largest of all inputs.")
def test_difference(student: Student) -> None:
    """It is the largest absolute difference over all inputs and elements, as a float."""
    base = torch.randn(3, 2).double()
    shift = torch.tensor([[0.25, -3.0], [0.5, 0.0], [1.0, 2.0]]).double() * random.uniform(1, 2)
    for pairs, right in [
        ([[base, base + 0.5 * shift], [base, base + shift], [base, base + 0.25 * shift]], shift),
        ([[base, base]], 0 * shift),
        ([[base, base + 2**-30]], torch.tensor(2**-30).double()),
    ]:
        value = entry(student.run("difference", pairs, EVAL), "value")
        largest = right.abs().max().item()
        assert_close(value, largest, what="largest_difference", rtol=1e-7, atol=1e-13)


@pytest.mark.points(5)
@pytest.mark.requires("test_difference")
@pytest.mark.place("largest_difference")
@pytest.mark.hint("Compare shapes first; a difference that is not equal to itself is NaN.")
def test_difference_is_infinite(student: Student) -> None:
    """Shapes that differ, even if they broadcast, and a NaN are an infinite difference."""
    x, nan = torch.ones(2, 3), torch.tensor([[1, 1, 1], [math.nan, 1, 1]])
    for what, pair in {
        "outputs (2, 3) and (2, 1)": [x, x[:, :1]],
        "outputs (2, 3) and (3,)": [x, x[0]],
        "outputs (2, 3) and (3, 2)": [x, x.T],
        "a NaN in what was exported": [x, nan],
        "a NaN in the model's output": [nan, x],
    }.items():
        pairs = random.choice(([pair, [x, x + 1]], [[x, x + 1], pair]))
        value = entry(student.run("difference", pairs, EVAL), "value")
        assert_close(value, math.inf, what=f"largest_difference with {what}")


@pytest.mark.points(5)
@pytest.mark.place("largest_difference")
@pytest.mark.hint("Note the mode of each submodule, model.eval(), and set them back at the end.")
def test_difference_modes(student: Student) -> None:
    """The model runs in eval mode, and every submodule is left in the mode that it had."""
    x, gap = torch.ones(2, 3), random.uniform(0.25, 0.75)
    for modes in ([True, False, True, False], [False, True, False, True]):
        for pair, right in (([x, x + gap], gap), ([x, x[0]], math.inf)):
            report = student.run("difference", [pair], modes)
            assert_close(entry(report, "value"), right, what="largest_difference")
            left = entry(report, "modes")
            assert_equal(left, modes, what="the list of the submodules' modes afterwards")


# --- to_onnx -------------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("to_onnx")
@pytest.mark.hint("input_names, output_names, dynamic_axes, dynamo=False, into an io.BytesIO.")
def test_onnx(student: Student) -> None:
    """The ONNX model has the names, a dynamic batch size, and the outputs of the model in eval mode."""
    check_onnx(student, 0)


@pytest.mark.points(4)
@pytest.mark.place("to_onnx")
@pytest.mark.hint("Cat the example with itself where it has one row.")
def test_onnx_one_row(student: Student) -> None:
    """The same from an example of one row, and the model is left as it was."""
    check_onnx(student, 1)
    given = onnx_nets(student)
    check_left(given["reports"][1], given["state"])


# --- locally -------------------------------------------------------------------------------------


def router_state() -> State:
    return {
        f"{layer}.{name}": torch.randn(shape).double()
        for layer in ("positive", "negative")
        for name, shape in {"weight": (2, 3), "bias": (2,)}.items()
    }


def routed(state: State, x: Tensor) -> Tensor:
    layer = "positive" if x.mean() > 0 else "negative"
    return x @ state[f"{layer}.weight"].T + state[f"{layer}.bias"]


def new_batches() -> list[Tensor]:
    """Batches of 1 to 1250 rows whose means are above 0 and below 0, with rows of both signs."""
    signs = torch.tensor([[-1.0], [2.0], [4.0], [-2.0], [3.0]])
    x = (signs * (1 + torch.rand(5, 3))).double()
    return [x, -x, x[1:2], -x[1:2], x.repeat(250, 1)]


def halved(x: Tensor) -> Tensor:
    """What the probe's loop makes of x: it is halved until its sum is 1 or below."""
    while x.sum() > 1:
        x = x / 2
    return x


def check_values(values: Any, right: list[Tensor], what: str) -> None:
    """Outputs of several batches, any of which may be what was raised in its place."""
    for value, output in zip(entry(values, kind=list, count=len(right)), right, strict=True):
        assert not isinstance(value, str), f"{what} fails for {len(output)} rows: {value}"
    assert_close(values, right, what=f"the list of the outputs of {what}")


def check_router(student: Student, xs: list[Tensor]) -> None:
    state = {name: value.to(xs[0].dtype) for name, value in router_state().items()}
    right = [routed(state, x) for x in xs]
    check_values(student.run("routed", state, xs), right, "BranchFreeRouter")


def new_net(dtype: torch.dtype) -> nn.Module:
    """The network of the probe, with statistics that are not those of any batch."""
    inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5))
    model = nn.Sequential(nn.BatchNorm1d(3), inner, nn.Linear(4, 2)).to(dtype)
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand_like(value) + 0.5 if "var" in name else torch.randn_like(value))
    return model.eval()


def check_left(report: Any, state: State) -> None:
    """The network is left as it was."""
    assert_equal(entry(report, "modes"), MODES, what="the list of the submodules' modes afterwards")
    left = entry(report, "state")
    assert_equal(left, state, what="the model's state dict afterwards", ordered=False)
    what = "whether each of the model's parameters requires a gradient afterwards"
    assert_equal(entry(report, "needs"), [False] + [True] * 5, what=what)


def check_script(report: Any, right: list[Tensor]) -> None:
    kind = entry(report, "kind")
    assert kind == "ScriptModule", f"to_torchscript returns a {str(kind)[:40]}, not a ScriptModule."
    check_values(entry(report, "values"), right, "the script")
    check_values(entry(report, "loaded"), right, "the script, saved and loaded,")


def scripted_net(student: Student) -> dict[str, Any]:
    """A network that was scripted, and what was seen of it."""

    def ask() -> dict[str, Any]:
        model, xs = new_net(torch.float64), new_batches()
        state = model.state_dict()
        right = [model(x).detach() for x in xs]
        report = student.run("scripted_net", state, MODES, xs)
        return {"state": state, "right": right, "report": report}

    return student.once("scripted", ask)


def check_program(student: Student, example: Tensor, xs: list[Tensor]) -> dict[str, Any]:
    model = new_net(torch.float64)
    state = model.state_dict()
    report = student.run("exported_net", state, MODES, example, xs)
    kind = entry(report, "kind")
    assert kind == "ExportedProgram", f"to_exported returns a {str(kind)[:40]}."
    what = f"the program from an example of shape {tuple(example.shape)}"
    check_values(entry(report, "values"), [model(x).detach() for x in xs], what)
    return {"state": state, "report": report}


def onnx_nets(student: Student) -> dict[str, Any]:
    """A network as ONNX, from an example of three rows and of one, run where no student's code runs."""

    def ask() -> dict[str, Any]:
        model, xs = new_net(torch.float32), [x.float() for x in new_batches()]
        state = model.state_dict()
        examples = [torch.randn(rows, 3) for rows in (3, 1)]
        reports = [student.run("onnx_net", state, MODES, example) for example in examples]
        models = [entry(report, "data", default=None) for report in reports]
        small = [isinstance(data, bytes) and len(data) < MOST_BYTES for data in models]
        given = [data if fits else b"" for data, fits in zip(models, small, strict=True)]
        return {
            "state": state,
            "right": [model(x).detach() for x in xs],
            "reports": reports,
            "small": small,
            "seen": student.apart("run_onnx", given, xs),
        }

    return student.once("onnx", ask)


def check_onnx(student: Student, which: int) -> None:
    given = onnx_nets(student)
    told = "to_onnx should return bytes, and less than 1 MB for a model of 40 numbers."
    assert given["small"][which], told
    seen = entry(given["seen"], which)
    error = entry(seen, "error")
    assert error is None, f"to_onnx returns bytes that are not an ONNX model: {error}"
    names = entry(seen, "names")
    assert_equal(names, ["features", "logits"], what="the list of the names of input and output")
    fixed = entry(seen, "rows")
    assert_equal(fixed, [None, None], what="the list of the batch sizes that are fixed")
    values = entry(seen, "values", kind=list, count=len(given["right"]))
    for value, output in zip(values, given["right"], strict=True):
        assert not isinstance(value, str), f"The ONNX model fails for {len(output)} rows: {value}"
    assert_close(values, given["right"], what="the ONNX model's outputs", **ONNX_TOLERANCE)
