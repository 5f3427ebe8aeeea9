"""Tests of BranchFreeRouter, the three exporters and largest_difference."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, entry, fields, laws
from grader.judge.student import Student

State = dict[str, Tensor]
FEATURES, OUTPUTS = 3, 2
# Rows of both signs, and a mean above 0.
SIGNS = [[-1.0], [2.0], [4.0], [-2.0], [3.0]]
# How often a batch is repeated to have more rows than any bound.
REPEATS = 250
# A mean above 0 that half precision takes for 0.
TINY = 1e-9
# What an exporter may not change.
LEFT = ("values", "parameters", "buffers", "requires_grad", "mode")
# A difference that torch.allclose and float32 lose.
SMALL_DIFFERENCE = 2.0**-30
ONNX_TOLERANCE = 1e-4
# Of new_batches: the two of several rows, and those of one row and of many.
SEVERAL_ROWS = slice(2)
ONE_ROW_AND_MANY = slice(2, None)
# Modes of the probe's Answering and of the three modules in it.
EVAL = [False] * 4
TRAIN = [True] * 4
MIXED = [True, False, True, False]


class Export(NamedTuple):
    """What an exporter made of the probe's network and how it left all; batches, and the right outputs."""

    seen: laws.Observation
    batches: list[Tensor]
    right: list[Tensor]


class OnnxModel(NamedTuple):
    """What an ONNX model says of itself and gives, and the outputs that are right."""

    report: dict[str, Any]
    right: list[Tensor]


# --- BranchFreeRouter ----------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("BranchFreeRouter")
@pytest.mark.word("the sandbox says which objects are the same")
@pytest.mark.hint("self.positive = router.positive, or the router itself as a submodule.")
def test_router_shares(student: Student) -> None:
    """Its two layers are those of the router: shared, not copied, and registered as submodules."""
    report = student.run("shared", student.made("router", router_state()))
    assert entry(report, "is_router") is False, "This is the router itself."
    told = "Not all of the router's parameters are those of BranchFreeRouter: share its layers."
    assert entry(report, "shared", kind=list, count=4) == [True] * 4, told
    assert_equal(entry(report, "count"), 4, what="the number of parameters")


@pytest.mark.points(6)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("torch.where(x.mean() > 0, self.positive(x), self.negative(x))")
def test_router(student: Student) -> None:
    """It has the values of the router, by one decision for the whole batch."""
    check_router(student, new_batches(torch.float64))


@pytest.mark.points(2)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("The condition is x.mean() > 0, as in Router.")
def test_router_near_zero(student: Student) -> None:
    """A mean of 0 is not positive, and a mean just above 0 is."""
    positive = torch.rand(2, FEATURES) + 1
    # Whole numbers, so that their sum is exactly 0 in whatever order.
    whole = torch.randint(1, 9, (1, FEATURES)).float()
    check_router(student, [TINY * positive, -TINY * positive, torch.cat([whole, -whole])])


@pytest.mark.points(12)
@pytest.mark.place("BranchFreeRouter.forward")
@pytest.mark.hint("No if, no .item(), no bool(): the condition stays a tensor.")
def test_router_exports(student: Student) -> None:
    """Exported by torch.export, it is right for batches of both kinds and of any size."""
    state, batches = router_state(), new_batches()
    free = student.own("BranchFreeRouter", student.made("router", state))
    # A size of 1 is a constant to torch.export.
    example = random.choice([x for x in batches if len(x) > 1])
    report = student.run("router_program", free, example)
    error = entry(report, "error")
    assert error is None, f"torch.export cannot export it, an if on a value? {error}"
    right = [routed(state, x) for x in batches]
    check_saved(student, "program", report, batches, right, "the exported BranchFreeRouter")


# --- to_torchscript ------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("torch.jit.script(model)")
def test_script(student: Student) -> None:
    """Control flow that depends on a value is kept, also after torch.jit.save and torch.jit.load."""
    state, batches = router_state(torch.float64), new_batches(torch.float64)
    report = student.run("script", student.made("router", state))
    right = [routed(state, x) for x in batches]
    check_script(student, report, batches, right, "the scripted router")


