"""Small examples for count_parameters, freeze and parameter_groups; probe_freezing.py has the network."""

from __future__ import annotations

from grader.judge.checks import assert_equal, laws, must_raise, promise
from grader.judge.student import Student


@promise(
    "count_parameters",
    hint="6 + 3 for encoder.0, 12 for encoder2, 4 + 4 for the norm, of which 4 are frozen.",
)
def test_example_count(student: Student) -> None:
    """The network's parameters have 29 elements, of which 25 learn."""
    assert_equal(
        student.function("count_parameters")(student.made("network")),
        (29, 25),
        what="the pair (total, trainable)",
    )


@promise(
    "freeze",
    points=2,
    hint="encoder2.weight also begins with encoder, but not with encoder and a dot.",
)
def test_example_freeze(student: Student) -> None:
    """freeze(network, ["encoder"]) freezes encoder.0 but not encoder2."""
    seen = laws.observe(student, "freeze", student.made("network"), ["encoder"]).checked()
    right = ["encoder.0.weight", "encoder.0.bias"]
    names = [*right, "encoder2.weight", "norm.weight", "norm.bias"]
    assert_equal(
        [n for n in names if seen.after(0, "parameters", n, "requires_grad") is False],
        [*right, "norm.bias"],
        what="the list of frozen parameters after it",
    )
    assert_equal(seen.value, right, what="the result of freeze")


@promise("freeze", hint="Look for the parameters that each name covers before you freeze one.")
def test_example_unknown_name(student: Student) -> None:
    """A name that covers no parameter is a ValueError that contains it."""
    with must_raise(ValueError, mentions="decoder", call='freeze(network, ["decoder"])'):
        student.function("freeze")(student.made("network"), ["decoder"])


@promise(
    "parameter_groups",
    points=2,
    hint="parameter.dim() is 2 for both weights of the encoders, 1 for the rest.",
)
def test_example_groups(student: Student) -> None:
    """Matrices decay; biases and the norm's weight do not; frozen parameters are left out."""
    assert_equal(
        student.run("groups", student.made("network"), 0.1),
        [
            {"params": ["encoder.0.weight", "encoder2.weight"], "weight_decay": 0.1},
            {"params": ["encoder.0.bias", "norm.weight"], "weight_decay": 0.0},
        ],
        what="the list of groups, each parameter shown by its name,",
        ordered=False,
    )
