"""What the gradient-norm monitor promises, sentence by sentence."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, must_raise
from grader.judge.student import Student

Batch = tuple[Tensor, Tensor]
State = dict[str, Tensor]

SCHEMES = ["xavier_uniform", "kaiming_normal", "ones"]
INF, NAN = math.inf, math.nan
STALE = 7.0  # what the probe fills gradients with

# The linear layers of the probe's Network; what they are called is what the student is told.
LINEAR = ["first", "block.0", "block.1.1", "listed.0.deep"]
SUBCLASSES = ["special", "attention.out_proj"]
# And everything else in it, with its class.
OTHERS = {
    "convolution": "of an nn.Conv2d",
    "convolution1d": "of an nn.Conv1d",
    "layer_norm": "of an nn.LayerNorm",
    "batch_norm": "of an nn.BatchNorm1d",
    "embedding": "of an nn.Embedding",
    "bilinear": "of an nn.Bilinear",
    "attention.in_proj": "of an nn.MultiheadAttention",
    "weight": "a parameter of the model itself",
    "bias": "a parameter of the model itself",
}


# An entry of what a probe reported, None where it is not there: the report may be anything.
fact = functools.partial(entry, default=None)

# --- gradient_norm -------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Flatten all gradients, put them into one vector, and take its L2 norm.")
def test_gradient_norm(student: Student) -> None:
    """The norm is the L2 norm of all gradients as one vector."""
    shapes: list[list[tuple[int, ...]]] = [[(3, 4), (), (5,)], [(2, 3, 2), (4,)], [(6,)]]
    for dtype, rtol, atol in [(torch.float64, None, None), (torch.float32, 1.3e-6, 1e-5)]:
        given = [[torch.randn(shape, dtype=dtype) for shape in each] for each in shapes]
        values = [[torch.randn(shape, dtype=dtype) for shape in each] for each in shapes]
        answers = [
            fact(student.run("norm", value, gradients), "norm")
            for value, gradients in zip(values, given, strict=True)
        ]
        mistakes = {
            told: [measure(each) for each in given] for told, measure in WRONG_NORMS.items()
        }
        mistakes["Your norm is that of the parameters themselves, not of their .grad."] = [
            norm_of(each) for each in values
        ]
        assert_close(
            answers,
            [norm_of(each) for each in given],
            what=f"the list of norms ({str(dtype).removeprefix('torch.')} gradients)",
            mistakes=mistakes,
            rtol=rtol,
            atol=atol,
        )
    # Their squares are beyond float32, and within float64.
    huge = torch.randn(4, dtype=torch.float64) * 1e25
    assert_close(
        fact(student.run("norm", [torch.ones(4).double()], [huge]), "norm"),
        norm_of([huge]),
        what="the norm of float64 gradients of about 1e25",
        mistakes=lambda: {
            "The norm is infinite: the gradients are turned into float32, keep their dtype.": INF,
        },
    )


def norm_of(tensors: list[Tensor]) -> float:
    return math.sqrt(sum(float(each.double().square().sum()) for each in tensors))


def flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([each.double().flatten() for each in tensors])


WRONG_NORMS: dict[str, Callable[[list[Tensor]], float]] = {
    "Your norm is the sum of the norms of the parameters: their squares add up, not they "
    "themselves.": lambda g: sum(norm_of([each]) for each in g),
    "Your norm is the mean of the norms of the parameters.": lambda g: (
        sum(norm_of([each]) for each in g) / len(g)
    ),
    "Your norm is the norm of the sums: each gradient is summed up before it is squared.": (
        lambda g: norm_of([each.sum() for each in g])
    ),
    "Your norm is the sum of all gradients, without squares.": lambda g: float(flat(g).sum()),
    "Your norm is squared: the square root is missing.": lambda g: norm_of(g) ** 2,
    "Your norm is the largest norm of any one parameter.": lambda g: max(
        norm_of([each]) for each in g
    ),
    "Your norm is the largest element: that is the maximum norm, not the L2 norm.": lambda g: float(
        flat(g).abs().max()
    ),
    "Your norm is the L1 norm: the sum of the magnitudes.": lambda g: float(flat(g).abs().sum()),
    "Your norm is the mean magnitude of the gradients' elements.": lambda g: float(
        flat(g).abs().mean()
    ),
    "Your norm is the root mean square: the squares are to be summed, not averaged.": lambda g: (
        float(flat(g).square().mean().sqrt())
    ),
    "Your norm is the mean of the squares.": lambda g: float(flat(g).square().mean()),
    "Your norm is the square root of the norm: the root is taken twice.": lambda g: math.sqrt(
        norm_of(g)
    ),
    "Your norm is the square root of the sum of the norms, which are not squared.": lambda g: (
        math.sqrt(sum(norm_of([each]) for each in g))
    ),
    "Your norm is that of the last parameter alone.": lambda g: norm_of(g[-1:]),
    "Your norm is that of the first parameter alone.": lambda g: norm_of(g[:1]),
    "Your norm is that of the weights alone: the gradients of vectors, such as biases, "
    "are missing.": lambda g: norm_of([each for each in g if each.dim() > 1]),
    "Your norm is the standard deviation of the gradients.": lambda g: float(flat(g).std()),
}


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Skip a parameter whose .grad is None; think of a model that has no gradients.")
def test_gradient_norm_of_missing_gradients(student: Student) -> None:
    """A gradient that is None adds nothing, and without any gradient the norm is 0.0."""
    values = [torch.ones(2), torch.ones(3), torch.ones(2, 2)]
    # The last one is the largest, so that no slip looks like another one.
    first, last = torch.rand(2, dtype=torch.float64), torch.rand(2, 2, dtype=torch.float64) + 2
    gradients = [first, None, last]
    norm = fact(student.run("norm", [each.double() for each in values], gradients), "norm")
    assert_close(
        norm,
        norm_of([first, last]),
        what="the norm of three gradients of which the second is None",
        mistakes=lambda: {
            "The norm ends at the first parameter without a gradient: go on behind it.": norm_of(
                [first]
            ),
            "The norm is the largest norm of any one parameter.": norm_of([last]),
            "The norm is 0.0 as soon as one gradient is None: only that one adds nothing.": 0.0,
            "A gradient that is None counts as one full of ones.": norm_of(
                [first, torch.ones(3), last]
            ),
        },
    )
    norm = fact(student.run("norm", values, [None, None, None]), "norm")
    assert_close(norm, 0.0, what="the norm of three gradients that are all None")
    norm = fact(student.run("norm", [], []), "norm")
    assert_close(norm, 0.0, what="the norm of no parameters")
    given = [first.float(), last.float()]
    norm = fact(student.run("norm", values[::2], given, form="frozen"), "norm")
    assert_close(
        norm,
        norm_of([first, last]),
        what="the norm of parameters that are frozen and still have gradients",
        rtol=1.3e-6,
        atol=1e-5,
        mistakes=lambda: {
            "The gradients of frozen parameters are left out: ask whether .grad is None, not "
            "whether requires_grad is True.": 0.0,
        },
    )


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("A generator can be iterated once, and has no length: go through it once.")
def test_gradient_norm_of_a_generator(student: Student) -> None:
    """The parameters may come from a generator, as those of model.parameters() do."""
    gradients: list[Tensor | None]
    # The first one is the larger, so that no slip looks like another one.
    gradients = [torch.rand(2, dtype=torch.float64) + 2, torch.rand(3, 2, dtype=torch.float64)]
    present = [each for each in gradients if each is not None]
    values = [torch.ones_like(each) for each in present]
    answer = run_generator(student, values, gradients)
    assert_close(
        fact(answer, "norm"),
        norm_of(present),
        what="the norm of parameters from a generator",
        mistakes=lambda: {
            "With a generator your norm is 0.0: it was iterated before, and is used up then. "
            "Iterate it once, or make a list of it first.": 0.0,
            "With a generator the first parameter is lost: it was taken out before the sum "
            "begins. Make a list of the generator first.": norm_of(present[1:]),
            "The norm is the largest norm of any one parameter.": norm_of(present[:1]),
        },
    )


def run_generator(student: Student, values: list[Tensor], gradients: list[Tensor | None]) -> Any:
    try:
        return student.run("norm", values, gradients, form="generator")
    except TypeError as error:
        if "generator" not in str(error):
            raise
        raise AssertionError(
            f"With a generator of parameters your code raised {error}. A generator has no length "
            "and no indices; iterate it, or make a list of it first."
        ) from None


@pytest.mark.points(2)
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Do nothing about infinity and NaN: the arithmetic carries them through.")
def test_gradient_norm_non_finite(student: Student) -> None:
    """Infinite and NaN gradients make the norm infinite and NaN."""
    for bad, expected in [(INF, INF), (-INF, INF), (NAN, NAN)]:
        spoiled, sound = torch.randn(3, 2, dtype=torch.float64), torch.randn(2).double()
        spoiled[1, 0] = bad
        values = [torch.ones(3, 2).double(), torch.ones(2).double()]
        norm = fact(student.run("norm", values, [spoiled, sound]), "norm")
        assert not (isinstance(norm, float) and math.isfinite(norm)), (
            f"A gradient of {bad} is hidden: the norm is {norm:.4g}, it should be {expected}."
        )
        assert_close(norm, expected, what=f"the norm with a gradient of {bad}")


@pytest.mark.requires("test_gradient_norm")
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Compute with new tensors; functions that end in an underscore work in place.")
def test_gradient_norm_changes_nothing(student: Student) -> None:
    """The gradients stay as they are, also where they are None, infinite or NaN."""
    first, last = torch.randn(3, 2).double() + 3, torch.randn(2).double() + 3
    norm = norm_of([first, last])
    values = [torch.ones(3, 2).double(), torch.ones(3).double(), torch.ones(2).double()]
    after = fact(student.run("norm", values, [first, None, last]), "gradients")
    assert_close(
        after,
        [first, None, last],
        what="the list of gradients after gradient_norm",
        mistakes=lambda: {
            "A gradient that was None is not None any more: it was filled with zeros.": [
                first,
                torch.zeros(3).double(),
                last,
            ],
            "The gradients have changed: they are squared in place.": [first**2, None, last**2],
            "The gradients are cleared.": [None, None, None],
            "The gradients are set to zero.": [first * 0, None, last * 0],
            "The gradients are clipped to norm 1: clip_grad_norm_ changes them.": [
                first / (norm + 1e-6),
                None,
                last / (norm + 1e-6),
            ],
            "The gradients are divided by their norm.": [first / norm, None, last / norm],
        },
    )
    for bad in (INF, NAN):
        spoiled, sound = torch.tensor([1.0, bad]), torch.tensor([2.0, 3.0])
        after = fact(student.run("norm", [torch.ones(2)] * 2, [spoiled, sound]), "gradients")
        assert_close(
            after,
            [spoiled, sound],
            what=f"the list of gradients [1, {bad}] and [2, 3] after gradient_norm",
            mistakes=lambda: {
                "All gradients are NaN after gradient_norm, where one element was not finite: "
                "clip_grad_norm_ multiplies by max_norm / norm, even with an infinite max_norm.": [
                    spoiled * NAN,
                    sound * NAN,
                ],
                "Elements that are not finite are replaced in the gradients themselves.": [
                    spoiled.nan_to_num(),
                    sound,
                ],
                "Elements that are not finite are set to 0 in the gradients themselves.": [
                    spoiled.nan_to_num(0.0, 0.0, 0.0),
                    sound,
                ],
            },
        )


# --- initialize ----------------------------------------------------------------------------------


def initialized(student: Student) -> Any:
    """What initialize makes of the probe's Network with each scheme, which several tests look at."""
    return student.once("network", lambda: run_initialize(student, "network", SCHEMES))


