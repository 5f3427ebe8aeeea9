"""Small examples for count_parameters, freeze and parameter_groups; probe_freezing.py has the network."""

from __future__ import annotations

from grader.judge.checks import assert_equal, laws, must_raise, promise
from grader.judge.student import Student


@promise(
    "count_parameters",
    hint="6 + 3 for encoder.0, 12 for encoder2, 4 + 4 for the norm, of which 4 are frozen.",
)
def test_example_count(student: Student) -> None:
    """The network has 29 elements in its parameters, of which 25 learn."""
    assert_equal(
        student.function("count_parameters")(student.made("network")),
        (29, 25),
        what="the pair (total, trainable)",
        mistakes={
            "These are the numbers of tensors: count their elements, parameter.numel().": (5, 4),
            "Buffers are counted, too: they are not parameters.": (38, 25),
            "The two numbers are swapped: total first.": (25, 29),
            "The second number is that of the frozen elements.": (29, 4),
        },
    )


@promise(
    "freeze",
    points=2,
    hint="encoder2.weight also begins with encoder, but not with encoder and a dot.",
)
def test_example_freeze(student: Student) -> None:
    """freeze(network, ["encoder"]) freezes encoder.0, and not encoder2."""
    seen = laws.observe(student, "freeze", student.made("network"), ["encoder"]).checked()
    right = ["encoder.0.weight", "encoder.0.bias"]
    alike = "encoder2 is frozen as well: the name of a module ends at a dot."
    unfrozen = "norm.bias was frozen before and learns again: freezing never unfreezes."
    names = [*right, "encoder2.weight", "norm.weight", "norm.bias"]
    assert_equal(
        [n for n in names if seen.after(0, "parameters", n, "requires_grad") is False],
        [*right, "norm.bias"],
        what="the list of frozen parameters after it",
        mistakes={alike: [*right, "encoder2.weight", "norm.bias"], unfrozen: right},
    )
    assert_equal(
        seen.value,
        right,
        what="the result of freeze",
        mistakes={
            "The argument is returned: return the names of the parameters that it covers.": [
                "encoder"
            ],
            "norm.bias was frozen before, and no name covers it: leave it out.": [
                *right,
                "norm.bias",
            ],
            "The names are in alphabetical order: they belong in the model's order.": right[::-1],
        },
    )


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
    """Matrices decay, biases and the weight of the norm do not, and frozen ones are left out."""
    matrices = ["encoder.0.weight", "encoder2.weight"]

    def groups(first: list[str], second: list[str], decays: tuple[float, float]) -> list[object]:
        both = zip((first, second), decays, strict=True)
        return [{"params": params, "weight_decay": decay} for params, decay in both]

    vectors, none = ["encoder.0.bias", "norm.weight"], list[str]()
    assert_equal(
        student.run("groups", student.made("network"), 0.1),
        groups(matrices, vectors, (0.1, 0.0)),
        what="the list of groups, each parameter shown by its name,",
        ordered=False,
        mistakes={
            "The name decides: the weight of a norm has one dimension.": groups(
                [*matrices, "norm.weight"], ["encoder.0.bias"], (0.1, 0.0)
            ),
            "norm.bias is frozen: leave it out.": groups(
                matrices, [*vectors, "norm.bias"], (0.1, 0.0)
            ),
            "The two values are swapped: the first group decays.": groups(
                matrices, vectors, (0.0, 0.1)
            ),
            "The two groups are swapped: the one that decays comes first.": groups(
                vectors, matrices, (0.0, 0.1)
            ),
            "Parameters of one dimension decay: two or more are needed.": groups(
                ["encoder.0.weight", "encoder.0.bias", "encoder2.weight", "norm.weight"],
                none,
                (0.1, 0.0),
            ),
            "No parameter decays: two dimensions are enough.": groups(
                none,
                ["encoder.0.weight", "encoder.0.bias", "encoder2.weight", "norm.weight"],
                (0.1, 0.0),
            ),
        },
    )
