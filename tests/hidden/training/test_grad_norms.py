"""What the gradient-norm monitor promises, sentence by sentence."""

from __future__ import annotations

import contextlib
import functools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

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


# --- gradient_norm -------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Flatten all gradients, put them into one vector, and take its L2 norm.")
def test_gradient_norm(student: Student) -> None:
    """The norm is the L2 norm of all gradients as one vector."""
    shapes: list[list[tuple[int, ...]]] = [[(3, 4), (), (5,)], [(2, 3, 2), (4,)], [(6,)]]
    for dtype, rtol, atol in [(torch.float64, None, None), (torch.float32, 1.3e-6, 1e-5)]:
        given, values = ([[torch.randn(n, dtype=dtype) for n in m] for m in shapes] for _ in "gv")
        answers = [norm(student, v, g) for v, g in zip(values, given, strict=True)]
        what = f"the list of norms ({str(dtype).removeprefix('torch.')} gradients)"
        right = [norm_of(g) for g in given]
        assert_close(answers, right, what=what, rtol=rtol, atol=atol)
    # Their squares are beyond float32, and within float64.
    huge = torch.randn(4, dtype=torch.float64) * 1e25
    assert_close(
        norm(student, [torch.ones(4).double()], [huge]),
        norm_of([huge]),
        what="the norm of float64 gradients of about 1e25",
    )


def parameters(
    student: Student, values: list[Tensor], gradients: list[Any], form: str = "list"
) -> Made:
    return student.made("parameters", values, gradients, form)


def norm(student: Student, values: list[Tensor], gradients: list[Any], form: str = "list") -> Any:
    return student.function("gradient_norm")(parameters(student, values, gradients, form))


def norm_of(tensors: list[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))


def flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.double().flatten() for tensor in tensors])


def norms_of(tensors: list[Tensor]) -> list[float]:
    return [norm_of([tensor]) for tensor in tensors]


WRONG_NORMS: dict[str, Callable[[list[Tensor]], float]] = {
    f"Your norm is {told}.": measure
    for told, measure in {
        "the sum of the norms of the parameters: their squares add up, not they themselves": (
            lambda g: sum(norms_of(g))
        ),
        "the mean of the norms of the parameters": lambda g: sum(norms_of(g)) / len(g),
        "the norm of the sums: each gradient is summed up before it is squared": (
            lambda g: norm_of([tensor.sum() for tensor in g])
        ),
        "the sum of all gradients, without squares": lambda g: float(flat(g).sum()),
        "squared: the square root is missing": lambda g: norm_of(g) ** 2,
        "the largest norm of any one parameter": lambda g: max(norms_of(g)),
        "the largest element: that is the maximum norm, not the L2 norm": (
            lambda g: float(flat(g).abs().max())
        ),
        "the L1 norm: the sum of the magnitudes": lambda g: float(flat(g).abs().sum()),
        "the mean magnitude of the gradients' elements": lambda g: float(flat(g).abs().mean()),
        "the root mean square: the squares are to be summed, not averaged": (
            lambda g: float(flat(g).square().mean().sqrt())
        ),
        "the mean of the squares": lambda g: float(flat(g).square().mean()),
        "the square root of the norm: the root is taken twice": lambda g: math.sqrt(norm_of(g)),
        "the square root of the sum of the norms, which are not squared": (
            lambda g: math.sqrt(sum(norms_of(g)))
        ),
        "that of the last parameter alone": lambda g: norm_of(g[-1:]),
        "that of the first parameter alone": lambda g: norm_of(g[:1]),
        "that of the weights alone: the gradients of vectors, such as biases, are missing": (
            lambda g: norm_of([tensor for tensor in g if tensor.dim() > 1])
        ),
        "the standard deviation of the gradients": lambda g: float(flat(g).std()),
    }.items()
}


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Skip a parameter whose .grad is None; think of a model that has no gradients.")
def test_gradient_norm_of_missing_gradients(student: Student) -> None:
    """A gradient that is None adds nothing, and without any gradient the norm is 0.0."""
    values = [torch.ones(2), torch.ones(3), torch.ones(2, 2)]
    # The last one is the largest, so that no slip looks like another one.
    first, last = torch.rand(2, dtype=torch.float64), torch.rand(2, 2, dtype=torch.float64) + 2
    assert_close(
        norm(student, [value.double() for value in values], [first, None, last]),
        norm_of([first, last]),
        what="the norm of three gradients of which the second is None",
    )
    of_none = norm(student, values, [None, None, None])
    assert_close(of_none, 0.0, what="the norm of three gradients that are all None")
    assert_close(norm(student, [], []), 0.0, what="the norm of no parameters")
    assert_close(
        norm(student, values[::2], [first.float(), last.float()], "frozen"),
        norm_of([first, last]),
        what="the norm of parameters that are frozen and still have gradients",
        rtol=1.3e-6,
        atol=1e-5,
    )


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("A generator can be iterated once, and has no length: go through it once.")
def test_gradient_norm_of_a_generator(student: Student) -> None:
    """The parameters may come from a generator, as those of model.parameters() do."""
    # The first one is the larger, so that no slip looks like another one.
    gradients = [torch.rand(2, dtype=torch.float64) + 2, torch.rand(3, 2, dtype=torch.float64)]
    values = [torch.ones_like(gradient) for gradient in gradients]
    with explained(
        TypeError,
        "A generator has no length and no indices; iterate it, or make a list of it first.",
        "With a generator of parameters",
        "generator",
    ):
        answer = norm(student, values, gradients, "generator")
    assert_close(
        answer,
        norm_of(gradients),
        what="the norm of parameters from a generator",
    )


@contextlib.contextmanager
def explained(
    errors: type[Exception] | tuple[type[Exception], ...], why: str, where: str, word: str = ""
) -> Iterator[None]:
    """Say of an error of the student's code, if it has the word, where it came up and why."""
    try:
        yield
    except errors as error:
        if word not in str(error):
            raise
        raise AssertionError(f"{where} your code raised {error}. {why}") from None


