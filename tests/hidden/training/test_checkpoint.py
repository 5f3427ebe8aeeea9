"""Tests of random_state, set_random_state, save_checkpoint and load_checkpoint."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
import torch

from grader.judge.checks import assert_equal, entry, laws, must_raise
from grader.judge.student import Student

LIBRARIES = ("torch", "NumPy", "Python's random")
# What is handed to load_checkpoint.
ALL = ["model", "optimizer", "scheduler"]
ONE, TWO = ALL[:1], ALL[:2]
# The kinds of trainings in the probe: the scheduler, or one without, which is saved after epoch 0, before its
# first step.
KINDS = ("unstarted", "ReduceLROnPlateau", "OneCycleLR")
SCHEDULED = ("ReduceLROnPlateau", "OneCycleLR")
OTHER_MODELS = ("more layers", "fewer layers", "more outputs", "more buffers")


# --- random_state --------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("random.getstate() is taken, and random.setstate sets it.")
def test_state_of_python(student: Student) -> None:
    """A state brings back what Python's random draws."""
    check_set("Python's random", student)


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("np.random.get_state() is taken, and np.random.set_state sets it.")
def test_state_of_numpy(student: Student) -> None:
    """A state brings back what NumPy draws."""
    check_set("NumPy", student)


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("torch.get_rng_state() is taken, and torch.set_rng_state sets it.")
def test_state_of_torch(student: Student) -> None:
    """A state brings back what torch draws."""
    check_set("torch", student)


@pytest.mark.points(2)
@pytest.mark.place("random_state")
@pytest.mark.word("code that does nothing draws nothing, too")
@pytest.mark.hint("Take the states: seed nothing, and draw nothing.")
def test_taking_draws_nothing(student: Student) -> None:
    """Taking a state changes no generator."""
    for report, right in taken_states(student):
        for library in LIBRARIES:
            check_draws(library, entry(report, "after"), right, "after random_state()")


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("NumPy's state has an array in it: make it a list (tolist) or a tensor.")
def test_state_is_plain(student: Student) -> None:
    """A state is a dict of plain data: it is written by torch.save and read with weights_only=True."""
    state, right = drawn_states(student)[0]
    report = student.run("written", state)
    assert entry(report, "dict", kind=bool), "random_state returns no dict."
    error = entry(report, "error")
    told = f"The state is not plain data: torch.load with weights_only=True {error}."
    assert error is None, told
    file = entry(report, "file", kind=bytes)
    again = student.anew("from_file", file, new_noises())
    when = "after a state came back from a file and was set in another process"
    for library in LIBRARIES:
        check_draws(library, entry(again, 0), right, when)


# --- set_random_state ----------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("set_random_state")
@pytest.mark.hint("random.setstate, np.random.set_state, torch.set_rng_state, with what was taken.")
def test_set_again(student: Student) -> None:
    """A state may be set again and again, and after others were taken."""
    for report, right in taken_states(student):
        for i in range(2):
            when = "after a state was set again, and others were taken since"
            check_draws("torch", entry(report, "again", i), right, when)


@pytest.mark.points(3)
@pytest.mark.place("set_random_state")
@pytest.mark.hint("Save and set all entries of random.getstate() and np.random.get_state().")
def test_numbers_in_hand(student: Student) -> None:
    """A state has the normal number that a generator keeps in hand for the next call, if it does."""
    for report, right in taken_states(student):
        for i in range(2):
            for library in LIBRARIES:
                normal = entry(report, "again", i, library, 1)
                what = f"what {library} draws of normal numbers after a state was set"
                assert_equal(normal, right[library][1], what=what)


# --- save_checkpoint -----------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("path.parent.mkdir(parents=True, exist_ok=True), then torch.save to path itself.")
def test_file(student: Student) -> None:
    """One whole file lies at path, which is plain data; folders are made, and a file is replaced."""
    old = f"run{random.randrange(10**9)}"
    names = [old, f"to/{old}/last.ckpt"]
    report = student.run("files", new_start(new_width()), *names)
    assert_equal(
        entry(report, "files"), names, what=f"the list of the files after saving to {names}"
    )
    for error in entry(report, "errors", kind=list):
        told = "The file is not whole, or not plain data: torch.load with weights_only=True"
        assert error is None, f"{told} {error}."


