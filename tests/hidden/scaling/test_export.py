"""Tests of BranchFreeRouter, the three exporters and largest_difference."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, any_gradients, entry, fields, laws, promise, within
from grader.judge.student import Student

FEATURES = 3
# Signs and sizes of the rows, whose mean is above 0.
SIGNS = [[-1.0], [2.0], [4.0], [-2.0], [3.0]]
# How often a batch is repeated to have more rows than any bound.
REPEATS = 250
# A mean above 0 that half precision rounds to 0.
TINY = 1e-9
# The parts of a model that an exporter may not change.
LEFT = ("values", "parameters", "buffers", "requires_grad", "mode")
# A difference that torch.allclose and float32 ignore.
SMALL_DIFFERENCE = 2.0**-30
ONNX_TOLERANCE = 1e-4
# Parts of new_batches: the two batches of several rows, and those of one row and of many.
SEVERAL_ROWS = slice(2)
ONE_ROW_AND_MANY = slice(2, None)
# The modes of the probe's Answering and of the three modules in it.
EVAL = [False] * 4
TRAIN = [True] * 4
MIXED = [True, False, True, False]


# --- BranchFreeRouter ----------------------------------------------------------------------------


@promise(
    "BranchFreeRouter",
    points=3,
    hint="self.positive = router.positive, or the router itself as a submodule.",
    word="the sandbox says which objects are the same",
)
def test_router_shares(code: Student, draw: Draw) -> Cases:
    """The two layers are the router's own: shared, not copied, and registered as submodules."""
    report = code.run("shared", made_router(code, draw))
    yield "the statement that it is the router itself", entry(report, "is_router")
    told = "BranchFreeRouter does not have all of the router's parameters: share its layers."
    assert laws.same(entry(report, "shared"), 4), told
    yield "the number of its parameters", entry(report, "count")


@promise(
    "BranchFreeRouter.forward",
    points=6,
    hint="torch.where(x.mean() > 0, self.positive(x), self.negative(x))",
)
def test_router(code: Student, draw: Draw) -> Cases:
    """The output is the router's, by one decision for the whole batch."""
    yield from routed(code, draw, new_batches(draw))


@promise(
    "BranchFreeRouter.forward",
    points=2,
    hint="The condition is x.mean() > 0, as in Router.",
)
def test_router_near_zero(code: Student, draw: Draw) -> Cases:
    """A mean of 0 is not positive, and a mean just above 0 is."""
    positive = draw.uniform(2, FEATURES, low=1, high=2, dtype=torch.float64)
    # Whole numbers, so that their sum is exactly 0 in any order.
    whole = draw.integers(1, FEATURES, low=1, high=9).double()
    yield from routed(code, draw, [TINY * positive, -TINY * positive, torch.cat([whole, -whole])])


@promise(
    "BranchFreeRouter.forward",
    points=12,
    hint="No if, no .item(), no bool(): the condition stays a tensor.",
)
def test_router_exports(code: Student, draw: Draw) -> Cases:
    """Exported by torch.export, the router is right for batches of both kinds and of any size."""
    batches = new_batches(draw)
    free = code.own("BranchFreeRouter", made_router(code, draw))
    # torch.export takes a size of 1 for a constant.
    report = code.run("router_program", free, draw.choice(batches[SEVERAL_ROWS]))
    error = entry(report, "error")
    assert error is None, f"torch.export cannot export it, an if on a value? {error}"
    yield from outputs(code, "program", entry(report, "saved"), batches)


# --- to_torchscript ------------------------------------------------------------------------------


@promise(
    "to_torchscript",
    points=8,
    hint="torch.jit.script(model)",
)
def test_script(code: Student, draw: Draw) -> Cases:
    """Control flow that depends on a value is kept, also after torch.jit.save and torch.jit.load."""
    script = code.run("script", made_router(code, draw))
    yield from outputs(code, "script", script, new_batches(draw))


