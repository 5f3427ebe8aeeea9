"""Small examples for the gradient-norm monitor."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grader.judge.checks import assert_close, assert_equal
from grader.judge.student import Student


def fact(found: Any, key: str) -> Any:
    """An entry of what a probe reported, None where it is not there."""
    return found.get(key) if isinstance(found, dict) else None


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("The squares of all elements add up: 9 + 16, and then 144 more.")
def test_example_norm(student: Student) -> None:
    """Gradients 3 and 4 have the norm 5, and with a gradient of 12 the norm is 13."""
    three_four, twelve = torch.tensor([3.0, 4.0]), torch.tensor([[12.0]])
    norms = [student.run("norm", [three_four]), student.run("norm", [three_four, None, twelve])]
    assert_close(
        norms,
        [5.0, 13.0],
        what="the list of norms of [3, 4] and of [3, 4], None, [[12]]",
        rtol=1e-6,
        mistakes=lambda: {
            "The norms of the parameters are added up: 5 + 12 is 17. Their squares add up.": [
                5.0,
                17.0,
            ],
            "The square root is missing.": [25.0, 169.0],
            "That is the sum of all gradients, or their L1 norm.": [7.0, 19.0],
            "That is the largest element.": [4.0, 12.0],
            "That is the largest norm of any one parameter.": [5.0, 12.0],
        },
    )


@pytest.mark.place("initialize")
@pytest.mark.hint("The second layer is nested: model.modules() finds it.")
def test_example_ones(student: Student) -> None:
    """The scheme ones fills all weights with 1 and all biases with 0, in nested layers too."""
    assert_close(
        student.run("initialize", "ones"),
        {
            "0.weight": torch.ones(3, 2),
            "0.bias": torch.zeros(3),
            "1.1.weight": torch.ones(1, 3),
            "1.1.bias": torch.zeros(1),
        },
        what="the dict of parameters of the model",
    )


@pytest.mark.points(2)
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("The loss is w ** 2, its gradient 2 * w, and a step takes 0.25 * 2 * w from w.")
def test_example_training(student: Student) -> None:
    """With the loss w ** 2 and a rate of 0.25 the weight halves with every step, from 1."""
    found = student.run("train", weight=1.0, lr=0.25, epochs=3)
    assert_close(
        fact(found, "norms"),
        torch.tensor([[2.0], [1.0], [0.5]], dtype=torch.float64),
        what="the tensor of norms",
        mistakes=lambda: {
            "The gradients accumulate: clear them before each backward pass.": torch.tensor(
                [[2.0], [3.0], [2.5]], dtype=torch.float64
            ),
            "The weight does not change: is there a step of the optimizer?": torch.tensor(
                [[2.0], [2.0], [2.0]], dtype=torch.float64
            ),
            "There is one row for each epoch and one column for each batch.": torch.tensor(
                [[2.0, 1.0, 0.5]], dtype=torch.float64
            ),
        },
    )
    weight = torch.tensor([[0.125]], dtype=torch.float64)
    assert_close(fact(found, "weight"), weight, what="the weight after three steps")


@pytest.mark.place("diagnose")
@pytest.mark.hint("Only the first five norms count; any large one, or all small ones.")
def test_example_diagnoses(student: Student) -> None:
    """One norm of 2000 is exploding, norms of 1e-5 are vanishing, norms around 1 are healthy."""
    diagnose = student.function("diagnose")
    histories = [[1.0, 2000.0, 3.0], [1e-5, 2e-5, 1e-5], [1.0, 0.5, 1e-5]]
    assert_equal(
        [diagnose(torch.tensor(history)) for history in histories],
        ["exploding", "vanishing", "healthy"],
        what=f"the list of answers for {histories}",
    )


@pytest.mark.place("plot_gradient_norms")
@pytest.mark.hint(
    "A Figure, its one Axes, a line with a label for each history, a logarithmic y axis."
)
def test_example_figure(student: Student) -> None:
    """Two histories are two lines with their names as labels, on one logarithmic Axes."""
    histories = {"ones": torch.tensor([9.0, 4.0, 2.0]), "xavier_uniform": torch.tensor([1.0, 2.0])}
    found = student.run("plot", histories)
    assert fact(found, "axes") is not None, (
        f"plot_gradient_norms should return a matplotlib Figure, not a {fact(found, 'type')}."
    )
    assert_equal(fact(found, "axes"), 1, what="the number of Axes")
    assert_equal(fact(found, "scales"), ["log"], what="the list of the scales of the y axis")
    labels = fact(found, "labels")
    missing = [
        name for name in histories if not isinstance(labels, list) or name not in map(str, labels)
    ]
    assert not missing, f"There is no line with the label {missing[0]!r}."
