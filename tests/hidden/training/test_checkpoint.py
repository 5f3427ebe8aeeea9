"""What random_state, set_random_state, save_checkpoint and load_checkpoint promise, sentence by sentence."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from grader.judge.checks import assert_equal, entry, laws, must_raise
from grader.judge.student import Student

NORMAL = {"torch": "torch.randn", "NumPy": "randn", "Python's random": "random.gauss"}
KINDS = ("ReduceLROnPlateau", "OneCycleLR")
CASES = ["code", "code inside", "more layers", "fewer layers", "other shapes", "more outputs"]
CASES += ["more buffers"]
WORDS = {"state": "the optimizer's state (momentum, moments)"}
WORDS |= {"options": "the optimizer's options (rates)", "scheduler": "the scheduler's state"}
EPOCH = 17  # of a file that is saved after six steps: the number is the caller's


@pytest.mark.points(6)
@pytest.mark.place("random_state")
@pytest.mark.hint("random.getstate(), np.random.get_state(), torch.get_rng_state(): all of each.")
def test_state(student: Student) -> None:
    """A state holds all that the three generators need to draw the same once more; taking it draws nothing."""
    for report in takes(student):
        check_draws(entry(report, "after"), report, "after random_state()")
        check_draws(entry(report, "again", 0), report, "after set_random_state(random_state())")


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
    again = student.anew("from_files", [entry(report, "file", kind=bytes) for report in reports])
    for seed, report in enumerate(reports):
        for i in range(3):
            when = "after a state came back from a file and was set in another process"
            check_draws(entry(again, seed, i), report, when)


@pytest.mark.points(6)
@pytest.mark.place("set_random_state")
@pytest.mark.hint("random.setstate, np.random.set_state, torch.set_rng_state, with what was taken.")
def test_set_again(student: Student) -> None:
    """A state may be set again and again, and after others were taken; generators of one's own stay."""
    for seed, report in enumerate(takes(student)):
        for i in range(3):
            when = "after a state was set" + (" again and others were taken" if i else "")
            check_draws(entry(report, "again", i), report, when)
        own = random.Random(seed), np.random.RandomState(seed), torch.Generator().manual_seed(seed)
        right = [own[0].random(), float(own[1].rand()), *torch.rand(2, generator=own[2]).tolist()]
        what = "the list of what generators of one's own draw after set_random_state"
        assert_equal(entry(report, "own"), right, what=what)


@pytest.mark.points(3)
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("path.parent.mkdir(parents=True, exist_ok=True), then torch.save to path itself.")
def test_file(student: Student) -> None:
    """One whole file lies at path, which is plain data; folders are made, and a file is replaced."""
    calls = [("run.pt", True, False), ("runs/new/a.ckpt", True, False), ("b", False, True)]
    calls += [("runs/new/last", False, False), ("c/d.pt", True, True)]
    for name, text, old in calls:
        report = student.run("files", name, text, old)
        what = f"the list of the files after save_checkpoint({name!r}, ...)"
        assert_equal(entry(report, "files"), [name], what=what)
        error = entry(report, "error")
        told = "The file is not whole, or not plain data: torch.load with weights_only=True"
        assert error is None, f"{told} {error}."


@pytest.mark.points(6)
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("The state_dict() of model, optimizer and scheduler, and random_state().")
def test_saves_everything(student: Student) -> None:
    """The file holds weights, buffers, the states of optimizer and scheduler, and the random states."""
    for kind in ("StepLR", "none"):
        check_restored(run(student, kind, "fresh"))


@pytest.mark.points(1)
@pytest.mark.requires("test_file")
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("state_dict() only reads: no eval(), no step(), no draw.")
def test_saving_changes_nothing(student: Student) -> None:
    """Saving changes no weight, no state, no mode and no random state."""
    for kind in KINDS:
        report = run(student, kind)
        check_draws(entry(report, "left", "draws"), report, "after save_checkpoint", "before")
        for name, before in entry(report, "before", kind=dict).items():
            # Ids are those of the process in which the file was saved.
            before = entry(report, "held") if name == "objects" else before
            after = entry(report, "left", name)
            assert_equal(after, before, what=f"the {name} after save_checkpoint")


@pytest.mark.points(4)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("Without an optimizer: model.load_state_dict, and return epoch + 1.")
def test_loads_a_model(student: Student) -> None:
    """Without an optimizer weights and buffers are restored, and no random state; it returns epoch + 1."""
    for epoch in (EPOCH, 0):
        report = run(student, "none", "model", epoch)
        check_model(report)
        when = "after load_checkpoint without an optimizer, which leaves the random states alone"
        check_draws(entry(report, "loaded", "draws"), report, when, "other")
        for name in ("value", "value again"):
            mistakes = {"The saved epoch would be run twice: return the next one.": epoch}
            what = f"the result for a file that was saved after epoch {epoch}"
            assert_equal(entry(report, name), epoch + 1, what=what, mistakes=mistakes)


@pytest.mark.points(1)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("model.load_state_dict(...) is enough: no train(), no eval(), no zero_grad().")
def test_leaves_modes(student: Student) -> None:
    """Modes, requires_grad and .grad are left as they are."""
    for kind, plan in (("ReduceLROnPlateau", ""), ("StepLR", "fresh"), ("none", "model")):
        report = run(student, kind, plan)
        for name in ("modes", "gradients", "requires_grad", "grad mode"):
            other, what = entry(report, "other", name), f"the {name} after load_checkpoint"
            assert_equal(entry(report, "loaded", name), other, what=what)