@pytest.mark.points(2)
@pytest.mark.place("gradient_norm")
@pytest.mark.word("inf and NaN are the same for all inputs")
@pytest.mark.hint("Do nothing about infinity and NaN: the arithmetic carries them through.")
def test_gradient_norm_non_finite(student: Student) -> None:
    """Infinite and NaN gradients make the norm infinite and NaN."""
    for bad, expected in [(INF, INF), (-INF, INF), (NAN, NAN)]:
        spoiled, sound = torch.randn(3, 2, dtype=torch.float64), torch.randn(2).double()
        spoiled[1, 0] = bad
        values = [torch.ones(3, 2).double(), torch.ones(2).double()]
        answer = norm(student, values, [spoiled, sound])
        assert not (isinstance(answer, float) and math.isfinite(answer)), (
            f"A gradient of {bad} is hidden: the norm is {answer:.4g}, it should be {expected}."
        )
        assert_close(answer, expected, what=f"the norm with a gradient of {bad}")


@pytest.mark.requires("test_gradient_norm")
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Compute with new tensors; functions that end in an underscore work in place.")
def test_gradient_norm_changes_nothing(student: Student) -> None:
    """The gradients stay as they are, also where they are None, infinite or NaN."""
    first, last = torch.randn(3, 2).double() + 3, torch.randn(2).double() + 3
    values = [torch.ones(3, 2).double(), torch.ones(3).double(), torch.ones(2).double()]
    check_gradients_stay(
        student,
        values,
        [first, None, last],
        "the list of gradients after gradient_norm",
    )
    for bad in (INF, NAN):
        spoiled, sound = torch.tensor([1.0, bad]), torch.tensor([2.0, 3.0])
        check_gradients_stay(
            student,
            [torch.ones(2)] * 2,
            [spoiled, sound],
            f"the list of gradients [1, {bad}] and [2, 3] after gradient_norm",
        )


def check_gradients_stay(
    student: Student, values: list[Tensor], gradients: list[Any], what: str
) -> None:
    seen = laws.observe(student, "gradient_norm", parameters(student, values, gradients))
    left = entry(seen.checked().after(0), "items", kind=list)
    after = [entry(fact, "grad", default=None) for fact in left]
    assert_close(after, gradients, what=what)


# --- initialize ----------------------------------------------------------------------------------


def initialize(student: Student, model: str, scheme: str, *frozen: str) -> laws.Observation:
    """What initialize makes of a model of the probe that holds other numbers beforehand."""
    return laws.observe(student, "initialize", student.made("model", model, frozen), scheme)


def initialized(student: Student) -> dict[str, laws.Observation]:
    """What it makes of the probe's Network with each scheme, which several tests look at."""
    return student.once(
        "network", lambda: {s: initialize(student, "network", s).checked() for s in SCHEMES}
    )


def check_initializes(student: Student) -> None:
    """That initialize fills the first layer: until then, what it leaves alone is no merit."""
    seen = initialized(student)["ones"]
    weight = entry(seen.after(0), "parameters", "first.weight", "values", default=None)
    assert laws.same(weight, torch.ones(3, 4)), (
        'initialize(model, "ones") does not fill the weight of the first nn.Linear with ones yet: '
        "that comes first."
    )


def values_of(seen: laws.Observation, names: list[str]) -> tuple[State, State]:
    """The named parameters before and after, which a student may have replaced."""
    states = []
    for when, facts in (("before", seen.before(0)), ("after", seen.after(0))):
        what = f"{{}} {when} initialize"
        states.append(
            {
                name: assert_tensor(
                    entry(facts, "parameters", name, "values", default=None),
                    dtype=torch.float32,
                    what=what.format(f"the {name}"),
                )
                for name in names
            }
        )
    return states[0], states[1]


@pytest.mark.points(5)
@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint(
    "model.modules() yields every module, however deep; fill those that are nn.Linear."
)
def test_initialize_every_linear(student: Student) -> None:
    """Every nn.Linear is initialized, however deep it is nested."""
    names = [f"{layer}.weight" for layer in LINEAR]
    for scheme, seen in reversed(initialized(student).items()):
        before, after = values_of(seen, names)
        unchanged = [name for name in names if torch.equal(before[name], after[name])]
        where = f'After initialize(model, "{scheme}") the weight'
        assert unchanged != names, (
            f"{where}s of several linear layers are all unchanged: fill those of the model that "
            "you are given, in place."
        )
        assert "first.weight" not in unchanged, (
            f"{where} first.weight is unchanged: it belongs to the first of several linear layers, "
            "all of which are to be initialized."
        )
        assert not unchanged, (
            f"{where} {unchanged[0]} is unchanged: it belongs to a linear layer that is nested in "
            "other modules. Look at all modules, not only at the model's direct children."
        )
        if scheme == "ones":
            expected = {name: torch.ones_like(before[name]) for name in names}
            assert_close(after, expected, what='the dict of weights after the scheme "ones"')


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint("model.modules() begins with the model itself, model.children() does not.")
def test_initialize_the_model_itself(student: Student) -> None:
    """A model that is itself an nn.Linear is initialized."""
    seen = initialize(student, "linear", "ones").checked()
    _before, after = values_of(seen, ["weight", "bias"])
    right = {"weight": torch.ones(3, 4), "bias": torch.zeros(3)}
    assert_close(
        after,
        right,
        what='the dict of parameters of an nn.Linear after initialize(linear, "ones")',
    )


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint(
    "isinstance(module, nn.Linear) sees subclasses, type(module) == nn.Linear does not."
)
def test_initialize_subclasses(student: Student) -> None:
    """An instance of a subclass of nn.Linear is initialized, too."""
    names = [f"{layer}.weight" for layer in SUBCLASSES]
    before, after = values_of(initialized(student)["ones"], names)
    assert_close(
        after,
        {name: torch.ones_like(before[name]) for name in names},
        what='the dict of weights of subclasses of nn.Linear after the scheme "ones"',
    )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("zeros are the same for all models")
