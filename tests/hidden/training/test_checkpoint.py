"""Tests of random_state, set_random_state, save_checkpoint and load_checkpoint."""

from __future__ import annotations

import random
from typing import Any

import torch

from grader.judge.checks import Cases, Draw, entry, exactly, promise, raises
from grader.judge.student import Student

LIBRARIES = ("torch", "NumPy", "Python's random")
# The objects that load_checkpoint gets.
MODEL = ["model"]
NO_SCHEDULER = ["model", "optimizer"]
ALL = ["model", "optimizer", "scheduler"]
# The kinds of the probe's trainings: the names of their schedulers, and "unstarted". An unstarted training has
# no scheduler and is saved before its first step.
SCHEDULED = ("ReduceLROnPlateau", "OneCycleLR")
KINDS = ("unstarted", *SCHEDULED)
OTHER_MODELS = ("more layers", "fewer layers", "more outputs", "more buffers")


# --- random_state --------------------------------------------------------------------------------


@promise(
    "random_state",
    points=3,
    hint="random.getstate() is taken, and random.setstate sets it.",
)
def test_state_of_python(code: Student, draw: Draw) -> Cases:
    """A state brings back the draws of Python's random."""
    for report in taken(code):
        yield drawn("Python's random", entry(report, "set", 0), "after a state was set")


@promise(
    "random_state",
    points=3,
    hint="np.random.get_state() is taken, and np.random.set_state sets it.",
)
def test_state_of_numpy(code: Student, draw: Draw) -> Cases:
    """A state brings back the draws of NumPy."""
    for report in taken(code):
        yield drawn("NumPy", entry(report, "set", 0), "after a state was set")


@promise(
    "random_state",
    points=3,
    hint="torch.get_rng_state() is taken, and torch.set_rng_state sets it.",
)
def test_state_of_torch(code: Student, draw: Draw) -> Cases:
    """A state brings back the draws of torch."""
    for report in taken(code):
        yield drawn("torch", entry(report, "set", 0), "after a state was set")


@promise(
    "random_state",
    points=2,
    hint="Take the states: seed nothing, and draw nothing.",
    word="code that does nothing draws nothing, too",
)
def test_taking_draws_nothing(code: Student, draw: Draw) -> Cases:
    """Taking a state changes no generator."""
    for report in taken(code):
        for library in LIBRARIES:
            yield drawn(library, entry(report, "taken"), "after random_state()")


@promise(
    "random_state",
    points=3,
    hint="NumPy's state has an array in it: make it a list (tolist) or a tensor.",
)
def test_state_is_plain(code: Student, draw: Draw) -> Cases:
    """A state is a dict of plain data: torch.save writes it, and weights_only=True reads it."""
    report = code.run("written", new_state(draw, in_hand=True))
    assert entry(report, "dict", kind=bool), "random_state returns no dict."
    error = entry(report, "error")
    told = f"The state is not plain data: torch.load with weights_only=True {error}."
    assert error is None, told
    draws = code.anew("from_file", entry(report, "file", kind=bytes), new_disturbances(draw))
    for library in LIBRARIES:
        when = "after a state came back from a file and was set in another process"
        yield drawn(library, entry(draws, 0), when)


# --- set_random_state ----------------------------------------------------------------------------


@promise(
    "set_random_state",
    points=5,
    hint="random.setstate, np.random.set_state, torch.set_rng_state, with the saved states.",
)
def test_set_again(code: Student, draw: Draw) -> Cases:
    """A state may be set again and again, and after others were taken."""
    for report in taken(code):
        for time in range(2):
            when = "after a state was set again, and others were taken since"
            yield drawn("torch", entry(report, "set", time), when)


@promise(
    "set_random_state",
    points=3,
    hint="Save and set all entries of random.getstate() and np.random.get_state().",
)
def test_numbers_in_hand(code: Student, draw: Draw) -> Cases:
    """A state includes the normal number that a generator may keep for the next call."""
    for report in taken(code):
        for time in range(2):
            for library in LIBRARIES:
                normal = entry(report, "set", time, library, "normal")
                yield (
                    f"the list of normal numbers that {library} draws after a state was set",
                    exactly(normal),
                )


