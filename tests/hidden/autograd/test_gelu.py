"""What GELUFunction, gelu and the two checks promise, sentence by sentence."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, gradgradcheck
from grader.judge.student import Student

K = math.sqrt(2 / math.pi)
A = 0.044715
# The tolerance of float32, where float64 is not the point.
RTOL, ATOL = 1.3e-6, 1e-5
# How far a constant that is rounded to three digits leads, which is for the tests of precision to
# tell; another formula, like the one with erf, leads farther.
ROUNDED, ROUNDED_GRADIENT, ROUNDED_OTHER = 1e-4, 4e-4, 1e-3

# --- the value -----------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("0.5 * x * (1 + torch.tanh(u)), with u = math.sqrt(2 / math.pi) * (x + ...).")
def test_forward(student: Student) -> None:
    """gelu(x) is 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    x = torch.cat([torch.linspace(-5, 5, 81), 2 * torch.randn(40)]).reshape(11, 11).double()
    for dtype in (torch.float64, torch.float32):
        # The formula: dtypes and precision have tests of their own.
        y, x = value_at(student, x.to(dtype)).double(), x.to(dtype).double()
        if roughly(y, value(x), ROUNDED):
            continue
        assert_close(
            y,
            value(x),
            what="gelu(x)",
            mistakes=lambda: value_mistakes(x, y),
            rtol=RTOL,
            atol=ATOL,
        )


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("Write constants in full, and compute in the dtype of x.")
def test_forward_float64(student: Student) -> None:
    """gelu has the precision of its dtype, in float32 and in float64."""
    x = torch.linspace(-5, 5, 101)
    y = value_at(student, x).double()
    x = x.double()
    assert_close(
        y,
        value(x),
        what="gelu(x) in float32",
        mistakes=lambda: value_mistakes(x, y),
        rtol=RTOL,
        atol=ATOL,
    )
    x = torch.cat([torch.linspace(-5, 5, 101), 2 * torch.randn(100)]).double()
    x = x + 1e-3 * torch.rand(x.shape, dtype=x.dtype)  # no number that float32 holds exactly
    y = value_at(student, x).double()
    assert not torch.equal(y, y.float().double()), (
        "Your gelu of a float64 x has only the precision of float32: is x or the result converted "
        "to float32 on the way? Compute in the dtype of x."
    )
    assert_close(y, value(x), what="gelu(x) in float64", mistakes=lambda: value_mistakes(x, y))
    # A part that is computed in float32 may hide below the tolerance. Over a short way it does not:
    # its roundings make a staircase of what should be a slope.
    step = 1e-4
    up, down = value_at(student, x + step).double(), value_at(student, x - step).double()
    worst = ((up - down) / (2 * step) - derivative(x)).abs().max().item()
    assert worst < 1e-6, (
        "In float64 the values of your gelu follow the formula in steps, not smoothly: a part of "
        "forward is computed in float32. Compute in the dtype of x."
    )


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("Python numbers as constants take on the dtype of x; tensors bring their own.")
def test_dtypes(student: Student) -> None:
    """The result has the dtype of x, in float32 and in float64."""
    dtypes = [torch.float32, torch.float64]
    xs = [torch.randn(3, 4, dtype=dtype) for dtype in dtypes]
    ys = [assert_tensor(student.function("gelu")(x), what="gelu(x)") for x in xs]
    assert_equal(
        [str(y.dtype) for y in ys],
        [str(dtype) for dtype in dtypes],
        what="the list of the dtypes of gelu(x) for a float32 and a float64 x",
        mistakes=lambda: {
            "Your gelu always returns float32: it should keep the dtype of x.": ["torch.float32"]
            * 2,
            "Your gelu always returns float64: it should keep the dtype of x.": ["torch.float64"]
            * 2,
        },
    )


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("Elementwise operations keep any shape by themselves; no view or reshape needed.")
def test_shapes(student: Student) -> None:
    """A result has the shape of x, 0-d and empty ones included, and so has the gradient."""
    for shape in [(), (1,), (0,), (2, 0, 3), (7,), (3, 4), (2, 3, 2, 2)]:
        x = torch.randn(shape)
        x.requires_grad_()
        y = attached(student.function("gelu")(x), x, what=f"gelu of an x of shape {shape}")
        (gradient,) = torch.autograd.grad(y.sum(), x, allow_unused=True)
        what = f"the gradient at an x of shape {shape}"
        assert_tensor(gradient, shape=x.shape, dtype=x.dtype, what=what)


@pytest.mark.points(2)
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("exp, cosh and sinh overflow long before |x| = 1e4; tanh does not.")
def test_large_inputs(student: Student) -> None:
    """For |x| up to 1e4 the value is right and the gradient is finite."""
    sizes = [4.0, 6.0, 8.0, 11.0, 15.0, 25.0, 40.0, 100.0, 700.0, 2345.0, 1e4]
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([*sizes, *(-size for size in sizes)], dtype=dtype)
        y = value_at(student, x, what="gelu(x) for large |x|")
        check_finite(
            y,
            x,
            "gelu(x)",
            "exponentials overflow to inf, and inf / inf is NaN; torch.tanh is safe",
        )
        # From here on the formula is x or 0, with whatever constants.
        far = x.abs() >= 15
        assert_close(y.to(dtype)[far], torch.relu(x)[far], what=f"gelu(x) for large |x| ({dtype})")
        gradient = gradient_at(student, x, torch.ones_like(x))
        check_finite(
            gradient,
            x,
            "the gradient",
            "cosh, sinh and exp overflow to inf, and inf / inf and 0 * inf are NaN; "
            "1 - torch.tanh(u)**2 is safe",
        )
        assert_close(
            gradient[far],
            (x > 0).to(dtype)[far],
            what=f"the gradient for large |x| ({dtype})",
            mistakes=lambda: {
                "For large |x| your gradient is 0 everywhere: it is 1 where x is large and "
                "positive.": torch.zeros_like(x)[far],
            },
        )


# --- the Function --------------------------------------------------------------------------------


@pytest.mark.place("gelu")
@pytest.mark.hint("return GELUFunction.apply(x)")
def test_uses_function(student: Student) -> None:
    """gelu goes through GELUFunction.apply, so that your backward is the one that runs."""
    for x, mark, report in asked_for_nodes(student):
        node, marked = fields(report, "node", "marked")
        assert node is not None, (
            f"gelu of an x of shape {tuple(x.shape)} has no grad_fn although x requires a gradient: "
            "return what GELUFunction.apply(x) gives, without detach or no_grad."
        )
        assert same(marked, mark), (
            f"The result of gelu for an x of shape {tuple(x.shape)} was not computed by "
            "GELUFunction.apply: autograd differentiates it by itself, and never calls your "
            "backward. Return GELUFunction.apply(x)."
        )


