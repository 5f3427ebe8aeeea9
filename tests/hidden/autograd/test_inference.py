"""What evaluating, predict and ordinary promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

State = dict[str, Tensor]
# The submodules of the probe's Model; "" is the model itself.
PARTS = ("body", "body.0", "body.1", "body.2", "head")
ALL = ("", *PARTS)
NO_TRAINING = dict.fromkeys(ALL, False)
SHAPE = (2,)  # of a row of the model's output, where nothing else is said
ROWS = [4, 3, 2]  # of the batches for which the model keeps how it was called
# What is on under switches of torch's.
SWITCHES = {
    "inference_mode": {"inference mode": True, "grad mode": False},
    "no_grad": {"inference mode": False, "grad mode": False},
    "enable_grad": {"inference mode": False, "grad mode": True},
}


# --- evaluating ----------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("evaluating")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("model.eval() sets the mode of every submodule, torch.no_grad() grad mode.")
def test_inside(student: Student) -> None:
    """Inside the block the model is in evaluation mode, and grad mode is off."""
    report = student.run("block", new_model(student, ALL))
    inside = {"model.training": entry(report, "inside", ""), "grad mode": entry(report, "grad")}
    right = {"model.training": False, "grad mode": False}
    assert_equal(inside, right, what="the dict of what is on inside the block")


@pytest.mark.points(3)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("model.eval() sets the mode of the parts, and of their parts, too.")
def test_inside_parts(student: Student) -> None:
    """Inside the block every submodule of the model is in evaluation mode."""
    report = student.run("block", new_model(student, ALL))
    what = "the dict of the submodules' training modes inside the block"
    assert_equal(entry(report, "inside"), NO_TRAINING, what=what)


@pytest.mark.points(9)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.hint("Remember [(m, m.training) for m in model.modules()], and set each one back.")
def test_modes_are_set_back(student: Student) -> None:
    """After the block each submodule is in the mode in which it was."""
    for training in (drawn_parts(), ["", *drawn_parts()]):
        report = student.run("block", new_model(student, training))
        what = "the dict of the submodules' training modes after the block"
        assert_equal(entry(report, "after"), modes_of(training), what=what)


@pytest.mark.points(7)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.hint("What has to happen in any case stands in a finally, around the yield.")
def test_after_an_exception(student: Student) -> None:
    """An exception of the block is passed on, and the modes are set back."""
    for error in ("ValueError", "KeyboardInterrupt"):
        text = f"the block broke at step {random.randint(100, 999)}"
        report = student.run("broken_block", new_model(student, ALL), error, text)
        what = f"the message of the {error} that comes out of a block that raises it"
        assert_equal(entry(report, "left"), text, what=what)
        what = f"the training mode of the model after a block that raised a {error}"
        assert_equal(entry(report, "after", ""), True, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("with no_grad(): restores what was before, set_grad_enabled(True) does not.")
def test_grad_mode_is_set_back(student: Student) -> None:
    """Grad mode and inference mode are afterwards what they were around the block."""
    model = new_model(student, ALL)
    for around, right in SWITCHES.items():
        after = student.run("block_under", model, around)
        assert_equal(after, right, what=f"what is on after a block under {around}")
    after = entry(student.run("broken_block", model, "ValueError", "the block broke"), "autograd")
    what = "what is on after a block that raised an exception"
    assert_equal(after, SWITCHES["enable_grad"], what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.hint("Keep what you remember in the block itself, not in one place for all blocks.")
def test_nested_blocks(student: Student) -> None:
    """Blocks may be nested."""
    training = ["", *drawn_parts()]
    report = student.run("nested_blocks", new_model(student, training))
    right = {"after inner": NO_TRAINING, "after outer": modes_of(training)}
    what = "the dict of the submodules' training modes after each of two nested blocks"
    assert_equal(report, right, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.hint("requires_grad says what is learned, grad mode whether a graph is built.")
def test_evaluating_leaves_the_rest(student: Student) -> None:
    """Parameters, buffers and requires_grad are not changed."""
    model = new_model(student, ALL)
    laws.check_changes_nothing(student, student.probe("block"), model, call="evaluating")


# --- predict -------------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("predict")
@pytest.mark.hint("torch.cat of model(inputs) for inputs, _ in loader.")
def test_predictions(student: Student) -> None:
    """The result is all outputs in order, concatenated along dimension 0, of the model's dtype."""
    check_predictions(student, new_state(2, torch.float64), rows=[4, 4, 1])
    check_predictions(student, new_state(1), rows=[2, 3], shape=[])
    check_predictions(student, new_state(2), rows=[1, 2, 3], shape=[2, 1])