# --- save_checkpoint -----------------------------------------------------------------------------


@promise(
    "save_checkpoint",
    points=3,
    hint="path.parent.mkdir(parents=True, exist_ok=True), then torch.save to path itself.",
)
def test_file(code: Student, draw: Draw) -> Cases:
    """There is one complete file of plain data at path; folders are made, and an old file is replaced."""
    old = f"run{draw.seed()}"
    names = [old, f"to/{old}/last.ckpt"]
    report = code.run("files", new_start(draw), *names)
    yield f"the list of the files after saving to {names}", entry(report, "files")
    for error in entry(report, "errors", kind=list):
        told = "The file is not whole, or not plain data: torch.load with weights_only=True"
        assert error is None, f"{told} {error}."


@promise(
    "save_checkpoint",
    points=6,
    hint="The state_dict() of model, optimizer and scheduler.",
)
def test_saves_everything(code: Student, draw: Draw) -> Cases:
    """The file holds weights, and the states of optimizer and scheduler."""
    yield from restored(resumed(code, "OneCycleLR"), "scheduler")


@promise(
    "save_checkpoint",
    hint="state_dict() only reads: no eval(), no step(), no draw.",
    after="test_file",
)
def test_saving_changes_nothing(code: Student, draw: Draw) -> Cases:
    """Saving changes no weights, states, modes or random states."""
    report = resumed(code, "OneCycleLR")
    told = "After save_checkpoint the model has other parameters."
    assert entry(report, "saving", "same objects") is True, told
    left = entry(report, "saving", "after", kind=dict)
    for name in ("weights", "buffers", "state", "options", "scheduler", "draws", "modes"):
        yield f"the {name} after save_checkpoint", exactly(entry(left, name))
    for name in ("gradients", "requires_grad", "grad mode"):
        yield f"the {name} after save_checkpoint", exactly(entry(left, name))


# --- load_checkpoint -----------------------------------------------------------------------------


@promise(
    "load_checkpoint",
    points=4,
    hint="Without an optimizer: model.load_state_dict, and no set_random_state.",
)
def test_loads_a_model(code: Student, draw: Draw) -> Cases:
    """Without an optimizer the weights are restored, and no random state."""
    report = resumed(code, "ReduceLROnPlateau", MODEL)
    yield weights(report)
    for library in LIBRARIES:
        when = "after load_checkpoint without an optimizer, which leaves the random states alone"
        yield drawn(library, entry(report, "loaded", "draws"), when)


@promise("load_checkpoint", points=3, hint="return checkpoint['epoch'] + 1")
def test_next_epoch(code: Student, draw: Draw) -> Cases:
    """The result is the epoch after the saved one, with an optimizer and without."""
    for kind, names in (("ReduceLROnPlateau", MODEL), ("unstarted", NO_SCHEDULER)):
        report = resumed(code, kind, names)
        what = f"the list of two results for a file that was saved after epoch {report['epoch']}"
        yield what, entry(report, "values")


@promise(
    "load_checkpoint",
    points=3,
    hint="model.state_dict() has parameters and buffers, and load_state_dict takes both.",
)
def test_buffers(code: Student, draw: Draw) -> Cases:
    """The running statistics of batch normalization are restored with the weights."""
    yield loaded(resumed(code, "ReduceLROnPlateau", MODEL), "buffers")


@promise(
    "load_checkpoint",
    hint="model.load_state_dict(...) is enough: no train(), no eval(), no zero_grad().",
    after="test_loads_a_model",
    word="the sandbox says how the modes are",
)
def test_leaves_modes(code: Student, draw: Draw) -> Cases:
    """Modes, requires_grad and .grad are left as they are."""
    for names in (ALL, MODEL):
        report = resumed(code, "ReduceLROnPlateau", names)
        for name in ("modes", "gradients", "requires_grad", "grad mode"):
            yield loaded(report, name)