@pytest.mark.requires("test_uses_function")
@pytest.mark.place("gelu")
@pytest.mark.hint("return GELUFunction.apply(x), and nothing else.")
def test_grad_fn(student: Student) -> None:
    """The result's grad_fn is the backward node of GELUFunction."""
    for x, _, report in asked_for_nodes(student):
        node, nodes, own = fields(report, "node", "nodes", "own")
        assert isinstance(nodes, list) and nodes[:1] == [own], (
            f"The grad_fn of gelu for an x of shape {tuple(x.shape)} is {str(node)[:60]}, not the "
            "node of GELUFunction: return what GELUFunction.apply(x) gives as it is, with no "
            "operation on it afterwards."
        )


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction")
@pytest.mark.hint("@staticmethod above both def forward and def backward.")
def test_declaration(student: Student) -> None:
    """GELUFunction is a torch.autograd.Function with static methods forward and backward."""
    report = student.run("declaration")
    function, forward, backward = fields(report, "function", "forward", "backward")
    assert function is True, "GELUFunction should be a subclass of torch.autograd.Function."
    for name, declared in (("forward", forward), ("backward", backward)):
        assert declared not in ("missing", "NoneType"), (
            f"GELUFunction defines no {name} of its own."
        )
        assert declared == "staticmethod", (
            f"GELUFunction.{name} is not a static method (it is a {str(declared)[:60]}): autograd "
            "calls it on the class, so write @staticmethod above it."
        )


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Compute new tensors: no trailing underscore, no +=, on what you were given.")
def test_leaves_arguments(student: Student) -> None:
    """Neither pass changes x, and backward does not change grad_output."""
    for dtype in (torch.float32, torch.float64):
        x, g = torch.randn(3, 4, dtype=dtype) + 2, torch.randn(3, 4, dtype=dtype) + 2
        student.function("gelu")(x.clone())
        assert not student.mutated, (
            "gelu changes x in place, its values or its requires_grad: compute new tensors, and "
            "leave the caller's as it is."
        )
        report = student.run("passes", x, g)
        names = (
            "x after the forward pass",
            "x after the backward pass",
            "grad_output after the backward pass",
        )
        # A pass that does nothing changes nothing: that is no merit.
        assert_tensor(*fields(report, "gradient"), shape=x.shape, what="the gradient")
        for name, held in zip(names, fields(report, *names), strict=True):
            tensor, _, when = name.partition(" after the ")
            held = assert_tensor(held, shape=x.shape, dtype=dtype, what=name)
            assert torch.equal(held, g if tensor == "grad_output" else x), (
                f"{tensor} has other values after the {when}: {when.split()[0]} changes "
                f"{tensor} in place. Compute new tensors instead."
            )


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("ctx.save_for_backward(x) in forward, (x,) = ctx.saved_tensors in backward.")
def test_saved_tensor(student: Student) -> None:
    """If x is changed in place before the backward pass, autograd raises its own error."""
    for transposed in (False, True):
        x, changed = torch.randn(4, 3).double(), torch.randn(4, 3).double()
        report = student.run("change_between", x, changed, transposed=transposed)
        gradient, raised, text = fields(report, "gradient", "raised", "message")
        which = "x (transposed, so not contiguous)" if transposed else "x"
        if raised is None:
            what = (
                f"After {which} was changed in place between forward and backward, backward raised "
                "nothing"
            )
            given = assert_tensor(gradient, shape=x.shape, what="the gradient").double()
            if (given - derivative(changed)).abs().max() < 1e-5:
                raise AssertionError(
                    f"{what} and gave the gradient at the changed x: keep x with "
                    "ctx.save_for_backward(x), not as an attribute of ctx, and not as x.data. "
                    "Autograd then notices."
                )
            if (given - derivative(x)).abs().max() < 1e-5:
                raise AssertionError(
                    f"{what}: what you saved is not x itself but a copy, or something computed from "
                    "x in forward. Save x itself, with ctx.save_for_backward(x): autograd then "
                    "notices."
                )
            raise AssertionError(
                f"{what}: save x itself, with ctx.save_for_backward(x); autograd then notices the "
                "change."
            )
        assert raised == "RuntimeError" and "modified by an inplace operation" in str(text), (
            f"After {which} was changed in place between forward and backward, backward raised "
            f"{str(raised)[:60]}: {str(text)[:200]!r}, not autograd's own RuntimeError about an "
            "in-place change: save x itself, with ctx.save_for_backward(x)."
        )


# --- the gradient --------------------------------------------------------------------------------


@pytest.mark.points(26)
@pytest.mark.requires("test_uses_function", "test_forward")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Product rule: one term for x and one for tanh(u), which needs the chain rule.")
def test_gradient(student: Student) -> None:
    """The gradient is the derivative of the formula."""
    x = torch.cat([torch.linspace(-4, 4, 61), 1.5 * torch.randn(60)]).reshape(11, 11).double()
    for dtype in (torch.float64, torch.float32):
        x = x.to(dtype)
        gradient = gradient_at(student, x, torch.ones_like(x)).double()
        x, d = x.double(), derivative(x.double())
        if roughly(gradient, d, ROUNDED_GRADIENT):
            continue
        assert_close(
            gradient,
            d,
            what="the gradient of gelu(x).sum()",
            mistakes=lambda: {
                **{
                    f"x is clamped to {limit} on the way, so that your gradient is the same for all "
                    "larger |x|: use x as it is.": derivative(x.clamp(-limit, limit))
                    for limit in (1, 2, 3)
                },
                "Your gradient is clipped to at most 1: it may be larger.": d.clamp(max=1),
                "Your gradient is clipped to at least 0: it may be negative.": d.clamp(min=0),
                "Your gradient is clipped to 0 and 1: it may lie outside.": d.clamp(0, 1),
                "grad_output is summed: multiply by it element by element.": x.numel() * d,
                "grad_output is added: multiply by it.": d + 1,
                **derivative_mistakes(x, gradient),
            },
            rtol=RTOL,
            atol=ATOL,
        )


