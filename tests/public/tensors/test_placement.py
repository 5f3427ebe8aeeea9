"""Small examples for moving batches and for finding tensors that were left behind."""

from __future__ import annotations

from grader.judge.checks import assert_equal, promise
from grader.judge.student import Student


@promise(
    "to_device",
    hint="Call to_device again for each entry of a container, and build a container of the same kind.",
)
def test_example_batch(student: Student) -> None:
    """A dict of a NamedTuple, a list and a string keeps its structure on meta, and labels stay int64."""
    fields = ["torch.float64 on meta", "torch.int64 on meta"]
    sample = {"type": "Sample", "fields": fields}
    right = {"sample": sample, "views": ["torch.float64 on meta"], "name": "left"}
    assert_equal(student.run("moved"), right, what="the batch")


@promise("unregistered", hint="vars(submodule) holds the plain attributes of a module.")
def test_example_unregistered(student: Student) -> None:
    """encoder.table is unregistered in a model with a Linear encoder, a buffer mean and that tensor."""
    names = student.run("names", "unregistered", "cpu")
    assert_equal(names, ["encoder.table"], what="the list of names")


@promise(
    "misplaced",
    hint="Go through parameters, buffers and plain attributes, and compare the device of each.",
)
def test_example_misplaced(student: Student) -> None:
    """After model.to("meta"), encoder.table is still on cpu; "cpu:0" is the same device as "cpu"."""
    names = student.run("names", "misplaced", "meta", "meta")
    what = "the list of names of what is not on meta"
    assert_equal(names, ["encoder.table"], what=what)
    names = student.run("names", "misplaced", "cpu", "cpu:0")
    what = "the list of names of what is not on cpu:0"
    assert_equal(names, [], what=what)
