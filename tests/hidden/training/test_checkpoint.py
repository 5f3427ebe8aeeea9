"""What random_state, set_random_state, save_checkpoint and load_checkpoint promise, sentence by sentence."""

from __future__ import annotations

import itertools
import random
from functools import partial
from typing import Any

import pytest
import torch

from grader.judge.checks import assert_equal, entry, laws, must_raise
from grader.judge.student import Student

NORMAL = {"torch": "torch.randn", "NumPy": "randn", "Python's random": "random.gauss"}
KINDS = ("ReduceLROnPlateau", "OneCycleLR")
CASES = ["code", "code inside", "more layers", "fewer layers", "other shapes", "more outputs"]
CASES += ["more buffers"]
WORDS = {"state": "the optimizer's state (momentum, moments)"}
WORDS |= {"options": "the optimizer's options (rates)"}
SET = "after set_random_state(random_state())"


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("random.getstate() is taken, and random.setstate sets it.")
def test_state_of_python(student: Student) -> None:
    """A state brings back what Python's random draws."""
    for report in takes(student):
        check_generator("Python's random", entry(report, "again", 0), report, SET)


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("np.random.get_state() is taken, and np.random.set_state sets it.")
def test_state_of_numpy(student: Student) -> None:
    """A state brings back what NumPy draws."""
    for report in takes(student):
        check_generator("NumPy", entry(report, "again", 0), report, SET)


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("torch.get_rng_state() is taken, and torch.set_rng_state sets it.")
def test_state_of_torch(student: Student) -> None:
    """A state brings back what torch draws."""
    for report in takes(student):
        check_generator("torch", entry(report, "again", 0), report, SET)


@pytest.mark.points(2)
@pytest.mark.place("random_state")
@pytest.mark.word("code that does nothing draws nothing, too")
@pytest.mark.hint("Take the states: seed nothing, and draw nothing.")
def test_taking_draws_nothing(student: Student) -> None:
    """Taking a state changes no generator."""
    for report in takes(student):
        for library in NORMAL:
            check_generator(library, entry(report, "after"), report, "after random_state()")


@pytest.mark.points(3)
@pytest.mark.place("random_state")
@pytest.mark.hint("NumPy's state has an array in it: make it a list (tolist) or a tensor.")
def test_state_is_plain(student: Student) -> None:
    """A state is a dict of plain data: it is written by torch.save and read with weights_only=True."""
    reports = takes(student, file=True)
    for report in reports:
        assert entry(report, "dict", kind=bool), "random_state returns no dict."
        error, told = entry(report, "error"), "The state is not plain data: torch.load with"
        assert error is None, f"{told} weights_only=True {error}."
    files = [entry(report, "file", kind=bytes) for report in reports]
    again = student.anew("from_files", files, new_seeds(6))
    when = "after a state came back from a file and was set in another process"
    for number, report in enumerate(reports):
        for i, library in itertools.product(range(3), NORMAL):
            check_generator(library, entry(again, number, i), report, when)


@pytest.mark.points(5)
@pytest.mark.place("set_random_state")
@pytest.mark.hint("random.setstate, np.random.set_state, torch.set_rng_state, with what was taken.")
def test_set_again(student: Student) -> None:
    """A state may be set again and again, and after others were taken."""
    for report in takes(student):
        for i in range(3):
            when = "after a state was set" + (" again and others were taken" if i else "")
            check_generator("torch", entry(report, "again", i), report, when)


@pytest.mark.points(3)
@pytest.mark.place("set_random_state")
@pytest.mark.hint("Save and set all entries of random.getstate() and np.random.get_state().")
def test_numbers_in_hand(student: Student) -> None:
    """A state has the normal number that a generator keeps in hand for the next call, if it does."""
    for report in takes(student):
        for i, (library, normal) in itertools.product(range(3), NORMAL.items()):
            told = f"{library} draws other normal numbers {SET}: the state includes the one that "
            told += f"{normal} keeps in hand, or that it keeps none."
            drawn = entry(report, "again", i, library, 1)
            assert laws.same(drawn, entry(report, "before", library, 1)), told