def check_initializes(student: Student) -> None:
    """That initialize fills the first layer: until then, what it leaves alone is no merit."""
    weight = fact(initialized(student), "ones", "after", "values", "first.weight")
    assert same(weight, torch.ones(3, 4)), (
        'initialize(model, "ones") does not fill the weight of the first nn.Linear with ones yet: '
        "that comes first."
    )


def run_initialize(
    student: Student,
    model: str,
    schemes: list[str],
    facts: tuple[str, ...] = ("values", "training"),
    **options: Any,
) -> Any:
    return student.run("initialize", model, schemes, facts=list(facts), **options)


@pytest.mark.points(5)
@pytest.mark.place("initialize")
@pytest.mark.hint(
    "model.modules() yields every module, however deep; fill those that are nn.Linear."
)
def test_initialize_every_linear(student: Student) -> None:
    """Every nn.Linear is initialized, however deep it is nested."""
    names = [f"{layer}.weight" for layer in LINEAR]
    reports = initialized(student)
    for scheme in reversed(SCHEMES):
        found = fact(reports, scheme)
        before, after = weights(found, "before", names), weights(found, "after", names)
        kept = [name for name in names if torch.equal(before[name], after[name])]
        assert kept != names, (
            f'After initialize(model, "{scheme}") the weights of several linear layers are all '
            "unchanged: fill those of the model that you are given, in place."
        )
        assert "first.weight" not in kept, (
            f'After initialize(model, "{scheme}") the weight first.weight is unchanged: it belongs '
            "to the first of several linear layers, all of which are to be initialized."
        )
        assert not kept, (
            f'After initialize(model, "{scheme}") the weight {kept[0]} is unchanged: it belongs to '
            "a linear layer that is nested in other modules. Look at all modules, not only at the "
            "model's direct children."
        )
        if scheme == "ones":
            expected = {name: torch.ones_like(before[name]) for name in names}
            assert_close(after, expected, what='the dict of weights after the scheme "ones"')


@pytest.mark.place("initialize")
@pytest.mark.hint("model.modules() begins with the model itself, model.children() does not.")
def test_initialize_the_model_itself(student: Student) -> None:
    """A model that is itself an nn.Linear is initialized."""
    found = fact(run_initialize(student, "linear", ["ones"]), "ones")
    before = weights(found, "before", ["weight", "bias"])
    assert_close(
        weights(found, "after", ["weight", "bias"]),
        {"weight": torch.ones(3, 4), "bias": torch.zeros(3)},
        what='the dict of parameters of an nn.Linear after initialize(linear, "ones")',
        mistakes=lambda: {
            "A model that is itself an nn.Linear is unchanged: only what is in it was looked "
            "at.": before,
            "The bias is unchanged, it should be zero.": {
                "weight": torch.ones(3, 4),
                "bias": before["bias"],
            },
        },
    )


@pytest.mark.place("initialize")
@pytest.mark.hint(
    "isinstance(module, nn.Linear) sees subclasses, type(module) == nn.Linear does not."
)
def test_initialize_subclasses(student: Student) -> None:
    """An instance of a subclass of nn.Linear is initialized, too."""
    names = [f"{layer}.weight" for layer in SUBCLASSES]
    found = fact(initialized(student), "ones")
    before, after = weights(found, "before", names), weights(found, "after", names)
    assert_close(
        after,
        {name: torch.ones_like(before[name]) for name in names},
        what='the dict of weights of subclasses of nn.Linear after the scheme "ones"',
        mistakes=lambda: {
            "The weights of subclasses of nn.Linear are unchanged: a subclass is an nn.Linear, "
            "too, which isinstance sees and type() == does not.": before,
        },
    )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.zeros_(module.bias), but only where module.bias is not None.")
def test_initialize_biases(student: Student) -> None:
    """Biases become zero under every scheme, and a linear layer may have none."""
    names = [f"{layer}.bias" for layer in LINEAR]
    reports = initialized(student)
    for scheme in SCHEMES:
        found = fact(reports, scheme)
        before, after = weights(found, "before", names), weights(found, "after", names)
        assert_close(
            after,
            {name: torch.zeros_like(before[name]) for name in names},
            what=f'the dict of biases after the scheme "{scheme}"',
            mistakes=lambda: {
                f'The biases are unchanged after initialize(model, "{scheme}").': before,
                "The biases are filled with ones: only the weights follow the scheme, a bias is "
                "zero.": {name: torch.ones_like(before[name]) for name in names},
            },
        )
    found = run_without_bias(student)
    names = ["0.weight", "1.weight", "1.bias"]
    before = weights(found, "before", names)
    ones = {"0.weight": torch.ones(3, 4), "1.weight": torch.ones(2, 3), "1.bias": torch.zeros(2)}
    assert_close(
        weights(found, "after", names),
        ones,
        what="the dict of parameters of a model whose first linear layer has no bias",
        mistakes=lambda: {
            "The weight of a linear layer without a bias is unchanged: it is initialized whether "
            "there is a bias or not.": {**ones, "0.weight": before["0.weight"]},
        },
    )


def run_without_bias(student: Student) -> Any:
    try:
        return fact(run_initialize(student, "without bias", ["ones"]), "ones")
    except (AttributeError, TypeError, ValueError) as error:
        raise AssertionError(
            f"With nn.Linear(..., bias=False) your code raised {error}. The bias of such a layer "
            "is None; skip it."
        ) from None


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("Ask for nn.Linear, not for what has a weight, a bias or two dimensions.")
def test_initialize_leaves_the_rest(student: Student) -> None:
    """Other layers' parameters and buffers stay as they are, and so does the training mode."""
    check_initializes(student)
    reports = initialized(student)
    for scheme in SCHEMES:
        found = fact(reports, scheme)
        before, after = fact(found, "before", "values"), fact(found, "after", "values")
        for other, owner in OTHERS.items():
            for name in before if isinstance(before, dict) else []:
                if str(name).startswith(other):
                    assert same(fact(after, name), before[name]), (
                        f'initialize(model, "{scheme}") changed {name}, which is {owner}; only an '
                        "nn.Linear is to be initialized."
                    )
        assert_equal(
            fact(found, "after", "training"),
            fact(found, "before", "training"),
            what="the dict of training modes after initialize",
        )


@pytest.mark.place("initialize")
@pytest.mark.hint("The functions of torch.nn.init fill a parameter in place; call nothing else.")
def test_initialize_in_place(student: Student) -> None:
    """The parameters stay the same objects, with their .grad and requires_grad."""
    check_initializes(student)
    frozen = ["first.weight", "first.bias", "block.0.weight"]
    facts = ("values", "requires_grad", "gradients")
    reports = run_initialize(student, "network", SCHEMES, facts, frozen=frozen)
    for scheme in SCHEMES:
        found = fact(reports, scheme)
        same_objects = fact(found, "same")
        for name in same_objects if isinstance(same_objects, dict) else []:
            assert same_objects[name], (
                f"After initialize {name} is not the same object as before, so that an optimizer "
                "would go on with the old one: fill the parameter in place."
            )
        flags, gradients = fact(found, "after", "requires_grad"), fact(found, "after", "gradients")
        assert isinstance(flags, dict) and isinstance(gradients, dict)
        assert_equal(
            flags,
            {name: name not in frozen for name in flags},
            what="the dict of requires_grad after initialize",
        )
        for name, gradient in gradients.items():
            assert isinstance(gradient, Tensor) and bool((gradient == STALE).all()), (
                f"initialize changed {name}.grad: it fills weights and biases, and touches no gradient."
            )
        before, after = weights(found, "before", frozen), weights(found, "after", frozen)
        for name in frozen:
            assert not torch.equal(before[name], after[name]), (
                f"{name}, which is frozen (requires_grad=False), is unchanged: every nn.Linear is to "
                "be initialized, whether it learns or not."
            )


class Spread:
    """How the entries of a weight are spread: the shape of the distribution, and its width."""

    def __init__(self, weight: Tensor) -> None:
        entries = weight.double()
        self.mean = float(entries.mean())
        self.std = float(entries.std())
        self.largest = float(entries.abs().max())

    def is_about(self, shape: str, std: float) -> bool:
        """Whether 10000 entries are so: each margin is six standard errors wide, or more."""
        ratio = self.largest / std
        shaped = ratio < 1.76 if shape == "uniform" else ratio > 2.6
        return shaped and abs(self.std / std - 1) < 0.045 and abs(self.mean) < 0.07 * std