@pytest.mark.points(6)
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("The state_dict() of model, optimizer and scheduler.")
def test_saves_everything(student: Student) -> None:
    """The file holds weights, and the states of optimizer and scheduler."""
    report = resumed(student, "OneCycleLR")
    check_restored(report)
    check_same(report, "scheduler")


@pytest.mark.points(1)
@pytest.mark.requires("test_file")
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("state_dict() only reads: no eval(), no step(), no draw.")
def test_saving_changes_nothing(student: Student) -> None:
    """Saving changes no weight, no state, no mode and no random state."""
    report = resumed(student, "OneCycleLR")
    right = {**report["saved"], "objects": entry(report, "objects")}
    for name, before in right.items():
        assert_equal(entry(report, "left", name), before, what=f"the {name} after save_checkpoint")


# --- load_checkpoint -----------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("Without an optimizer: model.load_state_dict, and no set_random_state.")
def test_loads_a_model(student: Student) -> None:
    """Without an optimizer the weights are restored, and no random state."""
    report = resumed(student, "ReduceLROnPlateau", ONE)
    check_weights(report)
    when = "after load_checkpoint without an optimizer, which leaves the random states alone"
    for library in LIBRARIES:
        right = entry(report, "before", "draws")
        check_draws(library, entry(report, "loaded", "draws"), right, when)


@pytest.mark.points(3)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("return checkpoint['epoch'] + 1")
def test_next_epoch(student: Student) -> None:
    """The result is the epoch after the saved one, with an optimizer and without."""
    for kind, names in (("ReduceLROnPlateau", ONE), ("unstarted", TWO)):
        epoch = trainings(student).epochs[kind]
        values = entry(resumed(student, kind, names), "values")
        what = f"the list of two results for a file that was saved after epoch {epoch}"
        assert_equal(values, [epoch + 1] * 2, what=what)


@pytest.mark.points(3)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("model.state_dict() has parameters and buffers, and load_state_dict takes both.")
def test_buffers(student: Student) -> None:
    """The running statistics of batch normalization are restored with the weights."""
    check_same(resumed(student, "ReduceLROnPlateau", ONE), "buffers")


@pytest.mark.points(1)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.word("the sandbox says how the modes are")
@pytest.mark.hint("model.load_state_dict(...) is enough: no train(), no eval(), no zero_grad().")
def test_leaves_modes(student: Student) -> None:
    """Modes, requires_grad and .grad are left as they are."""
    for names in (ALL, ONE):
        report = resumed(student, "ReduceLROnPlateau", names)
        for name in ("modes", "gradients", "requires_grad", "grad mode"):
            before = entry(report, "before", name)
            what = f"the {name} after load_checkpoint"
            assert_equal(entry(report, "loaded", name), before, what=what)


@pytest.mark.points(11)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("load_state_dict of model and optimizer; set_random_state comes last.")
def test_resumes(student: Student) -> None:
    """New objects, whatever they have done before, go on bit for bit as if nothing had happened."""
    for kind, names in (("unstarted", TWO), ("ReduceLROnPlateau", ALL)):
        report = resumed(student, kind, names)
        check_restored(report)
        for name in ("weights", "state"):
            went_on = report["went on"][name]
            what = f"the {name} an epoch after load_checkpoint"
            assert_equal(entry(report, "resumed", name), went_on, what=what)
        check_restored(report, "loaded again")