@pytest.mark.points(6)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("return grad_output * derivative, element by element.")
def test_grad_output(student: Student) -> None:
    """The gradient is multiplied by whatever grad_output arrives, element by element."""
    x = 1.5 * torch.randn(4, 5).double()
    gs = [torch.randn(4, 5).double(), torch.rand(4, 5).double() + 2, torch.zeros(4, 5).double()]
    d = derivative(x)
    wrong: dict[str, Callable[[Tensor], Tensor]] = {
        "Your gradient is the derivative alone: grad_output is forgotten. Multiply by it.": (
            lambda g: d + 0 * g
        ),
        "Your gradient uses the sum of grad_output everywhere: multiply by grad_output element by "
        "element.": lambda g: d * g.sum(),
        "Your gradient uses the mean of grad_output everywhere: multiply by grad_output element by "
        "element.": lambda g: d * g.mean(),
        "Only the sign of grad_output counts: multiply by grad_output itself.": (
            lambda g: d * g.sign()
        ),
        "Your gradient uses the absolute value of grad_output: multiply by grad_output itself.": (
            lambda g: d * g.abs()
        ),
        "Your gradient is the derivative plus grad_output: multiply them.": lambda g: d + g,
        "grad_output comes in added to 1 less: multiply the derivative by it.": lambda g: d + g - 1,
        "grad_output is applied twice: multiply by it once.": lambda g: d * g * g,
        "Your gradient is divided by grad_output: multiply by it.": lambda g: d / g,
        "Your gradient is grad_output alone: multiply it by the derivative.": lambda g: g.clone(),
        "Your gradient uses the mean of grad_output over the first dimension: multiply by grad_output "
        "element by element.": lambda g: d * g.mean(0, keepdim=True),
        "Your gradient uses the mean of grad_output over the last dimension: multiply by grad_output "
        "element by element.": lambda g: d * g.mean(-1, keepdim=True),
        "Your gradient uses the sum of grad_output over the first dimension: multiply by grad_output "
        "element by element.": lambda g: d * g.sum(0, keepdim=True),
        "Your gradient uses the first element of grad_output everywhere: multiply by grad_output "
        "element by element.": lambda g: d * g.flatten()[0],
        "Your gradient uses the largest element of grad_output everywhere: multiply by grad_output "
        "element by element.": lambda g: d * g.max(),
    }
    gradients = [gradient_at(student, x, g).double() for g in gs]
    if not all(roughly(each, g * d, ROUNDED_OTHER) for each, g in zip(gradients, gs, strict=True)):
        assert_close(
            gradients,
            [g * d for g in gs],
            what="the list of gradients for three different grad_output",
            mistakes=lambda: {told: [f(g) for g in gs] for told, f in wrong.items()},
        )
    report = student.run("layouts", x, gs[0])
    names = ("contiguous", "transposed", "sliced")
    for name, gradient in zip(names, fields(report, *names), strict=True):
        what = f"the gradient for a {name} grad_output"
        assert_close(
            assert_tensor(gradient, what=what).double(), gs[0] * d, what=what, atol=ROUNDED_OTHER
        )


@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Write constants in full, and compute in the dtype of x.")
def test_gradient_float64(student: Student) -> None:
    """The gradient has the precision of its dtype, in float32 and in float64."""
    x = torch.linspace(-5, 5, 101)
    gradient = gradient_at(student, x, torch.ones_like(x)).double()
    x = x.double()
    assert_close(
        gradient,
        derivative(x),
        what="the gradient in float32",
        mistakes=lambda: derivative_mistakes(x, gradient),
        rtol=RTOL,
        atol=ATOL,
    )
    x = torch.cat([torch.linspace(-5, 5, 201), 2 * torch.randn(100)]).double()
    x = x + 1e-3 * torch.rand(x.shape, dtype=x.dtype)
    gradient = gradient_at(student, x, torch.ones_like(x))
    assert not torch.equal(gradient, gradient.float().double()), (
        "Your gradient at a float64 x has only the precision of float32: is something converted to "
        "float32 on the way? Compute in the dtype of x."
    )
    # Where the derivative crosses zero the tolerance is at its smallest. A grad_output of 3 lets a
    # rounded constant show there, and still forgives one that is rounded to float32.
    gradient = gradient_at(student, x, torch.full_like(x, 3.0))
    assert_close(
        gradient,
        3 * derivative(x),
        what="the gradient in float64",
        mistakes=lambda: {
            "Your gradient is the derivative alone: grad_output is forgotten. Multiply by it.": (
                derivative(x)
            ),
            **{told: 3 * wrong for told, wrong in derivative_mistakes(x, gradient / 3).items()},
        },
    )
    step = 1e-4
    up = gradient_at(student, x + step, torch.ones_like(x))
    down = gradient_at(student, x - step, torch.ones_like(x))
    worst = ((up - down) / (2 * step) - second_derivative(x)).abs().max().item()
    assert worst < 1e-6, (
        "In float64 your gradient follows the formula in steps, not smoothly: a part of backward is "
        "computed in float32. Compute in the dtype of x."
    )


@pytest.mark.points(3)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint(
    "Compute in backward from the x in ctx.saved_tensors and from grad_output, as is."
)
def test_second_derivative(student: Student) -> None:
    """The backward pass can itself be differentiated, with respect to x and to grad_output."""
    x = torch.cat([torch.linspace(-5, 5, 21), torch.randn(9)]).double().reshape(5, 6)
    g, v = torch.randn(5, 6).double(), torch.randn(5, 6).double()
    x, g = x.requires_grad_(), g.requires_grad_()
    y = attached(student.function("gelu")(x), x)
    total = (y * g.to(y.dtype)).sum()
    (first,) = torch.autograd.grad(total, x, create_graph=True, allow_unused=True)
    first = assert_tensor(first, shape=x.shape, what="the gradient of gelu(x)")
    assert first.requires_grad, NOT_AGAIN
    by_x, by_g = torch.autograd.grad((first * v).sum(), [x, g], allow_unused=True)
    assert by_x is not None or by_g is not None, NOT_AGAIN
    assert by_g is not None, (
        "The gradient cannot be differentiated with respect to grad_output: is grad_output "
        "forgotten in backward, or detached (detach(), .data, no_grad())?"
    )
    assert by_x is not None, CONSTANT
    expected = v * g.detach() * second_derivative(x.detach())
    by_x = assert_tensor(by_x, shape=x.shape, what="the second derivative")
    if not roughly(by_x.double(), expected, ROUNDED_OTHER * (1 + expected.abs())):
        assert_close(
            by_x.double(),
            expected,
            what="the second derivative, the gradient of the gradient with respect to x",
            mistakes=lambda: second_mistakes(x.detach(), v * g.detach()),
        )
    assert_close(
        assert_tensor(by_g, shape=x.shape, what="the gradient by grad_output").double(),
        v * derivative(x.detach()),
        what="the gradient of the gradient with respect to grad_output",
        atol=ROUNDED_OTHER,
    )


@pytest.mark.requires("test_uses_function")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("torch.autograd.gradgradcheck(gelu, (x,)) at home, with a small float64 x.")
def test_gradgradcheck(student: Student) -> None:
    """torch.autograd.gradgradcheck of gelu passes for |x| up to 5."""
    # Every element costs a dozen calls; between -5 and 5 the test before this one looks at more.
    x = torch.cat([torch.tensor([5.0]), 2 * torch.rand(1) - 1]).double().requires_grad_()

    def gelu(x: Tensor) -> Tensor:
        y = attached(student.function("gelu")(x), x)
        return y

    first = torch.autograd.grad(gelu(x).sum(), x, create_graph=True, allow_unused=True)[0]
    assert first is not None and first.requires_grad, NOT_AGAIN
    gradgradcheck(gelu, (x,), what="the second derivative of gelu")


