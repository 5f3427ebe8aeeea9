"""What ReLUFunction, relu and differs_from_torch promise, sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, gradgradcheck, laws
from grader.judge.student import Student

DTYPES = (torch.float64, torch.float32)
SHAPES = [(), (1,), (0,), (2, 0, 3), (7,), (3, 4), (2, 3, 2, 2)]
HUGE = [1e3, 1e10, 1e20, 1e30]

# --- the value -----------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("x.clamp(min=0), or torch.where, or a mask.")
def test_forward(student: Student) -> None:
    """relu(x) is x where x is positive, and 0 elsewhere."""
    for dtype in DTYPES:
        x = points(dtype)
        wrong = {
            f"Your relu is {name}: max(x, 0) is asked for.": wrong(x)
            for name, wrong in RELATIVES.items()
        }
        assert_close(value_at(student, x), x.clamp(min=0), what="relu(x)", mistakes=wrong)


@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("Python numbers as constants take on the dtype of x; tensors bring their own.")
def test_dtypes(student: Student) -> None:
    """The result has the dtype of x, in float32 and in float64."""
    laws.check_dtypes(student, "relu", torch.randn(3, 4), what="relu(x)")
    x = torch.rand(4, 5, dtype=torch.float64)
    laws.check_float64(student.function("relu")(x), x, what="relu(x)")


@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("Elementwise operations keep any shape by themselves; no view or reshape needed.")
def test_shapes(student: Student) -> None:
    """A result has the shape of x, 0-d and empty ones included, and so has the gradient."""
    laws.check_shapes(student, "relu", SHAPES, gradients=True, what="relu(x)")


@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("Elementwise operations take any strides; view(-1) and as_strided do not.")
def test_layouts(student: Student) -> None:
    """x may be transposed, sliced or expanded."""
    laws.check_layouts(student, "relu", points().reshape(2, 5, 4), what="relu(x)")


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("x.clamp(min=0) is a copy; x itself, x.clamp_(min=0) and x.relu_() are not.")
def test_shares_no_memory(student: Student) -> None:
    """The result shares no memory with x, also where nothing is negative."""
    where = "Is x itself returned where nothing is negative?"
    for x in (points(), torch.rand(3, 4) + 1, (torch.rand(4, 3) + 1).double().t(), torch.zeros(())):
        for kind in (x, x.detach().requires_grad_()):
            laws.check_shares_no_memory(student, "relu", kind, told=where)


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint(
    "Compute a new tensor: clamp_, relu_, +=, x[x < 0] = 0 and out=x change x itself."
)
def test_leaves_x(student: Student) -> None:
    """x stays as it is."""
    for dtype in DTYPES:
        for x in laws.kinds_of(points(dtype)):
            laws.check_changes_nothing(student, "relu", x, allow=("random",))


# --- the Function --------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("relu")
@pytest.mark.hint("return ReLUFunction.apply(x)")
def test_uses_function(student: Student) -> None:
    """relu goes through ReLUFunction.apply, so that your backward is the one that runs."""
    laws.check_applied(student, "relu", "ReLUFunction")


@pytest.mark.requires("test_uses_function")
@pytest.mark.place("relu")
@pytest.mark.hint("return ReLUFunction.apply(x), and nothing else.")
def test_grad_fn(student: Student) -> None:
    """The result's grad_fn is the backward node of ReLUFunction."""
    laws.check_grad_fn(student, "relu", "ReLUFunction")


@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("@staticmethod above both def forward and def backward.")
def test_declaration(student: Student) -> None:
    """ReLUFunction is a torch.autograd.Function with static methods forward and backward."""
    laws.check_declared(student, "relu", "ReLUFunction")


# --- the gradient --------------------------------------------------------------------------------


@pytest.mark.points(16)
@pytest.mark.requires("test_forward", "test_leaves_x")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint("return grad_output * (x >= 0), with the x of ctx.saved_tensors.")
def test_gradient(student: Student) -> None:
    """The gradient is grad_output where x >= 0, zeros of either sign included, and 0 where x < 0."""
    for dtype in DTYPES:
        x, g = points(dtype), torch.randn(5, 8, dtype=dtype)
        gradient = laws.gradient_at(relu(student), x, g, what="relu(x)")
        assert_close(
            gradient,
            g * derivative(x),
            what="the gradient of relu(x) for a random grad_output",
            mistakes=lambda x=x, g=g: gradient_mistakes(x, g),
        )


@pytest.mark.points(2)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint(
    "grad_output * mask is a new tensor; to assign by index, take grad_output.clone() first."
)
def test_leaves_grad_output(student: Student) -> None:
    """Backward leaves grad_output as it is, and neither pass draws random numbers or seeds."""
    for dtype in DTYPES:
        x, g = points(dtype), torch.randn(5, 8, dtype=dtype) + 2
        laws.check_changes_nothing(student, "relu", x, grad_output=g)


