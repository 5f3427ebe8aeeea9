"""What evaluating, predict and ordinary promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws, must_raise
from grader.judge.student import Student

State = dict[str, Tensor]
PARTS = ("", "body", "body.0", "body.1", "body.2", "head")


@pytest.mark.points(3)
@pytest.mark.place("evaluating")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("model.eval() sets the mode of every submodule, torch.no_grad() grad mode.")
def test_inside(student: Student) -> None:
    """Inside the block the model is in evaluation mode, and grad mode is off."""
    for training in drawn_modes():
        inside = blocks(student, training).shots[1]
        told = "The model is in training mode inside the block: model.eval()."
        assert entry(inside, "training", "") is False, told
        told = "Grad mode is on inside the block: eval() changes layers, and builds graphs all the same."
        assert entry(inside, "grad") is False, told


@pytest.mark.points(3)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("model.eval() sets the mode of the parts, and of their parts, too.")
def test_inside_parts(student: Student) -> None:
    """Inside the block every submodule of the model is in evaluation mode."""
    for training in drawn_modes():
        modes = entry(blocks(student, training).shots[1], "training", kind=dict).values()
        told = "A part of the model is in training mode inside the block: model.eval()."
        assert all(mode is False for mode in modes), told


@pytest.mark.points(9)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.hint("Remember [(m, m.training) for m in model.modules()], and set each one back.")
def test_modes_are_set_back(student: Student) -> None:
    """After the block each submodule is in the mode in which it was."""
    for training in drawn_modes():
        blocks(student, training).check("after the block")


@pytest.mark.points(7)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.hint("What has to happen in any case stands in a finally, around the yield.")
def test_after_an_exception(student: Student) -> None:
    """An exception of the block is passed on, and the mode is set back."""
    for error in ("ZeroDivisionError", "ValueError", "RuntimeError", "KeyboardInterrupt"):
        text = f"the block broke at step {random.randint(100, 999)}"
        seen = blocks(student, PARTS, fails=error, text=text)
        told = "The exception of the block {}: it has to be passed on as it is."
        assert seen.raised is not None, told.format("disappears")
        assert seen.raised == text, told.format("becomes another one")
        told = "The model is left in evaluation mode after a block that raised."
        assert entry(seen.shots[2], "training", "") is True, told


@pytest.mark.points(2)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("with no_grad(): restores what was before, set_grad_enabled(True) does not.")
def test_grad_mode_is_set_back(student: Student) -> None:
    """Grad mode and inference mode are afterwards what they were around the block."""
    for around in ("no_grad", "inference_mode", "enable_grad"):
        for fails in ("", "ValueError"):
            seen = blocks(student, PARTS, around=around, fails=fails)
            for key in ("grad", "inference"):
                words = {True: "on", False: "off"}
                old, new = (words.get(entry(seen.shots[i], key, kind=bool)) for i in (0, 2))
                told = (
                    f"{key.capitalize()} mode is {new} after a block under {around}: it was {old}."
                )
                assert old == new, told


@pytest.mark.points(2)
@pytest.mark.place("evaluating")
@pytest.mark.hint("Keep what you remember in the block itself, not in one place for all blocks.")
def test_nested_blocks(student: Student) -> None:
    """Blocks may be nested, of one model and of its parts."""
    for parts in (["", ""], ["", "body"], ["body", ""], ["head", "body.1", "head"]):
        for training in drawn_modes()[2:]:
            for fails in ("", "ValueError"):
                blocks(student, training, parts, fails=fails).check("after one of nested blocks")


@pytest.mark.points(2)
@pytest.mark.requires("test_inside")
@pytest.mark.place("evaluating")
@pytest.mark.hint("requires_grad says what is learned, grad mode whether a graph is built.")
def test_evaluating_leaves_the_rest(student: Student) -> None:
    """Parameters, buffers and requires_grad are not changed."""
    for training in drawn_modes():
        model = made(student, new_state(), training)
        laws.check_changes_nothing(student, student.probe("blocks"), model, [""])


@pytest.mark.points(4)
@pytest.mark.place("predict")
@pytest.mark.hint("torch.cat of model(inputs) for inputs, _ in loader.")
def test_predictions(student: Student) -> None:
    """The result is all outputs in order, concatenated along dimension 0, of the model's dtype."""
    for shape in ([2], [], [2, 1]):
        for dtype, sizes in (
            (torch.float32, (4, 4, 1)),
            (torch.float64, (5,)),
            (None, (1, 2, 3, 4)),
        ):
            state = new_state(shape, dtype or torch.float64)
            inputs = [torch.randn(n, 3, dtype=state["head.bias"].dtype) for n in sizes]
            check_predictions(student, state, shape, inputs)