# --- gradient_error ------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("gradient_error")
@pytest.mark.hint("(ours - theirs).abs().max().item(), of the two gradients.")
def test_gradient_error_value(student: Student) -> None:
    """gradient_error is the largest absolute difference of the two gradients, as a float."""
    xs = [torch.randn(shape).double() for shape in [(6,), (3, 4), (2, 3, 2), ()]]
    # Both signs of the difference, and neither an extreme that a mean could meet.
    slopes = [-0.5, 1.75, 0.4]
    pairs = [(x, slope) for slope in slopes for x in xs]

    def each(f: Callable[[Tensor, float], Tensor]) -> list[float]:
        return [f(x, slope).item() for x, slope in pairs]

    right = each(lambda x, s: (s - derivative(x)).abs().max())
    assert_close(
        student.run("errors", xs, slopes),
        right,
        what="what gradient_error says of wrong gradients",
        mistakes=lambda: {
            **{
                f"gradient_error rounds to {digits} digits: return the number as it is.": [
                    round(error, digits) for error in right
                ]
                for digits in range(6)
            },
            "gradient_error takes the mean of the absolute differences: take the largest.": each(
                lambda x, s: (s - derivative(x)).abs().mean()
            ),
            "gradient_error looks at the first element only: take the largest absolute difference "
            "of all.": each(lambda x, s: (s - derivative(x)).abs().flatten()[0]),
            "gradient_error takes your gradient from the mean, PyTorch's from the sum: take both "
            "from the sum.": each(lambda x, s: (s / x.numel() - derivative(x)).abs().max()),
            "gradient_error takes your gradient from the sum, PyTorch's from the mean: take both "
            "from the sum.": each(lambda x, s: (s - derivative(x) / x.numel()).abs().max()),
            "gradient_error takes the mean of the signed differences: take the largest absolute "
            "one.": each(lambda x, s: (s - derivative(x)).mean()),
            "gradient_error sums the absolute differences: take the largest.": each(
                lambda x, s: (s - derivative(x)).abs().sum()
            ),
            "gradient_error takes the largest signed difference (ours - theirs), so that a gradient "
            "that is too small does not count: take absolute values first.": each(
                lambda x, s: (s - derivative(x)).max()
            ),
            "gradient_error takes the largest signed difference (theirs - ours), so that a gradient "
            "that is too large does not count: take absolute values first.": each(
                lambda x, s: (derivative(x) - s).max()
            ),
            "gradient_error takes the absolute value after the maximum of the signed differences: "
            "take absolute values first.": each(lambda x, s: (s - derivative(x)).max().abs()),
            "gradient_error takes the absolute value after the maximum of the differences "
            "(theirs - ours): take absolute values first.": each(
                lambda x, s: (derivative(x) - s).max().abs()
            ),
            "gradient_error takes the smallest absolute difference: take the largest.": each(
                lambda x, s: (s - derivative(x)).abs().min()
            ),
            "gradient_error takes the median of the absolute differences: take the largest.": each(
                lambda x, s: (s - derivative(x)).abs().median()
            ),
            "gradient_error takes the L2 norm of the differences: take the largest absolute "
            "difference.": each(lambda x, s: (s - derivative(x)).norm()),
            "gradient_error takes the mean of the squared differences: take the largest absolute "
            "difference.": each(lambda x, s: (s - derivative(x)).square().mean()),
            "gradient_error squares the differences: take absolute values.": each(
                lambda x, s: (s - derivative(x)).square().max()
            ),
            "gradient_error takes the root of the mean of the squared differences: take the largest "
            "absolute difference.": each(lambda x, s: (s - derivative(x)).square().mean().sqrt()),
            "gradient_error divides by PyTorch's gradient: it is not relative, take the plain "
            "differences.": each(lambda x, s: ((s - derivative(x)) / derivative(x)).abs().max()),
            "gradient_error divides by the largest gradient: it is not relative, take the plain "
            "differences.": each(
                lambda x, s: (s - derivative(x)).abs().max() / derivative(x).abs().max()
            ),
            "gradient_error subtracts the maxima of the two gradients: subtract the gradients, then "
            "take the maximum.": each(lambda x, s: (abs(s) - derivative(x).abs().max()).abs()),
            "gradient_error subtracts the maxima of the two gradients: subtract the gradients, then "
            "take the largest absolute difference.": each(
                lambda x, s: (s - derivative(x).max()).abs()
            ),
            "gradient_error subtracts the sums of the two gradients: subtract the gradients, then "
            "take the maximum.": each(lambda x, s: (s * x.numel() - derivative(x).sum()).abs()),
            "gradient_error compares with the exact GELU: say nn.GELU(approximate='tanh').": each(
                lambda x, s: (s - erf_derivative(x)).abs().max()
            ),
            "gradient_error compares the outputs: compare the gradients.": each(
                lambda x, s: (s * x - value(x)).abs().max()
            ),
            "gradient_error takes gradients of the mean: take those of the sum.": each(
                lambda x, s: (s - derivative(x)).abs().max() / x.numel()
            ),
            "gradient_error returns None: return the number. (Printing is not returning.)": (
                [None] * len(pairs)
            ),
            "gradient_error returns 0 for wrong gradients: does it compare two gradients of the "
            "same function?": [0.0] * len(pairs),
        },
    )
    x = torch.randn(3, 4)
    expected = (-0.5 - derivative(x.double())).abs().max().item()
    what = "what gradient_error says of wrong gradients in float32"
    assert_close(student.run("errors", [x], [-0.5]), [expected], what=what, rtol=RTOL, atol=ATOL)


@pytest.mark.place("gradient_error")
@pytest.mark.hint("Copy x as it is: no .double(), no .float().")
def test_gradient_error_dtype(student: Student) -> None:
    """gradient_error computes both gradients in the dtype of x."""
    xs = [torch.randn(5), torch.randn(5).double()]
    assert_equal(
        student.run("error_dtypes", xs),
        [["float32"], ["float64"]],
        what="the list of dtypes of your gradients in gradient_error, for a float32 and a float64 x",
        mistakes=lambda: {
            "gradient_error converts x to float64, also where it is float32: compute in the dtype "
            "of x.": [["float64"], ["float64"]],
            "gradient_error converts x to float32, also where it is float64: compute in the dtype "
            "of x.": [["float32"], ["float32"]],
            "gradient_error takes the gradient without your backward: go through gelu.": [[], []],
        },
    )


@pytest.mark.requires("test_gradient_error_value")
@pytest.mark.place("gradient_error")
@pytest.mark.hint("The maximum of nothing does not exist: return 0.0 where x.numel() == 0.")
def test_gradient_error_empty(student: Student) -> None:
    """gradient_error is 0.0 for an empty x."""
    empty = [torch.zeros(0), torch.zeros(2, 0, 3).double()]
    assert_close(
        student.run("errors", empty, [1.75]), [0.0, 0.0], what="gradient_error of two empty x"
    )


@pytest.mark.requires("test_gradient_error_value")
@pytest.mark.place("gradient_error")
@pytest.mark.hint("Work on x.detach().clone().requires_grad_(), or torch.autograd.grad.")
def test_gradient_error_leaves_x(student: Student) -> None:
    """gradient_error leaves the values, .grad and requires_grad of x as they were."""
    check_left_alone(student, "gradient_error")


