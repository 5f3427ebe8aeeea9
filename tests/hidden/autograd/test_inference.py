"""Tests of evaluating, predict and ordinary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, exactly, laws, promise
from grader.judge.student import Student

# The submodules of the probe's Model; "" is the model itself.
PARTS = ("body", "body.0", "body.1", "body.2", "head")
ALL = ("", *PARTS)
ROWS = [4, 3, 2]  # of the batches in the tests of how the model is called
COPY = ("is_inference()", "requires_grad", "shares memory with x")


# --- evaluating ----------------------------------------------------------------------------------


@promise(
    "evaluating",
    points=3,
    hint="model.eval() sets the mode of every submodule, torch.no_grad() grad mode.",
    word="the sandbox says which modes are on",
)
def test_inside(code: Student, draw: Draw) -> Cases:
    """Inside the block the model is in evaluation mode, and grad mode is off."""
    report = code.run("block", new_model(code, draw, training=ALL))
    inside = {"model.training": entry(report, "inside", ""), "grad mode": entry(report, "grad")}
    yield "the dict of modes inside the block", exactly(inside)


@promise(
    "evaluating",
    points=3,
    hint="model.eval() sets the mode of the parts, and of their parts, too.",
    after="test_inside",
    word="the sandbox says which modes are on",
)
def test_inside_parts(code: Student, draw: Draw) -> Cases:
    """Inside the block every submodule of the model is in evaluation mode."""
    report = code.run("block", new_model(code, draw, training=ALL))
    what = "the dict of the submodules' training modes inside the block"
    yield what, exactly(entry(report, "inside"))


@promise(
    "evaluating",
    points=9,
    hint="Remember [(m, m.training) for m in model.modules()], and set each one back.",
    after="test_inside",
)
def test_modes_are_set_back(code: Student, draw: Draw) -> Cases:
    """After the block, each submodule is in the mode in which it was before."""
    for training in (some_parts(draw), ["", *some_parts(draw)]):
        report = code.run("block", new_model(code, draw, training=training))
        what = "the dict of the submodules' training modes after the block"
        yield what, exactly(entry(report, "after"))


@promise(
    "evaluating",
    points=7,
    hint="Put everything that has to happen in any case into a finally, around the yield.",
    after="test_inside",
)
def test_after_an_exception(code: Student, draw: Draw) -> Cases:
    """An exception of the block is passed on, and the modes are set back."""
    for error in ("ValueError", "KeyboardInterrupt"):
        text = f"the block broke at step {draw.size(100, 1000)}"
        report = code.run("broken_block", new_model(code, draw, training=ALL), error, text)
        what = f"the message of the {error} that comes out of a block that raises it"
        yield what, entry(report, "left")
        what = f"the training mode of the model after a block that raised a {error}"
        yield what, exactly(entry(report, "after", ""))


@promise(
    "evaluating",
    points=2,
    hint="with no_grad(): restores the mode from before, set_grad_enabled(True) does not.",
    after="test_inside",
    word="the sandbox says which modes are on",
)
def test_grad_mode_is_set_back(code: Student, draw: Draw) -> Cases:
    """After the block, grad mode and inference mode are what they were before it."""
    model = new_model(code, draw, training=ALL)
    for around in ("inference_mode", "no_grad", "enable_grad"):
        after = code.run("block_under", model, around)
        yield f"the state of autograd after a block under {around}", exactly(after)
    after = entry(code.run("broken_block", model, "ValueError", "the block broke"), "autograd")
    yield "the state of autograd after a block that raised an exception", exactly(after)


@promise(
    "evaluating",
    points=2,
    hint="Remember the modes in the block itself, not in one place for all blocks.",
    after="test_inside",
)
def test_nested_blocks(code: Student, draw: Draw) -> Cases:
    """Blocks may be nested."""
    report = code.run("nested_blocks", new_model(code, draw, training=["", *some_parts(draw)]))
    what = "the dict of the submodules' training modes after each of two nested blocks"
    yield what, exactly(report)


@promise(
    "evaluating",
    points=2,
    hint="requires_grad decides which parameters are learned; grad mode decides whether a graph is built.",
    after="test_inside",
)
def test_evaluating_leaves_the_rest(student: Student) -> None:
    """Parameters, buffers and requires_grad are not changed."""
    model = student.made("model", 0, training=ALL)
    laws.check_changes_nothing(student, student.probe("block"), model, call="evaluating")


# --- predict -------------------------------------------------------------------------------------


@promise("predict", points=4, hint="torch.cat of model(inputs) for inputs, _ in loader.")
def test_predictions(code: Student, draw: Draw) -> Cases:
    """The result has all outputs in order, concatenated along dimension 0, in the model's dtype."""
    yield predictions(code, new_inputs(draw, 2, 3), new_model(code, draw, width=1, shape=[]))
    yield predictions(code, new_inputs(draw, 1, 2, 3), new_model(code, draw, shape=[2, 1]))
    inputs = [x.double() for x in new_inputs(draw, 4, 4, 1)]
    yield predictions(code, inputs, new_model(code, draw, dtype="float64"))