def told_spread(spread: Spread) -> str:
    """Which known initialization of nn.Linear(50, 200) a spread is that of."""
    known = {
        'kaiming_normal_ with mode="fan_out"; the default is fan_in': (
            "normal",
            math.sqrt(2 / 200),
        ),
        'kaiming_normal_ with nonlinearity="linear", without the gain of sqrt(2); leave the '
        "nonlinearity at its default": ("normal", math.sqrt(1 / 50)),
        'kaiming_normal_ with nonlinearity="tanh"': ("normal", 5 / 3 / math.sqrt(50)),
        "kaiming_normal_": ("normal", math.sqrt(2 / 50)),
        "kaiming_uniform_": ("uniform", math.sqrt(2 / 50)),
        'kaiming_uniform_ with mode="fan_out"': ("uniform", math.sqrt(2 / 200)),
        "xavier_normal_": ("normal", math.sqrt(2 / 250)),
        "xavier_uniform_": ("uniform", math.sqrt(2 / 250)),
        "xavier_uniform_ with a gain of sqrt(2), that of ReLU; leave the gain at its default": (
            "uniform",
            math.sqrt(4 / 250),
        ),
        "xavier_uniform_ with a gain of 5/3, that of tanh; leave the gain at its default": (
            "uniform",
            5 / 3 * math.sqrt(2 / 250),
        ),
        "nn.Linear's own initialization": ("uniform", math.sqrt(1 / 150)),
        "normal_ with mean 0 and standard deviation 1": ("normal", 1.0),
        "normal_ with standard deviation 0.01": ("normal", 0.01),
        "normal_ with standard deviation 0.02": ("normal", 0.02),
    }
    for name, (shape, std) in known.items():
        if spread.is_about(shape, std):
            return f" That looks like {name}."
    if abs(spread.mean - 2.5) < 0.1:
        return " That is how it was before."
    return ""


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.xavier_uniform_(module.weight), with no other argument.")
def test_initialize_xavier_uniform(student: Student) -> None:
    """The scheme xavier_uniform is uniform within sqrt(6 / (fan_in + fan_out))."""
    bound = math.sqrt(6 / 250)
    spread = Spread(wide_weight(student, "xavier_uniform"))
    assert spread.is_about("uniform", bound / math.sqrt(3)), (
        'After initialize(nn.Linear(50, 200), "xavier_uniform") the weight should be uniform '
        f"within ±{bound:.4f}, with standard deviation {bound / math.sqrt(3):.4f}; yours has mean "
        f"{spread.mean:.4f}, standard deviation {spread.std:.4f} and greatest magnitude "
        f"{spread.largest:.4f}.{told_spread(spread)}"
    )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.kaiming_normal_(module.weight), with no other argument.")
def test_initialize_kaiming_normal(student: Student) -> None:
    """The scheme kaiming_normal is normal with standard deviation sqrt(2 / fan_in)."""
    std = math.sqrt(2 / 50)
    spread = Spread(wide_weight(student, "kaiming_normal"))
    assert spread.is_about("normal", std), (
        'After initialize(nn.Linear(50, 200), "kaiming_normal") the weight should be normal with '
        f"mean 0 and standard deviation {std:.4f}; yours has mean {spread.mean:.4f}, standard "
        f"deviation {spread.std:.4f} and greatest magnitude {spread.largest:.4f}."
        f"{told_spread(spread)}"
    )


def wide_weight(student: Student, scheme: str) -> Tensor:
    found = fact(run_initialize(student, "wide", [scheme]), scheme)
    return weights(found, "after", ["0.weight"], {"0.weight": (200, 50)})["0.weight"]


@pytest.mark.place("initialize")
@pytest.mark.hint("Set no seed in initialize; compare_initializations does.")
def test_initialize_draws_anew(student: Student) -> None:
    """Each call of initialize draws other random weights."""
    for scheme in SCHEMES[:2]:
        found = student.run("initialize_twice", scheme)
        pair = found if isinstance(found, list) and len(found) == 2 else [None, None]
        first, second = (assert_tensor(each, what="the weight") for each in pair)
        assert not torch.equal(first, second), (
            f'Two calls of initialize(layer, "{scheme}") give the same weight: is a seed set in '
            "initialize? It may only draw from torch's random state as it is."
        )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("Begin with: if scheme not in SCHEMES, raise a ValueError that tells both.")
def test_initialize_unknown_scheme(student: Student) -> None:
    """An unknown scheme is a ValueError that names scheme and the known ones."""
    check_initializes(student)
    for scheme, model in [
        ("xavier", "without bias"),
        ("orthogonal", "without bias"),
        ("xavier_normal", "without bias"),
        ("kaiming", "without linear"),
    ]:
        call = f'initialize(model, "{scheme}")' + (
            " with a model without linear layers" if model == "without linear" else ""
        )
        with must_raise(ValueError, mentions="scheme", call=call):
            student.run("refuse", model, scheme)
    for known in SCHEMES:
        with must_raise(ValueError, mentions=known, call='initialize(model, "orthogonal")'):
            student.run("refuse", "without bias", "orthogonal")


@pytest.mark.place("initialize")
@pytest.mark.hint("Check the scheme before the loop over the modules begins.")
def test_initialize_refuses_before_changes(student: Student) -> None:
    """An unknown scheme is refused before anything in the model has changed."""
    check_initializes(student)
    reports = run_initialize(student, "network", ["orthogonal"], catching=True)
    found = fact(reports, "orthogonal")
    assert fact(found, "raised") is not None, (
        'initialize(model, "orthogonal") returned normally, it should raise a ValueError.'
    )
    before, after = fact(found, "before", "values"), fact(found, "after", "values")
    for name in before if isinstance(before, dict) else []:
        assert same(fact(after, name), before[name]), (
            f'initialize(model, "orthogonal") has changed {name} before it raised: check the '
            "scheme first."
        )


def same(actual: Any, expected: Any) -> bool:
    """Whether both are tensors and equal; torch.equal raises where their dtypes differ."""
    if not (isinstance(actual, Tensor) and isinstance(expected, Tensor)):
        return False
    return actual.dtype == expected.dtype and torch.equal(actual, expected)


def weights(
    found: Any, when: str, names: list[str], shapes: dict[str, tuple[int, ...]] | None = None
) -> State:
    """The named entries of a model's state dict, which a student may have replaced."""
    values = fact(found, when, "values")
    return {
        name: assert_tensor(
            fact(values, name),
            shape=(shapes or {}).get(name),
            dtype=torch.float32,
            what=f"the {name} {when} initialize",
        )
        for name in names
    }


# --- train_with_monitor --------------------------------------------------------------------------

# Models as the probe builds them, for the judge's own training.
MODELS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
    "batch": lambda: nn.Sequential(
        nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4), nn.Tanh()), nn.Linear(4, 2)
    ),
    "line": lambda: nn.Linear(1, 1),
    "linear": lambda: nn.Sequential(nn.Linear(3, 2)),
    "scaled": lambda: Scaled(),
}
LR = 0.05
SGD = {"lr": LR}
MOMENTUM = {"lr": LR, "momentum": 0.9}


