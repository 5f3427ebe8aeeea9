"""Small examples for cross_entropy, looks_like_probabilities and double_softmax_floor."""

import math

import torch

from grader.judge.checks import assert_close, assert_equal, laws, must_raise, promise
from grader.judge.student import Student

# -log p of the targets is 0.4076059 in the first row and 2.1698460 in the second.
LOGITS = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]])
TARGETS = torch.tensor([0, 1])
WEIGHT = torch.tensor([1.0, 3.0, 2.0])


@promise(
    "cross_entropy",
    points=5,
    hint="log p = logits - logits.logsumexp(dim=1, keepdim=True), at the target.",
)
def test_example_loss(student: Student) -> None:
    """Two rows cost 0.4076059 and 2.1698460: the loss is their mean, also if all logits are 10000 higher."""
    loss = student.function("cross_entropy")
    check(loss(LOGITS, TARGETS), 1.288726, "cross_entropy(logits, targets)")
    what, high = "the loss for logits about 10000", loss(LOGITS + 1e4, TARGETS)
    laws.check_finite(high, what=what, why="exp of a large logit is inf. Use logsumexp")
    assert_close(high, torch.tensor(1.288726), what=what, rtol=1e-3, atol=1e-3)


@promise(
    "cross_entropy",
    points=2,
    hint="Divide by the sum of weight[targets] over the rows that are kept.",
)
def test_example_options(student: Student) -> None:
    """With the weights 1, 3, 2 the loss is 1.7292860; rows may be ignored."""
    loss = student.function("cross_entropy")
    check(loss(LOGITS, TARGETS, WEIGHT), 1.729286, "the loss with weight")
    for targets, ignore in (([0, -100], -100), ([0, 1], 1)):
        value = loss(LOGITS, torch.tensor(targets), ignore_index=ignore)
        check(value, 0.407606, f"the loss for {targets} and ignore_index={ignore}")


@promise(
    "cross_entropy",
    hint="The smoothing of each class has the weight of that class, not of the target.",
    after="test_example_options",
)
def test_example_smoothing(student: Student) -> None:
    """With these weights and label_smoothing=0.3 the loss is 1.7221180."""
    value = student.function("cross_entropy")(LOGITS, TARGETS, WEIGHT, 0.3)
    check(value, 1.722118, "the loss with weight and label_smoothing=0.3")


@promise("cross_entropy", hint="A negative target neither counts from the end nor is ignored.")
def test_example_target(student: Student) -> None:
    """A target of -1 is a ValueError."""
    with must_raise(ValueError, mentions="targets", call="cross_entropy for the targets [0, -1]"):
        student.function("cross_entropy")(LOGITS, torch.tensor([0, -1]))


@promise(
    "looks_like_probabilities",
    points=2,
    hint="No entry below 0, and every row sums to 1, to within 1e-4.",
)
def test_example_probabilities(student: Student) -> None:
    """Outputs of a softmax look like probabilities; logits and log-probabilities do not."""
    outputs = {"softmax": LOGITS.softmax(1), "log_softmax": LOGITS.log_softmax(1), "logits": LOGITS}
    for name, values in outputs.items():
        answer = student.function("looks_like_probabilities")(values)
        assert_equal(answer, name == "softmax", what=f"the answer for {name}")


@promise("double_softmax_floor", points=2, hint="The formula stands in the text; math.e is e.")
def test_example_floor(student: Student) -> None:
    """For 10 classes the double softmax gets stuck at 1.4611502."""
    value, right = student.function("double_softmax_floor")(10), math.log(1 + 9 / math.e)
    assert_close(value, right, what="double_softmax_floor(10)")


def check(value: object, right: float, what: str) -> None:
    assert_close(value, torch.tensor(right), what=what)