@promise("predict", points=2, hint="evaluating(model) puts every submodule into evaluation mode.")
def test_predictions_of_a_training_model(code: Student, draw: Draw) -> Cases:
    """The predictions are those of evaluation mode, whatever the mode of each submodule."""
    for training in (ALL, ["body.1"]):
        yield predictions(code, new_inputs(draw, 4, 4), new_model(code, draw, training=training))


@promise(
    "predict",
    points=2,
    hint="Go through the loader once, with a for loop; ask for no length, and no targets.",
)
def test_loaders(code: Student, draw: Draw) -> Cases:
    """The loader may be a generator, and its batches may be lists; targets are not used."""
    loader = code.made("generator", [[x, None] for x in new_inputs(draw, 4, 2, 3)])
    result = code.function("predict")(new_model(code, draw), loader)
    yield "the result of predict for a generator", result


@promise(
    "predict",
    points=4,
    hint="Run the whole loop inside with evaluating(model):.",
    word="the sandbox says which modes are on",
)
def test_how_the_model_runs(code: Student, draw: Draw) -> Cases:
    """The model runs in evaluation mode, with grad mode off."""
    calls = code.run("calls", new_model(code, draw, training=ALL), batches_of(draw))
    yield "the list of values of model.training in calls of the model", entry(calls, "training")
    yield "the list of grad modes in calls of the model", entry(calls, "grad mode")


@promise(
    "predict",
    hint="Keep the output of model(inputs) where you need it more than once.",
    after="test_predictions",
    word="the sandbox says how often the model was called",
)
def test_runs_once(code: Student, draw: Draw) -> Cases:
    """The model is called once for each batch."""
    calls = code.run("calls", new_model(code, draw, training=ALL), batches_of(draw))
    yield "the list of how many rows the model got in each call", entry(calls, "rows")


@promise(
    "predict",
    points=17,
    hint="Under no_grad outputs are ordinary; concatenate outside inference_mode.",
    after="test_how_the_model_runs",
    word="the sandbox says what kind of tensor it is",
)
def test_predictions_are_ordinary(code: Student, draw: Draw) -> Cases:
    """The result has no graph and is not an inference tensor."""
    # One batch is enough: test_predictions judges whether the result has all of them.
    (x,) = new_inputs(draw, draw.size(2, 40))
    model = new_model(code, draw, training=ALL)
    result = laws.check_ordinary(code, "predict", model, [(x, torch.zeros(len(x)))])
    yield "the result of predict", result