class Scaled(nn.Module):
    """The probe's Scaled: building draws `scale`, initialize leaves it alone."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3))
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(x * self.scale)
        return outputs


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - 2 * targets) ** 2).mean()


def new_state(model: str, dtype: torch.dtype = torch.float64) -> State:
    return dict(MODELS[model]().to(dtype).state_dict())


def new_batches(count: int, dtype: torch.dtype = torch.float64, size: int = 4) -> list[Batch]:
    """Batches of different sizes, with targets so large that the gradients' norm is above 1.

    The targets differ so much that the first, last, largest and smallest norm of an epoch and its
    median belong to different batches, where there are five.
    """
    return [
        (
            torch.randn(size + i, 3, dtype=dtype),
            torch.randn(size + i, 2, dtype=dtype) + 3 * target,
        )
        for i, target in zip(range(count), (5, 2, 7, 4, 3), strict=False)
    ]


def trained(
    model: str,
    state: State,
    passes: list[list[Batch]],
    *,
    lr: float = LR,
    momentum: float = 0.0,
    decay: float = 0.0,
    rule: str = "sgd",
    training: bool = True,
    stale: float | None = None,
    slip: str = "",
) -> tuple[Tensor, State]:
    """Train as promised, or with a slip: the norms `(epochs, batches)` and the final state.

    By hand and without torch.optim, whose import takes longer than all of the tests together.
    """
    network = MODELS[model]().to(next(iter(state.values())).dtype)
    network.load_state_dict(state)
    network.train(training)
    parameters = list(network.parameters())
    gradients = [torch.full_like(each, stale or 0.0) for each in parameters]
    speeds = [torch.zeros_like(each) for each in parameters]
    squares = [torch.zeros_like(each) for each in parameters]
    rows: list[list[float]] = []
    steps = 0
    for batches in passes:
        rows.append([])
        if slip == "accumulates within an epoch":
            gradients = [torch.zeros_like(each) for each in parameters]
        for index, (inputs, targets) in enumerate(batches):
            if slip == "leaves out the last batch" and index == len(batches) - 1:
                rows[-1].append(0.0)
                continue
            outputs = network(inputs)
            loss = loss_of(targets, outputs) if slip == "swaps" else loss_of(outputs, targets)
            if slip == "divides":
                loss = loss / len(batches)
            if slip == "multiplies":
                loss = loss * len(inputs)
            fresh = list(torch.autograd.grad(loss, parameters))
            if slip.startswith("accumulates"):
                fresh = [old + new for old, new in zip(gradients, fresh, strict=True)]
            if slip == "shows the batch before":
                rows[-1].append(norm_of(gradients))
            length = norm_of(fresh)
            if slip == "skips entirely" and not math.isfinite(length):
                rows[-1].append(0.0)
                continue
            gradients = fresh
            if slip == "clips first":
                gradients = [each * min(1.0, 1 / (length + 1e-6)) for each in gradients]
            if slip == "records the loss":
                rows[-1].append(float(loss))
            elif slip != "shows the batch before":
                rows[-1].append(norm_of(gradients))
            if slip == "clips":
                gradients = [each * min(1.0, 1 / (length + 1e-6)) for each in gradients]
            if (slip == "skips" and not math.isfinite(length)) or (
                slip == "steps once an epoch" and index < len(batches) - 1
            ):
                continue
            steps += 1
            updates = list(zip(parameters, gradients, speeds, squares, strict=True))
            with torch.no_grad():
                for p, g, v, s in updates * (2 if slip == "steps twice" else 1):
                    if rule == "robust":
                        p.mul_(0.9).sub_(lr * g.nan_to_num(0.0, 0.0, 0.0))
                    elif rule == "adam":
                        v.mul_(0.9).add_(0.1 * g)
                        s.mul_(0.999).add_(0.001 * g * g)
                        p.sub_(lr * v / (1 - 0.9**steps) / ((s / (1 - 0.999**steps)).sqrt() + 1e-8))
                    else:
                        v.mul_(momentum).add_(g + decay * p)
                        p.sub_(lr * v)
    return torch.tensor(rows, dtype=torch.float64), {
        name: each.detach() for name, each in network.state_dict().items()
    }


@pytest.mark.points(5)
@pytest.mark.requires("test_gradient_norm")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint(
    "For each batch: clear the gradients, forward, loss, backward, record the norm, step."
)
def test_norms_of_every_batch(student: Student) -> None:
    """The norm of every batch is recorded, in float64, in the order of epochs and batches."""
    state, batches = new_state("plain"), new_batches(2)
    passes = [batches] * 3
    norms = fact(student.run("train", "plain", state, [batches], 3, options=SGD), "norms")
    expected, _ = trained("plain", state, passes)

    def slipped(slip: str) -> Callable[[], Tensor]:
        return lambda: trained("plain", state, passes, slip=slip)[0]

    assert_close(
        norms,
        expected,
        what="the tensor of norms of three epochs with two batches",
        mistakes=lambda: {
            "Your gradients accumulate from batch to batch: clear them before each backward "
            "pass.": slipped("accumulates"),
            "Your gradients accumulate within an epoch: clear them for each batch, not once an "
            "epoch.": slipped("accumulates within an epoch"),
            "All norms are 0: the norm is taken before the backward pass, or after the gradients "
            "were cleared.": torch.zeros_like(expected),
            "Each norm is that of the batch before: take it after this batch's backward "
            "pass.": slipped("shows the batch before"),
            "There is one norm an epoch, the mean over its batches; promised is one for each "
            "batch.": expected.mean(dim=1),
            "There is one norm an epoch, the sum over its batches; promised is one for each "
            "batch.": expected.sum(dim=1),
            "There is one norm an epoch, that of its last batch; promised is one for each "
            "batch.": expected[:, -1],
            "Every norm of an epoch is that of its last batch: record one for each batch.": (
                expected[:, -1:].expand_as(expected)
            ),
            "Your norms are a running mean over the batches of the epoch so far.": (
                expected.cumsum(dim=1) / torch.arange(1, 3)
            ),
            "Your norms are a running sum over the batches of the epoch so far.": (
                expected.cumsum(dim=1)
            ),
            "Your norms are the transpose: epochs are the rows, batches the columns.": expected.T,
            "The gradients are clipped to norm 1 before the step: only watch them.": (
                slipped("clips")
            ),
            "The norms are those of gradients clipped to norm 1: only watch them.": (
                slipped("clips first")
            ),
            "The model never learns: the norms are those of its first parameters in every epoch. "
            "Is there a step of the optimizer, and does it hold this model's parameters?": (
                lambda: trained("plain", state, passes, lr=0.0)[0]
            ),
            "The model never learns, and its gradients accumulate: does the optimizer hold the "
            "parameters of the model that is trained, or those of a copy?": lambda: trained(
                "plain", state, passes, lr=0.0, slip="accumulates"
            )[0],
            "The optimizer steps once an epoch: it should for each batch.": (
                slipped("steps once an epoch")
            ),
            "The loss gets its arguments in the wrong order: it is loss_fn(outputs, targets).": (
                slipped("swaps")
            ),
            "The loss is divided by the number of batches.": slipped("divides"),
            "The loss is multiplied by the size of the batch.": slipped("multiplies"),
            "The optimizer steps twice for each batch.": slipped("steps twice"),
            "The last batch of each epoch is left out.": slipped("leaves out the last batch"),
            "Your norms are the values of the loss.": slipped("records the loss"),
            "After the first epoch all norms are 0: the loader has to be iterated again in each "
            "epoch, an iterator is used up after one.": first_rows(expected, 1),
            "The norms of the last epoch are 0: is it one epoch too few?": first_rows(expected, 2),
        },
    )
    single, singles = new_state("plain", torch.float32), new_batches(2, torch.float32)
    norms = fact(student.run("train", "plain", single, [singles], 2, options=SGD), "norms")
    assert_close(
        norms,
        trained("plain", single, [singles] * 2)[0],
        what="the tensor of norms of a float32 model",
        rtol=1e-4,
        atol=1e-5,
    )


def check_trains(found: Any, state: State) -> None:
    """That train_with_monitor trains: until then, what it leaves alone or refuses is no merit."""
    after = fact(found, "state")
    trained = [name for name in state if isinstance(fact(after, name), Tensor)]
    assert isinstance(fact(found, "norms"), Tensor), "train_with_monitor returns no tensor yet."
    assert trained and not any(same(after[name], state[name]) for name in trained), (
        "train_with_monitor does not train the model yet: that comes first."
    )


def first_rows(norms: Tensor, count: int) -> Tensor:
    """The norms with zeros behind the first rows."""
    kept = norms.clone()
    kept[count:] = 0.0
    return kept


@pytest.mark.points(3)
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint(
    "Each batch is one step of the given optimizer, on this model, with its gradient."
)
def test_training(student: Student) -> None:
    """The model itself is trained, one step of the optimizer a batch, by the batch's gradient."""
    state, batches = new_state("plain"), new_batches(3)
    passes = [batches] * 2
    found = student.run("train", "plain", state, [batches], 2, options=MOMENTUM)

    def slipped(slip: str) -> Callable[[], State]:
        return lambda: trained("plain", state, passes, momentum=0.9, slip=slip)[1]

    assert_close(
        fact(found, "state"),
        trained("plain", state, passes, momentum=0.9)[1],
        what="the state dict of the model after training",
        mistakes=lambda: {
            "The model is untrained afterwards: its parameters are those from before. Is a copy "
            "trained, or does the optimizer never step?": state,
            "The gradients accumulate from batch to batch: clear them before each backward "
            "pass.": slipped("accumulates"),
            "The gradients accumulate within an epoch: clear them for each batch, not once an "
            "epoch.": slipped("accumulates within an epoch"),
            "The gradients are clipped to norm 1 before the step: only watch them.": (
                slipped("clips")
            ),
            "The optimizer steps once an epoch: it should for each batch.": (
                slipped("steps once an epoch")
            ),
            "The loss gets its arguments in the wrong order: it is loss_fn(outputs, targets).": (
                slipped("swaps")
            ),
            "The loss is divided by the number of batches.": slipped("divides"),
            "The loss is multiplied by the size of the batch.": slipped("multiplies"),
            "The optimizer steps twice for each batch.": slipped("steps twice"),
            "The last batch of each epoch is left out.": slipped("leaves out the last batch"),
            "The model is trained without the momentum of the given optimizer: use the optimizer "
            "that you get.": lambda: trained("plain", state, passes)[1],
            "The model is trained for one epoch only.": lambda: trained(
                "plain", state, passes[:1], momentum=0.9
            )[1],
        },
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_training")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("model.train() before the first batch.")
def test_train_mode(student: Student) -> None:
    """The model is trained in train mode, also where it was in eval mode before."""
    state, batches = new_state("batch"), new_batches(2)
    passes = [batches] * 2
    found = student.run("train", "batch", state, [batches], 2, options=SGD, training=False)
    assert_close(
        fact(found, "state"),
        trained("batch", state, passes)[1],
        what="the state dict of a model with batch normalization after training",
        mistakes=lambda: {
            "The model is trained in eval mode: call model.train() first.": lambda: trained(
                "batch", state, passes, training=False
            )[1],
        },
    )


@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("model.train() before the first batch, and nothing about the mode afterwards.")
def test_left_in_train_mode(student: Student) -> None:
    """The model is in train mode afterwards, with all of its submodules."""
    state, batches = new_state("batch"), new_batches(1)
    found = student.run("train", "batch", state, [batches], 1, options=SGD, training=False)
    modes = fact(found, "training")
    evaluating = [n for n, mode in modes.items() if not mode] if isinstance(modes, dict) else [""]
    assert not evaluating, (
        f"After train_with_monitor {len(evaluating)} of the model's modules are in eval mode: "
        "leave all of it in train mode, whatever it was before."
    )


@pytest.mark.points(22)
@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("backward, then the norm, then the step.")
def test_norms_before_the_step(student: Student) -> None:
    """The norm is taken before the optimizer's step, which may change the gradients."""
    state, batches = new_state("plain"), new_batches(2)
    found = student.run("train", "plain", state, [batches], 2, optimizer="fading", options=SGD)
    norms = trained("plain", state, [batches] * 2)[0]
    assert_close(
        fact(found, "norms"),
        norms,
        what="the tensor of norms with an optimizer that halves the gradients as it steps",
        mistakes=lambda: {"The norm is taken after the step: take it before.": norms / 2},
    )


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Clear the gradients before each backward pass, also before the first one.")
def test_stale_gradients(student: Student) -> None:
    """Gradients from before the training do not count."""
    state, batches = new_state("plain"), new_batches(2)
    found = student.run("train", "plain", state, [batches], 1, options=SGD, stale=7.0)
    assert_close(
        fact(found, "norms"),
        trained("plain", state, [batches])[0],
        what="the tensor of norms of a model that had gradients before",
        mistakes=lambda: {
            "Gradients from before the training count in the norm of the first batch: clear them "
            "before each backward pass.": lambda: stale_norms(state, batches),
        },
    )


def stale_norms(state: State, batches: list[Batch]) -> Tensor:
    """The norms where the first gradient is added to a stale one, and the others are not."""
    first, between = trained("plain", state, [batches[:1]], stale=7.0, slip="accumulates")
    rest, _ = trained("plain", between, [batches[1:]])
    return torch.cat([first, rest], dim=1)


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("gradient_norm(model.parameters())")
def test_parameters_outside_the_optimizer(student: Student) -> None:
    """The norm is over all the model's parameters, not only those that the optimizer holds."""
    state, batches = new_state("plain"), new_batches(1)
    found = student.run("train", "plain", state, [batches], 1, options=SGD, held="2.")
    network = MODELS["plain"]().double()
    network.load_state_dict(state)
    loss = loss_of(network(batches[0][0]), batches[0][1])
    gradients = list(torch.autograd.grad(loss, list(network.parameters())))
    assert_close(
        fact(found, "norms"),
        torch.tensor([[norm_of(gradients)]], dtype=torch.float64),
        what="the norm with an optimizer that holds the last layer only",
        mistakes=lambda: {
            "The norm is over the parameters that the optimizer holds: it is promised over all "
            "of the model's.": torch.tensor([[norm_of(gradients[2:])]], dtype=torch.float64),
        },
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_norms_of_every_batch", "test_gradient_norm_non_finite")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Treat a norm that is not finite like any other: record it, step, go on.")
def test_non_finite_norms(student: Student) -> None:
    """A norm that is not finite is recorded, and training goes on."""
    # One weight and one bias: an infinite input makes all gradients infinite and none of them NaN.
    state = {"weight": torch.tensor([[0.5]]).double(), "bias": torch.tensor([0.25]).double()}
    targets = torch.randn(2, 1).double()
    inputs = [[1.0, 2.0], [1.0, INF], [2.0, 1.0], [NAN, 1.0], [1.5, 0.5]]
    batches = [(torch.tensor(each).double()[:, None], targets) for each in inputs]
    found = student.run("train", "line", state, [batches], 2, optimizer="robust", options=SGD)
    expected, final = trained("line", state, [batches] * 2, rule="robust")

    def skipped(place: int) -> Any:
        return trained("line", state, [batches] * 2, rule="robust", slip="skips")[place]

    norms = fact(found, "norms")
    assert_close(
        norms,
        expected,
        what="the tensor of norms with infinite and NaN inputs",
        mistakes=lambda: {
            "The optimizer's step is left out where the norm is not finite: let it step.": (
                lambda: skipped(0)
            ),
            "A batch whose loss or norm is not finite is left out: record its norm, and let the "
            "optimizer step.": lambda: trained(
                "line", state, [batches] * 2, rule="robust", slip="skips entirely"
            )[0],
            "Training does not go on after the first norm that is not finite.": (
                lambda: ended(expected)
            ),
            "Training goes on with the next epoch after a norm that is not finite.": lambda: (
                broken_off(state, batches)
            ),
            "A norm that is not finite is not recorded as it is, but as 0.": lambda: (
                expected.nan_to_num(0.0, 0.0, 0.0)
            ),
            "A norm that is not finite is not recorded as it is, but as a large number.": lambda: (
                expected.nan_to_num()
            ),
            "An infinite norm is recorded as NaN.": lambda: torch.where(
                expected.isfinite(), expected, NAN
            ),
        },
    )
    assert_close(
        fact(found, "state"),
        final,
        what="the state dict after training with infinite and NaN inputs",
        mistakes=lambda: {
            "The optimizer's step is left out where the norm is not finite: let it step.": (
                lambda: skipped(1)
            ),
        },
    )


def ended(norms: Tensor) -> Tensor:
    """The norms with zeros behind the first one that is not finite."""
    kept = norms.flatten().clone()
    kept[int((~kept.isfinite()).nonzero()[0]) + 1 :] = 0.0
    return kept.view_as(norms)


def broken_off(state: State, batches: list[Batch]) -> Tensor:
    """The norms where each epoch ends, without a step, at the first one that is not finite."""
    kept = torch.zeros(2, len(batches), dtype=torch.float64)
    for epoch in range(2):
        norms, _ = trained("line", state, [batches[:2]], rule="robust", slip="skips")
        _, state = trained("line", state, [batches[:1]], rule="robust")
        kept[epoch, :2] = norms[0]
    return kept


@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Begin with: if epochs < 1, raise a ValueError that names epochs.")
def test_epochs_below_one(student: Student) -> None:
    """Fewer than one epoch is a ValueError."""
    state, batches = new_state("linear"), new_batches(1)
    check_trains(student.run("train", "linear", state, [batches], 1, options=SGD), state)
    for epochs in (0, -1):
        with must_raise(
            ValueError, mentions="epochs", call=f"train_with_monitor(..., epochs={epochs})"
        ):
            student.run("train", "linear", state, [batches], epochs, options=SGD)


@pytest.mark.requires("test_training")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Iterate the loader itself in each epoch: it may shuffle anew.")
def test_new_pass_each_epoch(student: Student) -> None:
    """Each epoch is a new pass over the loader, which may yield its batches in another order."""
    state, batches = new_state("linear"), new_batches(3)
    orders = [batches, batches[1:] + batches[:1]]
    found = student.run("train", "linear", state, orders, 2, options=MOMENTUM)
    assert_close(
        fact(found, "state"),
        trained("linear", state, orders, momentum=0.9)[1],
        what="the state dict after two epochs with a loader that shuffles",
        mistakes=lambda: {
            "The batches of the first epoch are used again in the second one: iterate the loader "
            "anew in each epoch.": lambda: trained("linear", state, [batches] * 2, momentum=0.9)[1],
        },
    )


@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Set no seed in train_with_monitor, and draw no random numbers of your own.")
def test_random_state_kept(student: Student) -> None:
    """Training seeds nothing, and draws no random numbers where the model draws none."""
    state, batches = new_state("linear"), new_batches(1)
    seed = int(torch.randint(2**31, ()))
    found = student.run("train", "linear", state, [batches], 1, options=SGD, seed=seed)
    check_trains(found, state)
    expected = {
        "torch": torch.rand(
            2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        ).tolist(),
        "Python": [random.Random(seed).random()],
        "NumPy": [np.random.RandomState(seed).random_sample()],
    }
    for whose, numbers in expected.items():
        assert fact(found, "draws", whose) == numbers, (
            f"train_with_monitor has changed {whose}'s random state: is there a seed set, or a "
            "random number drawn? Only compare_initializations seeds."
        )


# --- compare_initializations ---------------------------------------------------------------------


@pytest.mark.place("compare_initializations")
@pytest.mark.hint("A dict that is filled in the order of SCHEMES.")
def test_compare_schemes(student: Student) -> None:
    """The result has one entry for each scheme, in the order of SCHEMES."""
    batches = new_batches(1)
    result = student.run("compare", "linear", batches, epochs=1)
    assert isinstance(result, dict), (
        f"compare_initializations should return a dict, yours returned {told_kind(result)}."
    )
    assert_equal(
        list(result),
        SCHEMES,
        what="the list of keys of compare_initializations",
        mistakes=lambda: {
            "The schemes are in alphabetical order, promised is the order of SCHEMES.": sorted(
                SCHEMES
            ),
            "The schemes are in reverse order, promised is the order of SCHEMES.": SCHEMES[::-1],
            'The last scheme is missing, "ones".': SCHEMES[:-1],
        },
    )


def told_kind(value: Any) -> str:
    """What a student calls it; an Opaque has the name of what it stands for."""
    return "None" if value is None else f"a {getattr(value, 'type_name', type(value).__name__)}"


@pytest.mark.points(4)
@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("torch.optim.SGD(model.parameters(), lr=lr), and the mean over the batches.")
def test_compare_initializations(student: Student) -> None:
    """Each value is the mean norm of every epoch of training with plain SGD at the given rate."""
    batches = new_batches(5)
    # Of a single layer full of ones everything is known, whatever is seeded.
    result = student.run("compare", "linear", batches, lr=0.03, epochs=2, seed=3)
    ones = {"0.weight": torch.ones(2, 3).double(), "0.bias": torch.zeros(2).double()}
    passes = [batches] * 2
    norms, _ = trained("linear", ones, passes, lr=0.03)

    def other(**options: Any) -> Callable[[], Tensor]:
        return lambda: trained("linear", ones, passes, **{"lr": 0.03, **options})[0].mean(dim=1)

    assert_close(
        fact(result, "ones"),
        norms.mean(dim=1),
        what='the tensor for "ones"',
        mistakes=lambda: {
            "The norms of an epoch are summed, promised is their mean.": norms.sum(dim=1),
            "The mean is over the epochs; it should be over the batches of each epoch.": norms.mean(
                dim=0
            ),
            "The norms of all batches are returned; promised is their mean in each epoch.": norms,
            "The mean is over all epochs and batches, promised is one an epoch.": norms.mean(),
            "Each norm is that of the last batch of the epoch, promised is the mean.": norms[:, -1],
            "Each norm is that of the first batch of the epoch, promised is the mean.": norms[:, 0],
            "Each norm is the largest of the epoch, promised is the mean.": norms.amax(dim=1),
            "Each norm is the smallest of the epoch, promised is the mean.": norms.amin(dim=1),
            "Each norm is the median of the epoch, promised is the mean.": norms.median(
                dim=1
            ).values,
            "Each norm is the L2 norm of those of the epoch, promised is the mean.": norms.norm(
                dim=1
            ),
            "The models are trained with Adam, promised is plain SGD.": other(rule="adam"),
            "The models are trained with momentum, promised is plain SGD.": other(momentum=0.9),
            "The models are trained with a weight decay of 1e-4, promised is plain SGD.": other(
                decay=1e-4
            ),
            "The models are trained with a weight decay of 0.01, promised is plain SGD.": other(
                decay=0.01
            ),
            "The learning rate is always 0.01: use the argument lr.": other(lr=0.01),
            "The learning rate is always 0.1: use the argument lr.": other(lr=0.1),
            "The learning rate is always 0.001: use the argument lr.": other(lr=0.001),
            "The models never learn: does the optimizer hold the parameters of the model that is "
            "trained?": other(lr=0.0),
            "The models never learn, and their gradients accumulate: does the optimizer hold the "
            "parameters of the model that is trained, or those of a copy?": other(
                lr=0.0, slip="accumulates"
            ),
            "The gradients accumulate from batch to batch.": other(slip="accumulates"),
            "The models are not initialized: they start as they are built.": lambda: trained(
                "linear", seeded_state("linear", 3), passes, lr=0.03
            )[0].mean(dim=1),
        },
    )


def seeded_state(model: str, seed: int) -> State:
    torch.manual_seed(seed)
    return dict(MODELS[model]().double().state_dict())


@pytest.mark.points(4)
@pytest.mark.requires("test_compare_initializations")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("For each scheme: torch.manual_seed(seed), then build, initialize, train.")
def test_compare_seeds_each_scheme(student: Student) -> None:
    """Every scheme begins with the seed, and then builds a new model and initializes it."""
    batches = new_batches(2)
    result = student.run("compare", "scaled", batches, before=11, lr=0.02, epochs=2, seed=5)
    states = read_starts(student.run("starts", "scaled", 5, SCHEMES))
    assert_close(
        [fact(result, scheme) for scheme in SCHEMES],
        means(states, batches),
        what="the list of the tensors of all schemes",
        mistakes=lambda: (
            {
                told: (lambda flow=flow: means(starting(flow), batches))
                for told, flow in WRONG_FLOWS.items()
            }
            | {
                "There is no new model for each scheme: the model of the scheme before is initialized "
                "and trained again.": lambda: reused(batches),
            }
        ),
    )


def read_starts(started: Any) -> list[State]:
    """The state in which the training of each scheme begins."""
    return [
        {
            name: assert_tensor(
                fact(started, scheme, name),
                shape=like.shape,
                dtype=like.dtype,
                what=f"the {name} of a model after initialize",
            )
            for name, like in new_state("scaled").items()
        }
        for scheme in SCHEMES
    ]


@pytest.mark.requires("test_compare_seeds_each_scheme")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("Hand the loader on as it is, and seed once for each scheme: before you build.")
def test_compare_shuffled_loader(student: Student) -> None:
    """A loader that shuffles does so anew in each epoch, and goes on where initialize stopped."""
    batches, options = new_batches(5), {"lr": 0.02, "epochs": 2, "seed": 5}
    result = student.run("compare", "scaled", batches, before=11, shuffled=True, **options)
    started = student.run("starts", "scaled", 5, SCHEMES, orders=2, count=5)
    states = read_starts(started)
    orders = []
    for scheme in SCHEMES:
        drawn = assert_tensor(fact(started, scheme, "orders"), shape=(2, 5), what="what is drawn")
        orders.append([[int(i) for i in order] for order in drawn.tolist()])

    def means_of(orders: list[list[list[int]]]) -> list[Tensor]:
        found = []
        for state, passes in zip(states, orders, strict=True):
            ordered = [[batches[i] for i in order] for order in passes]
            found.append(trained("scaled", state, ordered, lr=0.02)[0].mean(dim=1))
        return found

    again = (
        "The batches of one pass are used again: hand the loader on as it is, for a new pass in "
        "each epoch."
    )
    assert_close(
        [fact(result, scheme) for scheme in SCHEMES],
        means_of(orders),
        what="the list of the tensors of all schemes, with a loader that shuffles",
        mistakes=lambda: {
            "torch is seeded again between initializing and training: seed once for each scheme, "
            "first.": lambda: means_of([permutations(5)] * 3),
            again: lambda: means_of([permutations(11)[:1] * 2] * 3),
            f"{again} (Here it is one pass for each scheme.)": lambda: means_of(
                [each[:1] * 2 for each in orders]
            ),
        },
    )


def permutations(seed: int) -> list[list[int]]:
    """The orders of five batches in the first two passes after this seed."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(5, generator=generator).tolist() for _ in range(2)]


def means(states: list[State], batches: list[Batch]) -> list[Tensor]:
    """The mean norms of two epochs of training from each of these states."""
    runs = [trained("scaled", state, [batches] * 2, lr=0.02) for state in states]
    return [norms.mean(dim=1) for norms, _ in runs]


# What is done for each of the three schemes, in which order (see `starting`).
WRONG_FLOWS = {
    "Nothing is seeded: the result depends on the random state of the caller.": "bi bi bi",
    "torch is seeded once, before all schemes: seed it anew for each one.": "sbi bi bi",
    "torch is seeded after the model is built: seed first.": "bsi bsi bsi",
    "torch is seeded after the model is initialized: seed first.": "bis bis bis",
    "torch is seeded again between building and initializing: seed once for each scheme, first, "
    "and build each model anew.": "sbsi sbsi sbsi",
    "The model is built once and copied for each scheme, and torch is seeded once: seed, then "
    "build, for each one.": "sbi ci ci",
    "The model is built once and copied for each scheme: seed, then build, for each one.": (
        "sbi sci sci"
    ),
    "The seed is always 0: use the argument seed.": "zbi zbi zbi",
    "The seed is always 42: use the argument seed.": "fbi fbi fbi",
    "Each scheme has a seed of its own (seed, seed + 1, ...): begin each one with seed.": (
        "sbi tbi ubi"
    ),
}
SEEDS = {"s": 5, "t": 6, "u": 7, "z": 0, "f": 42}


def starting(flow: str) -> list[State]:
    """The states in which training begins: b builds, c copies what was built, i initializes.

    The other letters seed.
    """
    torch.manual_seed(11)
    states: list[State] = []
    built: State = {}
    for steps, scheme in zip(flow.split(), SCHEMES, strict=True):
        networks: list[Scaled] = [] if "c" not in steps else [restored(built)]
        for step in steps:
            if step == "b":
                networks.append(Scaled().double())
                built = copied(networks[0])
            elif step == "i":
                fill(networks[0].linear, scheme)
            elif step != "c":
                torch.manual_seed(SEEDS[step])
        states.append(copied(networks[0]))
    return states


def restored(state: State) -> Scaled:
    """A network in this state, which costs the random state nothing."""
    with torch.random.fork_rng(devices=[]):
        network = Scaled().double()
    network.load_state_dict(state)
    return network


def copied(network: nn.Module) -> State:
    return {name: each.detach().clone() for name, each in network.state_dict().items()}


def fill(linear: nn.Module, scheme: str) -> None:
    assert isinstance(linear, nn.Linear)  # for the type checker
    getattr(nn.init, f"{scheme}_")(linear.weight)
    nn.init.zeros_(linear.bias)


def reused(batches: list[Batch]) -> list[Tensor]:
    """The mean norms where one model goes through all schemes."""
    torch.manual_seed(5)
    network = Scaled().double()
    rows = []
    for scheme in SCHEMES:
        torch.manual_seed(5)
        fill(network.linear, scheme)
        state = copied(network)
        norms, after = trained("scaled", state, [batches] * 2, lr=0.02)
        network.load_state_dict(after)
        rows.append(norms.mean(dim=1))
    return rows


@pytest.mark.requires("test_compare_seeds_each_scheme")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("lr=0.01, epochs=50, seed=0, as in the stub.")
def test_compare_defaults(student: Student) -> None:
    """By default there are 50 epochs at a learning rate of 0.01, with the seed 0."""
    batches = new_batches(1)
    # Fifty epochs take long, so they are run only where the signature does not promise them.
    epochs = student.run("default_of", "compare_initializations", "epochs")
    options = {"epochs": 3} if epochs == 50 else {}
    result = student.run("compare", "linear", batches, before=11, **options)
    started = student.run("starts", "linear", 0, ["xavier_uniform"])
    state = {
        name: assert_tensor(
            fact(started, "xavier_uniform", name),
            shape=like.shape,
            dtype=like.dtype,
            what=f"the {name} of a model after initialize",
        )
        for name, like in new_state("linear").items()
    }

    history = assert_tensor(
        fact(result, "xavier_uniform"),
        shape=(options.get("epochs", 50),),
        dtype=torch.float64,
        what='the tensor for "xavier_uniform" with the defaults',
    )

    def begun(start: State, lr: float) -> Tensor:
        return trained("linear", start, [batches] * 3, lr=lr)[0].mean(dim=1)

    def seeded(seed: int) -> State:
        torch.manual_seed(seed)
        model = MODELS["linear"]().double()
        for linear in model.children():
            fill(linear, "xavier_uniform")
        return copied(model)

    assert_close(
        history[:3],
        begun(state, 0.01),
        what='the first three entries of the tensor for "xavier_uniform" with the defaults',
        mistakes=lambda: {
            "The default of lr is 0.1, promised is 0.01.": lambda: begun(state, 0.1),
            "The default of lr is 0.001, promised is 0.01.": lambda: begun(state, 0.001),
            "The default of seed is 42, promised is 0.": lambda: begun(seeded(42), 0.01),
            "The default of seed is 1, promised is 0.": lambda: begun(seeded(1), 0.01),
        },
    )


@pytest.mark.requires("test_compare_initializations", "test_gradient_norm_non_finite")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("norms.mean(dim=1) is NaN where a norm is, and that is promised.")
def test_compare_non_finite(student: Student) -> None:
    """An epoch with a norm that is not finite has a mean that is not finite."""
    batches = new_batches(2)
    batches[1][0][0, 0] = NAN
    result = student.run("compare", "linear", batches, lr=0.03, epochs=1)
    ones = {"0.weight": torch.ones(2, 3).double(), "0.bias": torch.zeros(2).double()}
    norms, _ = trained("linear", ones, [batches[:1]], lr=0.03)
    assert_close(
        fact(result, "ones"),
        torch.tensor([NAN], dtype=torch.float64),
        what='the tensor for "ones", where the second of two norms is NaN',
        mistakes=lambda: {
            "A norm that is NaN is left out of the mean: it belongs to the epoch, too.": norms[0],
            "A norm that is NaN counts as 0 in the mean.": norms[0] / 2,
        },
    )


# --- diagnose ------------------------------------------------------------------------------------


def verdicts(
    histories: list[list[float]],
    *,
    part: slice = slice(0, 5),
    low: float = 1e-3,
    high: float = 1e3,
    exploding: Callable[[list[bool]], bool] = any,
    vanishing: Callable[[list[bool]], bool] = all,
    finite: Callable[[float], bool] = math.isfinite,
) -> list[str]:
    """What diagnose says, as promised or with another rule."""
    said = []
    for history in histories:
        early = history[part]
        if not all(finite(each) for each in early) or exploding([each > high for each in early]):
            said.append("exploding")
        else:
            said.append("vanishing" if vanishing([each < low for each in early]) else "healthy")
    return said


def other_parts(histories: list[list[float]]) -> dict[str, list[str]]:
    """What diagnose says where it looks at other epochs than the first five."""

    def looking_at(start: int | None, stop: int | None) -> list[str]:
        return verdicts(histories, part=slice(start, stop))

    return {
        "You look at all epochs; only the first five count.": looking_at(None, None),
        "You look at the last five epochs; the first five count.": looking_at(-5, None),
        "You look at the first epoch only; the first five count.": looking_at(0, 1),
        "You look at the last epoch only; the first five count.": looking_at(-1, None),
        "You look at the first four epochs; the first five count.": looking_at(0, 4),
        "You look at the first six epochs; the first five count.": looking_at(0, 6),
        "You look at the fifth epoch only; all of the first five count.": looking_at(4, 5),
        "You leave out the first epoch: Python counts from 0.": looking_at(1, 5),
        "You look at the second to the sixth epoch: Python counts from 0.": looking_at(1, 6),
        "You look at all epochs from the fifth on; the first five count.": looking_at(4, None),
        "You look at all epochs from the sixth on; the first five count.": looking_at(5, None),
    }


def check_verdicts(
    student: Student, histories: list[list[float]], mistakes: dict[str, list[str]]
) -> Any:
    """Compare what diagnose says of each history, in both dtypes; return what was reported."""
    found = student.run("diagnose", histories)
    expected = verdicts(histories)
    for dtype in ("float64", "float32"):
        answers = fact(found, "answers", dtype)
        answers = answers if isinstance(answers, list) else []
        for history, answer, right in zip(histories, answers, expected, strict=False):
            what = f"the answer for {history} ({dtype})"
            assert_equal(answer if not isinstance(answer, str) else right, right, what=what)
            assert answer in ("exploding", "vanishing", "healthy"), (
                f'diagnose answers {answer[:40]!r} for {history}; the answers are "exploding", '
                '"vanishing" and "healthy".'
            )
        wrong = [h for h, a, right in zip(histories, answers, expected, strict=False) if a != right]
        assert_equal(
            answers,
            expected,
            what=f"the list of answers ({dtype}; the first wrong one is for {wrong[:1]})",
            mistakes=lambda: mistakes | other_parts(histories),
        )
    return found


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("One norm above 1e3 is enough; exactly 1e3 is not above.")
def test_diagnose_exploding(student: Student) -> None:
    """One norm above 1e3 is exploding, and 1e3 itself is not."""
    histories = [
        [1.0, 2.0, 3.0, 1.5, 2.0],
        [2.0, 3.0, 2000.0, 4.0, 5.0],
        [1001.0, 1.0, 1.0, 1.0, 1.0],
        [1.0, 9000.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, 1100.0],
        [1.0, 1.0, 1.0, 1.0, 1500.0, 1.0, 1.0],
        [500.0, 900.0, 999.0, 800.0, 990.0],
        [1000.0, 1000.0, 1000.0, 1000.0, 1000.0],
        [1e-4, 1e-4, 1e4, 1e-4, 1e-4],
        [1e9, 1e9, 1e9, 1e9, 1e9],
    ]
    everything = {
        "The norms explode only where all of them are above 1e3; any of them is enough.": (
            verdicts(histories, exploding=all)
        ),
        "The mean of the norms decides; each of them counts.": (
            verdicts([[sum(each[:5]) / 5] for each in histories])
        ),
        "The limit for exploding is 1e2, promised is 1e3.": verdicts(histories, high=1e2),
        "The limit for exploding is 1e4, promised is 1e3.": verdicts(histories, high=1e4),
        "The limit for exploding is 1e6, promised is 1e3.": verdicts(histories, high=1e6),
        "The limit for exploding is 10, promised is 1e3.": verdicts(histories, high=10.0),
        "A norm of exactly 1e3 counts as exploding; it has to be above.": (
            verdicts(histories, high=999.9)
        ),
        "Nothing is ever exploding.": verdicts(histories, high=INF),
    }
    check_verdicts(student, histories, everything)


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("All of the norms have to be below 1e-3; exactly 1e-3 is not below.")
def test_diagnose_vanishing(student: Student) -> None:
    """Vanishing is where all norms are below 1e-3, and 1e-3 itself is not."""
    histories = [
        [1e-4, 5e-4, 9e-4, 2e-4, 1e-4],
        [1e-4, 1e-4, 0.5, 1e-4, 1e-4],
        [1e-4, 1e-4, 1e-4, 1e-4, 2e-3],
        [1e-4, 1e-4, 1e-4, 1e-4, 0.5],
        [2e-3, 1e-4, 1e-4, 1e-4, 1e-4],
        [1e-4, 1e-4, 1e-4, 1e-4, 0.5, 1e-4, 1e-4],
        [5e-3, 5e-3, 5e-3, 5e-3, 5e-3],
        [1e-3, 1e-3, 1e-3, 1e-3, 1e-3],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [1e-8, 1e-8, 1e-8, 1e-8, 1e-8],
        [2.0, 1.0, 1.0, 1.0, 1e-4],
    ]
    everything = {
        "The norms vanish where any of them is below 1e-3; all of them have to be.": (
            verdicts(histories, vanishing=any)
        ),
        "The mean of the norms decides; each of them counts.": (
            verdicts([[sum(each[:5]) / 5] for each in histories])
        ),
        "The limit for vanishing is 1e-4, promised is 1e-3.": verdicts(histories, low=1e-4),
        "The limit for vanishing is 1e-2, promised is 1e-3.": verdicts(histories, low=1e-2),
        "The limit for vanishing is 1e-6, promised is 1e-3.": verdicts(histories, low=1e-6),
        "A norm of exactly 1e-3 counts as vanishing; it has to be below.": (
            verdicts(histories, low=1.0001e-3)
        ),
        "Nothing is ever vanishing.": verdicts(histories, low=-1.0),
    }
    check_verdicts(student, histories, everything)


def finite_of(history: list[float]) -> list[float]:
    return [each for each in history if math.isfinite(each)]


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("NaN is neither above nor below a limit: ask torch.isfinite.")
def test_diagnose_non_finite(student: Student) -> None:
    """A norm that is infinite or NaN is exploding."""
    histories = [
        [1.0, NAN, 1.0, 1.0, 1.0],
        [NAN, 1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, NAN],
        [INF, 1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, INF],
        [1e-4, 1e-4, NAN, 1e-4, 1e-4],
        [NAN, NAN, NAN, NAN, NAN],
    ]
    everything = {
        "NaN is not seen: it is neither above nor below a limit.": verdicts(
            histories, finite=lambda _: True
        ),
        "NaN is seen where all norms are NaN; any of them is enough.": [
            "exploding" if all(map(math.isnan, history)) else verdict
            for history, verdict in zip(
                histories, verdicts(histories, finite=lambda _: True), strict=True
            )
        ],
        "Infinity is not seen.": verdicts(
            [[0.5 if each == INF else each for each in history] for history in histories]
        ),
        "Norms that are not finite are left out; any of them is exploding.": verdicts(
            [finite_of(history) for history in histories]
        ),
        "Only where no norm is finite you say exploding; any that is not is enough.": [
            "healthy" if finite_of(history) else "exploding" for history in histories
        ],
    }
    found = check_verdicts(student, histories, everything)
    for dtype in (torch.float64, torch.float32):
        given = fact(found, "given", str(dtype).removeprefix("torch."))
        assert_close(
            given,
            [torch.tensor(history, dtype=dtype) for history in histories],
            what="the list of the tensors that diagnose was given, afterwards",
            rtol=0.0,
            atol=0.0,
            mistakes=lambda: {
                "diagnose changes the tensor that it is given: compute with new tensors, and leave "
                "those of the caller as they are.": given,
            },
        )


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("norms[:5]")
def test_diagnose_first_five(student: Student) -> None:
    """Only the first five epochs count."""
    low, sound, high = 1e-4, 1.0, 5e3
    histories = [
        [sound] * 5 + [high] * 3,
        [sound] * 6 + [high] * 6,
        [sound] * 5 + [NAN] * 3,
        [sound] * 4 + [high] + [sound] * 3,
        [sound] * 3 + [high] + [sound] * 4,
        [high] + [sound] * 9,
        [low] * 5 + [sound] * 3,
        [low] * 5 + [sound] + [low] * 6,
        [low] * 4 + [sound] + [low] * 7,
        [low] * 3 + [sound] + [low] * 8,
        [sound] + [low] * 12,
    ]

    check_verdicts(student, histories, {})


@pytest.mark.requires("test_diagnose_exploding", "test_diagnose_vanishing")
@pytest.mark.place("diagnose")
@pytest.mark.hint("A slice may reach behind the end, an index may not.")
def test_diagnose_short_histories(student: Student) -> None:
    """Where there are fewer than five epochs, all of them count."""
    histories = [[5e3], [1e-4], [1.0], [1e-4, 1e-4], [1.0, 2.0, 5e3], [1e-4, 1e-4, 1e-4, 1.0]]
    everything = {
        "A history of fewer than five epochs is always healthy.": ["healthy"] * len(histories),
        "A history of fewer than five epochs is always vanishing.": ["vanishing"] * len(histories),
    }
    check_verdicts(student, histories, everything)


# --- plot_gradient_norms -------------------------------------------------------------------------


def plotted(student: Student, histories: dict[str, Tensor]) -> Any:
    """What the figure of these histories holds; it has to be a figure."""
    found = student.run("plot", histories)
    name = fact(found, "type")
    returned = "None" if name == "NoneType" else f"a {name}"
    assert fact(found, "figure"), (
        f"plot_gradient_norms should return a matplotlib Figure, yours returned {returned}."
    )
    return found


def plotted_once(student: Student) -> tuple[dict[str, Tensor], Any]:
    """Three histories and the figure of them, which takes longest and which two tests look at."""
    histories = {
        "xavier_uniform": torch.rand(4, dtype=torch.float64) + 0.5,
        "deep, lr=0.1": torch.rand(7, dtype=torch.float64) * 100 + 2,
        "Third": torch.rand(2, dtype=torch.float64) / 100 + 0.001,
    }
    histories["deep, lr=0.1"][2:4] = torch.tensor([1e-10, 1e12])  # norms that vanish and explode
    return student.once("figure", lambda: (histories, plotted(student, histories)))


def line_points(found: Any, histories: dict[str, Tensor]) -> dict[str, Any]:
    """The points [x, y] of the line of each name; there has to be exactly one of each."""
    lines = fact(found, "lines")
    lines = [line for line in lines if isinstance(line, dict)] if isinstance(lines, list) else []
    labels = [line.get("label") for line in lines]
    for name in histories:
        count = labels.count(name)
        assert count > 0, (
            f"There is no line with the label {name!r} among {len(lines)} lines: each history is "
            "one line (ax.plot) with its key as its label."
        )
        assert count == 1, (
            f"There are {count} lines with the label {name!r}: each history is one line."
        )
    return {name: points(lines[labels.index(name)], len(each)) for name, each in histories.items()}


def points(line: dict[str, Any], length: int) -> list[Any]:
    """The x and y of a line; NaN behind its end is drawn as nothing, so it does not count."""
    x, y = numbers(line.get("x")), numbers(line.get("y"))
    if isinstance(x, Tensor) and isinstance(y, Tensor) and y[length:].isnan().all():
        return [x[:length], y[:length]]
    return [x, y]


def numbers(value: Any) -> Any:
    """A list of numbers as a tensor; anything else as it is."""
    if isinstance(value, list) and all(isinstance(each, float) for each in value):
        return torch.tensor(value, dtype=torch.float64)
    return value


def drawn(history: Tensor, start: int = 1) -> list[Tensor]:
    """The points [x, y] of a history whose epochs are counted from `start`."""
    y = history.double()
    return [torch.arange(start, start + len(y)).double(), y.where(y.isfinite(), NAN)]


@pytest.mark.points(3)
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.hint("ax.plot(range(1, len(norms) + 1), norms, label=name) for each history.")
def test_plot_lines(student: Student) -> None:
    """Each history is a line over the epochs 1 to n, labeled by its key, in one Axes."""
    histories, found = plotted_once(student)
    count = fact(found, "axes")
    assert count == 1, f"The figure has {count} Axes; all histories are drawn in one Axes."
    shapes = {name: list(history.shape) for name, history in histories.items()}
    assert_close(
        line_points(found, histories),
        {name: drawn(history) for name, history in histories.items()},
        what=f"the dict of x and y of the lines of histories of {shapes} epochs",
        rtol=1e-6,
        atol=1e-12,
        mistakes=lambda: {
            "The epochs are counted from 0; the first one is 1.": {
                name: drawn(history, 0) for name, history in histories.items()
            },
            "Your lines show log10 of the norms: draw the norms themselves, on a logarithmic "
            "axis.": {name: drawn_log(history, 10) for name, history in histories.items()},
            "Your lines show the natural logarithm of the norms: draw the norms themselves, on a "
            "logarithmic axis.": {
                name: drawn_log(history, math.e) for name, history in histories.items()
            },
            "All lines are cut to the length of the shortest history.": {
                name: drawn(history[:2]) for name, history in histories.items()
            },
            **{
                f"Norms below 1e-{k} are drawn as 1e-{k}: draw each norm as it is.": {
                    name: drawn(history.clamp(min=10.0**-k)) for name, history in histories.items()
                }
                for k in range(3, 10)
            },
            "The x and y of your lines are swapped.": {
                name: drawn(history)[::-1] for name, history in histories.items()
            },
            "The first epoch is missing.": {
                name: [each[1:] for each in drawn(history)] for name, history in histories.items()
            },
        },
    )


def drawn_log(history: Tensor, base: float) -> list[Tensor]:
    x, y = drawn(history)
    return [x, y.log() / math.log(base)]


@pytest.mark.points(2)
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.hint('ax.set_yscale("log"), ax.set_xlabel, ax.set_ylabel, and ax.legend() in the end.')
def test_plot_axes(student: Student) -> None:
    """The y axis is logarithmic, both axes have a label, and a legend names every history."""
    histories, found = plotted_once(student)
    scales = fact(found, "y scales")
    scales = scales if isinstance(scales, list) and scales else [None]
    other = [scale for scale in scales if scale != "log"]
    which = "The y axis" if len(scales) == 1 else "A y axis"
    assert not other, f'{which} is {other[0]}, it should be log: ax.set_yscale("log").'
    for axis in ("x", "y"):
        labels = fact(found, f"{axis} labels")
        labeled = [each for each in labels if str(each).strip()] if isinstance(labels, list) else []
        assert labeled, f"The {axis} axis has no label: ax.set_{axis}label."
    legends = fact(found, "legends")
    legends = [each for each in legends if isinstance(each, list)] if legends else []
    assert legends, "There is no legend: call ax.legend() when the lines are drawn."
    named = [text for legend in legends for text in legend]
    missing = [name for name in histories if name not in named]
    assert not missing, (
        f"The legend does not name {missing[0]!r}: give each line its key as label, and make the "
        "legend after the lines."
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_plot_lines")
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.hint("Draw all points; a point whose y is NaN is a gap in the line.")
def test_plot_gaps(student: Student) -> None:
    """Where a norm is not finite the line has a gap, and the other points stay at their epochs."""
    histories = {
        "inside": torch.tensor([1.0, NAN, 3.0, INF, 5.0, 6.0]),
        "in the end": torch.tensor([2.0, 4.0, 8.0, INF, NAN]),
        "in the beginning": torch.tensor([NAN, 4.0, 8.0]),
        "none": torch.tensor([2.0, 1.0]),
    }
    given = {name: history.clone() for name, history in histories.items()}
    found = plotted(student, given)
    lines = line_points(found, histories)
    assert_close(
        {name: with_gaps(line) for name, line in lines.items()},
        {name: drawn(history) for name, history in histories.items()},
        what="the dict of x and y of lines with gaps (NaN)",
        rtol=1e-6,
        atol=1e-12,
        mistakes=lambda: (
            {
                "Points that are not finite are left out, and the ones behind move up: keep every "
                "point at its epoch.": {
                    name: drawn(history[history.isfinite()]) for name, history in histories.items()
                },
                "Points that are not finite are left out, so that the line bridges the gap: draw them "
                "with NaN as y.": {name: bridged(history) for name, history in histories.items()},
                "The line ends at the first point that is not finite: go on behind it.": {
                    name: cut(history) for name, history in histories.items()
                },
            }
            | {
                f"Points that are not finite are drawn at {value:g}; they should be a gap: draw them "
                "with NaN as y.": {
                    name: drawn(history.where(history.isfinite(), value))
                    for name, history in histories.items()
                }
                for value in (0.0, 1.0, 1e3, 1e-3, 1e10, 1e-10, 1e-12, 1e6, 1e4)
            }
        ),
    )
    for history, after in zip(
        histories.values(), fact(found, "histories") or [None] * 4, strict=False
    ):
        assert_close(
            after,
            history,
            what="a history after plot_gradient_norms",
            mistakes=lambda: {
                "The history itself is changed: put NaN into a copy of it.": history.where(
                    history.isfinite(), NAN
                ),
            },
        )


def with_gaps(line: list[Any]) -> list[Any]:
    """A line with NaN where y is infinite: that is a gap in the drawing, too."""
    return [each.where(each.isfinite(), NAN) if isinstance(each, Tensor) else each for each in line]


def bridged(history: Tensor) -> list[Tensor]:
    finite = history.isfinite()
    return [each[finite] for each in drawn(history)]


def cut(history: Tensor) -> list[Tensor]:
    length = [*history.isfinite().tolist(), False].index(False)
    return drawn(history[:length])


@pytest.mark.points(2)
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.hint("A matplotlib.figure.Figure() of your own needs no pyplot; else close yours.")
def test_plot_leaves_pyplot_alone(student: Student) -> None:
    """No window opens, no new figure stays in pyplot, and the caller's figures are left alone."""
    histories, drawn_alone = plotted_once(student)
    line_points(drawn_alone, histories)  # where nothing is drawn, what is left alone is no merit
    found = student.run("pyplot", {"first": torch.tensor([1.0, 2.0, 3.0])})
    before, after = fact(found, "before", "open"), fact(found, "after", "open")
    before = before if isinstance(before, list) else []
    after = after if isinstance(after, list) else []
    closed = [number for number in before if number not in after]
    assert not closed, (
        f"{len(closed)} of the caller's {len(before)} figures were closed in pyplot: close your "
        "own figure (plt.close(figure)), not all or the current one."
    )
    assert_equal(
        fact(found, "after", "contents"),
        fact(found, "before", "contents"),
        what="the list of what the caller's figures contain",
        mistakes=lambda: {
            "The caller's current figure is drawn on or cleared: make a figure of your own.": drawn_on(
                fact(found, "before", "contents"), fact(found, "after", "contents")
            ),
        },
    )
    left = [number for number in after if number not in before]
    assert not left, (
        f"{len(left)} new figures are left open in pyplot, which keeps them in memory: close yours "
        "with plt.close(figure), or make it without pyplot."
    )
    shown = fact(found, "shown")
    assert not shown, (
        "The figure is shown: call no show, return the figure and let the caller decide."
    )


def drawn_on(before: Any, after: Any) -> Any:
    """The contents afterwards if they are plain lists, since they are then the caller's."""
    return after if isinstance(before, list) and isinstance(after, list) else None