@pytest.mark.points(2)
@pytest.mark.place("predict")
@pytest.mark.hint("evaluating(model) puts every submodule into evaluation mode.")
def test_predictions_of_a_training_model(student: Student) -> None:
    """The predictions are those of evaluation mode, whatever the mode of each submodule."""
    for training in (ALL, ["body.1"]):
        check_predictions(student, new_state(), rows=[4, 4], training=training)


@pytest.mark.points(2)
@pytest.mark.place("predict")
@pytest.mark.hint("Go through the loader once, with a for loop; ask for no length, and no targets.")
def test_loaders(student: Student) -> None:
    """A loader may be a generator, its batches lists; targets are not used."""
    state, inputs = new_state(), new_inputs([4, 2, 3])
    loader = student.made("generator", [[x, None] for x in inputs])
    result = student.function("predict")(new_model(student, state=state), loader)
    right = torch.cat([outputs(state, x) for x in inputs])
    assert_close(result, right, what="the result of predict for a generator")


@pytest.mark.points(4)
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("Run the whole loop inside with evaluating(model):.")
def test_how_the_model_runs(student: Student) -> None:
    """The model runs in evaluation mode, while grad mode is off."""
    calls = calls_of(student)
    assert calls, "The model is never called: call model(inputs) for each batch."
    for call in calls:
        what = "model.training while predict runs the model"
        assert_equal(entry(call, "training"), False, what=what)
        what = "grad mode while predict runs the model"
        assert_equal(entry(call, "grad mode"), False, what=what)


@pytest.mark.requires("test_predictions")
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says how often the model was called")
@pytest.mark.hint("Keep the output of model(inputs) where you need it more than once.")
def test_runs_once(student: Student) -> None:
    """The model is called once for each batch."""
    rows = [entry(call, "rows") for call in calls_of(student)]
    assert_equal(rows, ROWS, what="the list of how many rows the model got in each call")


@pytest.mark.points(17)
@pytest.mark.requires("test_how_the_model_runs")
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says what kind of tensor it is")
@pytest.mark.hint("Under no_grad outputs are ordinary; concatenate outside inference_mode.")
def test_predictions_are_ordinary(student: Student) -> None:
    """The result has no graph and is not an inference tensor."""
    # One batch: whether the result is that of all is another test.
    state, (x,) = new_state(), new_inputs([random.randint(2, 40)])
    model = new_model(student, ALL, state)
    result = laws.check_ordinary(student, "predict", model, batches_of([x]))
    assert_close(result, outputs(state, x), what="the result of predict")


@pytest.mark.points(4)
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says what it left")
@pytest.mark.hint("evaluating(model) sets all modes back, and passes exceptions on.")
def test_predict_leaves_the_rest(student: Student) -> None:
    """Modes, model and batches are as they were, also where the model or the loader raises."""
    model = new_model(student, ["", *drawn_parts()])
    batches = batches_of([x.requires_grad_() for x in new_inputs([4, 2])])
    laws.check_changes_nothing(student, "predict", model, batches)
    broken = student.made("broken", model)
    laws.check_changes_nothing(student, "predict", broken, batches, raises=RuntimeError)
    failing = student.made("failing_loader", batches)
    laws.check_changes_nothing(student, "predict", model, failing, raises=LookupError)


@pytest.mark.points(2)
@pytest.mark.requires("test_predictions")
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if not outputs: raise ValueError(...), before torch.cat.")
def test_empty_loader(student: Student) -> None:
    """A loader that yields nothing is a ValueError."""
    laws.check_errors(student, "predict", {"loader": [(new_model(student), [])]})


# --- ordinary ------------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("ordinary")
@pytest.mark.hint("x.clone() is an ordinary tensor, unless it is made in inference mode.")
def test_ordinary_copy(student: Student) -> None:
    """Of an inference tensor the result is an ordinary copy of its values, shape and dtype."""
    x = 4 * torch.randn(3, 4)
    for tensor in (x.long(), x.double() / 3, x.t(), torch.zeros(0, 3)):
        check_copy(student, tensor, inside=False)