@pytest.mark.points(3)
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("path.parent.mkdir(parents=True, exist_ok=True), then torch.save to path itself.")
def test_file(student: Student) -> None:
    """One whole file lies at path, which is plain data; folders are made, and a file is replaced."""
    first, second, third, folder, deeper = (f"run{seed}" for seed in new_seeds(5))
    calls = [(f"{first}.pt", True, False), (f"{folder}/{deeper}/{first}.ckpt", True, False)]
    calls += [(second, False, True), (f"{folder}/{deeper}/{second}", False, False)]
    calls += [(f"{deeper}/{third}.pt", True, True)]
    for name, text, old in calls:
        report = student.run("files", new_start(new_width()), name, text, old)
        what = f"the list of the files after save_checkpoint({name!r}, ...)"
        assert_equal(entry(report, "files"), [name], what=what)
        error = entry(report, "error")
        told = "The file is not whole, or not plain data: torch.load with weights_only=True"
        assert error is None, f"{told} {error}."


@pytest.mark.points(6)
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("The state_dict() of model, optimizer and scheduler.")
def test_saves_everything(student: Student) -> None:
    """The file holds weights, and the states of optimizer and scheduler."""
    for kind in ("StepLR", "none"):
        report = run(student, kind, "fresh")
        check_restored(report)
        check_scheduler(report)


@pytest.mark.points(1)
@pytest.mark.requires("test_file")
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("state_dict() only reads: no eval(), no step(), no draw.")
def test_saving_changes_nothing(student: Student) -> None:
    """Saving changes no weight, no state, no mode and no random state."""
    for kind in KINDS:
        report = run(student, kind)
        for library in NORMAL:
            drawn = entry(report, "left", "draws")
            check_generator(library, drawn, report, "after save_checkpoint")
        for name, before in entry(report, "before", kind=dict).items():
            if name == "draws":
                continue
            # Ids are those of the process in which the file was saved.
            before = entry(report, "held") if name == "objects" else before
            after = entry(report, "left", name)
            assert_equal(after, before, what=f"the {name} after save_checkpoint")


@pytest.mark.points(4)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("Without an optimizer: model.load_state_dict, and no set_random_state.")
def test_loads_a_model(student: Student) -> None:
    """Without an optimizer the weights are restored, and no random state."""
    report = run(student, "none", "model")
    check_model(report)
    when = "after load_checkpoint without an optimizer, which leaves the random states alone"
    for library in NORMAL:
        check_generator(library, entry(report, "loaded", "draws"), report, when, "other")


@pytest.mark.points(3)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("return checkpoint['epoch'] + 1")
def test_next_epoch(student: Student) -> None:
    """The result is the epoch after the saved one, with an optimizer and without."""
    drawn = Undisturbed.of(student).epoch
    for plan, epoch in (("model", drawn), ("model", 0), ("", drawn)):
        report = run(student, "none", plan, epoch)
        for name in ("value", "value again"):
            what = f"the result for a file that was saved after epoch {epoch}"
            assert_equal(entry(report, name), epoch + 1, what=what)


@pytest.mark.points(3)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("model.state_dict() has parameters and buffers, and load_state_dict takes both.")
def test_buffers(student: Student) -> None:
    """The running statistics of batch normalization are restored with the weights."""
    for plan in ("model", ""):
        check_tensors(run(student, "none", plan), "buffers", "loaded")


@pytest.mark.points(1)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.word("the sandbox says how the modes are")
@pytest.mark.hint("model.load_state_dict(...) is enough: no train(), no eval(), no zero_grad().")
def test_leaves_modes(student: Student) -> None:
    """Modes, requires_grad and .grad are left as they are."""
    for kind, plan in (("ReduceLROnPlateau", ""), ("StepLR", "fresh"), ("none", "model")):
        report = run(student, kind, plan)
        for name in ("modes", "gradients", "requires_grad", "grad mode"):
            other, what = entry(report, "other", name), f"the {name} after load_checkpoint"
            assert_equal(entry(report, "loaded", name), other, what=what)


