"""What BranchFreeRouter, the three exporters and largest_difference promise."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, entry, fields, must_raise
from grader.judge.student import Student

State = dict[str, Tensor]
MIXED = [True, True, False, True, False, True, False]


def router_state(dtype: torch.dtype = torch.float32) -> State:
    shapes = {"positive.weight": (2, 3), "positive.bias": (2,)}
    shapes |= {name.replace("positive", "negative"): shape for name, shape in shapes.items()}
    return {name: torch.randn(shape, dtype=dtype) for name, shape in shapes.items()}


def layer(state: State, name: str, x: Tensor) -> Tensor:
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def routed(state: State, x: Tensor) -> Tensor:
    return layer(state, "positive" if x.mean() > 0 else "negative", x)


def batches(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Batches of 1 to 1250 rows whose means are above 0 and below 0, with rows of both signs."""
    signs = torch.tensor([[-1.0], [2.0], [4.0], [-2.0], [3.0]], dtype=dtype)
    x = signs * (1 + torch.rand(5, 3, dtype=dtype))
    return [x, -x, x[1:2], -x[1:2], x.repeat(250, 1)]


def check_values(values: Any, right: list[Tensor], what: str) -> None:
    """Outputs of several batches, any of which may be what was raised in its place."""
    for value, output in zip(entry(values, kind=list, count=len(right)), right, strict=True):
        if isinstance(value, str):
            raise AssertionError(f"{what} fails for a batch of {len(output)} rows: {value}")
    assert_close(values, right, what=what)


@pytest.mark.points(6)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("torch.where(x.mean() > 0, self.positive(x), self.negative(x))")
def test_router(student: Student) -> None:
    """For every batch it has the values of the router, by one decision for the whole batch."""
    for dtype in (torch.float32, torch.float64):
        check_router(student, batches(dtype))


@pytest.mark.points(2)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("The condition is x.mean() > 0, as in Router.")
def test_router_near_zero(student: Student) -> None:
    """A mean of 0 is not positive, and a mean just above 0 is."""
    far = batches()[0]
    near = 1e-9 * far[:2]
    zero = torch.tensor([[1.0, -1, 0], [2, -1, -1]])
    check_router(student, [far, near, -near, zero])


@pytest.mark.points(3)
@pytest.mark.place("BranchFreeRouter")
@pytest.mark.word("the sandbox says which objects are the same")
@pytest.mark.hint("self.positive = router.positive, or the router itself as a submodule.")
def test_router_shares(student: Student) -> None:
    """Its two layers are those of the router: shared, not copied, and registered as submodules."""
    report = student.run("routed", router_state(), batches())
    entry(report, "values", kind=list, told="This is the router itself.")
    shared, count = fields(report, "shared", "count")
    told = "Not all of the router's parameters are those of BranchFreeRouter: share its layers."
    assert entry(shared, kind=list, count=4) == [True] * 4, told
    assert_equal(count, [4], what="the number of parameters")


@pytest.mark.points(12)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("No if, no .item(), no bool(): the condition stays a tensor.")
def test_router_exports(student: Student) -> None:
    """torch.export of it keeps both branches, whatever the example, for any batch size."""
    state, xs = router_state(), batches()
    right = [routed(state, x) for x in xs]
    for example in (xs[0], xs[1]):
        report = student.run("branches", state, example, xs)
        if (error := entry(report, "error")) is not None:
            raise AssertionError(f"torch.export cannot export it, an if on a value? {error}")
        values, what = entry(report, "values"), "the exported BranchFreeRouter"
        check_values(values, right, what)


def check_router(student: Student, xs: list[Tensor]) -> None:
    state = router_state(xs[0].dtype)
    values = entry(student.run("routed", state, xs), "values")
    right = [routed(state, x) for x in xs]
    check_values(values, right, "BranchFreeRouter")


def net(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """The network of the probe, with statistics that are not those of any batch."""
    inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5))
    model = nn.Sequential(nn.BatchNorm1d(3), inner, nn.Linear(4, 2)).to(dtype)
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand_like(value) + 0.5 if "var" in name else torch.randn_like(value))
    return model.eval()


def check_left(report: Any, state: State, modes: list[bool], example: Tensor | None = None) -> None:
    left, kept, needs = fields(report, "modes", "state", "needs")
    told = "The model is left in eval mode: set each submodule back to the mode that it had."
    assert_equal(left, modes, what="the mode of each submodule afterwards")
    assert_equal(kept, state, what="the model's state dict afterwards", ordered=False)
    told = "The requires_grad of the model's parameters or of example has changed: leave it."
    assert needs == [False] + [True] * 5 + [False] * (example is not None), told
    if example is not None:
        assert_equal(entry(report, "example"), [example], what="example afterwards")


