"""Small examples for checkpoints; probe_checkpoint.py has the training."""

from __future__ import annotations

import pytest

from grader.judge.checks import assert_close, assert_equal, entry
from grader.judge.student import Student

GENERATORS = ("Python's random", "NumPy", "torch")


@pytest.mark.points(2)
@pytest.mark.place("random_state")
@pytest.mark.hint("random.getstate(), np.random.get_state(), torch.get_rng_state(): all of each.")
def test_example_state(student: Student) -> None:
    """After set_random_state(random_state()) the three generators draw the same numbers again."""
    check_draws(student.run("drawn_twice"))


@pytest.mark.points(2)
@pytest.mark.place("set_random_state")
@pytest.mark.hint("NumPy's array becomes a list or a tensor, and an array again when it is set.")
def test_example_state_in_a_file(student: Student) -> None:
    """They do so too after the state was written by torch.save and read with weights_only=True."""
    check_draws(student.run("drawn_twice", True))


@pytest.mark.points(2)
@pytest.mark.place("save_checkpoint")
@pytest.mark.hint("Make the folders of path, and write the states of all three objects there.")
def test_example_saves(student: Student) -> None:
    """A checkpoint brings back momentum and the rate of 0.01 to which the scheduler has come."""
    report = student.run("losses")
    told = "The file is not plain data: torch.load refuses it with weights_only=True."
    assert entry(report, "plain", kind=bool), told
    momentum, rate = entry(report, "momentum", kind=bool), entry(report, "rate", kind=float)
    assert momentum, "The optimizer has no momentum after load_checkpoint: save its state_dict()."
    assert_close(rate, 0.01, what="the rate after load_checkpoint")


@pytest.mark.points(4)
@pytest.mark.place("load_checkpoint")
@pytest.mark.hint(
    "Load model, optimizer and scheduler, then set the random states, and draw nothing."
)
def test_example_resumes(student: Student) -> None:
    """A training that is resumed after epoch 2 has the losses of one that went on, to the last bit."""
    report = student.run("losses")
    again = {"The saved epoch would be run twice: return the next one.": 2}
    assert_equal(entry(report, "epoch"), 3, what="the result of load_checkpoint", mistakes=again)
    whole, resumed = (entry(report, name, kind=list, count=4) for name in ("whole", "resumed"))
    assert_equal(resumed, whole, what="the list of the losses after load_checkpoint")


def check_draws(twice: object) -> None:
    """Both times the same numbers; a normal number that is lost has a name."""
    first, second = entry(twice, kind=list, count=2)
    told = "The state is not plain data: torch.load refuses it with weights_only=True."
    assert second is not None, told
    for library in GENERATORS:
        old, new = (entry(draws, library, kind=list, count=2) for draws in (first, second))
        kept = f"{library} loses the normal number that it keeps in hand: save all of its state."
        assert old[0] != new[0] or old[1] == new[1], kept
        assert_equal(new, old, what=f"what {library} draws the second time")