@pytest.mark.points(6)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("scheduler.load_state_dict of what scheduler.state_dict() was.")
def test_resumes_a_scheduler(student: Student) -> None:
    """A scheduler goes on where it was, as do the rates."""
    for kind in SCHEDULED:
        report = resumed(student, kind)
        check_same(report, "scheduler")
        check_same(report, "scheduler", "loaded again")
    # The rates of ReduceLROnPlateau depend on losses, and so on all that is restored.
    report = resumed(student, "OneCycleLR")
    what = "the options an epoch after load_checkpoint"
    assert_equal(entry(report, "resumed", "options"), report["went on"]["options"], what=what)


@pytest.mark.points(4)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint(
    "set_random_state(checkpoint['random']), as the last thing: nothing may draw after it."
)
def test_resumes_the_draws(student: Student) -> None:
    """With an optimizer all three generators draw what they drew after the checkpoint was saved."""
    report = resumed(student, "unstarted", TWO)
    for library in LIBRARIES:
        now, right = entry(report, "loaded", "draws"), report["saved"]["draws"]
        check_draws(library, now, right, "after load_checkpoint")


@pytest.mark.points(2)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("If there is a scheduler, and no state for it in the file: raise ValueError(...)")
def test_scheduler(student: Student) -> None:
    """A scheduler for which the file has no state is a ValueError; an optimizer alone is fine."""
    check_restored(resumed(student, "OneCycleLR", TWO))
    call = "load_checkpoint with a scheduler, from a file without one,"
    with must_raise(ValueError, mentions="scheduler", call=call):
        student.run("without_scheduler", new_start(new_width()))


@pytest.mark.points(1)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint('torch.load(path, map_location="cpu", weights_only=True)')
def test_file_from_a_gpu(student: Student) -> None:
    """A file whose tensors were saved on a GPU loads on a machine without one."""
    check_weights(resumed(student, "ReduceLROnPlateau", ONE, probe="saved_on_a_gpu"))


@pytest.mark.points(2)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint('torch.load(path, map_location="cpu", weights_only=True)')
def test_file_with_code(student: Student) -> None:
    """A file with code in it is refused, and the code is not run."""
    report = student.run("code_inside", new_start(new_width()))
    told = "The code in a file is run by loading it: weights_only=True reads plain data only."
    assert entry(report, "ran") is False, told
    assert entry(report, "refused") is True, "A file with code in it is loaded without an error."


@pytest.mark.points(1)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("model.load_state_dict is strict, unless it is told not to be.")
def test_other_models(student: Student) -> None:
    """A model of another architecture is refused."""
    refusals = student.run("other_models", new_start(new_width()))
    for changed in OTHER_MODELS:
        told = f"A model with {changed} than the file is loaded without an error."
        assert entry(refusals, changed, "refused") is True, told


# --- what is drawn -------------------------------------------------------------------------------


def new_state(*, in_hand: bool) -> dict[str, Any]:
    """A state of each generator, with a normal number in hand or without; no seed leads to it."""
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    torch.rand(random.randrange(1, 600), generator=generator)
    if in_hand:
        torch.randn(1, generator=generator)
    state = generator.get_state()
    # A state of torch begins with the seed of its generator, which is to tell nothing.
    state[:7] = torch.randint(256, (7,), dtype=torch.uint8)
    return {
        "words": torch.randint(2**32, (2, 624)),
        "positions": [random.randint(1, 624) for _ in range(2)],
        "normals": [random.gauss(0, 1) if in_hand else None for _ in range(2)],
        "torch": state,
    }


def new_noises() -> list[Any]:
    """What generators hold while states are taken and set: a normal number in hand, or none."""
    pairs = ((False, True), (True, False))
    return [[new_state(in_hand=in_hand) for in_hand in pair] for pair in pairs]


def new_width() -> int:
    return random.randint(4, 7)


def new_start(width: int) -> dict[str, Any]:
    """Weights and inputs of a training of the probe, and the state in which it begins to draw."""
    shapes = {"0.weight": (width, 3), "0.bias": (width,), "3.weight": (1, width), "3.bias": (1,)}
    return {
        "weights": {name: torch.rand(shape) - 0.5 for name, shape in shapes.items()},
        "inputs": 2 * torch.rand(12, 3) - 1,
        "state": new_state(in_hand=True),
    }