@promise(
    "load_checkpoint",
    points=11,
    hint="load_state_dict of model and optimizer; set_random_state comes last.",
)
def test_resumes(code: Student, draw: Draw) -> Cases:
    """New objects, whatever they have done before, go on bit for bit as if nothing had happened."""
    for kind, names in (
        ("unstarted", NO_SCHEDULER),
        ("OneCycleLR", NO_SCHEDULER),
        ("ReduceLROnPlateau", ALL),
    ):
        report = resumed(code, kind, names)
        yield from restored(report)
        # Another test judges the steps with a scheduler.
        for name in ("weights", "state") if names == NO_SCHEDULER else ():
            later = entry(report, "an epoch later", name)
            yield f"the {name} an epoch after load_checkpoint", exactly(later)
        yield from restored(report, when="loaded again")


@promise(
    "load_checkpoint",
    points=6,
    hint="scheduler.load_state_dict with the saved scheduler.state_dict().",
)
def test_resumes_a_scheduler(code: Student, draw: Draw) -> Cases:
    """The scheduler goes on where it was, and so do the rates."""
    for kind in SCHEDULED:
        report = resumed(code, kind)
        yield loaded(report, "scheduler")
        yield loaded(report, "scheduler", "loaded again")
    # The rates of ReduceLROnPlateau depend on losses, and so on everything that is restored.
    options = entry(resumed(code, "OneCycleLR"), "an epoch later", "options")
    yield "the options an epoch after load_checkpoint", exactly(options)


@promise(
    "load_checkpoint",
    points=4,
    hint="set_random_state(checkpoint['random']), as the last thing: nothing may draw after it.",
)
def test_resumes_the_draws(code: Student, draw: Draw) -> Cases:
    """With an optimizer, all three generators draw the same numbers as after the checkpoint was saved."""
    report = resumed(code, "unstarted", NO_SCHEDULER)
    for library in LIBRARIES:
        yield drawn(library, entry(report, "loaded", "draws"), "after load_checkpoint")


@promise(
    "load_checkpoint",
    points=2,
    hint="If there is a scheduler, and no state for it in the file: raise ValueError(...)",
    after="test_loads_a_model",
)
def test_scheduler(code: Student, draw: Draw) -> Cases:
    """A scheduler for which the file has no state is a ValueError; an optimizer alone is fine."""
    yield from restored(resumed(code, "OneCycleLR", NO_SCHEDULER))
    call = "load_checkpoint with a scheduler, from a file without one,"
    start = new_start(draw)
    yield call, raises(ValueError, "scheduler", code.run, "without_scheduler", start)


@promise(
    "load_checkpoint",
    hint='torch.load(path, map_location="cpu", weights_only=True)',
    after="test_loads_a_model",
)
def test_file_from_a_gpu(code: Student, draw: Draw) -> Cases:
    """A file whose tensors were saved on a GPU loads on a machine without one."""
    yield weights(resumed(code, "ReduceLROnPlateau", MODEL, probe="saved_on_a_gpu"))


@promise(
    "load_checkpoint",
    points=2,
    hint='torch.load(path, map_location="cpu", weights_only=True)',
    after="test_loads_a_model",
)
def test_file_with_code(student: Student) -> None:
    """A file with code in it is refused, and the code is not run."""
    report = student.run("code_inside", new_start(Draw(student.draw_seed)))
    told = "The code in a file is run by loading it: weights_only=True reads plain data only."
    assert entry(report, "ran") is False, told
    assert entry(report, "refused") is True, "A file with code in it is loaded without an error."


@promise(
    "load_checkpoint",
    hint="model.load_state_dict is strict, unless it is told not to be.",
    after="test_loads_a_model",
)
def test_other_models(student: Student) -> None:
    """A model of another architecture is refused."""
    refusals = student.run("other_models", new_start(Draw(student.draw_seed)))
    for changed in OTHER_MODELS:
        told = f"A model with {changed} than the file is loaded without an error."
        assert entry(refusals, changed, "refused") is True, told


# --- states and trainings ------------------------------------------------------------------------


