"""Small examples for fans, xavier_uniform_, kaiming_normal_ and init_weights."""

from __future__ import annotations

import math

import torch

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws, promise
from grader.judge.student import Student


@promise(
    "fans",
    hint="weight.shape is (out, in, 5, 5): the kernel has 25 places, which belong to both fans.",
)
def test_example_fans(student: Student) -> None:
    """A Linear's weight (7, 2) has the fans (2, 7), a convolution's (8, 3, 5, 5) has (75, 200)."""
    both = [student.function("fans")(torch.zeros(s)) for s in ((7, 2), (8, 3, 5, 5))]
    assert_equal(both, [(2, 7), (75, 200)], what="the list of the two pairs")


@promise("fans", hint="Look at weight.dim() first.")
def test_example_vector(student: Student) -> None:
    """A weight of one dimension is a ValueError that names weight, and one of two is fine."""
    pair = student.function("fans")(torch.zeros(3, 3))
    assert_equal(pair, (3, 3), what="the result for a weight (3, 3)")
    laws.check_errors(student, "fans", {"weight": [(torch.zeros(3),)]})


@promise("xavier_uniform_", points=2, hint="sqrt(6 / (200 + 400)) is 0.1.")
def test_example_xavier(student: Student) -> None:
    """A weight (400, 200) is filled in place within 0.1, and within 0.2 with gain=2."""
    for gain in (1.0, 2.0):
        seen = laws.observe(student, "xavier_uniform_", torch.zeros(400, 200), gain).checked()
        values = assert_tensor(seen.after(0, "values"), shape=(400, 200), what="the weight")
        assert values.any(), "The weight is still zero: fill it in place, not a copy."
        largest, bound = values.abs().max().item(), 0.1 * gain
        wrong = {
            "That is the standard deviation, sqrt(2 / ...): the bound is sqrt(6 / ...).": 3**-0.5,
            "The gain is ignored.": 1 / gain,
            "The gain is under the root.": gain**-0.5,
            "The gain is squared.": gain,
            "Divide by fan_in + fan_out, not only by fan_in.": 3**0.5,
            "Divide by fan_in + fan_out, not only by fan_out.": 1.5**0.5,
        }
        told = [line for line, factor in wrong.items() if abs(largest / bound / factor - 1) < 0.01]
        told = told if abs(largest / bound - 1) > 0.01 else []
        line = f"With gain={gain} the largest magnitude is {largest:.4g}, the bound is {bound}."
        assert abs(largest / bound - 1) < 0.01, " ".join([*told[:1], line])


@promise("kaiming_normal_", points=2, hint="fan_in is 200 here, and sqrt(2 / 200) is 0.1.")
def test_example_kaiming(student: Student) -> None:
    """A weight (300, 200) is filled in place with the standard deviation 0.1."""
    seen = laws.observe(student, "kaiming_normal_", torch.zeros(300, 200)).checked()
    values = assert_tensor(seen.after(0, "values"), shape=(300, 200), dtype=torch.float32)
    wrong = {
        "Divide by fan_in, not by fan_out.": math.sqrt(2 / 300),
        "Divide only by fan_in, not by fan_in + fan_out as Xavier does.": math.sqrt(2 / 500),
        "The 2 is missing: a ReLU halves the signal.": math.sqrt(1 / 200),
        "That is the variance: normal_ takes its root.": 0.01,
    }
    std = values.std().item()
    told = [line for line, other in wrong.items() if abs(std / other - 1) < 0.05]
    line = f"The standard deviation of the weight is {std:.4g}, and should be 0.1."
    assert abs(std - 0.1) < 0.005, " ".join([*told[:1], line])


@promise("init_weights", hint="Ask isinstance(module, nn.Linear), and whether module.bias is None.")
def test_example_init_weights(student: Student) -> None:
    """The biases of a Linear and a LayerNorm become zero, the LayerNorm's weight one; bias=False is fine."""
    seen = laws.observe(student, "init_weights", student.made("linear", 6, 4)).checked()
    bias = entry(seen.after(0, "parameters"), "bias", "values")
    assert_close(bias, torch.zeros(4), what="the bias of a Linear(6, 4)")
    student.function("init_weights")(student.made("linear", 6, 4, False))
    seen = laws.observe(student, "init_weights", student.made("norm", 4)).checked()
    for name, one in (("weight", 1.0), ("bias", 0.0)):
        tensor = entry(seen.after(0, "parameters"), name, "values")
        what = f"the {name} of a LayerNorm(4)"
        assert_close(tensor, torch.full((4,), one), what=what)