@pytest.mark.hint("nn.init.zeros_(module.bias), but only where module.bias is not None.")
def test_initialize_biases(student: Student) -> None:
    """Biases become zero under every scheme, and a linear layer may have none."""
    names = [f"{layer}.bias" for layer in LINEAR]
    for scheme, seen in initialized(student).items():
        before, after = values_of(seen, names)
        assert_close(
            after,
            {name: torch.zeros_like(before[name]) for name in names},
            what=f'the dict of biases after the scheme "{scheme}"',
        )
    why, where = "The bias of such a layer is None; skip it.", "With nn.Linear(..., bias=False)"
    with explained((AttributeError, TypeError, ValueError), why, where):
        seen = initialize(student, "without bias", "ones").checked()
    right = {"0.weight": torch.ones(3, 4), "1.weight": torch.ones(2, 3), "1.bias": torch.zeros(2)}
    before, after = values_of(seen, list(right))
    assert_close(
        after,
        right,
        what="the dict of parameters of a model whose first linear layer has no bias",
    )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("what was there before and after is the sandbox's")
@pytest.mark.hint("Ask for nn.Linear, not for what has a weight, a bias or two dimensions.")
def test_initialize_leaves_the_rest(student: Student) -> None:
    """Other layers' parameters and buffers stay as they are, and so does the training mode."""
    check_initializes(student)
    for scheme, seen in initialized(student).items():
        before, after = facts_of(seen.before(0)), facts_of(seen.after(0))
        for other, owner in OTHERS.items():
            for name in [name for name in before if str(name).startswith(other)]:
                left = entry(after, name, "values", default=None)
                assert laws.same(left, entry(before, name, "values")), (
                    f'initialize(model, "{scheme}") changed {name}, which is {owner}; only an '
                    "nn.Linear is to be initialized."
                )
        assert_equal(
            entry(seen.after(0), "training"),
            entry(seen.before(0), "training"),
            what="the dict of training modes after initialize",
        )


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that the objects are the same")
@pytest.mark.hint("The functions of torch.nn.init fill a parameter in place; call nothing else.")
def test_initialize_in_place(student: Student) -> None:
    """The parameters stay the same objects, with their .grad and requires_grad."""
    check_initializes(student)
    frozen = ["first.weight", "first.bias", "block.0.weight"]
    told = (
        "Fill each parameter in place: it stays the same object, with its .grad and requires_grad, "
        "or an optimizer would go on with the old one."
    )
    only = ("parameters", "grad", "requires_grad")
    for scheme in SCHEMES:
        network = student.made("model", "network", frozen)
        laws.check_changes_nothing(student, "initialize", network, scheme, only=only, told=told)
        before, after = values_of(initialize(student, "network", scheme, *frozen), frozen)
        for name in frozen:
            assert not torch.equal(before[name], after[name]), (
                f"{name}, which is frozen (requires_grad=False), is unchanged: every nn.Linear is "
                "to be initialized, whether it learns or not."
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


def known_spreads(fan_in: int, fan_out: int) -> dict[str, tuple[str, float]]:
    """Known initializations of a linear layer: the shape, and the standard deviation."""
    both = fan_in + fan_out
    return {
        'kaiming_normal_ with mode="fan_out"; the default is fan_in': (
            "normal",
            math.sqrt(2 / fan_out),
        ),
        'kaiming_normal_ with nonlinearity="linear", without the gain of sqrt(2); leave the '
        "nonlinearity at its default": ("normal", math.sqrt(1 / fan_in)),
        'kaiming_normal_ with nonlinearity="tanh"': ("normal", 5 / 3 / math.sqrt(fan_in)),
        "kaiming_normal_": ("normal", math.sqrt(2 / fan_in)),
        "kaiming_uniform_": ("uniform", math.sqrt(2 / fan_in)),
        'kaiming_uniform_ with mode="fan_out"': ("uniform", math.sqrt(2 / fan_out)),
        "xavier_normal_": ("normal", math.sqrt(2 / both)),
        "xavier_uniform_": ("uniform", math.sqrt(2 / both)),
        "xavier_uniform_ with a gain of sqrt(2), that of ReLU; leave the gain at its default": (
            "uniform",
            math.sqrt(4 / both),
        ),
        "xavier_uniform_ with a gain of 5/3, that of tanh; leave the gain at its default": (
            "uniform",
            5 / 3 * math.sqrt(2 / both),
        ),
        "nn.Linear's own initialization": ("uniform", math.sqrt(1 / (3 * fan_in))),
        "normal_ with mean 0 and standard deviation 1": ("normal", 1.0),
        "normal_ with standard deviation 0.01": ("normal", 0.01),
        "normal_ with standard deviation 0.02": ("normal", 0.02),
    }


def new_fans() -> tuple[int, int]:
    """The sizes of a linear layer of about 10000 entries, four times as high as wide."""
    fan_in = random.randrange(46, 55)
    return fan_in, 10000 // fan_in


def check_spread(
    student: Student, scheme: str, fans: tuple[int, int], shape: str, std: float, range_: str
) -> None:
    """Compare how a weight is spread by a scheme, and name the scheme that it looks like."""
    fan_in, fan_out = fans
    model = student.made("wide", fan_in, fan_out)
    seen = laws.observe(student, "initialize", model, scheme).checked()
    _, after = values_of(seen, ["0.weight"])
    weight = after["0.weight"]
    assert_tensor(weight, shape=(fan_out, fan_in), what="the 0.weight after initialize")
    spread = Spread(weight)
    if spread.is_about(shape, std):
        return
    looks = "That is how it was before." if abs(spread.mean - 2.5) < 0.1 else ""
    known = known_spreads(fan_in, fan_out).items()
    likeness = [name for name, known_spread in known if spread.is_about(*known_spread)]
    looks = f"That looks like {likeness[0]}." if likeness else looks
    raise AssertionError(
        f'After initialize(nn.Linear({fan_in}, {fan_out}), "{scheme}") the weight should be {shape} '
        f"{range_}, with standard deviation {std:.4f}; yours has mean {spread.mean:.4f}, standard "
        f"deviation {spread.std:.4f} and greatest magnitude {spread.largest:.4f}. {looks}"
    )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.xavier_uniform_(module.weight), with no other argument.")
def test_initialize_xavier_uniform(student: Student) -> None:
    """The scheme xavier_uniform is uniform within sqrt(6 / (fan_in + fan_out))."""
    fans = new_fans()
    bound = math.sqrt(6 / sum(fans))
    range_ = f"within ±{bound:.4f}"
    check_spread(student, "xavier_uniform", fans, "uniform", bound / math.sqrt(3), range_)


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.kaiming_normal_(module.weight), with no other argument.")
def test_initialize_kaiming_normal(student: Student) -> None:
    """The scheme kaiming_normal is normal with standard deviation sqrt(2 / fan_in)."""
    fans = new_fans()
    check_spread(student, "kaiming_normal", fans, "normal", math.sqrt(2 / fans[0]), "around 0")


@pytest.mark.place("initialize")
@pytest.mark.word("two different draws can be made up")
@pytest.mark.hint("Set no seed in initialize; compare_initializations does.")
def test_initialize_draws_anew(student: Student) -> None:
    """Each call of initialize draws other random weights."""
    for scheme in SCHEMES[:2]:
        pair = entry(student.run("initialize_twice", scheme), kind=list, count=2)
        first, second = (assert_tensor(weight, what="the weight") for weight in pair)
        assert not torch.equal(first, second), (
            f'Two calls of initialize(layer, "{scheme}") give the same weight: is a seed set in '
            "initialize? It may only draw from torch's random state as it is."
        )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Begin with: if scheme not in SCHEMES, raise a ValueError that tells both.")
def test_initialize_unknown_scheme(student: Student) -> None:
    """An unknown scheme is a ValueError that names scheme and the known ones."""
    check_initializes(student)
    linear, other = (student.made("model", kind) for kind in ("without bias", "without linear"))
    unknown = [(linear, scheme) for scheme in ("xavier", "orthogonal", "xavier_normal")]
    known = {scheme: [(linear, "orthogonal")] for scheme in SCHEMES}
    table = {"scheme": [*unknown, (other, "kaiming")], **known}
    laws.check_errors(student, "initialize", table)


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check the scheme before the loop over the modules begins.")
def test_initialize_refuses_before_changes(student: Student) -> None:
    """An unknown scheme is refused before anything in the model has changed."""
    check_initializes(student)
    network = student.made("model", "network")
    told, only = (
        "Check the scheme first: an unknown one is refused before anything has changed.",
        (
            "values",
            "buffers",
        ),
    )
    laws.check_changes_nothing(
        student, "initialize", network, "orthogonal", raises=ValueError, only=only, told=told
    )


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


def new_batches(count: int, dtype: torch.dtype = torch.float64) -> list[Batch]:
    """Batches of different sizes, with targets so large that the gradients' norm is above 1.

    The targets differ so much that the first, last, largest and smallest norm of an epoch and its
    median belong to different batches, where there are five.
    """
    return [
        (torch.randn(4 + i, 3, dtype=dtype), torch.randn(4 + i, 2, dtype=dtype) + 3 * target)
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
    stale: float = 0.0,
    slip: str = "",
    measure: Callable[[list[Tensor]], float] = norm_of,
) -> tuple[Tensor, State]:
    """Train as expected, or with a slip: the norms `(epochs, batches)` and the final state.

    By hand and without torch.optim, whose import takes longer than all of the tests together.
    """
    network = MODELS[model]().to(next(iter(state.values())).dtype)
    network.load_state_dict(state)
    network.train(training)
    parameters = list(network.parameters())
    gradients = [torch.full_like(parameter, stale) for parameter in parameters]
    speeds, squares = ([torch.zeros_like(p) for p in parameters] for _ in "vs")
    rows: list[list[float]] = []
    steps = 0
    for batches in passes:
        rows.append([])
        if slip == "accumulates within an epoch":
            gradients = [torch.zeros_like(parameter) for parameter in parameters]
        for index, (inputs, targets) in enumerate(batches):
            last = index == len(batches) - 1
            if slip == "leaves out the last batch" and last:
                rows[-1].append(0.0)
                continue
            outputs = network(inputs)
            loss = loss_of(targets, outputs) if slip == "swaps" else loss_of(outputs, targets)
            loss = loss * {"divides": 1 / len(batches), "multiplies": len(inputs)}.get(slip, 1)
            fresh = list(torch.autograd.grad(loss, parameters))
            if slip.startswith("accumulates"):
                fresh = [old + new for old, new in zip(gradients, fresh, strict=True)]
            length = measure(fresh)
            if slip == "skips entirely" and not math.isfinite(length):
                rows[-1].append(0.0)
                continue
            clipped = [g * min(1.0, 1 / (length + 1e-6)) for g in fresh]
            rows[-1].append(
                {
                    "shows the batch before": measure(gradients),
                    "records the loss": loss.item(),
                    "clips first": measure(clipped),
                }.get(slip, length)
            )
            gradients = clipped if slip.startswith("clips") else fresh
            if (slip == "skips" and not math.isfinite(length)) or (
                slip == "steps once an epoch" and not last
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
    return torch.tensor(rows, dtype=torch.float64), copied(network)


def copied(network: nn.Module) -> State:
    """The state of a network, sorted by name."""
    state = network.state_dict()
    return {name: state[name].detach().clone() for name in sorted(state)}


Training = tuple[str, Made, Made, Made, Made, int]


def training_of(
    student: Student,
    model: str,
    state: State,
    passes: list[list[Batch]],
    epochs: int,
    *,
    optimizer: str = "SGD",
    momentum: float | None = None,
    held: str = "",
    **setting: Any,
) -> Training:
    """A call of train_with_monitor; the optimizer holds the parameters whose names begin so."""
    network = student.made("trainable", model, state, **setting)
    options = {"lr": LR} if momentum is None else {"lr": LR, "momentum": momentum}
    stepper = student.made("stepper", network, optimizer, held, options)
    loader, loss = student.made("loader", passes), student.made("loss")
    return "train_with_monitor", network, loader, loss, stepper, epochs


def train(
    student: Student, model: str, state: State, passes: list[list[Batch]], epochs: int, **more: Any
) -> laws.Observation:
    call = training_of(student, model, state, passes, epochs, **more)
    return laws.observe(student, *call).checked()


def facts_of(model: Any) -> dict[str, Any]:
    """The facts of a model's parameters and buffers by name."""
    return {**entry(model, "parameters", kind=dict), **entry(model, "buffers", kind=dict)}


def state_after(seen: laws.Observation) -> dict[str, Any]:
    """The state of the model after the call, sorted by name."""
    facts = facts_of(seen.after(0))
    return {name: entry(facts, name, "values", default=None) for name in sorted(facts, key=str)}


# Slips of training that later tests take for right: they cost points once.
SLIPS = (
    "accumulates",
    "accumulates within an epoch",
    "clips",
    "steps once an epoch",
    "swaps",
    "divides",
    "multiplies",
    "steps twice",
    "leaves out the last batch",
)


def own_training(student: Student) -> dict[str, Any]:
    """The usual mistakes of the student's training, as options of `trained`.

    With them later tests judge what is theirs, so that a mistake costs points once.
    """
    return student.once("training", lambda: observed_training(student))


def observed_training(student: Student) -> dict[str, Any]:
    state, batches = new_state("plain"), new_batches(2)
    seen = train(student, "plain", state, [batches], 2)
    final = state_after(seen)

    def fits(slip: str) -> bool:
        right = trained("plain", state, [batches] * 2, slip=slip)[1]
        return all(alike(final.get(name), right[name]) for name in right)

    slip = next(filter(fits, SLIPS), "") if not fits("") else ""
    return {"slip": slip, "measure": own_measure(student, state, batches, seen.value, slip)}


def own_measure(
    student: Student, state: State, batches: list[Batch], norms: Any, slip: str
) -> Callable[[list[Tensor]], float]:
    """What gradient_norm measures, right or wrong, if train_with_monitor records the same."""
    for measure in (norm_of, *WRONG_NORMS.values(), norm_without_first):
        options: dict[str, Any] = {"slip": slip, "measure": measure}
        if alike(norms, trained("plain", state, [batches] * 2, **options)[0]):
            gradients = [torch.rand(shape, dtype=torch.float64) for shape in ((2, 3), (4,), (3,))]
            values = [torch.ones_like(gradient) for gradient in gradients]
            answer = norm(student, values, gradients, "generator") if measure != norm_of else None
            same = isinstance(answer, float) and math.isclose(answer, measure(gradients))
            return measure if same else norm_of
    return norm_of


def norm_without_first(gradients: list[Tensor]) -> float:
    """The norm where something has taken the first parameter from the generator."""
    return norm_of(gradients[1:])


def alike(value: Any, right: Tensor) -> bool:
    fits = isinstance(value, Tensor) and value.dtype == right.dtype and value.shape == right.shape
    return fits and torch.allclose(value, right)


@pytest.mark.points(5)
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint(
    "For each batch: clear the gradients, forward, loss, backward, record the norm, step."
)
def test_norms_of_every_batch(student: Student) -> None:
    """The norm of every batch is recorded, in float64, in the order of epochs and batches."""
    state, batches = new_state("plain"), new_batches(2)
    norms = train(student, "plain", state, [batches], 3).value
    measure = own_training(student)["measure"]

    def norms_with(**options: Any) -> Tensor:
        return trained("plain", state, [batches] * 3, measure=measure, **options)[0]

    expected = norms_with()
    assert_close(
        norms,
        expected,
        what="the tensor of norms of three epochs with two batches",
    )
    single, singles = new_state("plain", torch.float32), new_batches(2, torch.float32)
    assert_close(
        train(student, "plain", single, [singles], 2).value,
        trained("plain", single, [singles] * 2, measure=measure)[0],
        what="the tensor of norms of a float32 model",
        rtol=1e-4,
        atol=1e-5,
    )


def check_trains(seen: laws.Observation, state: State) -> None:
    """That train_with_monitor trains: until then, what it leaves alone or refuses is no merit."""
    after = state_after(seen)
    names = [name for name in state if isinstance(after.get(name), Tensor)]
    assert isinstance(seen.value, Tensor), "train_with_monitor returns no tensor yet."
    assert names and not any(laws.same(after[name], state[name]) for name in names), (
        "train_with_monitor does not train the model yet: that comes first."
    )


@pytest.mark.points(3)
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint(
    "Each batch is one step of the given optimizer, on this model, with its gradient."
)
def test_training(student: Student) -> None:
    """The model itself is trained, one step of the optimizer a batch, by the batch's gradient."""
    state, batches = new_state("plain"), new_batches(3)
    seen = train(student, "plain", state, [batches], 2, momentum=0.9)

    def state_with() -> State:
        return trained("plain", state, [batches] * 2, momentum=0.9, slip="")[1]

    assert_close(
        state_after(seen),
        state_with(),
        what="the state dict of the model after training",
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_training")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("model.train() before the first batch.")
def test_train_mode(student: Student) -> None:
    """The model is trained in train mode, also where it was in eval mode before."""
    state, batches = new_state("batch"), new_batches(2)
    passes = [batches] * 2
    assert_close(
        state_after(train(student, "batch", state, [batches], 2, training=False)),
        trained("batch", state, passes)[1],
        what="the state dict of a model with batch normalization after training",
    )


@pytest.mark.place("train_with_monitor")
@pytest.mark.word("the sandbox says which mode it is in")
@pytest.mark.hint("model.train() before the first batch, and nothing about the mode afterwards.")
def test_left_in_train_mode(student: Student) -> None:
    """The model is in train mode afterwards, with all of its submodules."""
    seen = train(student, "batch", new_state("batch"), [new_batches(1)], 1, training=False)
    modes = entry(seen.after(0), "training", kind=dict)
    evaluating = [name for name, mode in modes.items() if mode is not True]
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
    measure = own_training(student)["measure"]
    norms = trained("plain", state, [batches] * 2, measure=measure)[0]
    assert_close(
        train(student, "plain", state, [batches], 2, optimizer="Fading").value,
        norms,
        what="the tensor of norms with an optimizer that halves the gradients as it steps",
    )


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Clear the gradients before each backward pass, also before the first one.")
def test_stale_gradients(student: Student) -> None:
    """Gradients from before the training do not count."""
    state, batches = new_state("plain"), new_batches(2)
    measured = functools.partial(trained, "plain", measure=own_training(student)["measure"])

    assert_close(
        train(student, "plain", state, [batches], 1, stale=STALE).value,
        measured(state, [batches])[0],
        what="the tensor of norms of a model that had gradients before",
    )


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("gradient_norm(model.parameters())")
def test_parameters_outside_the_optimizer(student: Student) -> None:
    """The norm is over all the model's parameters, not only those that the optimizer holds."""
    state, batches = new_state("plain"), new_batches(1)
    network = MODELS["plain"]().double()
    network.load_state_dict(state)
    loss = loss_of(network(batches[0][0]), batches[0][1])
    gradients = list(torch.autograd.grad(loss, list(network.parameters())))
    measure = own_training(student)["measure"]
    everything, _held = (torch.tensor([[measure(g)]]).double() for g in (gradients, gradients[2:]))
    assert_close(
        train(student, "plain", state, [batches], 1, held="2.").value,
        everything,
        what="the norm with an optimizer that holds the last layer only",
        rtol=1e-6,
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_norms_of_every_batch", "test_gradient_norm_non_finite")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Treat a norm that is not finite like any other: record it, step, go on.")
def test_non_finite_norms(student: Student) -> None:
    """A norm that is not finite is recorded, and training goes on."""
    # One weight and one bias: an infinite input makes all gradients infinite and none of them NaN.
    state = {"bias": torch.tensor([0.25]).double(), "weight": torch.tensor([[0.5]]).double()}
    targets = torch.randn(2, 1).double()
    inputs = [[1.0, 2.0], [1.0, INF], [2.0, 1.0], [NAN, 1.0], [1.5, 0.5]]
    batches = [(torch.tensor(column).double()[:, None], targets) for column in inputs]
    seen = train(student, "line", state, [batches], 2, optimizer="Robust")

    def robust() -> tuple[Tensor, State]:
        return trained("line", state, [batches] * 2, rule="robust", slip="")

    expected, final = robust()
    assert_close(
        seen.value,
        expected,
        what="the tensor of norms with infinite and NaN inputs",
    )
    assert_close(
        state_after(seen),
        final,
        what="the state dict after training with infinite and NaN inputs",
    )


@pytest.mark.place("train_with_monitor")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Begin with: if epochs < 1, raise a ValueError that names epochs.")
def test_epochs_below_one(student: Student) -> None:
    """Fewer than one epoch is a ValueError."""
    state, batches = new_state("linear"), new_batches(1)
    check_trains(train(student, "linear", state, [batches], 1), state)
    calls = [training_of(student, "linear", state, [batches], n)[1:] for n in (0, -1)]
    laws.check_errors(student, "train_with_monitor", {"epochs": calls})


@pytest.mark.requires("test_training")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Iterate the loader itself in each epoch: it may shuffle anew.")
def test_new_pass_each_epoch(student: Student) -> None:
    """Each epoch is a new pass over the loader, which may yield its batches in another order."""
    state, batches = new_state("linear"), new_batches(3)
    orders = [batches, batches[1:] + batches[:1]]
    assert_close(
        state_after(train(student, "linear", state, orders, 2, momentum=0.9)),
        trained("linear", state, orders, momentum=0.9)[1],
        what="the state dict after two epochs with a loader that shuffles",
    )


@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Set no seed in train_with_monitor, and draw no random numbers of your own.")
def test_random_state_kept(student: Student) -> None:
    """Training seeds nothing, and draws no random numbers where the model draws none."""
    state, batches = new_state("linear"), new_batches(1)
    check_trains(train(student, "linear", state, [batches], 1), state)
    call = training_of(student, "linear", state, [batches], 1)
    told = "Only compare_initializations seeds: is there a seed set, or a random number drawn?"
    laws.check_changes_nothing(student, *call, only=("random",), told=told)


# --- compare_initializations ---------------------------------------------------------------------


def compare(
    student: Student, model: str, batches: list[Batch], *, shuffled: bool = False, **options: Any
) -> laws.Observation:
    loader = student.made("loader", [batches], shuffled=shuffled)
    builder, loss = student.made("builder", model), student.made("loss")
    call = "compare_initializations", builder, loader, loss
    return laws.observe(student, *call, **options).checked()


@pytest.mark.place("compare_initializations")
@pytest.mark.word("the keys are the same for all inputs")
@pytest.mark.hint("A dict that is filled in the order of SCHEMES.")
def test_compare_schemes(student: Student) -> None:
    """The result has one entry for each scheme, in the order of SCHEMES."""
    result = compare(student, "linear", new_batches(1), epochs=1).value
    kind = "None" if result is None else f"a {getattr(result, 'type_name', type(result).__name__)}"
    assert isinstance(result, dict), (
        f"compare_initializations should return a dict, yours returned {kind}."
    )
    assert_equal(
        list(result),
        SCHEMES,
        what="the list of keys of compare_initializations",
    )


# A single layer full of ones: everything is known of it, whatever is seeded.
ONES = {"0.bias": torch.zeros(2).double(), "0.weight": torch.ones(2, 3).double()}


@pytest.mark.points(4)
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("torch.optim.SGD(model.parameters(), lr=lr), and the mean over the batches.")
def test_compare_initializations(student: Student) -> None:
    """Each value is the mean norm of every epoch of training with plain SGD at the given rate."""
    batches = new_batches(5)
    result = compare(student, "linear", batches, lr=0.03, epochs=2, seed=3).value
    own = own_training(student)

    def norms_with(start: State = ONES, **options: Any) -> Tensor:
        return trained("linear", start, [batches] * 2, lr=0.03, **{**own, **options})[0]

    norms = norms_with()
    assert_close(
        entry(result, "ones", default=None),
        norms.mean(dim=1),
        what='the tensor for "ones"',
    )


@pytest.mark.points(4)
@pytest.mark.requires("test_compare_initializations")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("For each scheme: torch.manual_seed(seed), then build, initialize, train.")
def test_compare_seeds_each_scheme(student: Student) -> None:
    """Every scheme begins with the seed, and then builds a new model and initializes it."""
    batches = new_batches(2)
    seen = compare(student, "scaled", batches, lr=0.02, epochs=2, seed=5)

    own = own_training(student)

    assert_close(
        [entry(seen.value, scheme, default=None) for scheme in SCHEMES],
        means([state for state, _ in starts(student, "scaled", 5)], batches, own),
        what="the list of the tensors of all schemes",
    )


def starts(student: Student, model: str, seed: int) -> list[tuple[State, list[list[int]]]]:
    """How the training of each scheme begins: the state, and the orders of five batches, twice."""
    begun = student.run("starts", model, seed, SCHEMES)
    like, found = new_state(model), []
    for scheme in SCHEMES:
        state = {
            name: assert_tensor(
                entry(begun, scheme, "state", name, default=None),
                shape=like[name].shape,
                dtype=like[name].dtype,
                what=f"the {name} of a model after initialize",
            )
            for name in sorted(like)
        }
        drawn = entry(begun, scheme, "orders", default=None)
        orders = assert_tensor(drawn, shape=(2, 5), dtype=torch.int64, what="what is drawn")
        found.append((state, [[i % 5 for i in order] for order in orders.tolist()]))
    return found


@pytest.mark.requires("test_compare_seeds_each_scheme")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("Hand the loader on as it is, and seed once for each scheme: before you build.")
def test_compare_shuffled_loader(student: Student) -> None:
    """A loader that shuffles does so anew in each epoch, and goes on where initialize stopped."""
    batches, options = new_batches(5), {"lr": 0.02, "epochs": 2, "seed": 5}
    seen = compare(student, "scaled", batches, shuffled=True, **options)
    begun, own = starts(student, "scaled", 5), own_training(student)

    def means_of(orders: list[list[list[int]]]) -> list[Tensor]:
        rows = []
        for (state, _), passes in zip(begun, orders, strict=True):
            ordered = [[batches[i] for i in order] for order in passes]
            rows.append(trained("scaled", state, ordered, lr=0.02, **own)[0].mean(dim=1))
        return rows

    orders = [order for _, order in begun]
    assert_close(
        [entry(seen.value, scheme, default=None) for scheme in SCHEMES],
        means_of(orders),
        what="the list of the tensors of all schemes, with a loader that shuffles",
    )


def means(states: list[State], batches: list[Batch], own: dict[str, Any]) -> list[Tensor]:
    """The mean norms of two epochs of training from each of these states."""
    runs = [trained("scaled", state, [batches] * 2, lr=0.02, **own) for state in states]
    return [norms.mean(dim=1) for norms, _ in runs]


# What is done for each of the three schemes, in which order (see `starting`).
SEEDS = {"s": 5, "t": 6, "u": 7, "z": 0, "f": 42}


def starting(flow: str, seed: int) -> list[State]:
    """The states in which training begins: b builds, c copies what was built, i initializes.

    The other letters seed.
    """
    torch.manual_seed(seed)
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


def fill(linear: nn.Module, scheme: str) -> None:
    assert isinstance(linear, nn.Linear)  # for the type checker
    getattr(nn.init, f"{scheme}_")(linear.weight)
    nn.init.zeros_(linear.bias)


@pytest.mark.requires("test_compare_seeds_each_scheme")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("lr=0.01, epochs=50, seed=0, as in the stub.")
def test_compare_defaults(student: Student) -> None:
    """By default there are 50 epochs at a learning rate of 0.01, with the seed 0."""
    batches = new_batches(1)
    result = compare(student, "linear", batches).value
    (state, _), *_ = starts(student, "linear", 0)
    history = assert_tensor(
        entry(result, "xavier_uniform", default=None),
        shape=(50,),
        dtype=torch.float64,
        what='the tensor for "xavier_uniform" with the defaults',
    )

    def begun(start: State, lr: float = 0.01) -> Tensor:
        return trained("linear", start, [batches] * 50, lr=lr)[0].mean(dim=1)

    assert_close(
        history,
        begun(state),
        what='the tensor for "xavier_uniform" with the defaults',
    )


@pytest.mark.requires("test_compare_initializations", "test_gradient_norm_non_finite")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("norms.mean(dim=1) is NaN where a norm is, and that is expected.")
def test_compare_non_finite(student: Student) -> None:
    """An epoch with a norm that is not finite has a mean that is not finite."""
    batches = new_batches(2)
    batches[1][0][0, 0] = NAN
    result = compare(student, "linear", batches, lr=0.03, epochs=1).value
    assert_close(
        entry(result, "ones", default=None),
        torch.tensor([NAN], dtype=torch.float64),
        what='the tensor for "ones", where the second of two norms is NaN',
    )


# --- diagnose ------------------------------------------------------------------------------------


def verdicts(
    histories: list[list[float]],
    *,
    part: slice = slice(0, 5),
    exploding: Callable[[list[bool]], bool] = any,
    vanishing: Callable[[list[bool]], bool] = all,
    finite: Callable[[float], bool] = math.isfinite,
) -> list[str]:
    """What diagnose says, as expected or with another rule."""
    answers = []
    for history in histories:
        early = history[part]
        if not all(map(finite, early)) or exploding([norm > 1000.0 for norm in early]):
            answers.append("exploding")
        else:
            answers.append(
                "vanishing" if vanishing([norm < 0.001 for norm in early]) else "healthy"
            )
    return answers


# The epochs that wrong answers look at.


def check_verdicts(student: Student, histories: list[list[float]]) -> None:
    """Compare what diagnose says of each history, in both dtypes."""
    expected = verdicts(histories)
    for dtype in ("float64", "float32"):
        tensors = [torch.tensor(history, dtype=getattr(torch, dtype)) for history in histories]
        answers = entry(student.run("diagnoses", tensors), kind=list, count=len(histories))
        for history, answer, right in zip(histories, answers, expected, strict=True):
            what = f"the answer for {history} ({dtype})"
            assert_equal(answer if not isinstance(answer, str) else right, right, what=what)
            assert answer in ("exploding", "vanishing", "healthy"), (
                f'diagnose answers {answer[:40]!r} for {history}; the answers are "exploding", '
                '"vanishing" and "healthy".'
            )
        wrong = [h for h, a, right in zip(histories, answers, expected, strict=True) if a != right]
        assert_equal(
            answers,
            expected,
            what=f"the list of answers ({dtype}; the first wrong one is for {wrong[:1]})",
        )


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
    random.shuffle(histories)
    check_verdicts(student, histories)


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
    random.shuffle(histories)
    check_verdicts(student, histories)


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
    random.shuffle(histories)
    check_verdicts(student, histories)
    told = (
        "diagnose changes the tensor that it is given: compute with new tensors, and leave those of "
        "the caller as they are."
    )
    for history in histories:
        for dtype in (torch.float64, torch.float32):
            norms = torch.tensor(history, dtype=dtype)
            only = ("0.values",)
            laws.check_changes_nothing(student, "diagnose", norms, only=only, told=told)


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
    random.shuffle(histories)

    check_verdicts(student, histories)


@pytest.mark.requires("test_diagnose_exploding", "test_diagnose_vanishing")
@pytest.mark.place("diagnose")
@pytest.mark.hint("A slice may reach behind the end, an index may not.")
def test_diagnose_short_histories(student: Student) -> None:
    """Where there are fewer than five epochs, all of them count."""
    histories = [[5e3], [1e-4], [1.0], [1e-4, 1e-4], [1.0, 2.0, 5e3], [1e-4, 1e-4, 1e-4, 1.0]]
    random.shuffle(histories)
    check_verdicts(student, histories)


# --- plot_gradient_norms -------------------------------------------------------------------------


def plotted_once(student: Student) -> tuple[dict[str, Tensor], Any]:
    """Three histories and the figure of them, which takes longest and which tests look at."""
    histories = {
        "xavier_uniform": torch.rand(4, dtype=torch.float64) + 0.5,
        "deep, lr=0.1": torch.rand(7, dtype=torch.float64) * 100 + 2,
        "Third": torch.rand(2, dtype=torch.float64) / 100 + 0.001,
    }
    histories["deep, lr=0.1"][2:4] = torch.tensor([1e-10, 1e12])  # norms that vanish and explode
    return student.once("figure", lambda: (histories, plotted(student, histories)))


def plotted(student: Student, histories: dict[str, Tensor]) -> Any:
    return laws.figure_of(student, "plot_gradient_norms", histories)


def line_points(figure: Any, histories: dict[str, Tensor]) -> dict[str, Tensor]:
    """The points (n, 2) of each line; NaN behind its end is drawn as nothing and does not count."""
    lines = laws.lines_of(figure, list(histories))
    return {
        name: line[: len(histories[name])]
        if line[len(histories[name]) :, 1].isnan().all()
        else line
        for name, line in lines.items()
    }


def drawn(history: Tensor, start: int = 1) -> Tensor:
    """The points (n, 2) of a history whose epochs are counted from `start`."""
    y = history.double()
    x = torch.arange(start, start + len(y)).double()
    return torch.stack([x, y.where(y.isfinite(), NAN)], dim=1)


def check_lines(
    points: dict[str, Tensor],
    histories: dict[str, Tensor],
    what: str,
) -> None:
    """Compare the points of all lines; `mistakes` are what is drawn wrongly of each history."""
    assert_close(
        points,
        {name: drawn(history) for name, history in histories.items()},
        what=f"the dict of x and y of {what}",
        rtol=1e-6,
        atol=1e-12,
    )


@pytest.mark.points(3)
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.hint("ax.plot(range(1, len(norms) + 1), norms, label=name) for each history.")
def test_plot_lines(student: Student) -> None:
    """Each history is a line over the epochs 1 to n, labeled by its key, in one Axes."""
    histories, figure = plotted_once(student)
    laws.axes_of(figure)
    shapes = {name: list(history.shape) for name, history in histories.items()}
    check_lines(
        line_points(figure, histories),
        histories,
        f"the lines of histories of {shapes} epochs",
    )


@pytest.mark.points(2)
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.word("labels and scale are the same for all histories")
@pytest.mark.hint('ax.set_yscale("log"), ax.set_xlabel, ax.set_ylabel, and ax.legend() in the end.')
def test_plot_axes(student: Student) -> None:
    """The y axis is logarithmic, both axes have a label, and a legend names every history."""
    histories, figure = plotted_once(student)
    shown = entry(figure, "axes", kind=list)
    for axis in ("x", "y"):  # that all belongs in one Axes is another test
        labels = [str(entry(axes, f"{axis} label")).strip() for axes in shown]
        assert any(labels), f"The {axis} axis has no label: ax.set_{axis}label."
    legend = list(histories)
    laws.check_axes(figure, y_scale="log", labels=False, legend=legend, count=len(shown))


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
    lines = line_points(plotted(student, histories), histories)
    check_lines(
        # Where y is infinite there is a gap in the drawing, too.
        {name: line.where(line.isfinite(), NAN) for name, line in lines.items()},
        histories,
        "lines with gaps (NaN)",
    )
    told = "The history itself is changed: put NaN into a copy of it."
    only = ("0.values", "histories.values", "values")
    laws.check_changes_nothing(student, "plot_gradient_norms", histories, only=only, told=told)


@pytest.mark.points(2)
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.word("the sandbox says which figures are open")
@pytest.mark.hint("A matplotlib.figure.Figure() of your own needs no pyplot; else close yours.")
def test_plot_leaves_pyplot_alone(student: Student) -> None:
    """No window opens, no new figure stays in pyplot, and the caller's figures are left alone."""
    histories, figure = plotted_once(student)
    line_points(figure, histories)  # where nothing is drawn, what is left alone is no merit
    laws.check_leaves_pyplot(student, "plot_gradient_norms", {"first": torch.tensor([1.0, 2.0])})