@pytest.mark.points(11)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("load_state_dict of model and optimizer; set_random_state comes last.")
def test_resumes(student: Student) -> None:
    """New objects, whatever they have done before, go on bit for bit as if nothing had happened."""
    for kind in ("none", "AdamW", "unstarted"):
        report = run(student, kind)
        check_restored(report)
        for name in ("weights", "state"):
            went, resumed = (entry(report, when, name) for when in ("went on", "resumed"))
            assert_equal(resumed, went, what=f"the {name} an epoch after load_checkpoint")
        check_restored(report, "loaded again")


@pytest.mark.points(6)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("scheduler.load_state_dict of what scheduler.state_dict() was.")
def test_resumes_a_scheduler(student: Student) -> None:
    """A scheduler goes on where it was, as do the rates."""
    for kind in KINDS:
        check_scheduler(run(student, kind))
    # The rates of ReduceLROnPlateau depend on losses, and so on all that is restored.
    report = run(student, "OneCycleLR")
    went, resumed = (entry(report, when, "options") for when in ("went on", "resumed"))
    assert_equal(resumed, went, what="the options an epoch after load_checkpoint")


@pytest.mark.points(4)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint(
    "set_random_state(checkpoint['random']), as the last thing: nothing may draw after it."
)
def test_resumes_the_draws(student: Student) -> None:
    """With an optimizer all three generators draw what they drew after the checkpoint was saved."""
    for kind, plan in (("none", ""), ("AdamW", ""), ("StepLR", "fresh")):
        report = run(student, kind, plan)
        now, other = (entry(report, when, "draws") for when in ("loaded", "other"))
        told = "The random states are left as they were: restore them with the optimizer."
        assert not laws.same(now, other), told
        for library in NORMAL:
            check_generator(library, now, report, "after load_checkpoint")


@pytest.mark.points(2)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("If there is a scheduler, and no state for it in the file: raise ValueError(...)")
def test_scheduler(student: Student) -> None:
    """A scheduler for which the file has no state is a ValueError; an optimizer alone is fine."""
    check_restored(run(student, "StepLR", "optimizer"))
    call = "load_checkpoint with a scheduler, from a file without one,"
    with must_raise(ValueError, mentions="scheduler", call=call):
        run(student, "StepLR", "unscheduled")


@pytest.mark.points(4)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint('torch.load(path, map_location="cpu", weights_only=True), and strict loading.')
def test_other_files(student: Student) -> None:
    """A file from a GPU loads; one with code in it, which is not run, or of another model is refused."""
    for loaded in ("loaded", "loaded again"):
        check_model(run(student, "ReduceLROnPlateau", "gpu"), loaded)
    for case in CASES:
        report = student.run("refusal", new_start(new_width()), case)
        told = "The code in a file is run by loading it: weights_only=True reads plain data only."
        assert entry(report, "ran", kind=bool) is False, told
        what = "A file with code in it" if "code" in case else f"A model with {case} than the file"
        assert entry(report, "refused", kind=bool), f"{what} is loaded without an error."


def new_seeds(count: int) -> list[int]:
    return random.sample(range(2, 2**31), count)


def new_width() -> int:
    return random.randint(4, 7)


def new_start(width: int) -> dict[str, Any]:
    """Weights and inputs of a training of the probe, and a seed for what it draws."""
    (seed,) = new_seeds(1)
    shapes = {"0.weight": (width, 3), "0.bias": (width,), "3.weight": (1, width), "3.bias": (1,)}
    weights = {name: torch.rand(shape) - 0.5 for name, shape in shapes.items()}
    return {"weights": weights, "inputs": 2 * torch.rand(12, 3) - 1, "seed": seed}


class Undisturbed:
    """What is drawn for trainings and states, and how they go where no student's code runs: see the probe."""

    def __init__(self, student: Student) -> None:
        kinds = ("none", "AdamW", "unstarted", "StepLR", *KINDS)
        self.width = new_width()
        self.starts = {kind: new_start(self.width) for kind in kinds}
        # A file is saved after six steps: its epoch is another number, the caller's.
        self.epoch = random.randrange(15, 45)
        # With normal numbers in hand, and without.
        self.taken = list(zip(new_seeds(3), (True, False, True), strict=True))
        self.states, self.trainings = student.apart("undisturbed", self.taken, self.starts)

    @staticmethod
    def of(student: Student) -> Undisturbed:
        return student.once("undisturbed", partial(Undisturbed, student))