@pytest.mark.points(4)
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("Set the model to eval mode before you script it.")
def test_script_mode(student: Student) -> None:
    """It has the outputs of the model in eval mode, whatever mode it is in."""
    seen, batches, right = scripted_network(student)
    check_script(student, seen.value, batches, right, "the script of a model in train mode")


@pytest.mark.points(2)
@pytest.mark.requires("test_script")
@pytest.mark.place("to_torchscript")
@pytest.mark.hint("Note the mode of each submodule before eval(), and set it back at the end.")
def test_script_leaves_the_model(student: Student) -> None:
    """The model is left as it was, with the mode of each submodule."""
    seen = scripted_network(student).seen
    check_class(seen.value, "ScriptModule", "to_torchscript")
    check_left(seen, "to_torchscript")


# --- to_exported ---------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("to_exported")
@pytest.mark.hint("dynamic_shapes=({0: torch.export.Dim('batch')},), in eval mode.")
def test_exported(student: Student) -> None:
    """One program has the outputs of the model in eval mode, for every batch size from 1."""
    check_program(student, observe_export(student, "program", new_batches(), new_example()))


@pytest.mark.points(4)
@pytest.mark.place("to_exported")
@pytest.mark.hint("Export with two rows at least: cat the example with itself.")
def test_exported_from_one_row(student: Student) -> None:
    """An example may have one row, and inputs more dimensions than two."""
    check_program(student, exported_from_one_row(student))


@pytest.mark.points(4)
@pytest.mark.place("to_exported")
@pytest.mark.word("code that exports nothing leaves it alone, too")
@pytest.mark.hint("Note the mode of each submodule before eval(), and set it back at the end.")
def test_exported_leaves_the_model(student: Student) -> None:
    """The model is left as it was, with the mode of each submodule, and the example, too."""
    seen = exported_from_one_row(student).seen
    check_class(seen.value, "ExportedProgram", "to_exported")
    check_left(seen, "to_exported")


# --- largest_difference --------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("largest_difference")
@pytest.mark.hint("(expected - actual).abs().max().item(), and the largest of all inputs.")
def test_difference(student: Student) -> None:
    """It is the largest absolute difference over all inputs and elements, as a float."""
    base, largest = torch.randn(3, 2, dtype=torch.float64), random.uniform(3, 6)
    # Relative differences, and those of the smaller outputs, are in another order.
    shift = torch.tensor([[0.1, -1.0], [0.2, 0.0], [0.3, 0.6]], dtype=torch.float64) * largest
    outputs = [base, base, 2 * base]
    others = [base + 0.5 * shift, base + shift, 2 * base + 0.25 * shift]
    value = difference(student, outputs, others)
    assert_close(value, largest, what="largest_difference")
    value = difference(student, others, outputs)
    assert_close(value, largest, what="largest_difference the other way round")
    equal = [base, base[:1]]
    value = difference(student, equal, equal)
    assert_close(value, 0.0, what="largest_difference of equal outputs")


@pytest.mark.points(2)
@pytest.mark.requires("test_difference")
@pytest.mark.place("largest_difference")
@pytest.mark.hint("Round nothing, and keep the dtype of the outputs.")
def test_small_difference(student: Student) -> None:
    """A small difference counts, too."""
    base = torch.randn(3, 2, dtype=torch.float64)
    value = difference(student, [base], [base + SMALL_DIFFERENCE])
    what = f"largest_difference of outputs that differ by {SMALL_DIFFERENCE:.1e}"
    assert_close(value, SMALL_DIFFERENCE, what=what, rtol=1e-4, atol=0)


