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
MODEL = ["model"]
NO_SCHEDULER = ["model", "optimizer"]
ALL = ["model", "optimizer", "scheduler"]
# The kinds of trainings in the probe go by their schedulers. One has none, and is saved before its first step.
SCHEDULED = ("ReduceLROnPlateau", "OneCycleLR")
KINDS = ("unstarted", *SCHEDULED)
OTHER_MODELS = ("more layers", "fewer layers", "more outputs", "more buffers")


# --- random_state --------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("random.getstate() is taken, and random.setstate sets it.")
def test_state_of_python(student: Student) -> None:
    """A state brings back what Python's random draws."""
    check_set(student, "Python's random")


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("np.random.get_state() is taken, and np.random.set_state sets it.")
def test_state_of_numpy(student: Student) -> None:
    """A state brings back what NumPy draws."""
    check_set(student, "NumPy")


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("torch.get_rng_state() is taken, and torch.set_rng_state sets it.")
def test_state_of_torch(student: Student) -> None:
    """A state brings back what torch draws."""
    check_set(student, "torch")


@pytest.mark.points(2)
@pytest.mark.place("random_state")
@pytest.mark.word("code that does nothing draws nothing, too")
@pytest.mark.hint("Take the states: seed nothing, and draw nothing.")
def test_taking_draws_nothing(student: Student) -> None:
    """Taking a state changes no generator."""
    for report, right in taken_states(student):
        for library in LIBRARIES:
            draws = entry(report, "after taking")
            check_draws(library, draws, right, "after random_state()")


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
    draws = entry(student.anew("from_file", file, new_disturbances()), 0)
    when = "after a state came back from a file and was set in another process"
    for library in LIBRARIES:
        check_draws(library, draws, right, when)


# --- set_random_state ----------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("set_random_state")
@pytest.mark.hint("random.setstate, np.random.set_state, torch.set_rng_state, with what was taken.")
def test_set_again(student: Student) -> None:
    """A state may be set again and again, and after others were taken."""
    for report, right in taken_states(student):
        for draws in entry(report, "after setting", kind=list, count=2):
            when = "after a state was set again, and others were taken since"
            check_draws("torch", draws, right, when)


@pytest.mark.points(3)
@pytest.mark.place("set_random_state")
@pytest.mark.hint("Save and set all entries of random.getstate() and np.random.get_state().")
def test_numbers_in_hand(student: Student) -> None:
    """A state has the normal number that a generator keeps in hand for the next call, if it does."""
    for report, right in taken_states(student):
        for draws in entry(report, "after setting", kind=list, count=2):
            for library in LIBRARIES:
                normal = entry(draws, library, "normal")
                what = f"what {library} draws of normal numbers after a state was set"
                assert_equal(normal, right[library]["normal"], what=what)


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
    before = {**report["right when saved"], "objects": entry(report, "objects before saving")}
    for name, value in before.items():
        left = entry(report, "after saving", name)
        assert_equal(left, value, what=f"the {name} after save_checkpoint")


# --- load_checkpoint -----------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("Without an optimizer: model.load_state_dict, and no set_random_state.")
def test_loads_a_model(student: Student) -> None:
    """Without an optimizer the weights are restored, and no random state."""
    report = resumed(student, "ReduceLROnPlateau", MODEL)
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
    for kind, names in (("ReduceLROnPlateau", MODEL), ("unstarted", NO_SCHEDULER)):
        epoch = trainings(student).epochs[kind]
        values = entry(resumed(student, kind, names), "values")
        what = f"the list of two results for a file that was saved after epoch {epoch}"
        assert_equal(values, [epoch + 1] * 2, what=what)


@pytest.mark.points(3)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("model.state_dict() has parameters and buffers, and load_state_dict takes both.")
def test_buffers(student: Student) -> None:
    """The running statistics of batch normalization are restored with the weights."""
    check_same(resumed(student, "ReduceLROnPlateau", MODEL), "buffers")


@pytest.mark.points(1)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.word("the sandbox says how the modes are")
@pytest.mark.hint("model.load_state_dict(...) is enough: no train(), no eval(), no zero_grad().")
def test_leaves_modes(student: Student) -> None:
    """Modes, requires_grad and .grad are left as they are."""
    for names in (ALL, MODEL):
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
    for kind, names in (("unstarted", NO_SCHEDULER), ("ReduceLROnPlateau", ALL)):
        report = resumed(student, kind, names)
        check_restored(report)
        for name in ("weights", "state"):
            right = report["right an epoch later"][name]
            what = f"the {name} an epoch after load_checkpoint"
            assert_equal(entry(report, "an epoch later", name), right, what=what)
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
    options = entry(report, "an epoch later", "options")
    right = report["right an epoch later"]["options"]
    assert_equal(options, right, what="the options an epoch after load_checkpoint")