@promise(
    "to_torchscript",
    points=4,
    hint="Set the model to eval mode before you script it, and keep its dtype.",
)
def test_script_mode(code: Student, draw: Draw) -> Cases:
    """The script has the outputs of the model in eval mode, whatever mode it is in, also in float64."""
    batches = new_batches(draw, torch.float64)
    script = code.run("script", made_network(code, draw, torch.float64))
    yield from outputs(code, "script", script, batches)


@promise(
    "to_torchscript",
    points=2,
    hint="Note the mode of each submodule before eval(), and set it back at the end.",
    after="test_script",
)
def test_script_leaves_the_model(student: Student) -> None:
    """The model is left as it was, with the mode of each submodule."""
    model, probe = student.made("network", 0, torch.ones(1)), student.probe("script")
    laws.check_changes_nothing(student, probe, model, call="to_torchscript", only=LEFT)


# --- to_exported ---------------------------------------------------------------------------------


@promise(
    "to_exported",
    points=6,
    hint="dynamic_shapes=({0: torch.export.Dim('batch')},), in eval mode.",
)
def test_exported(code: Student, draw: Draw) -> Cases:
    """One program has the outputs of the model in eval mode, for every batch size from 1."""
    example = draw.normal(draw.size(3, 7), FEATURES)
    program = code.run("program", made_network(code, draw), example)
    yield from outputs(code, "program", program, new_batches(draw))


@promise(
    "to_exported",
    points=4,
    hint="Export with two rows at least: cat the example with itself.",
)
def test_exported_from_one_row(code: Student, draw: Draw) -> Cases:
    """The example may have one row, and inputs may have more than two dimensions, and be float64."""
    example = draw.normal(1, FEATURES, FEATURES, dtype=torch.float64)
    program = code.run("program", made_network(code, draw, torch.float64), example)
    channels = draw.normal(FEATURES, 1, dtype=torch.float64)
    batches = [x[:, None] * channels for x in new_batches(draw, torch.float64)]
    yield from outputs(code, "program", program, batches)


@promise(
    "to_exported",
    points=4,
    hint="Note the mode of each submodule before eval(), and set it back at the end.",
    word="code that exports nothing leaves it alone, too",
)
def test_exported_leaves_the_model(student: Student) -> None:
    """The model is left as it was, with the mode of each submodule, and the example, too."""
    example, probe = torch.randn(1, FEATURES), student.probe("program")
    model = student.made("network", 0, example)
    program = laws.check_changes_nothing(
        student, probe, model, example, call="to_exported", only=LEFT
    )
    check_made("program", program)


# --- largest_difference --------------------------------------------------------------------------


@promise(
    "largest_difference",
    points=6,
    hint="(expected - actual).abs().max().item(), and the largest of all inputs.",
)
def test_difference(code: Student, draw: Draw) -> Cases:
    """The result is the largest absolute difference over all inputs and elements, a float."""
    base, largest = draw.normal(3, 2), draw.number(3, 6)
    # Relative differences, and differences of the smaller outputs, have another order.
    shift = torch.tensor([[0.1, -1.0], [0.2, 0.0], [0.3, 0.6]]) * largest
    outputs = [base, base, 2 * base]
    others = [base + 0.5 * shift, base + shift, 2 * base + 0.25 * shift]
    yield "largest_difference", difference(code, outputs, others)
    yield "largest_difference the other way round", difference(code, others, outputs)
    equal = [base, base[:1]]
    yield "largest_difference of equal outputs", difference(code, equal, equal)


@promise(
    "largest_difference",
    points=2,
    hint="Round nothing, and keep the dtype of the outputs.",
    after="test_difference",
)
def test_small_difference(code: Student, draw: Draw) -> Cases:
    """A small difference counts, too."""
    base = draw.normal(3, 2, dtype=torch.float64)
    value = difference(code, [base], [base + SMALL_DIFFERENCE])
    what = f"largest_difference of outputs that differ by {SMALL_DIFFERENCE:.1e}"
    yield what, within(value, rtol=1e-4, atol=0)