@pytest.mark.points(3)
@pytest.mark.requires("test_ordinary_copy")
@pytest.mark.place("ordinary")
@pytest.mark.word("the sandbox says that an object is the same")
@pytest.mark.hint("if not x.is_inference(): return x")
def test_ordinary_is_itself(student: Student) -> None:
    """An ordinary tensor comes back as the same object, in its graph."""
    for inside in (False, True):
        report = student.run("comes_back", torch.randn(3, 2).t(), inside)
        right = {"data": True, "a leaf": True, "a result": True}
        what = f"the dict of whether x itself comes back from ordinary, {called(inside)},"
        assert_equal(report, right, what=what)


@pytest.mark.points(7)
@pytest.mark.place("ordinary")
@pytest.mark.hint("with torch.inference_mode(False): switches inference mode off for a block.")
def test_ordinary_inside(student: Student) -> None:
    """It is an ordinary copy also when ordinary is called inside inference_mode."""
    check_copy(student, torch.randn(3, 4), inside=True)


# --- what goes in ----------------------------------------------------------------------------------


def drawn_parts() -> list[str]:
    """Three parts of the model."""
    return random.sample(PARTS, 3)


def modes_of(training: Sequence[str]) -> dict[str, bool]:
    """The mode of each submodule, where these are in training mode."""
    return {name: name in training for name in ALL}


def new_state(width: int = 2, dtype: torch.dtype = torch.float32) -> State:
    """A state of the probe's Model with so many outputs."""
    return {
        "body.0.weight": torch.randn(4, 3, dtype=dtype),
        "body.0.bias": torch.randn(4, dtype=dtype),
        "body.1.weight": torch.randn(4, dtype=dtype),
        "body.1.bias": torch.randn(4, dtype=dtype),
        "body.1.running_mean": torch.randn(4, dtype=dtype),
        "body.1.running_var": torch.rand(4, dtype=dtype) + 0.5,
        "body.1.num_batches_tracked": torch.tensor(3),
        "head.weight": torch.randn(width, 4, dtype=dtype),
        "head.bias": torch.randn(width, dtype=dtype),
    }


def new_inputs(rows: Sequence[int], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(count, 3, dtype=dtype) for count in rows]


def batches_of(inputs: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """These inputs, each with targets that say nothing."""
    return [(x, torch.zeros(len(x))) for x in inputs]


def new_model(
    student: Student,
    training: Sequence[str] = (),
    state: State | None = None,
    shape: Sequence[int] = SHAPE,
) -> Any:
    """The probe's Model with these submodules in training mode, and outputs of this shape."""
    return student.made("model", state or new_state(), list(training), list(shape))


def calls_of(student: Student) -> list[Any]:
    """What the model keeps of each of its calls, where predict gets three batches."""
    model, batches = new_model(student, ALL), batches_of(new_inputs(ROWS))
    report = student.once("calls", lambda: student.run("calls", model, batches))
    calls: list[Any] = entry(report, kind=list)
    return calls


# --- what should come out --------------------------------------------------------------------------


def outputs(state: State, x: Tensor, shape: Sequence[int] = SHAPE) -> Tensor:
    """What the probe's Model gives in evaluation mode, doubled by its hook."""
    hidden = F.linear(x, state["body.0.weight"], state["body.0.bias"])
    statistics = state["body.1.running_mean"], state["body.1.running_var"]
    hidden = F.batch_norm(hidden, *statistics, state["body.1.weight"], state["body.1.bias"])
    output = F.linear(hidden, state["head.weight"], state["head.bias"])
    return 2 * output.reshape(len(x), *shape)


def check_predictions(
    student: Student,
    state: State,
    *,
    rows: Sequence[int],
    shape: Sequence[int] = SHAPE,
    training: Sequence[str] = (),
) -> None:
    """predict is right for batches of so many rows."""
    inputs = new_inputs(rows, state["head.bias"].dtype)
    model = new_model(student, training, state, shape)
    result = student.function("predict")(model, batches_of(inputs))
    right = torch.cat([outputs(state, x, shape) for x in inputs])
    assert_close(result, right, what="the result of predict")


def called(inside: bool) -> str:
    return "called inside of inference_mode" if inside else "called outside of inference_mode"


def check_copy(student: Student, x: Tensor, *, inside: bool) -> None:
    """ordinary makes an ordinary copy of an inference tensor like x."""
    where = f"the result of ordinary, {called(inside)},"
    report = student.run("copy_of", x, inside)
    right = {"is_inference()": False, "requires_grad": False, "shares memory with x": False}
    facts = {name: entry(report, name) for name in right}
    assert_equal(facts, right, what=f"the dict of what is true of {where}")
    assert_equal(entry(report, "values"), x.contiguous(), what=where)