@pytest.mark.points(4)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint(
    "set_random_state(checkpoint['random']), as the last thing: nothing may draw after it."
)
def test_resumes_the_draws(student: Student) -> None:
    """With an optimizer all three generators draw what they drew after the checkpoint was saved."""
    report = resumed(student, "unstarted", NO_SCHEDULER)
    for library in LIBRARIES:
        right = report["right when saved"]["draws"]
        check_draws(library, entry(report, "loaded", "draws"), right, "after load_checkpoint")


@pytest.mark.points(2)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("If there is a scheduler, and no state for it in the file: raise ValueError(...)")
def test_scheduler(student: Student) -> None:
    """A scheduler for which the file has no state is a ValueError; an optimizer alone is fine."""
    check_restored(resumed(student, "OneCycleLR", NO_SCHEDULER))
    call = "load_checkpoint with a scheduler, from a file without one,"
    with must_raise(ValueError, mentions="scheduler", call=call):
        student.run("without_scheduler", new_start(new_width()))


@pytest.mark.points(1)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint('torch.load(path, map_location="cpu", weights_only=True)')
def test_file_from_a_gpu(student: Student) -> None:
    """A file whose tensors were saved on a GPU loads on a machine without one."""
    check_weights(resumed(student, "ReduceLROnPlateau", MODEL, probe="saved_on_a_gpu"))


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
        "Python's random": new_twister(in_hand=in_hand),
        "NumPy": new_twister(in_hand=in_hand),
        "torch": state,
    }


def new_twister(*, in_hand: bool) -> dict[str, Any]:
    """A state of a Mersenne Twister, as that of Python and that of NumPy are."""
    return {
        "words": torch.randint(2**32, (624,)),
        "position": random.randint(1, 624),
        "normal": random.gauss(0, 1) if in_hand else None,
    }


def new_disturbances() -> list[Any]:
    """Two pairs of other states: in the first of a pair a state is taken, in the second a state is set."""
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
    """Reports on both states, which are taken and set again, and what is to be drawn after each."""
    states = drawn_states(student)

    def ask() -> list[Any]:
        return [student.run("taken", state, new_disturbances()) for state, _ in states]

    reports = student.once("taken", ask)
    return [(report, right) for report, (_, right) in zip(reports, states, strict=True)]


def check_set(student: Student, library: str) -> None:
    """A generator draws again what it drew after the state was taken."""
    for report, right in taken_states(student):
        when = "after set_random_state(random_state())"
        check_draws(library, entry(report, "after setting", 0), right, when)


def check_draws(library: str, draws: Any, right: Any, when: str) -> None:
    """A generator draws the uniform numbers that it should: normal ones have a test of their own."""
    numbers, wanted = entry(draws, library, "uniform"), entry(right, library, "uniform")
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
    """Reports on a training that was saved in one sandbox and resumed in another, by objects with these names.

    From saving there are "objects before saving" and "after saving", from resuming "values", "before",
    "loaded", "an epoch later" and "loaded again". "right when saved" and "right an epoch later" come from a
    third sandbox, where no student's code runs, so that to keep objects in memory or to tell the same twice is
    of no use.
    """
    starts, undisturbed, saved_after = trainings(student)
    start = starts[kind]

    def ask() -> dict[str, Any]:
        saving = student.run(probe, kind, start, saved_after[kind])
        file = entry(saving, "file", kind=bytes, told="There is no file at path.")
        # The training goes on with the same data, from other weights.
        other = new_start(len(start["weights"]["0.bias"])) | {"inputs": start["inputs"]}
        disturbance = new_state(in_hand=False)
        resuming = student.anew("resumed", kind, other, disturbance, file, names)
        return {
            "objects before saving": entry(saving, "objects before"),
            "after saving": entry(saving, "after"),
            **entry(resuming, kind=dict),
            "right when saved": undisturbed[kind]["when saved"],
            "right an epoch later": undisturbed[kind]["an epoch later"],
        }

    return student.once(f"{kind} {names} {probe}", ask)


def check_same(report: Any, name: str, loaded: str = "loaded") -> None:
    """What was loaded is what was saved."""
    what = f"the {name} after load_checkpoint"
    assert_equal(entry(report, loaded, name), report["right when saved"][name], what=what)


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