@pytest.mark.points(2)
@pytest.mark.place("predict")
@pytest.mark.hint("Go through the loader once, with a for loop; ask for no length, and no targets.")
def test_loaders(student: Student) -> None:
    """A loader may be a generator, its batches tuples or lists; targets are not used."""
    state, inputs = new_state(), [torch.randn(n, 3).double() for n in (4, 2, 3)]
    for pairs in ([(x, None) for x in inputs], [[x, {"label": "a"}] for x in inputs]):
        shipped = laws.shipped(student, "batches").made(pairs)
        for loader in (pairs, student.made("batches", pairs), shipped):
            check_predictions(student, state, [2], inputs, loader)


@pytest.mark.points(5)
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("Run the whole loop inside with evaluating(model):.")
def test_how_the_model_runs(student: Student) -> None:
    """model(inputs) runs once for each batch, in evaluation mode, while grad mode is off."""
    for training in drawn_modes():
        pairs = [(torch.randn(n, 3).double(), torch.zeros(n)) for n in (4, 3, 2)]
        report = student.run("predicted", made(student, new_state(), training), pairs)
        calls = entry(report, "calls", kind=list)
        for call in calls:
            told = "The model runs in training mode: call eval(), then predict."
            assert entry(call, "training", "") is False, told
            told = "The model runs with grad mode on: a graph is built, whatever is cut off later."
            assert entry(call, "grad") is False, told
        rows = [entry(call, "rows") for call in calls]
        assert_equal(rows, [4, 3, 2], what="the list of how many rows the model got in each call")


@pytest.mark.points(2)
@pytest.mark.place("predict")
@pytest.mark.hint("evaluating(model) puts every submodule into evaluation mode.")
def test_predictions_of_a_training_model(student: Student) -> None:
    """The predictions are those of evaluation mode, whatever the mode of each submodule."""
    for training in drawn_modes():
        inputs = [torch.randn(n, 3).double() for n in (4, 4)]
        check_predictions(student, new_state(), [2], inputs, training=training)


@pytest.mark.points(17)
@pytest.mark.requires("test_how_the_model_runs")
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says what kind of tensor it is")
@pytest.mark.hint("Under no_grad outputs are ordinary; concatenate outside inference_mode.")
def test_predictions_are_ordinary(student: Student) -> None:
    """The result has no graph and is not an inference tensor."""
    for count in (2, 1):
        sizes = [random.randint(2, 9) for _ in range(count)]
        pairs = [(torch.randn(n, 3).double(), torch.zeros(n)) for n in sizes]
        for training in drawn_modes():
            model = made(student, new_state(), training)
            rows = laws.check_ordinary(student, "predict", model, pairs).shape[:1]
            # Whether it is that of all batches is the affair of test_predictions.
            assert [*rows] in [[sum(sizes)], *([n] for n in sizes)], (
                "The result has another number of rows."
            )