def check_net(
    student: Student,
    exporter: str,
    *example: Tensor,
    dtype: Any = torch.float32,
    left: bool = False,
) -> Any:
    """An exporter's report of the network in train mode; `left` checks what remains of a mixed one."""
    model = net(dtype)
    state, xs = model.state_dict(), batches(dtype)
    if example and example[0].dim() == 3:
        xs = [x[:, None] * torch.randn(3, 1, dtype=dtype) for x in xs]
    modes = MIXED if left else [True] * len(MIXED)
    report = student.run("exported", exporter, "net", state, modes, *example, xs)
    if left:
        check_left(report, state, modes, *example)
    return report, xs, [model(x).detach() for x in xs]


@pytest.mark.points(8)
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("torch.jit.script(model)")
def test_script(student: Student) -> None:
    """Control flow is kept: an if on a value, and a loop, also after save and load."""
    for dtype in (torch.float32, torch.float64):
        state, xs = router_state(dtype), batches(dtype)
        for name, right in (
            ("router", [routed(state, x) for x in xs]),
            ("loop", [x / 2 ** max(0, math.ceil(math.log2(x.sum().clamp(min=1)))) for x in xs]),
        ):
            own = state if name == "router" else {}
            report = student.run("exported", "to_torchscript", name, own, [], xs)
            kind = entry(report, "kind")
            told = f"to_torchscript returns a {str(kind)[:40]}, not a ScriptModule."
            assert kind == "ScriptModule", told
            for values in ("values", "loaded"):
                what = f"the scripted {name}{', saved and loaded,' if values == 'loaded' else ''}"
                check_values(entry(report, values), right, what)


@pytest.mark.points(4)
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("Set the model to eval mode before you script it.")
def test_script_mode(student: Student) -> None:
    """It has the outputs of the model in eval mode."""
    report, _, right = check_net(student, "to_torchscript", dtype=torch.float64)
    for name, what in (("values", "of a model in train mode"), ("loaded", "saved and loaded")):
        check_values(entry(report, name, default=[]), right, f"the script {what}")


@pytest.mark.points(2)
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("Note the mode of each submodule before eval(), and set it back at the end.")
def test_script_leaves_the_model(student: Student) -> None:
    """The model is left as it was, with the mode of each submodule."""
    report, _, right = check_net(student, "to_torchscript", left=True)
    values = entry(report, "values", kind=list, default=[])
    assert len(values) == len(right), "to_torchscript does not return a ScriptModule."


@pytest.mark.points(5)
@pytest.mark.place("to_exported")
@pytest.mark.hint("dynamic_shapes=({0: torch.export.Dim('batch')},), in eval mode.")
def test_exported(student: Student) -> None:
    """One program has the outputs of the model in eval mode, for every batch size from 1."""
    check_program(student, torch.randn(4, 3))


@pytest.mark.points(3)
@pytest.mark.place("to_exported")
@pytest.mark.hint("Export with two rows at least: cat the example with itself.")
def test_exported_from_one_row(student: Student) -> None:
    """An example of one row gives a program for every batch size, and the model is left as it was."""
    check_program(student, torch.randn(1, 3, 3, dtype=torch.float64), left=True)


@pytest.mark.points(6)
@pytest.mark.place("to_exported")
@pytest.mark.hint("Cat the example with itself: both halves of a batch are treated alike.")
def test_exported_router(student: Student) -> None:
    """A model that decides for the whole batch is right for both kinds, from an example of one row."""
    state, xs = router_state(torch.float64), batches(torch.float64)
    report = student.run("exported", "to_exported", "free", state, [True] * 9, xs[3], xs)
    right = [routed(state, x) for x in xs]
    check_values(entry(report, "values", default=[]), right, "the program")


def check_program(student: Student, example: Tensor, left: bool = False) -> None:
    report, _, right = check_net(student, "to_exported", example, dtype=example.dtype, left=left)
    kind = entry(report, "kind")
    assert kind == "ExportedProgram", f"to_exported returns a {str(kind)[:40]}."
    what = f"the program from an example of shape {tuple(example.shape)}"
    check_values(entry(report, "values"), right, what)


def compared(student: Student, pairs: Any, modes: Any = (False, False, False, False)) -> Any:
    report = student.run("difference", pairs, list(modes))
    return entry(report, "value"), entry(report, "modes")