@pytest.mark.points(3)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint("Multiply by grad_output, or choose between it and 0, into a new tensor.")
def test_grad_output(student: Student) -> None:
    """grad_output may be any finite numbers, in any layout, expanded ones included."""
    x, both = points().detach(), laws.shipped(student, "both_passes")
    for layout, g in laws.layouts_of(torch.randn(5, 8, dtype=x.dtype)).items():
        what = f"the gradient for a grad_output {layout} in memory"
        laws.check_float64(both("relu", x, g), g * derivative(x), what=what)
    for number in (0.0, 1.0, -1e30, 1e-30):
        g = torch.tensor(number, dtype=x.dtype).expand(x.shape)
        seen = laws.observe(student, both, "relu", x, g).checked()
        what = f"the gradient for an expanded grad_output of {number:g}, over the largest"
        gradient = assert_tensor(seen.value, shape=x.shape, dtype=x.dtype, what="the gradient")
        assert_close(gradient / (abs(number) or 1), g.sign() * derivative(x), what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint(
    "Compare and choose; powers, roots and exponentials lose large numbers or small ones."
)
def test_extremes(student: Student) -> None:
    """Value and gradient are right for |x| up to 1e30, and for tiny x."""
    for dtype in DTYPES:
        for sizes in (HUGE, [1e-6, 1e-12, 1e-20, 1e-30]):
            x = torch.tensor([*sizes, *(-size for size in sizes)], dtype=dtype)
            y, what = value_at(student, x), f"for |x| from {sizes[0]:g} to {sizes[-1]:g} ({dtype})"
            laws.check_finite(y, what=f"relu(x) {what}", at=x, why="a square or a power overflows")
            assert_close(y, x.clamp(min=0), what=f"relu(x) {what}")
            gradient = laws.gradient_at(relu(student), x, torch.ones_like(x), what="relu(x)")
            assert_close(gradient, (x > 0).to(dtype), what=f"the gradient {what}")


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function", "test_gradient")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint("Compute from grad_output itself: no detach, no .data, no no_grad, no NumPy.")
def test_again_differentiable(student: Student) -> None:
    """The backward pass can itself be differentiated, with respect to grad_output."""
    x = torch.cat([torch.rand(9) + 0.1, -torch.rand(9) - 0.1]).double().reshape(3, 6)
    laws.check_again_differentiable(relu(student), x, derivative, torch.zeros_like)
    few = torch.tensor([1.5, -0.75], dtype=torch.float64, requires_grad=True)
    gradgradcheck(relu(student), (few,), what="the second derivative of relu")


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function", "test_gradient")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("ctx.save_for_backward(x) in forward, (x,) = ctx.saved_tensors in backward.")
def test_changed_between(student: Student) -> None:
    """If x is changed in place before backward, autograd raises, or the gradient is that at the old x."""
    for x in (torch.randn(4, 3).double(), torch.randn(3, 4).double().t()):
        # Opposite signs: each gradient tells which x it belongs to.
        laws.check_saved(student, "relu", x, derivative, changed=-x, itself=False)


# --- differs_from_torch --------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("differs_from_torch")
@pytest.mark.hint(
    "ours != theirs, of torch.autograd.grad(relu(point).sum(), point) and that of torch.relu."
)
def test_differs(student: Student) -> None:
    """differs_from_torch is True where the two gradients differ, which is where x is 0, else False."""
    for dtype in DTYPES:
        x = points(dtype)
        told = "differs_from_torch is True where {}: "
        one = (
            "are both gradients in one x.grad? There they add up. Take each by torch.autograd.grad."
        )
        values = "values do not differ, gradients do, and two in one x.grad add up."
        wrong = {
            f"differs_from_torch is False everywhere: {values}": torch.zeros_like(x) > 0,
            f"{told.format('x is positive')}{one}": x > 0,
            f"{told.format('x is positive or 0')}{one}": x >= 0,
            f"{told.format('they are equal')}it is asked where they differ.": x != 0,
            f"{told.format('x is 0, but not where it is -0.0')}that is a zero, too.": (x == 0)
            & ~x.signbit(),
        }
        what = "differs_from_torch(x)"
        assert_equal(student.function("differs_from_torch")(x), x == 0, what=what, mistakes=wrong)


@pytest.mark.points(2)
@pytest.mark.requires("test_differs")
@pytest.mark.place("differs_from_torch")
@pytest.mark.hint(
    "Compare element by element, and return what the comparison gives: no .any(), no list."
)
def test_differs_shapes(student: Student) -> None:
    """It has the shape of x, 0-d and empty ones included, whatever the layout of x."""
    differs = student.function("differs_from_torch")
    for shape in SHAPES:
        x = torch.randn(shape).round()
        assert_equal(differs(x), x == 0, what=f"differs_from_torch(x) for x of shape {shape}")
    for layout, x in laws.layouts_of(points().reshape(2, 5, 4)).items():
        assert_equal(differs(x), x == 0, what=f"differs_from_torch(x) for x {layout} in memory")
    x = torch.tensor([-1e30, -1e-30, 0.0, 1e-30, 1e30])
    assert_equal(differs(x), x == 0, what="differs_from_torch(x) for tiny and huge x")


@pytest.mark.points(3)
@pytest.mark.requires("test_differs")
@pytest.mark.place("differs_from_torch")
@pytest.mark.hint("Work on x.detach().clone().requires_grad_(), and with torch.autograd.grad.")
def test_differs_leaves_x(student: Student) -> None:
    """x may be data, a leaf or a result; neither it nor any .grad changes, nor does an old one count."""
    for dtype in DTYPES:
        for x in laws.kinds_of(points(dtype)):
            answer = laws.check_changes_nothing(student, "differs_from_torch", x)
            what = "differs_from_torch(x) for an x that is data, a leaf, or a result"
            assert_equal(answer, x.detach() == 0, what=what)


# --- the right answers and the mistakes ----------------------------------------------------------

RELATIVES: dict[str, Callable[[Tensor], Tensor]] = {
    "x itself": lambda x: x,
    "|x|": torch.abs,
    "min(x, 0), the negative half": lambda x: x.clamp(max=0),
    "max(-x, 0)": lambda x: (-x).clamp(min=0),
    "max(x, 1)": lambda x: x.clamp(min=1),
    "min(max(x, 0), 1)": lambda x: x.clamp(0, 1),
    "ReLU6, at most 6": lambda x: x.clamp(0, 6),
    "the mask, 0 and 1": lambda x: (x >= 0).to(x.dtype),
    "the mask, 0 and 1,": lambda x: (x > 0).to(x.dtype),
    "a leaky ReLU": lambda x: F.leaky_relu(x, 0.01),
    "softplus": F.softplus,
    "GELU": F.gelu,
    "ELU": F.elu,
}


def points(dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers of both signs (5, 8), and zeros of both signs among them, none where another one is."""
    x = 4 * torch.randn(5, 8, dtype=dtype)
    x[0, 1] = x[3, 4] = x[4, 6] = 0.0
    x[1, 5] = x[2, 2] = -0.0
    x[4, 0], x[0, 7] = 9.5, -9.5
    return x


def relu(student: Student) -> Callable[[Tensor], Tensor]:
    """The student's relu; what it gives for an x that requires a gradient is in the graph."""

    def attached(x: Tensor) -> Tensor:
        y = assert_tensor(student.function("relu")(x), shape=x.shape, what="relu(x)")
        laws.check_attached(y, "relu(x)")
        return y

    return attached


def value_at(student: Student, x: Tensor) -> Tensor:
    """The student's relu of x; dtypes have a test of their own."""
    y = assert_tensor(student.function("relu")(x), shape=x.shape, what="relu(x)")
    return y.detach().to(x.dtype)


def derivative(x: Tensor) -> Tensor:
    return (x >= 0).to(x.dtype)


def gradient_mistakes(x: Tensor, g: Tensor) -> dict[str, Tensor]:
    """What a backward pass may give in place of g where x >= 0."""
    zero, n = x == 0, x.numel()
    at_zero = "Your derivative at 0 is {}: here it is 1, so that the mask is x >= 0."
    passes = (
        "Your gradient passes everywhere, also where x is negative. Is it the x that came in that "
    )
    return {
        at_zero.format("0, as that of torch.relu (the mask x > 0)"): g * (x > 0),
        at_zero.format("1/2, as torch.maximum shares it"): g * ((x > 0) + 0.5 * zero),
        at_zero.format("0 where it is -0.0, which is a zero, too"): g * ~x.signbit(),
        at_zero.format("1 only where it is -0.0"): g * ((x > 0) | (zero & x.signbit())),
        f"{passes}backward compares? In the output 0 and negative look alike.": g,
        "Your gradient is the derivative alone: grad_output is forgotten. Multiply by it.": derivative(
            x
        ),
        "The derivative at 0 is 0, and grad_output is forgotten.": (x > 0).to(x.dtype),
        "Your gradient is grad_output where x is negative: the mask is the wrong way around.": g
        * (x < 0),
        "Your gradient is that where x <= 0: the mask is the wrong way around.": g * (x <= 0),
        "Your gradient is grad_output times relu(x): multiply by the derivative.": g
        * x.clamp(min=0),
        "Your gradient is grad_output times x: multiply by the derivative.": g * x,
        "Your gradient looks at the sign of grad_output: look at that of x.": g * (g >= 0),
        "The sign of your gradient is the wrong one.": -g * derivative(x),
        "Your gradient has the mean of a sum: divide by nothing.": g * derivative(x) / n,
        "grad_output is summed: multiply by it element by element.": g.sum() * derivative(x),
        "Your gradient is 0 everywhere.": torch.zeros_like(x),
    }