@pytest.mark.points(4)
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says what it left")
@pytest.mark.hint("evaluating(model) sets all modes back, and passes exceptions on.")
def test_predict_leaves_the_rest(student: Student) -> None:
    """Modes, model and batches are as they were, also where the model or the loader raises."""
    for training in drawn_modes()[1:3]:
        pairs = [(torch.randn(n, 3).double().requires_grad_(), torch.zeros(n)) for n in (4, 2)]
        model = made(student, new_state(), training)
        laws.check_changes_nothing(student, "predict", model, pairs)
        told = "Grad mode is on after predict: it was off before, set it back to that."
        assert entry(student.run("predicted", model, pairs, False), "grad") is False, told
        broken = made(student, new_state(), training, fails_at=2)
        failing = student.made("batches", pairs, fails=True)
        for error, *arguments in ((RuntimeError, broken, pairs), (LookupError, model, failing)):
            with must_raise(error, mentions="broke", call="where model or loader raises, predict"):
                laws.observe(student, "predict", *arguments).checked()
            laws.check_changes_nothing(student, "predict", *arguments, raises=error)


@pytest.mark.points(2)
@pytest.mark.requires("test_predictions")
@pytest.mark.place("predict")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if not outputs: raise ValueError(...), before torch.cat.")
def test_empty_loader(student: Student) -> None:
    """A loader that yields nothing is a ValueError, and the modes are set back."""
    model = made(student, new_state(), drawn_modes()[2])
    loaders: list[Any] = [[], student.made("batches", [])]
    for loader in loaders:
        laws.check_errors(student, "predict", {"loader": [(model, loader)]})
        laws.check_changes_nothing(student, "predict", model, loader, raises=ValueError)


@pytest.mark.points(4)
@pytest.mark.place("ordinary")
@pytest.mark.hint("x.clone() is an ordinary tensor, unless it is made in inference mode.")
def test_ordinary_copy(student: Student) -> None:
    """Of an inference tensor the result is an ordinary copy of its values, shape and dtype."""
    check_copies(student, inside=False)


@pytest.mark.points(3)
@pytest.mark.requires("test_ordinary_copy")
@pytest.mark.place("ordinary")
@pytest.mark.word("the sandbox says that an object is the same")
@pytest.mark.hint("if not x.is_inference(): return x")
def test_ordinary_is_itself(student: Student) -> None:
    """An ordinary tensor comes back as the same object, in its graph."""
    for kind in ("data", "leaf", "result"):
        for inside in (False, True):
            report = student.run("ordinary_of", torch.randn(2, 3).T, kind, inside)
            told = "{}: give back x itself, not a copy, where x.is_inference() is False."
            assert entry(report, "same") is True, told.format("An ordinary tensor is copied")
            flags = [entry(report, "requires_grad"), entry(report, "graph")]
            assert flags == [kind != "data", kind == "result"], told.format("x itself is changed")


@pytest.mark.points(7)
@pytest.mark.place("ordinary")
@pytest.mark.hint("with torch.inference_mode(False): switches inference mode off for a block.")
def test_ordinary_inside(student: Student) -> None:
    """It is an ordinary copy also when ordinary is called inside inference_mode."""
    check_copies(student, inside=True)


# --- locally -------------------------------------------------------------------------------------

FROZEN = ["body.0.bias", "head.weight"]


def drawn_modes() -> list[tuple[str, ...]]:
    """Which parts of the model are in training mode: all, none, all but a frozen one, a few."""
    frozen, few = random.choice(PARTS[2:]), random.sample(PARTS[1:], random.randint(2, 3))
    return [PARTS, (), tuple(name for name in PARTS if name != frozen), tuple(few)]


def new_state(shape: Sequence[int] = (2,), dtype: torch.dtype = torch.float64) -> State:
    width = int(torch.tensor(shape).prod())
    shapes = {"body.0.weight": (4, 3), "head.weight": (width, 4), "head.bias": (width,)}
    shapes |= {f"body.{name}": (4,) for name in ("0.bias", "1.weight", "1.bias", "1.running_mean")}
    state = {name: torch.randn(size, dtype=dtype) for name, size in shapes.items()}
    variance = {"body.1.running_var": torch.rand(4, dtype=dtype) + 0.5}
    return {**state, **variance, "body.1.num_batches_tracked": torch.tensor(3)}