@promise(
    "predict",
    points=4,
    hint="evaluating(model) sets all modes back, and passes exceptions on.",
    word="the sandbox says what it left",
)
def test_predict_leaves_the_rest(student: Student) -> None:
    """Modes, model and batches are left as they were, even if the model or the loader raises an error."""
    model = student.made("model", 0, training=["", "body", "body.1", "head"])
    inputs = [torch.randn(rows, 3, requires_grad=True) for rows in (4, 2)]
    batches = [(x, torch.zeros(len(x))) for x in inputs]
    laws.check_changes_nothing(student, "predict", model, batches)
    broken = student.made("broken", model)
    laws.check_changes_nothing(student, "predict", broken, batches, raises=RuntimeError)
    failing = student.made("failing_loader", batches)
    laws.check_changes_nothing(student, "predict", model, failing, raises=LookupError)


@promise(
    "predict",
    points=2,
    hint="if not outputs: raise ValueError(...), before torch.cat.",
    after="test_predictions",
    word="the sandbox says that it raised",
)
def test_empty_loader(student: Student) -> None:
    """A loader that yields nothing is a ValueError."""
    laws.check_errors(student, "predict", {"loader": [(student.made("model", 0), [])]})


# --- ordinary ------------------------------------------------------------------------------------


@promise(
    "ordinary",
    points=4,
    hint="x.clone() is an ordinary tensor, unless it is made in inference mode.",
)
def test_ordinary_copy(code: Student, draw: Draw) -> Cases:
    """For an inference tensor, the result is an ordinary copy with its values, shape and dtype."""
    x = draw.normal(3, 4, scale=4)
    for tensor in (x.long(), x.double() / 3, x.t(), torch.zeros(0, 3)):
        yield from copied(code, tensor, inside=False)


@promise(
    "ordinary",
    points=3,
    hint="if not x.is_inference(): return x",
    after="test_ordinary_copy",
    word="the sandbox says that an object is the same",
)
def test_ordinary_is_itself(code: Student, draw: Draw) -> Cases:
    """An ordinary tensor comes back as the same object, in its graph."""
    for inside in (False, True):
        report = code.run("comes_back", draw.normal(3, 2).t(), inside)
        yield f"the dict of whether x itself comes back from ordinary, {called(inside)},", report


@promise(
    "ordinary",
    points=7,
    hint="with torch.inference_mode(False): switches inference mode off for a block.",
)
def test_ordinary_inside(code: Student, draw: Draw) -> Cases:
    """The copy is ordinary even if it is made inside inference_mode."""
    yield from copied(code, draw.normal(3, 4), inside=True)


# --- helpers of the tests ------------------------------------------------------------------------


def some_parts(draw: Draw) -> list[str]:
    """Draw three parts of the model."""
    return [PARTS[i] for i in draw.permutation(len(PARTS))[:3]]


def new_model(code: Student, draw: Draw, **setting: Any) -> Any:
    """Make the probe's Model with drawn numbers."""
    return code.made("model", draw.seed(), **setting)


def new_inputs(draw: Draw, *rows: int) -> list[Tensor]:
    """Draw a batch of inputs for each number of rows."""
    return [draw.normal(count, 3) for count in rows]


def batches_of(draw: Draw) -> list[tuple[Tensor, Tensor]]:
    """Draw three batches, with zeros as targets."""
    return [(x, torch.zeros(len(x))) for x in new_inputs(draw, *ROWS)]


def predictions(code: Student, inputs: Sequence[Tensor], model: Any) -> tuple[str, Any]:
    """Return the result of predict, and its name, for one batch of each of the inputs."""
    batches = [(x, torch.zeros(len(x))) for x in inputs]
    return "the result of predict", code.function("predict")(model, batches)


def called(inside: bool) -> str:
    return "called inside of inference_mode" if inside else "called outside of inference_mode"


def copied(code: Student, x: Tensor, *, inside: bool) -> Cases:
    """Yield the properties and values of ordinary's result for an inference copy of x."""
    where = f"the result of ordinary, {called(inside)},"
    report = code.run("copy_of", x, inside)
    facts = {name: entry(report, name) for name in COPY}
    yield f"the dict of properties of {where}", exactly(facts)
    yield where, exactly(entry(report, "values"))