@promise(
    "largest_difference",
    points=2,
    hint="Compare shapes before you subtract.",
    after="test_difference",
)
def test_difference_of_shapes(code: Student, draw: Draw) -> Cases:
    """If outputs have different shapes, the difference is infinity, even if the shapes broadcast."""
    x = draw.normal(2, 3)
    for other in (x[:, :1], x[0], x.T):
        value = surrounded(code, x, other)
        yield f"largest_difference with outputs {(2, 3)} and {tuple(other.shape)}", value


@promise(
    "largest_difference",
    points=3,
    hint="A difference that is not equal to itself is NaN.",
    after="test_difference",
)
def test_difference_of_nan(code: Student, draw: Draw) -> Cases:
    """If an output has a NaN, the difference is infinity."""
    x = draw.normal(2, 3)
    nan = x.clone()
    nan[draw.size(0, 2), draw.size(0, 3)] = math.nan
    yield "largest_difference with a NaN in the exported model's output", surrounded(code, x, nan)
    yield "largest_difference with a NaN in the model's output", surrounded(code, nan, x)
    yield "largest_difference with a NaN in both", surrounded(code, nan, nan)


@promise(
    "largest_difference",
    points=3,
    hint="model.eval() sets all submodules.",
    after="test_difference",
)
def test_difference_in_eval_mode(code: Student, draw: Draw) -> Cases:
    """The model and each of its submodules run in eval mode."""
    x, gap = torch.ones(2, 3), draw.number(0.25, 0.75)
    for modes in (TRAIN, MIXED):
        value = difference(code, [x], [x + gap], modes)
        yield "largest_difference with a model in train mode", value


@promise(
    "largest_difference",
    points=2,
    hint="Note the mode of each submodule, model.eval(), and set them back at the end.",
    after=("test_difference_in_eval_mode", "test_difference_of_shapes"),
    word="the sandbox says in which mode a submodule is",
)
def test_difference_leaves_modes(student: Student) -> None:
    """Afterwards every submodule is in its old mode, even if shapes differ."""
    x, compare = torch.ones(2, 3), student.probe("difference")
    for other in (x + 1, x[0]):
        model = student.made("answering", [x], MIXED)
        laws.check_changes_nothing(student, compare, model, [other], call="largest_difference")


# --- to_onnx -------------------------------------------------------------------------------------


@promise(
    "to_onnx",
    points=2,
    hint='input_names=["features"], output_names=["logits"], into an io.BytesIO.',
)
def test_onnx_names(code: Student, draw: Draw) -> Cases:
    """The bytes are those of an ONNX model with one input, "features", and one output, "logits"."""
    names = fields(onnx_model(code), "inputs", "outputs")
    yield "the list of the names of the inputs and of the outputs", names


@promise(
    "to_onnx",
    points=5,
    hint='dynamic_axes={"features": {0: "batch"}, "logits": {0: "batch"}}',
    after="test_onnx_names",
)
def test_onnx_dynamic(code: Student, draw: Draw) -> Cases:
    """The batch dimension is dynamic, even if the example has one row."""
    fixed = entry(onnx_model(code), "fixed_rows")
    yield "the list of the numbers of rows to which input and output are fixed", fixed


@promise(
    "to_onnx",
    points=4,
    hint="Set the model to eval mode before you export it.",
    after="test_onnx_names",
)
def test_onnx(code: Student, draw: Draw) -> Cases:
    """The outputs of the ONNX model are those of the model in eval mode."""
    yield from onnx_outputs(code, SEVERAL_ROWS)


@promise(
    "to_onnx",
    points=3,
    hint="Cat the example with itself where it has one row.",
    after="test_onnx_dynamic",
)
def test_onnx_sizes(code: Student, draw: Draw) -> Cases:
    """The outputs are right for one row and for many, although the example has one row."""
    yield from onnx_outputs(code, ONE_ROW_AND_MANY)


@promise(
    "to_onnx",
    points=2,
    hint="Note the mode of each submodule before eval(), and set it back at the end.",
    after="test_onnx_names",
)
def test_onnx_leaves_the_model(student: Student) -> None:
    """The model is left as it was, with the mode of each submodule; the example may have many rows."""
    example = torch.randn(5, FEATURES)
    model = student.made("network", 0, example)
    laws.check_changes_nothing(student, "to_onnx", model, example, only=LEFT)