@pytest.mark.points(15)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("model, optimizer and scheduler.load_state_dict; set_random_state comes last.")
def test_resumes(student: Student) -> None:
    """New objects, whatever they have done before, go on bit for bit as if nothing had happened."""
    for kind in (*KINDS, "unstarted"):
        report = run(student, kind)
        check_restored(report)
        for name in ("weights", "buffers", "state", "options", "scheduler", "draws"):
            went, resumed = (entry(report, when, name) for when in ("went on", "resumed"))
            assert_equal(resumed, went, what=f"the {name} an epoch after load_checkpoint")
        check_restored(report, "loaded again")
        assert_equal(entry(report, "value"), EPOCH + 1, what="the result with an optimizer")


@pytest.mark.points(2)
@pytest.mark.requires("test_loads_a_model")
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint("If there is a scheduler, and no state for it in the file: raise ValueError(...)")
def test_scheduler(student: Student) -> None:
    """A scheduler for which the file has no state is a ValueError; an optimizer alone is fine."""
    check_restored(run(student, "StepLR", "optimizer"), scheduled=False)
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
        report = student.run("refusal", case)
        told = "The code in a file is run by loading it: weights_only=True reads plain data only."
        assert entry(report, "ran", kind=bool) is False, told
        what = "A file with code in it" if "code" in case else f"A model with {case} than the file"
        assert entry(report, "refused", kind=bool), f"{what} is loaded without an error."


def takes(student: Student, file: bool = False) -> Any:
    """Three states that were taken, with normal numbers in hand or without: see the probe."""

    def ask(seed: int) -> dict[str, Any]:
        report = entry(student.run("taken", seed, seed != 1, file), kind=dict)
        return {**report, **undisturbed(student)[1][seed]}

    return [student.once(f"taken {seed} {file}", partial(ask, seed)) for seed in range(3)]


def run(student: Student, kind: str, plan: str = "", epoch: int = EPOCH) -> Any:
    """A training that was saved and is resumed in another sandbox, and how it went on in a third one.

    What is compared with "saved" and "went on" comes from where no student's code runs, so that to keep
    objects in memory or to tell the same twice is of no use.
    """

    def ask() -> dict[str, Any]:
        seeds, _, trainings = undisturbed(student)
        left = student.run("saved", kind, seeds[kind], epoch, plan)
        file = entry(left, "file", kind=bytes, told="There is no file at path.")
        report = student.anew("resumed", kind, random.randrange(10**6), file, plan)
        own = {"left": entry(left, "saved", kind=dict), "held": entry(left, "held")}
        own["before"] = trainings[kind]["saved"]
        return {**entry(report, kind=dict), **trainings[kind], **own}

    return student.once(f"{kind} {plan} {epoch}", ask)


def undisturbed(student: Student) -> Any:
    """Seeds, and what is drawn and how trainings go where no student's code runs: see the probe."""

    def ask() -> list[Any]:
        kinds = ("none", "unstarted", "StepLR", *KINDS)
        seeds = dict(zip(kinds, random.sample(range(10**6), len(kinds)), strict=True))
        return [seeds, *student.apart("undisturbed", seeds)]

    return student.once("undisturbed", ask)


def check_draws(actual: Any, report: Any, when: str, expected: str = "before") -> None:
    """The three generators draw what they drew then; the usual mistakes have names."""
    right, first = entry(report, expected), entry(report, "first")
    right = entry(right, "draws", default=right)
    for library, normal in NORMAL.items():
        numbers, wanted = entry(actual, library, 0), entry(right, library, 0, kind=list)
        if not laws.same(numbers, wanted):
            seeded = laws.same(numbers, entry(first, library, 0))
            assert not seeded, f"{library} begins anew at its seed {when}: restore where it stood."
            later = any(laws.same(entry(numbers, 0), number) for number in wanted[1:])
            assert not later, f"{library} is ahead {when}: something draws besides."
        assert laws.same(numbers, wanted), f"{library} draws other numbers {when}."
        told = f"{library} draws other normal numbers {when}: the state includes the one that {normal} "
        told += "keeps in hand, or that it keeps none."
        assert laws.same(entry(actual, library, 1), entry(right, library, 1)), told


def check_model(report: Any, loaded: str = "loaded") -> None:
    """Weights and buffers are those of the file, in the parameters that the model had."""
    for name in ("weights", "buffers"):
        now, saved, other = (entry(report, when, name) for when in (loaded, "saved", "other"))
        left = {f"The {name} are still those of the model that was given.": other}
        assert_equal(now, saved, what=f"the {name} after load_checkpoint", mistakes=left)
    told = "The model's parameters are new objects, of which the optimizer does not know."
    assert laws.same(entry(report, loaded, "objects"), entry(report, "other", "objects")), told


def check_restored(report: Any, loaded: str = "loaded", scheduled: bool = True) -> None:
    """All that a training holds is as it was saved; what is not restored has a name."""
    check_model(report, loaded)
    last = entry(report, loaded, "scheduler", "last_epoch", default=None)
    told = "The scheduler is stepped up to the epoch: load its state, which may differ."
    assert not any(laws.same(last, number) for number in (EPOCH, EPOCH + 1)), told
    for name, word in list(WORDS.items())[: 3 if scheduled else 2]:
        now, saved, other = (entry(report, when, name) for when in (loaded, "saved", "other"))
        what, left = f"{word} after load_checkpoint", {f"Not restored: {word}.": other}
        assert_equal(now, saved, what=what, mistakes=left)
    now, other = (entry(report, when, "draws") for when in (loaded, "other"))
    told = "The random states are left as they were: restore them with the optimizer."
    assert not laws.same(now, other), told
    check_draws(now, report, "after load_checkpoint", "saved")