def new_state(draw: Draw, *, in_hand: bool) -> dict[str, Any]:
    """A state of each generator that no seed leads to, with a normal number kept for later if `in_hand`."""
    generator = torch.Generator().manual_seed(draw.seed())
    torch.rand(draw.size(1, 600), generator=generator)
    if in_hand:
        torch.randn(1, generator=generator)
    state = generator.get_state()
    # A state of torch begins with the seed of its generator, which is overwritten here.
    state[:7] = draw.integers(7, high=256).to(torch.uint8)
    twisters = {library: new_twister(draw, in_hand=in_hand) for library in LIBRARIES[1:]}
    return {"torch": state, **twisters}


def new_twister(draw: Draw, *, in_hand: bool) -> dict[str, Any]:
    """A state of a Mersenne Twister, as in Python and NumPy."""
    return {
        "words": draw.integers(624, high=2**32),
        "position": draw.size(1, 625),
        "normal": draw.number(-1, 1) if in_hand else None,
    }


def new_disturbances(draw: Draw) -> list[Any]:
    """Two pairs of other states: in the first of a pair, a state is taken; in the second, a state is set."""
    pairs = ((False, True), (True, False))
    return [[new_state(draw, in_hand=in_hand) for in_hand in pair] for pair in pairs]


def new_start(draw: Draw) -> dict[str, Any]:
    """Weights and inputs for one of the probe's trainings, and the random state at its start."""
    width = draw.size(4, 8)
    shapes = {"0.weight": (width, 3), "0.bias": (width,), "3.weight": (1, width), "3.bias": (1,)}
    return {
        "weights": {
            name: draw.uniform(*shape, low=-0.5, high=0.5) for name, shape in shapes.items()
        },
        "inputs": draw.uniform(12, 3, low=-1.0),
        "state": new_state(draw, in_hand=True),
    }


def taken(code: Student) -> list[Any]:
    """The draws after states were taken and set again, with a normal number kept for later and without."""

    def ask() -> list[Any]:
        draw = Draw(random.randrange(2**31))
        states = [new_state(draw, in_hand=in_hand) for in_hand in (True, False)]
        return [code.run("taken", state, new_disturbances(draw)) for state in states]

    return code.once("taken", ask)


def resumed(
    code: Student, kind: str, names: list[str] = ALL, probe: str = "saved"
) -> dict[str, Any]:
    """Reports on a training that was saved in one sandbox and resumed in another, from the objects in `names`.

    In a new sandbox, objects that code keeps in memory are of no use.
    """

    def ask() -> dict[str, Any]:
        draw = Draw(random.randrange(2**31))
        start = new_start(draw)
        # A number that differs from the number of steps, which is six.
        epoch = 0 if kind == "unstarted" else draw.size(15, 45)
        saving = code.run(probe, kind, start, epoch)
        file = entry(saving, "file", kind=bytes, told="There is no file at path.")
        # The resuming training has the same data and other weights.
        halves = {name: weight / 2 for name, weight in start["weights"].items()}
        disturbance = new_state(draw, in_hand=False)
        other = {**start, "weights": halves, "state": new_state(draw, in_hand=True)}
        resuming = code.anew("resumed", kind, other, disturbance, file, names)
        return {**entry(resuming, kind=dict), "saving": saving, "epoch": epoch}

    return code.once(f"{kind} {names} {probe}", ask)


# --- cases ---------------------------------------------------------------------------------------


def drawn(library: str, draws: Any, when: str) -> tuple[str, Any]:
    """The uniform numbers that a generator draws. Another test judges the normal ones."""
    what = f"the list of numbers that {library} draws {when}"
    return what, exactly(entry(draws, library, "uniform"))


def loaded(report: Any, name: str, when: str = "loaded") -> tuple[str, Any]:
    return f"the {name} after load_checkpoint", exactly(entry(report, when, name))


def weights(report: Any, when: str = "loaded") -> tuple[str, Any]:
    """The weights, which have to be in the model's old parameters."""
    told = "The model's parameters are new objects, which the optimizer does not know."
    assert entry(report, "same objects") is True, told
    return loaded(report, "weights", when)


def restored(report: Any, *more: str, when: str = "loaded") -> Cases:
    """The states of model and optimizer after loading, and of the parts in `more`."""
    yield weights(report, when)
    for name in ("state", "options", *more):
        yield loaded(report, name, when)