@pytest.mark.points(2)
@pytest.mark.requires("test_difference")
@pytest.mark.place("largest_difference")
@pytest.mark.hint("Compare shapes before you subtract.")
def test_difference_of_shapes(student: Student) -> None:
    """Outputs of different shapes make it infinity, even if the shapes broadcast."""
    x = torch.randn(2, 3)
    for other in (x[:, :1], x[0], x.T):
        check_infinite(student, x, other, f"outputs {(2, 3)} and {tuple(other.shape)}")


@pytest.mark.points(3)
@pytest.mark.requires("test_difference")
@pytest.mark.place("largest_difference")
@pytest.mark.hint("A difference that is not equal to itself is NaN.")
def test_difference_of_nan(student: Student) -> None:
    """A NaN in an output makes it infinity."""
    x = torch.randn(2, 3)
    nan = x.clone()
    nan[random.randrange(2), random.randrange(3)] = math.nan
    check_infinite(student, x, nan, "a NaN in what was exported")
    check_infinite(student, nan, x, "a NaN in the model's output")
    check_infinite(student, nan, nan, "a NaN in both")


@pytest.mark.points(3)
@pytest.mark.requires("test_difference")
@pytest.mark.place("largest_difference")
@pytest.mark.hint("model.eval() sets all submodules.")
def test_difference_in_eval_mode(student: Student) -> None:
    """The model runs in eval mode, and each of its submodules does."""
    x, gap = torch.ones(2, 3), random.uniform(0.25, 0.75)
    for modes in (TRAIN, MIXED):
        value = difference(student, [x], [x + gap], modes)
        assert_close(value, gap, what="largest_difference with a model in train mode")


@pytest.mark.points(2)
@pytest.mark.requires("test_difference_in_eval_mode", "test_difference_of_shapes")
@pytest.mark.place("largest_difference")
@pytest.mark.word("the sandbox says in which mode a submodule is")
@pytest.mark.hint("Note the mode of each submodule, model.eval(), and set them back at the end.")
def test_difference_leaves_modes(student: Student) -> None:
    """Afterwards every submodule has the mode that it had, even where shapes differ."""
    x, compare = torch.ones(2, 3), student.probe("difference")
    for other in (x + 1, x[0]):
        model = student.made("answering", [x], MIXED)
        laws.check_changes_nothing(student, compare, model, [other], call="largest_difference")


