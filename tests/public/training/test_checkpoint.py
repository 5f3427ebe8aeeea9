"""Small examples for checkpoints; probe_checkpoint.py has the training."""

from __future__ import annotations

from typing import Any

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

GENERATORS = ("Python's random", "NumPy", "torch")
PLAIN = "is not plain data: torch.load refuses it with weights_only=True."


@promise(
    "random_state",
    points=2,
    hint="random.getstate(), np.random.get_state(), torch.get_rng_state(): all of each.",
)
def test_example_state(student: Student) -> None:
    """After set_random_state(random_state()) the three generators draw the same numbers again."""
    check_draws(student.run("drawn_twice"))


@promise(
    "set_random_state",
    points=2,
    hint="NumPy's array becomes a list or a tensor, and an array again when it is set.",
)
def test_example_state_in_a_file(student: Student) -> None:
    """The generators do so, too, if torch.save wrote the state and weights_only=True read it."""
    check_draws(student.run("drawn_twice", True))


@promise(
    "save_checkpoint",
    points=2,
    hint="Make the folders of path, and write the states of all three objects there.",
)
def test_example_saves(student: Student) -> None:
    """A checkpoint brings back the momentum, and the rate of 0.01 that the scheduler has reached."""
    report = losses(student)
    told = "The optimizer has no momentum after load_checkpoint: save its state_dict()."
    assert entry(report, "momentum", kind=bool), told
    assert_close(entry(report, "rate", kind=float), 0.01, what="the rate")


@promise(
    "load_checkpoint",
    points=4,
    hint="Load model, optimizer and scheduler, then set the random states: draw nothing.",
)
def test_example_resumes(student: Student) -> None:
    """A training that resumes after epoch 2 has the losses of one that went on, to the last bit."""
    report = losses(student)
    assert_equal(entry(report, "epoch"), 3, what="the result of load_checkpoint")
    assert_equal(entry(report, "steps"), 3, what="the scheduler's last_epoch")
    assert entry(report, "same", kind=bool), "The optimizer does not hold the model's parameters."
    for function, training in entry(report, "modes", kind=dict).items():
        assert training, f"{function} leaves the model in evaluation mode."
    for library, right in entry(report, "drawn", kind=dict).items():
        told = f"{library} draws other numbers after load_checkpoint than after save_checkpoint: "
        told += "restore its state last, and draw nothing, in saving either."
        assert entry(report, "drawn again", library) == right, told
    whole, resumed = (entry(report, name, kind=list, count=4) for name in ("whole", "resumed"))
    assert_equal(resumed, whole, what="the list of the losses after load_checkpoint")


def losses(student: Student) -> Any:
    """The losses of the training that went on, and of the one that resumed from a file of plain data."""
    report = student.once("losses", lambda: student.run("losses"))
    assert entry(report, "plain", kind=bool), f"The file {PLAIN}"
    return report


def check_draws(twice: object) -> None:
    """Compare the draws of both times. A lost normal number has its own message."""
    first = entry(twice, 0)
    second = entry(twice, 1, kind=dict, told=f"The state {PLAIN}", place="random_state")
    for library in GENERATORS:
        old, new = (entry(draws, library, kind=list, count=2) for draws in (first, second))
        told = f"{library} loses the normal number that it keeps in hand: save all of its state."
        assert old[0] != new[0] or old[1] == new[1], told
        assert_equal(new, old, what=f"the list of numbers that {library} draws the second time")