# --- check_gradients -----------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("check_gradients")
@pytest.mark.hint("torch.autograd.gradcheck(gelu, (point,), raise_exception=False)")
def test_check_gradients_verdict(student: Student) -> None:
    """check_gradients is True for a right gradient, and False, not an exception, for a wrong one."""
    wrong = {"1.5 times too large": 1.5, "negated": -1.0, "zero": 0.0}
    for x, count in ((torch.rand(2, 1).double() + 0.5, 3), (torch.tensor(1.25).double(), 1)):
        factors = dict(list({"right": 1.0, **wrong}.items())[: 1 + count])
        shown = list(factors)
        answers = verdicts(student, x, list(factors.values()))
        assert_equal(
            dict(zip(shown, answers, strict=True)),
            {name: name == "right" for name in shown},
            what="the verdict of check_gradients on gradients that are right and wrong",
            mistakes=lambda: {
                "check_gradients always says True, also of wrong gradients: return what gradcheck "
                "says, of your gelu (not of nn.GELU).": dict.fromkeys(shown, True),
                "check_gradients always says False, also of right gradients. It has to take finite "
                "differences of gelu, in float64, with gradcheck; a comparison with PyTorch's GELU is the "
                "task of gradient_error.": dict.fromkeys(shown, False),
                "check_gradients returns None: return what gradcheck says.": dict.fromkeys(shown),
                "check_gradients returns None where the gradients disagree: return False.": {
                    **dict.fromkeys(shown),
                    "right": True,
                },
                "check_gradients says the opposite: True where the gradients agree.": {
                    name: name != "right" for name in shown
                },
            },
        )