# --- helpers of the tests ------------------------------------------------------------------------


def made_router(code: Student, draw: Draw, dtype: torch.dtype = torch.float32) -> Any:
    """The stub's Router with drawn weights."""
    return code.made("router", draw.seed(), torch.empty(0, dtype=dtype))


def made_network(code: Student, draw: Draw, dtype: torch.dtype = torch.float32) -> Any:
    """The probe's network with drawn weights and statistics, partly in train mode."""
    return code.made("network", draw.seed(), torch.empty(0, dtype=dtype))


def new_batches(draw: Draw, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Two batches of several rows and two of one row, with means above and below 0, and one of many rows."""
    sizes = draw.uniform(len(SIGNS), FEATURES, low=1, high=2, dtype=dtype)
    batch = torch.tensor(SIGNS, dtype=dtype) * sizes
    return [batch, -batch, batch[1:2], -batch[1:2], batch.repeat(REPEATS, 1)]


def routed(code: Student, draw: Draw, batches: list[Tensor]) -> Cases:
    """The outputs of a BranchFreeRouter of the dtype of the batches."""
    report = code.run("routed", made_router(code, draw, batches[0].dtype), batches)
    assert entry(report, "itself") is False, "BranchFreeRouter gives the router itself back."
    yield from each(entry(report, "outputs"), batches)


def check_made(kind: str, data: Any) -> bytes:
    """The saved bytes of an export. If there are none, the export has the wrong class, and the test fails."""
    told = {
        "script": "to_torchscript does not return a torch.jit.ScriptModule.",
        "program": "to_exported does not return a torch.export.ExportedProgram.",
    }
    saved: bytes = entry(data, kind=bytes, told=told[kind])
    return saved


def outputs(code: Student, kind: str, data: Any, batches: list[Tensor]) -> Cases:
    """The outputs of a saved export, run in a process without the student's code."""
    yield from each(code.apart("run_saved", kind, check_made(kind, data), batches), batches)


def each(values: Any, batches: list[Tensor], **tolerances: float) -> Cases:
    """The outputs for batches. If one of them is the text of an error, the test fails and says so."""
    for x, value in zip(batches, entry(values, kind=list, count=len(batches)), strict=True):
        what = f"the output for a batch of {len(x)} rows"
        assert not isinstance(value, str), f"It fails for a batch of {len(x)} rows: {value}"
        yield what, any_gradients(within(value, **tolerances))


def difference(
    code: Student, expected: list[Tensor], actual: list[Tensor], modes: list[bool] = EVAL
) -> Any:
    """The largest_difference of a model with the `expected` outputs and an export with the `actual` ones."""
    return code.run("difference", code.made("answering", expected, modes), actual)


def surrounded(code: Student, expected: Tensor, actual: Tensor) -> Any:
    """The largest_difference for these two outputs, with finite differences before and after theirs."""
    finite = expected.nan_to_num()
    return difference(code, [finite, expected, finite], [finite + 1, actual, finite + 1])


def onnx_model(code: Student) -> dict[str, Any]:
    """The probe's report on the ONNX model of a network, with the batches. It is made once for all tests.

    The model is exported from one row, and run in a process without the student's code.
    """

    def ask() -> dict[str, Any]:
        draw = Draw(random.randrange(2**31))
        batches = new_batches(draw)
        model, example = made_network(code, draw), draw.normal(1, FEATURES)
        told = "to_onnx returns something else than bytes: the ONNX model, serialized."
        data = entry(code.function("to_onnx")(model, example), kind=bytes, told=told)
        report = code.apart("run_onnx", data, batches)
        error = entry(report, "error")
        assert error is None, f"to_onnx returns bytes that are not an ONNX model: {error}"
        return {**report, "batches": batches}

    return code.once("ONNX", ask)


def onnx_outputs(code: Student, which: slice) -> Cases:
    """The outputs of the ONNX model for some of its batches."""
    values, batches = fields(onnx_model(code), "values", "batches")
    yield from each(entry(values, kind=list)[which], batches[which], rtol=0, atol=ONNX_TOLERANCE)