def made(student: Student, state: State, training: Sequence[str], **options: Any) -> Any:
    shape, frozen = options.pop("shape", [2]), list(FROZEN)
    return student.made("model", state, shape, training=list(training), frozen=frozen, **options)


class Blocks:
    """What was seen before, inside and after nested blocks of evaluating."""

    def __init__(self, report: Any, training: Sequence[str], parts: Sequence[str]) -> None:
        self.raised, self.training, self.parts = entry(report, "raised"), training, parts
        self.shots = entry(report, "shots", kind=list, count=2 * len(parts) + 1)

    def check(self, when: str) -> None:
        """After each block all modes are what they were before it."""
        modes = [{name: name in self.training for name in PARTS}]
        for part in self.parts:
            outside = [name for name in PARTS if part and not f"{name}.".startswith(f"{part}.")]
            modes.append({name: mode and name in outside for name, mode in modes[-1].items()})
        what = f"the dict of the submodules' modes {when}"
        for i in reversed(range(len(self.parts))):
            after = self.shots[2 * len(self.parts) - i]
            assert_equal(entry(after, "training"), modes[i], what=what)


def blocks(
    student: Student, training: Sequence[str], parts: Sequence[str] = ("",), **options: Any
) -> Blocks:
    model = made(student, new_state(), training)
    report = student.run("blocks", model, list(parts), **options)
    return Blocks(report, training, parts)


def outputs(state: State, shape: Sequence[int], x: Tensor) -> Tensor:
    """The probe's model in evaluation mode, its hook not called."""
    hidden = F.linear(x, state["body.0.weight"], state["body.0.bias"])
    statistics = state["body.1.running_mean"], state["body.1.running_var"]
    hidden = F.batch_norm(hidden, *statistics, state["body.1.weight"], state["body.1.bias"])
    return F.linear(hidden, state["head.weight"], state["head.bias"]).reshape(len(x), *shape)


def check_predictions(
    student: Student,
    state: State,
    shape: list[int],
    inputs: list[Tensor],
    loader: Any = None,
    training: Sequence[str] = (),
) -> None:
    """predict is right for a model some parts of which are in training mode."""
    loader = [(x, torch.zeros(len(x))) for x in inputs] if loader is None else loader
    results = [2 * outputs(state, shape, x) for x in inputs]
    right = torch.cat(results)
    model = made(student, state, training, shape=shape)
    value = student.function("predict")(model, loader)
    assert_close(value, right, what="the result of predict")


def tensors() -> list[Tensor]:
    """Tensors of all dtypes, shapes and strides."""
    numbers = torch.randn(3, 4, dtype=torch.float64) * 4
    dtypes = (torch.float32, torch.float64, torch.int64, torch.bool, torch.float16)
    shaped = [torch.randn(shape) for shape in ((), (0, 3))]
    return [numbers.to(d) for d in dtypes] + shaped + list(laws.layouts_of(numbers).values())


def check_copies(student: Student, *, inside: bool) -> None:
    where = f"the result of ordinary, called {'inside' if inside else 'outside'} of inference_mode,"
    for x in tensors():
        report = student.run("ordinary_of", x, "inference", inside)
        value = assert_tensor(entry(report, "value"), what=where)
        cure = "clone() makes an ordinary tensor, detach() and no_grad do not."
        cure = "in inference mode clone() makes one, too: switch the mode off." if inside else cure
        told = f"{where.capitalize()} is still an inference tensor: {cure}"
        assert entry(report, "inference") is False, told
        assert_equal(value, x.contiguous(), what=where)
        told = f"{where.capitalize()} requires a gradient: that is the caller's choice."
        assert entry(report, "learns") is False, told
        shared = entry(report, "shared") is True and x.numel() > 0
        assert not shared, f"{where.capitalize()} shares its memory with x: it has to be a copy."