@pytest.mark.requires("test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.hint("Leave eps, atol and rtol of gradcheck at their defaults.")
def test_check_gradients_tolerances(student: Student) -> None:
    """check_gradients uses gradcheck's default tolerances."""
    x = torch.rand(2).double() + 1
    within, beyond = verdicts(student, x, [1.0001, 1.01])
    assert within is True, (
        "check_gradients says False of a gradient that is off by 1 in 10000: its tolerances are "
        "stricter than gradcheck's defaults (atol=1e-5, rtol=1e-3). Leave them at the defaults."
    )
    assert beyond is False, (
        "check_gradients says True of a gradient that is off by 1 in 100: its tolerances are "
        "looser than gradcheck's defaults (atol=1e-5, rtol=1e-3). Leave them at the defaults."
    )


@pytest.mark.place("check_gradients")
@pytest.mark.hint("x.detach().double() first: finite differences need float64.")
def test_check_gradients_float64(student: Student) -> None:
    """check_gradients computes in float64, also for a float32 x."""
    x = torch.rand(2) + 0.5
    answers = verdicts(student, x, [1.0, 1.5])
    assert_equal(
        answers,
        [True, False],
        what="the verdict of check_gradients on a right and on a wrong gradient at a float32 x",
        mistakes=lambda: {
            "For a float32 x check_gradients says False also of a right gradient: finite "
            "differences drown in rounding errors there, so convert x to float64 first.": [
                False,
                False,
            ],
        },
    )


@pytest.mark.requires("test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.hint("Give gradcheck the values of x, all of them.")
def test_check_gradients_at_x(student: Student) -> None:
    """check_gradients looks at the values of x, all of them."""
    x = torch.rand(2, 2).double() + 0.5
    # The gradient is wrong above 10, and nowhere else.
    assert verdicts(student, x, [1.5], limit=10.0) == [True], (
        "check_gradients says False although the gradient is right at all values of x (and wrong "
        "only elsewhere): look at x, and nowhere else."
    )
    for row, column in [(0, 0), (1, 1), (0, 1)]:
        far = x.clone()
        far[row, column] = 12.0
        assert verdicts(student, far, [1.5], limit=10.0) == [False], (
            f"check_gradients says True although the gradient is wrong at x[{row}, {column}]: look "
            "at x itself, at all of its values, not at points of your own."
        )


@pytest.mark.place("check_gradients")
@pytest.mark.hint("raise_exception=False is all it takes; a broad except swallows too much.")
def test_check_gradients_unwritten(student: Student) -> None:
    """Where backward raises NotImplementedError, check_gradients lets it through."""
    answer, raised = fields(
        student.run("unwritten", torch.rand(1).double() + 0.5), "answer", "raised"
    )
    assert raised == "NotImplementedError", (
        "Where backward raises NotImplementedError, check_gradients "
        + (f"raised {str(raised)[:60]}" if raised else f"returned {str(answer)[:60]}")
        + ": let the NotImplementedError through. (It is a RuntimeError, so that an except for "
        "RuntimeError or Exception swallows it too.)"
    )


@pytest.mark.requires("test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.hint("x.double() is x itself if x is float64 already: detach and clone first.")
def test_check_gradients_leaves_x(student: Student) -> None:
    """check_gradients leaves the values, .grad and requires_grad of x as they were."""
    check_left_alone(student, "check_gradients")


# --- the surroundings ----------------------------------------------------------------------------


@pytest.mark.requires("test_forward", "test_gradient_error_value", "test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.hint("No manual_seed, no randn: x is all that is needed.")
def test_random_state(student: Student) -> None:
    """Nothing seeds the global random state or draws from it."""
    seed = int(torch.randint(2**31, ()))
    expected = {
        "torch": torch.rand(
            2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        ).tolist(),
        "Python": [random.Random(seed).random()],
        "NumPy": [np.random.RandomState(seed).random_sample()],
    }
    report = student.run("draws", torch.randn(2).double(), seed)
    names = ("gelu", "gradient_error", "check_gradients")
    for name, drawn in zip(names, fields(report, *names), strict=True):
        changed = [
            whose
            for whose, each in zip(expected, fields(drawn, *expected), strict=True)
            if each != expected[whose]
        ]
        assert not changed, (
            f"{name} changes the global random state ({changed[0]}'s): it neither seeds nor "
            "draws random numbers. Everything it needs is in x."
        )


# --- the right answers ---------------------------------------------------------------------------


def inner(x: Tensor, k: float = K, a: float = A) -> Tensor:
    return k * (x + a * x**3)


def value(x: Tensor, k: float = K, a: float = A) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(inner(x, k, a)))


def derivative(x: Tensor, k: float = K, a: float = A) -> Tensor:
    t = torch.tanh(inner(x, k, a))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * k * (1 + 3 * a * x**2)


def second_derivative(x: Tensor, k: float = K, a: float = A) -> Tensor:
    t = torch.tanh(inner(x, k, a))
    du, ddu = k * (1 + 3 * a * x**2), 6 * k * a * x
    return (1 - t**2) * (du + 0.5 * x * (ddu - 2 * t * du**2))


def erf_value(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def erf_derivative(x: Tensor) -> Tensor:
    density = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * density


def swish(x: Tensor, beta: float) -> Tensor:
    return x * torch.sigmoid(beta * x)


def swish_derivative(x: Tensor, beta: float) -> Tensor:
    s = torch.sigmoid(beta * x)
    return s + beta * x * s * (1 - s)


# --- the mistakes --------------------------------------------------------------------------------

Table = list[tuple[str, Tensor]]


def wrong_constants() -> list[tuple[str, float, float]]:
    """Sentences for misread constants, with the scale and the cubic coefficient that they give."""
    root = "Inside tanh stands sqrt(2 / pi), not"
    return [
        ("The cubic term 0.044715 * x**3 is missing inside tanh.", K, 0.0),
        ("The cubic term has the wrong sign: x + 0.044715 * x**3.", K, -A),
        ("The factor 0.044715 of the cubic term is missing.", K, 1.0),
        ("sqrt(pi / 2) is upside down: inside tanh stands sqrt(2 / pi).", 1 / K, A),
        (f"{root} 2 / pi: the square root is missing.", 2 / math.pi, A),
        (f"{root} sqrt(2) / pi.", math.sqrt(2) / math.pi, A),
        (f"{root} 2 / sqrt(pi).", 2 / math.sqrt(math.pi), A),
        (f"{root} sqrt(2 * pi).", math.sqrt(2 * math.pi), A),
        (f"{root} sqrt(pi).", math.sqrt(math.pi), A),
        (f"{root} 1 / sqrt(2 * pi).", K / 2, A),
        (f"{root} sqrt(1 / pi).", 1 / math.sqrt(math.pi), A),
        (f"{root} 1 / sqrt(2).", 1 / math.sqrt(2), A),
        (f"{root} sqrt(2).", math.sqrt(2), A),
        ("The factor sqrt(2 / pi) is missing inside tanh.", 1.0, A),
        ("The factor sqrt(2 / pi) and the cubic term are missing inside tanh.", 1.0, 0.0),
    ]


def fitted_constants(
    f: Callable[[Tensor, float, float], Tensor], x: Tensor, y: Tensor
) -> list[tuple[str, float, float]]:
    """The scale and cubic coefficient with which f gives y at x, with a sentence about them.

    Gauss and Newton find them from the right ones; nothing where there are none.
    """
    x, y = x.flatten().double(), y.flatten().double()
    k, a, step = K, A, 1e-6
    if not y.isfinite().all():
        return []
    for _ in range(12):
        here = f(x, k, a)
        slopes = torch.stack([f(x, k + step, a) - here, f(x, k, a + step) - here], dim=1) / step
        if not slopes.isfinite().all():
            return []
        change = torch.linalg.lstsq(slopes, (y - here)[:, None]).solution
        k, a = k + change[0].item(), a + change[1].item()
    if not math.isfinite(k + a) or (f(x, k, a) - y).abs().max() > 1e-4:
        return []
    if abs(a) < 1e-6:
        return [(f"x**3 is missing inside tanh, there is only {k:.7g} * x.", k, a)]
    told = []
    if abs(k - K) > 1e-7:
        slip = "rounded or mistyped" if abs(k - K) < 0.1 else "not what it should be"
        told.append(f"sqrt(2 / pi) = 0.7978846 is {slip}, you have {k:.7g}: write it in full.")
    if abs(a - A) > 1e-6:
        told.append(f"The constant 0.044715 is rounded or mistyped, you have {a:.5g}.")
    return [(" ".join(told), k, a)] if told else []


def value_mistakes(x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """What may have been computed in place of gelu; y is what the student computed."""
    half, u = 0.5 * x, inner(x)
    t = torch.tanh(u)

    def of(u: Tensor) -> Tensor:
        return half * (1 + torch.tanh(u))

    constants = [*wrong_constants(), *fitted_constants(value, x, y)]
    asked = "the approximation with tanh is asked for."
    table: Table = [
        (f"Your gelu is the exact one, with erf: {asked}", erf_value(x)),
        (f"Your gelu is x * sigmoid(1.702 x): {asked}", swish(x, 1.702)),
        (f"Your gelu is x * sigmoid(1.7 x): {asked}", swish(x, 1.7)),
        ("Your gelu is SiLU, x * sigmoid(x).", swish(x, 1.0)),
        ("Your gelu is ReLU.", torch.relu(x)),
        ("Your gelu is Mish.", x * torch.tanh(torch.nn.functional.softplus(x))),
        ("Your gelu is tanh(u) alone.", t),
        ("Your gelu gives x back as it is.", x),
        ("The factor 0.5 is missing.", 2 * value(x)),
        ("The 1 + is missing: 0.5 * x * (1 + tanh(u)), not 0.5 * x * tanh(u).", half * t),
        ("The 1 + and the 0.5 are missing: 0.5 * x * (1 + tanh(u)), not x * tanh(u).", x * t),
        ("The sign is wrong: 1 + tanh(u), not 1 - tanh(u).", half * (1 - t)),
        ("The factor x is missing: this is 0.5 * (1 + tanh(u)).", 0.5 * (1 + t)),
        ("The parentheses are missing: this is 0.5 * x * 1 + tanh(u).", half + t),
        ("The parentheses are misplaced: this is 0.5 * x + x * tanh(u).", half + x * t),
        ("The parentheses are misplaced: this is 0.5 * (x + tanh(u)).", half + 0.5 * t),
        ("tanh is missing: this is 0.5 * x * (1 + u).", half * (1 + u)),
        ("sigmoid(u) stands where tanh(u) should.", half * (1 + torch.sigmoid(u))),
        ("This is x * sigmoid(u); gelu is x * sigmoid(2 * u).", x * torch.sigmoid(u)),
        ("erf stands where tanh should.", half * (1 + torch.erf(u))),
        ("sin stands where tanh should.", half * (1 + torch.sin(u))),
        ("x**2 stands where x**3 should, inside tanh: a square, no cube.", of(K * (x + A * x**2))),
        ("The cubic term lacks its factor sqrt(2 / pi).", of(K * x + A * x**3)),
        ("The factor sqrt(2 / pi) belongs to x too.", of(x + K * A * x**3)),
        ("0.044715 stands inside the cube: it is 0.044715 * x**3.", of(K * (x + (A * x) ** 3))),
        ("0.044715 multiplies x too: it is x + 0.044715 * x**3.", of(K * A * (x + x**3))),
        ("The x is missing inside tanh: x + 0.044715 * x**3.", of(K * A * x**3)),
        (
            "Inside tanh stands x + 0.044715 * x**3, not 1 + 0.044715 * x**2.",
            of(K * (1 + A * x**2)),
        ),
        *((told, value(x, k, a)) for told, k, a in constants),
    ]
    return dict(table)


def derivative_mistakes(x: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """What a derivative written by hand may have got wrong; `gradient` is the student's."""
    u = inner(x)
    t = torch.tanh(u)
    s, du = 1 - t**2, K * (1 + 3 * A * x**2)
    first, second = 0.5 * (1 + t), 0.5 * x * s * du

    def slope(*, s: Tensor = s, du: Tensor = du) -> Tensor:
        return first + 0.5 * x * s * du

    constants = [*wrong_constants(), *fitted_constants(derivative, x, gradient)]
    cube = "the derivative of 0.044715 * x**3 is 3 * 0.044715 * x**2."
    sech = "The derivative of tanh is sech(u)**2 = 1 - tanh(u)**2, you have"
    rule = "of the product rule"
    one, two = (
        "The first term, 0.5 * (1 + tanh(u)),",
        "The second term, 0.5 * x * sech(u)**2 * du/dx,",
    )
    asked = "differentiate the tanh formula."
    table: Table = [
        (f"The factor 3 is forgotten: {cube}", slope(du=K * (1 + A * x**2))),
        (f"You have 2 * x**2 for 3 * x**2: {cube}", slope(du=K * (1 + 2 * A * x**2))),
        (f"You have 3 * x for 3 * x**2: {cube}", slope(du=K * (1 + 3 * A * x))),
        (f"You have 2 * x for 3 * x**2: {cube}", slope(du=K * (1 + 2 * A * x))),
        (f"You have 3 * x**3 for 3 * x**2: {cube}", slope(du=K * (1 + 3 * A * x**3))),
        (f"You have x**3 for 3 * x**2: {cube}", slope(du=K * (1 + A * x**3))),
        (f"You have 3 * x**2 without 0.044715: {cube}", slope(du=K * (1 + 3 * x**2))),
        (f"The 3 is squared with x: {cube}", slope(du=K * (1 + 9 * A * x**2))),
        (f"0.044715 is squared: {cube}", slope(du=K * (1 + 3 * A**2 * x**2))),
        (f"The cubic term has the wrong sign in du/dx: {cube}", slope(du=K * (1 - 3 * A * x**2))),
        (f"The cubic term is missing in du/dx: {cube}", slope(du=torch.full_like(x, K))),
        (f"The cubic term lacks its sqrt(2 / pi) in du/dx: {cube}", slope(du=K + 3 * A * x**2)),
        ("du/dx lacks its 1, the derivative of x itself.", slope(du=3 * K * A * x**2)),
        (
            "du/dx has x where 1 belongs: the derivative of x is 1.",
            slope(du=K * (x + 3 * A * x**2)),
        ),
        ("du/dx lacks its factor sqrt(2 / pi).", slope(du=1 + 3 * A * x**2)),
        ("du/dx has its factor sqrt(2 / pi) twice.", slope(du=K * du)),
        ("du/dx is u itself: differentiate u, the chain rule's inner derivative.", slope(du=u)),
        (
            "The inner derivative du/dx of the chain rule is forgotten.",
            slope(du=torch.ones_like(x)),
        ),
        (f"{one} {rule} is missing.", second),
        (f"{one} {rule} lacks its 0.5.", 1 + t + second),
        (f"{one} {rule} lacks its 1 +.", 0.5 * t + second),
        (f"{one} {rule} lacks its 1 + and its 0.5.", t + second),
        (f"{one} {rule} lacks its tanh(u).", 0.5 + second),
        (f"{one} {rule} has 1 - tanh(u).", 0.5 * (1 - t) + second),
        (f"{one} {rule} still has its x, which is differentiated away.", x * first + second),
        (f"{two} {rule} is missing.", first),
        (f"{two} {rule} lacks its factor x.", first + 0.5 * s * du),
        (f"{two} {rule} has x twice.", first + x * second),
        (f"{two} {rule} lacks its 0.5.", first + 2 * second),
        (f"{two} {rule} has its 0.5 twice.", first + 0.5 * second),
        (f"{two} {rule} is subtracted: add it.", first - second),
        (f"The two terms {rule} are multiplied: add them.", first * second),
        ("The factor 0.5 is missing in both terms.", 2 * derivative(x)),
        ("The factor 0.5 is there twice in both terms.", 0.5 * derivative(x)),
        ("The whole gradient has the wrong sign.", -derivative(x)),
        ("The whole gradient has one factor x too many.", x * derivative(x)),
        (f"{sech} nothing: sech squared is forgotten.", slope(s=torch.ones_like(x))),
        (f"{sech} 1 - tanh(u): the square is missing.", slope(s=1 - t)),
        (f"{sech} (1 - tanh(u))**2.", slope(s=(1 - t) ** 2)),
        (f"{sech} 1 + tanh(u)**2.", slope(s=1 + t**2)),
        (f"{sech} 1 + tanh(u).", slope(s=1 + t)),
        (f"{sech} tanh(u)**2 - 1.", slope(s=-s)),
        (f"{sech} tanh(u)**2.", slope(s=t**2)),
        (f"{sech} tanh(u) itself.", slope(s=t)),
        (f"{sech} sech(u): the square is missing.", slope(s=1 / torch.cosh(u))),
        (f"{sech} sech(u)**4.", slope(s=s**2)),
        (f"{sech} cosh(u)**2: turn it over.", slope(s=torch.cosh(u) ** 2)),
        (f"{sech} 1 - u**2: take tanh first.", slope(s=1 - u**2)),
        (f"{sech} 1 - tanh(x)**2: it is taken at u, not at x.", slope(s=1 - torch.tanh(x) ** 2)),
        (f"{sech} 1 - tanh(tanh(u))**2.", slope(s=1 - torch.tanh(t) ** 2)),
        (f"{sech} tanh(u) * (1 - tanh(u)), as for a sigmoid.", slope(s=t * (1 - t))),
        (f"{sech} 1 / (1 + u**2), that of atan.", slope(s=1 / (1 + u**2))),
        ("The derivative is taken at the output of gelu: take it at x.", derivative(value(x))),
        ("The derivative is taken at u: take it at x.", derivative(u)),
        ("The gradient is the output of gelu, not its derivative.", value(x)),
        (f"The gradient is that of the exact GELU, with erf: {asked}", erf_derivative(x)),
        (f"The gradient is that of x * sigmoid(1.702 x): {asked}", swish_derivative(x, 1.702)),
        (f"The gradient is that of SiLU, x * sigmoid(x): {asked}", swish_derivative(x, 1.0)),
        (f"The gradient is that of ReLU: {asked}", (x > 0).to(x.dtype)),
        ("The gradient is 1 everywhere: multiply by the derivative.", torch.ones_like(x)),
        ("The gradient is 0 everywhere.", torch.zeros_like(x)),
        *((told, derivative(x, k, a)) for told, k, a in constants),
        *fitted_terms(x, gradient),
    ]
    return dict(table)


def fitted_terms(x: Tensor, gradient: Tensor) -> Table:
    """The gradient as a sum of the right terms with other factors, if it is one."""
    t = torch.tanh(inner(x))
    s = 0.5 * x * (1 - t**2) * K
    terms = {
        "0.5": torch.full_like(x, 0.5),
        "0.5 * tanh(u)": 0.5 * t,
        "0.5 * x * sech(u)**2 * sqrt(2 / pi)": s,
        "0.5 * x * sech(u)**2 * sqrt(2 / pi) * 3 * 0.044715 * x**2": 3 * A * x**2 * s,
    }
    columns = torch.stack([term.flatten() for term in terms.values()], dim=1)
    right = gradient.flatten()[:, None].to(columns.dtype)
    if not right.isfinite().all():
        return []
    factors = torch.linalg.lstsq(columns, right).solution
    wrong = [
        f"{name} (times {factor:.4g})"
        for name, factor in zip(terms, factors[:, 0].tolist(), strict=True)
        if abs(factor - 1) > 1e-3
    ]
    told = f"Terms of your gradient have a wrong factor, in which each should be 1: {', '.join(wrong)}."
    return [(told, (columns @ factors).reshape(x.shape))] if wrong else []


NOT_AGAIN = (
    "The gradient cannot be differentiated again: autograd cannot follow what backward computes. Is "
    "there a detach(), a .data, a no_grad(), a detour through NumPy or a @once_differentiable?"
)
CONSTANT = (
    "The second derivative does not depend on x: backward takes for a constant what depends on x. "
    "Was it computed in forward and saved, or under no_grad(), with detach(), .data or NumPy? "
    "Compute it in backward from the x in ctx.saved_tensors."
)


def second_mistakes(x: Tensor, factor: Tensor) -> dict[str, Tensor]:
    """What autograd makes of a backward pass some part of which it cannot follow back to x."""
    t = torch.tanh(inner(x))
    s, du, ddu = 1 - t**2, K * (1 + 3 * A * x**2), 6 * K * A * x
    told = (
        "The second derivative takes {} for a constant: it was computed in forward and saved, or "
        "under no_grad(), with detach(), .data or NumPy. Compute it in backward from the x in "
        "ctx.saved_tensors."
    )
    return {
        CONSTANT: torch.zeros_like(x),
        told.format("tanh(u)"): factor * 0.5 * s * (du + x * ddu),
        told.format("tanh(u) and the derivative of u"): factor * 0.5 * s * du,
        told.format("the derivative of tanh"): factor * s * (du + 0.5 * x * ddu),
        told.format("the derivative of u"): factor * (s * du - x * t * s * du**2),
        told.format("0.5 * (1 + tanh(u))"): factor * (second_derivative(x) - 0.5 * s * du),
    }


# --- asking --------------------------------------------------------------------------------------


def value_at(student: Student, x: Tensor, what: str = "gelu(x)") -> Tensor:
    """The student's gelu of x: a tensor of the shape of x and of some real floating dtype."""
    y = assert_tensor(student.function("gelu")(x), shape=x.shape, what=what)
    assert y.is_floating_point(), f"{sentence(what)} has dtype {y.dtype}, promised {x.dtype}."
    return y.detach()


def attached(y: Any, x: Tensor, what: str = "gelu(x)") -> Tensor:
    """The result of gelu(x), which has to be a tensor that hangs together with x."""
    result = assert_tensor(y, shape=x.shape, what=what)
    assert result.is_floating_point(), (
        f"{sentence(what)} has dtype {result.dtype}, promised {x.dtype}."
    )
    assert result.requires_grad, (
        "gelu(x) does not require a gradient although x does: return what GELUFunction.apply(x) "
        "gives, without detach or no_grad."
    )
    return result


def asked_for_nodes(student: Student) -> list[tuple[Tensor, Tensor, Any]]:
    """Some x, what backward is made to return, and what the probe says of the node behind gelu(x)."""
    xs = [torch.randn(3), torch.randn(()), torch.randn(0, 2), torch.randn(2, 2).double()]
    marks = [torch.randn_like(x) for x in xs]
    reports = student.run("nodes", xs, marks)
    assert isinstance(reports, list) and len(reports) == len(xs), "gelu could not be called."
    return list(zip(xs, marks, reports, strict=True))


def gradient_at(student: Student, x: Tensor, grad_output: Tensor) -> Tensor:
    """The student's gradient at x for this grad_output, of the shape and dtype of x."""
    x = x.detach().clone().requires_grad_()
    y = attached(student.function("gelu")(x), x)
    total = (y * grad_output.to(y.dtype)).sum()
    (gradient,) = torch.autograd.grad(total, x, allow_unused=True)
    return assert_tensor(gradient, shape=x.shape, dtype=x.dtype, what="the gradient")


def same(given: Any, expected: Tensor) -> bool:
    """Whether this is a tensor of the same dtype, shape and numbers."""
    return (
        isinstance(given, Tensor) and given.dtype == expected.dtype and torch.equal(given, expected)
    )


def roughly(given: Tensor, expected: Tensor, limit: Tensor | float) -> bool:
    """Whether this is no farther off than `limit`; NaN is."""
    return bool(((given - expected).abs() <= limit).all())


def check_finite(values: Tensor, x: Tensor, what: str, why: str) -> None:
    bad = ~values.isfinite()
    assert not bad.any(), (
        f"For large |x| {what} is not finite: {values[bad][0].item()} at x = {x[bad][0].item():g} "
        f"({x.dtype}). Something overflows on the way ({why})."
    )


def fields(report: Any, *names: str) -> list[Any]:
    """The entries of a probe's report, of which nothing is believed."""
    assert isinstance(report, dict) and all(name in report for name in names), (
        "Your code gave an answer that cannot be read."
    )
    return [report[name] for name in names]


def verdicts(student: Student, x: Tensor, factors: list[float], limit: float = -1e9) -> list[Any]:
    """What check_gradients answered to each factor; an exception of gradcheck's is a mistake."""
    reports = student.run("verdicts", x, factors, limit)
    assert isinstance(reports, list) and len(reports) == len(factors), (
        "Your code gave an answer that cannot be read."
    )
    answers = []
    for report in reports:
        answer, raised = fields(report, "answer", "raised")
        assert raised is None, (
            f"check_gradients raised {str(raised)[:60]} where the gradients disagree: it should "
            "return False. gradcheck does so with raise_exception=False."
        )
        answers.append(answer)
    return answers


def check_left_alone(student: Student, function: str) -> None:
    settings = ["plain", "requires a gradient", "with a gradient"]
    for dtype in (torch.float64, torch.float32):
        x = (torch.rand(1) + 0.5).to(dtype)
        reports = student.run("left_behind", function, x, settings)
        assert isinstance(reports, list) and len(reports) == len(settings), (
            "Your code gave an answer that cannot be read."
        )
        for setting, report in zip(settings, reports, strict=True):
            values, requires_grad, grad = fields(report, "values", "requires_grad", "grad")
            values = assert_tensor(values, shape=x.shape, dtype=dtype, what=f"x after {function}")
            assert torch.equal(values, x), f"{function} changes the values of x: work on a copy."
            assert requires_grad is (setting != "plain"), (
                f"{function} changes requires_grad of x ({dtype}) from {setting != 'plain'} to "
                f"{str(requires_grad)[:60]}: work on a copy, x.detach().clone()."
            )
            if setting == "with a gradient":
                kept = isinstance(grad, Tensor) and torch.equal(grad, torch.full_like(x, 7.0))
            else:
                kept = grad is None
            assert kept, (
                f"{function} changes x.grad: take gradients of a copy of x, or with "
                "torch.autograd.grad."
            )


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