@pytest.mark.points(8)
@pytest.mark.place("largest_difference")
@pytest.mark.hint("(expected - actual).abs().max().item(), and the largest of all inputs.")
def test_difference(student: Student) -> None:
    """It is the largest absolute difference over all inputs and elements, as a float."""
    base = torch.randn(3, 2, dtype=torch.float64)
    scale = random.uniform(1, 2)
    shift = scale * torch.tensor([[0.25, -3.0], [0.5, 0.0], [1.0, 2.0]], dtype=torch.float64)
    pairs = [[base, base + 0.5 * shift], [base, base + shift], [2 * base, 2 * base + 0.25 * shift]]
    value, _ = compared(student, pairs)
    assert_close(value, scale * 3.0, what="largest_difference")
    value, _ = compared(student, [[base, base]])
    assert_close(value, 0.0, what="largest_difference of equal outputs")
    row = base[:1].float()
    value, _ = compared(student, [[row, row + 1e-3]])
    assert_close(value, 1e-3, what="largest_difference of one row in float32", atol=1e-6)
    value, _ = compared(student, [[base, base + 2**-30]])
    what = "largest_difference of outputs that differ by 9.3e-10"
    assert_close(value, 2**-30, what=what, atol=1e-13)


@pytest.mark.points(5)
@pytest.mark.place("largest_difference")
@pytest.mark.word("code that always returns infinity passes, too")
@pytest.mark.hint("Compare shapes first; a difference that is not equal to itself is NaN.")
def test_difference_is_infinite(student: Student) -> None:
    """Shapes that differ, even if they broadcast, and a NaN are an infinite difference."""
    x, nan = torch.ones(2, 3), torch.tensor([[1, 1, 1], [math.nan, 1, 1]])
    shapes = {
        "outputs (2, 3) and (2, 1)": [x, x[:, :1]],
        "outputs (2, 3) and (3,)": [x, x[0]],
        "outputs (2, 3) and (3, 2)": [x, x.T],
        "a NaN in what was exported": [x, nan],
        "a NaN in the model's output": [nan, x],
        "a NaN in both": [nan, nan],
    }
    for what, pair in shapes.items():
        for pairs in ([pair, [x, x + 1]], [[x, x + 1], pair]):
            value, _ = compared(student, pairs)
            assert_close(value, math.inf, what=f"largest_difference with {what}")


@pytest.mark.points(5)
@pytest.mark.place("largest_difference")
@pytest.mark.hint("Note the mode of each submodule, model.eval(), and set them back at the end.")
def test_difference_modes(student: Student) -> None:
    """The model runs in eval mode, and every submodule is left in the mode that it had."""
    x, gap = torch.ones(2, 3), random.uniform(0.25, 0.75)
    for modes in ([True, True, True, True], [True, False, True, False], [False, True, False, True]):
        for pairs in ([[x, x + gap]], [[x, x[0]]]):
            value, left = compared(student, pairs, modes)
            right = gap if len(pairs[0][1]) == 2 else math.inf
            assert_close(value, right, what="largest_difference")
            assert_equal(left, modes, what="the mode of each submodule afterwards")
    with must_raise(LookupError, call="largest_difference with an `exported` that raises"):
        student.run("difference", [[x, x]], [True] * 4, True)


def check_onnx(student: Student, rows: int, left: bool = False) -> None:
    """An ONNX model from an example of so many rows, run where no student's code runs."""
    report, xs, right = check_net(student, "to_onnx", torch.randn(rows, 3), left=left)
    data = entry(report, "bytes", default=None)
    told = "to_onnx returns something else than bytes: the ONNX model, serialized."
    assert isinstance(data, bytes), told
    assert len(data) < 1_000_000, "to_onnx returns more than 1 MB for a model of 40 numbers."
    seen = student.apart("run_onnx", data, xs)
    error = entry(seen, "error")
    assert error is None, f"to_onnx returns bytes that are not an ONNX model: {error}"
    for side, name in (("inputs", "features"), ("outputs", "logits")):
        found = entry(seen, side, kind=list)
        names = [str(entry(one, 0)) for one in found]
        told = f"The {side} of the ONNX model are {names}: one, {name!r}, is asked for."
        assert names == [name], told
        fixed = entry(found[0], 1)
        told = f"{name!r} has {fixed} rows in the ONNX model: declare its dimension 0 as dynamic."
        assert fixed is None, told
    values = entry(seen, "values", kind=list, count=len(right))
    for value, output, x in zip(values, right, xs, strict=True):
        assert not isinstance(value, str), f"The ONNX model fails for {len(x)} rows: {value}"
        assert_close(value, output, what="the ONNX model's output", rtol=0, atol=1e-4)


@pytest.mark.points(8)
@pytest.mark.place("to_onnx")
@pytest.mark.hint("input_names, output_names, dynamic_axes, dynamo=False, into an io.BytesIO.")
def test_onnx(student: Student) -> None:
    """The ONNX model has the names, a dynamic batch size, and the outputs of the model in eval mode."""
    check_onnx(student, 3)


@pytest.mark.points(4)
@pytest.mark.place("to_onnx")
@pytest.mark.hint("Cat the example with itself where it has one row.")
def test_onnx_one_row(student: Student) -> None:
    """The same from an example of one row, and the model is left as it was."""
    check_onnx(student, 1, left=True)