# --- to_onnx -------------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("to_onnx")
@pytest.mark.hint('input_names=["features"], output_names=["logits"], into an io.BytesIO.')
def test_onnx_names(student: Student) -> None:
    """The bytes are those of an ONNX model with one input, "features", and one output, "logits"."""
    report = onnx_model(student).report
    names = fields(report, "inputs", "outputs")
    what = "the list of the names of the inputs and of the outputs"
    assert_equal(names, [["features"], ["logits"]], what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_onnx_names")
@pytest.mark.place("to_onnx")
@pytest.mark.hint('dynamic_axes={"features": {0: "batch"}, "logits": {0: "batch"}}')
def test_onnx_dynamic(student: Student) -> None:
    """The batch dimension is dynamic, even where the example has one row."""
    report = onnx_model(student).report
    fixed = entry(report, "fixed_rows", kind=list, count=2)
    for name, rows in zip(("features", "logits"), fixed, strict=True):
        told = f"{name!r} has {rows} rows in the ONNX model: declare its dimension 0 as dynamic."
        assert rows is None, told


@pytest.mark.points(4)
@pytest.mark.requires("test_onnx_names")
@pytest.mark.place("to_onnx")
@pytest.mark.hint("Set the model to eval mode before you export it.")
def test_onnx(student: Student) -> None:
    """Its outputs are those of the model in eval mode."""
    check_onnx(student, SEVERAL_ROWS)


@pytest.mark.points(3)
@pytest.mark.requires("test_onnx_dynamic")
@pytest.mark.place("to_onnx")
@pytest.mark.hint("Cat the example with itself where it has one row.")
def test_onnx_sizes(student: Student) -> None:
    """They are so for one row and for many, though the example has one row."""
    check_onnx(student, ONE_ROW_AND_MANY)


@pytest.mark.points(2)
@pytest.mark.requires("test_onnx_names")
@pytest.mark.place("to_onnx")
@pytest.mark.hint("Note the mode of each submodule before eval(), and set it back at the end.")
def test_onnx_leaves_the_model(student: Student) -> None:
    """The model is left as it was, with the mode of each submodule; the example may have many rows."""
    model = made_network(student, new_network())
    laws.check_changes_nothing(student, "to_onnx", model, new_example(), only=LEFT)


# --- locally -------------------------------------------------------------------------------------


def new_batches(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Two batches of several rows and two of one row, with means above 0 and below, and one of many rows."""
    signs = torch.tensor(SIGNS, dtype=dtype)
    batch = signs * (1 + torch.rand(len(SIGNS), FEATURES, dtype=dtype))
    return [batch, -batch, batch[1:2], -batch[1:2], batch.repeat(REPEATS, 1)]


def router_state(dtype: torch.dtype = torch.float32) -> State:
    """New weights of a router."""
    state = {}
    for layer in ("positive", "negative"):
        state[f"{layer}.weight"] = torch.randn(OUTPUTS, FEATURES, dtype=dtype)
        state[f"{layer}.bias"] = torch.randn(OUTPUTS, dtype=dtype)
    return state


def routed(state: State, x: Tensor) -> Tensor:
    """What a router of these weights gives."""
    layer = "positive" if x.mean() > 0 else "negative"
    return x @ state[f"{layer}.weight"].T + state[f"{layer}.bias"]


def check_values(values: Any, right: list[Tensor], what: str, **tolerances: Any) -> None:
    """Outputs of several batches are right; in the place of one may stand what was raised."""
    for value, output in zip(entry(values, kind=list, count=len(right)), right, strict=True):
        assert not isinstance(value, str), (
            f"{what} fails for a batch of {len(output)} rows: {value}"
        )
    assert_close(values, right, what=what, **tolerances)


def check_router(student: Student, batches: list[Tensor]) -> None:
    """A BranchFreeRouter has the outputs of a router of the dtype of `batches`, and is another module."""
    state = router_state(batches[0].dtype)
    report = student.run("routed", student.made("router", state), batches)
    assert entry(report, "is_router") is False, "This is the router itself."
    right = [routed(state, x) for x in batches]
    check_values(entry(report, "values"), right, "BranchFreeRouter")


def new_example() -> Tensor:
    """An example of several rows for an exporter."""
    return torch.randn(random.randrange(3, 7), FEATURES)


def new_network(dtype: torch.dtype = torch.float32) -> nn.Module:
    """The probe's network in eval mode, with weights and statistics that are drawn."""
    inner = nn.Sequential(nn.Linear(FEATURES, OUTPUTS), nn.ReLU(), nn.Dropout(0.5))
    network = nn.Sequential(nn.BatchNorm1d(FEATURES), inner).to(dtype).eval()
    for name, value in network.state_dict().items():
        if "running_var" in name:
            value.uniform_(0.5, 1.5)
        elif value.is_floating_point():
            value.normal_()
    return network


def new_modes() -> list[bool]:
    """The modes of the network's modules: BatchNorm, Dropout and two of the four others are in train mode."""
    batch_norm = dropout = True
    network, inner, linear, relu = random.sample([True, True, False, False], 4)
    return [network, batch_norm, inner, linear, relu, dropout]


def made_network(student: Student, network: nn.Module) -> Any:
    """A copy of the network where the student's code runs, with modes that are drawn."""
    return student.made("network", network.state_dict(), new_modes())


def outputs_of(network: nn.Module, batches: list[Tensor]) -> list[Tensor]:
    return [network(x).detach() for x in batches]


def check_onnx(student: Student, batches: slice) -> None:
    """The outputs of the ONNX model for some of the batches of `new_batches` are right."""
    report, right = onnx_model(student)
    values = entry(report, "values", kind=list, count=len(right))[batches]
    check_values(values, right[batches], "the ONNX model", rtol=0, atol=ONNX_TOLERANCE)


def observe_export(student: Student, probe: str, batches: list[Tensor], *example: Tensor) -> Export:
    """Let a probe export a network of the dtype of `batches`, which are for what comes of it."""
    network = new_network(batches[0].dtype)
    arguments = made_network(student, network), *example
    seen = laws.observe(student, student.probe(probe), *arguments).checked()
    return Export(seen, batches, outputs_of(network, batches))


def scripted_network(student: Student) -> Export:
    """The network as TorchScript, once for all tests."""
    return student.once("script", lambda: observe_export(student, "script", new_batches()))


def exported_from_one_row(student: Student) -> Export:
    """The program from an example of one row, of float64 and three dimensions, once for all tests."""

    def export() -> Export:
        channels = torch.randn(FEATURES, 1, dtype=torch.float64)
        example = torch.randn(1, FEATURES, FEATURES, dtype=torch.float64)
        batches = [x[:, None] * channels for x in new_batches(torch.float64)]
        return observe_export(student, "program", batches, example)

    return student.once("from one row", export)


def check_left(seen: laws.Observation, call: str) -> None:
    """A call of an exporter changed neither the model nor its other arguments."""
    changed = [change.words for change in seen.changes() if change.part in LEFT]
    assert not changed, f"One call of {call} changed {', '.join(changed[:6])}."


def check_class(report: Any, right: str, name: str) -> None:
    returned = str(entry(report, "class"))[:40]
    assert returned == right, f"{name} returns an object of type {returned}, not {right}."


def check_saved(
    student: Student, kind: str, report: Any, batches: list[Tensor], right: list[Tensor], what: str
) -> None:
    """What an exporter made was saved, and has the right outputs where no student's code runs."""
    data = entry(report, "saved", kind=bytes)
    check_values(student.apart("run_saved", kind, data, batches), right, what)


def check_script(
    student: Student, report: Any, batches: list[Tensor], right: list[Tensor], what: str
) -> None:
    """The report of the probe's script is one of TorchScript that has the outputs that are right."""
    check_class(report, "ScriptModule", "to_torchscript")
    check_saved(student, "script", report, batches, right, what)


def check_program(student: Student, export: Export) -> None:
    """The program has the outputs that are right."""
    report = export.seen.value
    check_class(report, "ExportedProgram", "to_exported")
    what = "the program of a model in train mode"
    check_saved(student, "program", report, export.batches, export.right, what)


def difference(
    student: Student, expected: list[Tensor], actual: list[Tensor], modes: list[bool] = EVAL
) -> Any:
    """The largest difference of the outputs of a model and those of what was exported."""
    return student.run("difference", student.made("answering", expected, modes), actual)


def check_infinite(student: Student, expected: Tensor, actual: Tensor, what: str) -> None:
    """Two outputs make the difference infinite, whatever comes before and after them."""
    finite = expected.nan_to_num()
    value = difference(student, [finite, expected, finite], [finite + 1, actual, finite + 1])
    assert_close(value, math.inf, what=f"largest_difference with {what}")


def onnx_model(student: Student) -> OnnxModel:
    """The ONNX model of a network, exported from one row, once for all tests.

    It is run where no student's code runs.
    """

    def export() -> OnnxModel:
        network, batches = new_network(), new_batches()
        model, example = made_network(student, network), torch.randn(1, FEATURES)
        told = "to_onnx returns something else than bytes: the ONNX model, serialized."
        data = entry(student.function("to_onnx")(model, example), kind=bytes, told=told)
        report = student.apart("run_onnx", data, batches)
        error = entry(report, "error")
        assert error is None, f"to_onnx returns bytes that are not an ONNX model: {error}"
        return OnnxModel(report, outputs_of(network, batches))

    return student.once("ONNX", export)
