"""Small examples for the gradient-norm monitor."""

from __future__ import annotations

from typing import Any

import torch

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws, must_raise, promise
from grader.judge.student import Student


def fact(found: Any, key: str) -> Any:
    """An entry of a probe's report, or None if it is missing."""
    return found.get(key) if isinstance(found, dict) else None


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


@promise("gradient_norm", hint="The squares of all elements add up: 9 + 16, and then 144 more.")
def test_example_norm(student: Student) -> None:
    """Gradients 3 and 4 have the norm 5, and with a gradient of 12 the norm is 13."""
    three_four, twelve = torch.tensor([3.0, 4.0]), torch.tensor([[12.0]])
    norms = [student.run("norm", [three_four]), student.run("norm", [three_four, None, twelve])]
    assert_close(
        norms,
        [5.0, 13.0],
        what="the list of norms of [3, 4] and of [3, 4], None, [[12]]",
        rtol=1e-6,
    )
    infinite = student.run("norm", [torch.tensor([3.0, float("inf")])])
    assert_close(infinite, float("inf"), what="the norm of [3, inf]")


@promise("initialize", hint="The second layer is nested: model.modules() finds it.")
def test_example_ones(student: Student) -> None:
    """The scheme ones fills weights with 1 and biases with 0 in all linear layers, and in no others."""
    right = {"0.weight": torch.ones(3, 2), "0.bias": torch.zeros(3)}
    right |= {"1.0.weight": torch.ones(3), "1.0.bias": torch.full((3,), 0.5)}  # a LayerNorm
    right |= {"1.1.weight": torch.ones(1, 3), "1.1.bias": torch.zeros(1)}
    parameters = student.run("initialize", "ones")
    assert_close(parameters, right, what="the dict of parameters of the model")
    weight = student.run("initialize_layer", "ones")
    assert_close(weight, torch.ones(50, 400), what="the weight of a model that is a linear layer")


@promise(
    "initialize", hint="torch.nn.init.xavier_uniform_ and kaiming_normal_, with their defaults."
)
def test_example_schemes(student: Student) -> None:
    """A layer from 400 to 50 has weights up to sqrt(6 / 450) by Xavier, and with spread 0.0707 by Kaiming."""
    xavier, kaiming = (
        assert_tensor(student.run("initialize_layer", scheme), shape=(50, 400))
        for scheme in ("xavier_uniform", "kaiming_normal")
    )
    measured, right = [xavier.abs().max().item(), kaiming.std().item()], [0.11547, 0.070711]
    what = "the list of Xavier's largest weight and Kaiming's standard deviation"
    assert_close(measured, right, what=what, rtol=0.05, atol=0.0)


@promise(
    "initialize", hint="if scheme not in SCHEMES: raise ValueError(...), before anything else."
)
def test_example_unknown_scheme(student: Student) -> None:
    """The scheme orthogonal, which is not in SCHEMES, is a ValueError."""
    with must_raise(ValueError, mentions="scheme", call="initialize(model, 'orthogonal')"):
        student.run("initialize_layer", "orthogonal")


@promise(
    "train_with_monitor",
    points=2,
    hint="The loss is w ** 2, its gradient 2 * w, and a step takes 0.25 * 2 * w from w.",
)
def test_example_training(student: Student) -> None:
    """With the loss w ** 2 and a rate of 0.25 the weight halves with every step, from 1."""
    found = student.run("train", weight=1.0, lr=0.25, epochs=3)
    assert_close(fact(found, "norms"), column(2.0, 1.0, 0.5), what="the tensor of norms")
    assert_close(fact(found, "weight"), column(0.125), what="the weight after three steps")


@promise(
    "train_with_monitor", hint="Begin with: if epochs < 1, raise a ValueError that names epochs."
)
def test_example_no_epochs(student: Student) -> None:
    """Zero epochs are a ValueError."""
    laws.check_errors(student, student.probe("train"), {"epochs": [(1.0, 0.25, 0)]})


@promise(
    "train_with_monitor",
    points=2,
    hint="model.train(); for each batch: zero_grad, loss, backward, the norm, step.",
    after="test_example_training",
)
def test_example_training_order(student: Student) -> None:
    """Each norm is that of its own batch, before the step and in train mode, also for the first batch."""
    found = student.run("train", 1.0, 0.25, 2, clears=True, stale=5.0, rows=2)
    assert_close(
        fact(found, "norms"),
        column(2.0, 1.0),
        what="the tensor of norms where the optimizer clears gradients as it steps",
    )
    assert_equal(
        [fact(found, "modes"), fact(found, "passes")],
        [[True] * 3, 2],
        what="the list of model.training (in both steps and after them) and passes over the loader",
    )


@promise(
    "compare_initializations",
    hint="For each scheme: torch.manual_seed(seed), build, initialize, train with plain SGD, mean.",
)
def test_example_comparison(student: Student) -> None:
    """By the scheme ones the norms 2, 1 and 0.5, 0.25 of two epochs have the means 1.5 and 0.375."""
    found = student.run("compare")
    names, means = ["xavier_uniform", "kaiming_normal", "ones"], column(1.5, 0.375)[:, 0]
    assert_equal(fact(found, "names"), names, what="the list of schemes, in the order of SCHEMES")
    assert_close(fact(found, "ones"), means, what="the means for ones")
    assert fact(found, "draws") == 1, (
        "build_model draws other numbers for each scheme: seed before every one."
    )


@promise("diagnose", hint="Only the first five norms count; any large one, or all small ones.")
def test_example_diagnoses(student: Student) -> None:
    """One norm of 2000 is exploding, norms of 1e-5 are vanishing, norms around 1 are healthy."""
    diagnose = student.function("diagnose")
    nan, late = [1.0, float("nan"), 1.0], [1.0] * 5 + [2000.0]
    histories = [[1.0, 2000.0, 3.0], [1e-5, 2e-5, 1e-5], [1.0, 0.5, 1e-5], nan, late]
    right = ["exploding", "vanishing", "healthy", "exploding", "healthy"]
    assert_equal(
        [diagnose(torch.tensor(history)) for history in histories],
        right,
        what=f"the list of answers for {histories}",
    )


@promise(
    "plot_gradient_norms",
    hint="ax.plot(range(1, n + 1), norms, label=name) for each, set_yscale, legend.",
)
def test_example_figure(student: Student) -> None:
    """Two histories are two lines with their names as labels, on one logarithmic Axes."""
    histories = {"ones": torch.tensor([9.0, 4.0, 2.0]), "xavier_uniform": torch.tensor([1.0, 2.0])}
    figure = laws.figure_of(student, "plot_gradient_norms", histories)
    laws.check_axes(figure, y_scale="log", legend=list(histories))
    x = laws.lines_of(figure, ["ones"])["ones"][:, 0]
    assert_close(x, column(1.0, 2.0, 3.0)[:, 0], what="the x of the line 'ones'")
    laws.check_leaves_pyplot(student, "plot_gradient_norms", histories)