def takes(student: Student, file: bool = False) -> Any:
    """Three states that were taken, with normal numbers in hand or without: see the probe."""
    undisturbed = Undisturbed.of(student)

    def ask(number: int) -> dict[str, Any]:
        report = student.run("taken", *undisturbed.taken[number], file, new_seeds(6))
        return {**entry(report, kind=dict), **undisturbed.states[number]}

    return [student.once(f"taken {number} {file}", partial(ask, number)) for number in range(3)]


def run(student: Student, kind: str, plan: str = "", epoch: int | None = None) -> Any:
    """A training that was saved and is resumed in another sandbox, and how it went on in a third one.

    What is compared with "saved" and "went on" comes from where no student's code runs, so that to keep
    objects in memory or to tell the same twice is of no use.
    """
    undisturbed = Undisturbed.of(student)
    last = undisturbed.epoch if epoch is None else epoch

    def ask() -> dict[str, Any]:
        left = student.run("saved", kind, undisturbed.starts[kind], last, plan)
        file = entry(left, "file", kind=bytes, told="There is no file at path.")
        # It goes on with the same data, from other weights.
        other = new_start(undisturbed.width) | {"inputs": undisturbed.starts[kind]["inputs"]}
        report = student.anew("resumed", kind, other, *new_seeds(1), file, plan)
        own = {"left": entry(left, "saved", kind=dict), "held": entry(left, "held")}
        training = undisturbed.trainings[kind]
        own |= {"before": training["saved"], "epoch": last}
        return {**entry(report, kind=dict), **training, **own}

    return student.once(f"{kind} {plan} {last}", ask)


def check_generator(library: str, actual: Any, report: Any, when: str, expected: str = "") -> None:
    """A generator draws what it drew then."""
    before = entry(report, expected or "before")
    right, first = entry(before, "draws", default=before), entry(report, "first")
    numbers, wanted = entry(actual, library, 0), entry(right, library, 0, kind=list)
    if not laws.same(numbers, wanted):
        seeded = laws.same(numbers, entry(first, library, 0))
        assert not seeded, f"{library} begins anew at its seed {when}: restore where it stood."
        later = any(laws.same(entry(numbers, 0), number) for number in wanted[1:])
        assert not later, f"{library} is ahead {when}: something draws besides."
    assert laws.same(numbers, wanted), f"{library} draws other numbers {when}."


def check_tensors(report: Any, name: str, loaded: str) -> None:
    now, saved, _other = (entry(report, when, name) for when in (loaded, "saved", "other"))
    assert_equal(now, saved, what=f"the {name} after load_checkpoint")


def check_model(report: Any, loaded: str = "loaded") -> None:
    """Weights are those of the file, in the parameters that the model had."""
    check_tensors(report, "weights", loaded)
    told = "The model's parameters are new objects, of which the optimizer does not know."
    assert laws.same(entry(report, loaded, "objects"), entry(report, "other", "objects")), told


def check_restored(report: Any, loaded: str = "loaded") -> None:
    """Model and optimizer are as they were saved; what is not restored has a name."""
    check_model(report, loaded)
    for name, words in WORDS.items():
        check_state(report, name, words, loaded)


def check_state(report: Any, name: str, words: str, loaded: str) -> None:
    now, saved, _other = (entry(report, when, name) for when in (loaded, "saved", "other"))
    what = f"{words} after load_checkpoint"
    assert_equal(now, saved, what=what)


def check_scheduler(report: Any) -> None:
    last = entry(report, "loaded", "scheduler", "last_epoch", default=None)
    told = "The scheduler is stepped up to the epoch: load its state, which may differ."
    assert not any(laws.same(last, report["epoch"] + i) for i in (0, 1)), told
    for loaded in ("loaded", "loaded again"):
        check_state(report, "scheduler", "the scheduler's state", loaded)