# --- random states -------------------------------------------------------------------------------


def drawn_states(student: Student) -> list[tuple[Any, Any]]:
    """Two states, with a normal number in hand and without, and what is drawn after each."""

    def ask() -> list[tuple[Any, Any]]:
        states = [new_state(in_hand=True), new_state(in_hand=False)]
        return list(zip(states, student.apart("arranged", states), strict=True))

    return student.once("states", ask)


def taken_states(student: Student) -> list[tuple[Any, Any]]:
    """Reports on both states, which are taken and set again, and what is right for each."""
    states = drawn_states(student)

    def ask() -> list[Any]:
        return [student.run("taken", state, new_noises()) for state, _ in states]

    reports = student.once("taken", ask)
    return [(report, right) for report, (_, right) in zip(reports, states, strict=True)]


def check_set(library: str, student: Student) -> None:
    """A generator draws again what it drew after the state was taken."""
    for report, right in taken_states(student):
        when = "after set_random_state(random_state())"
        check_draws(library, entry(report, "again", 0), right, when)


def check_draws(library: str, actual: Any, right: Any, when: str) -> None:
    """A generator draws the uniform numbers that it should: normal ones have a test of their own."""
    numbers = entry(actual, library, 0)
    wanted = entry(right, library, 0)
    assert_equal(numbers, wanted, what=f"the list of what {library} draws {when}")


# --- trainings -----------------------------------------------------------------------------------


class Trainings(NamedTuple):
    """The start of a training of each kind, and how it goes where no student's code runs."""

    starts: dict[str, Any]
    undisturbed: Any
    epochs: dict[str, int]  # after which they are saved


def trainings(student: Student) -> Trainings:
    def ask() -> Trainings:
        width = new_width()
        starts = {kind: new_start(width) for kind in KINDS}
        # A file is saved after six steps: its epoch is another number.
        epochs = {kind: random.randrange(15, 45) for kind in KINDS} | {"unstarted": 0}
        return Trainings(starts, student.apart("undisturbed", starts), epochs)

    return student.once("trainings", ask)


def resumed(
    student: Student, kind: str, names: list[str] = ALL, probe: str = "saved"
) -> dict[str, Any]:
    """A training that was saved in one sandbox, is resumed in another, and went on in a third one.

    What is compared with "saved" and "went on" comes from where no student's code runs, so that to keep
    objects in memory or to tell the same twice is of no use.
    """
    starts, undisturbed, saved_after = trainings(student)
    start = starts[kind]

    def ask() -> dict[str, Any]:
        left = student.run(probe, kind, start, saved_after[kind])
        file = entry(left, "file", kind=bytes, told="There is no file at path.")
        # It goes on with the same data, from other weights.
        other = new_start(len(start["weights"]["0.bias"])) | {"inputs": start["inputs"]}
        noise = new_state(in_hand=False)
        report = student.anew("resumed", kind, other, noise, file, names)
        before = {"left": entry(left, "left", kind=dict), "objects": entry(left, "objects")}
        return {**entry(report, kind=dict), **before, **undisturbed[kind]}

    return student.once(f"{kind} {names} {probe}", ask)


def check_same(report: Any, name: str, loaded: str = "loaded") -> None:
    """What was loaded is what was saved."""
    what = f"the {name} after load_checkpoint"
    assert_equal(entry(report, loaded, name), report["saved"][name], what=what)


def check_weights(report: Any, loaded: str = "loaded") -> None:
    """Weights are those of the file, in the parameters that the model had."""
    check_same(report, "weights", loaded)
    told = "The model's parameters are new objects, of which the optimizer does not know."
    assert laws.same(entry(report, loaded, "objects"), entry(report, "before", "objects")), told


def check_restored(report: Any, loaded: str = "loaded") -> None:
    """Model and optimizer are as they were saved."""
    check_weights(report, loaded)
    check_same(report, "state", loaded)
    check_same(report, "options", loaded)
