"""Laws of numbers: the precision of the dtype, finite values, and right gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from grader.judge.checks.assertions import Mistakes, assert_close, assert_tensor
from grader.judge.checks.wording import element, failed, sentence, verb
from grader.judge.outcomes import CheckFailed

if TYPE_CHECKING:
    from torch import Tensor


def check_float64(
    actual: Any,
    expected: Tensor,
    *,
    what: str = "the output",
    mistakes: Mistakes | None = None,
    scale: float = 1.0,
) -> None:
    """A float64 result has the precision of float64; values are of the magnitude of `scale`."""
    import torch

    output = assert_tensor(actual, shape=expected.shape, dtype=torch.float64, what=what).detach()
    loose = torch.allclose(output, expected, rtol=1e-5, atol=1e-5 * scale)
    narrow = [torch.equal(values, values.float().double()) for values in (output, expected)]
    line = (
        f"In float64 {what} is right only to the precision of float32: something on the way is rounded "
        "to float32 (.float(), a dtype written out, a rounded constant). Compute in the dtype of x."
    )
    if loose and narrow == [True, False]:
        raise failed([line])
    try:
        assert_close(output, expected, what=what, mistakes=mistakes)
    except CheckFailed as failure:
        known = mistakes() if callable(mistakes) else mistakes or {}
        if not loose or str(failure).startswith(tuple(known)):
            raise
        raise failed([line]) from None


def check_finite(
    values: Any, *, what: str = "the output", at: Tensor | None = None, why: str = ""
) -> None:
    """A tensor holds no NaN and no inf; `at` are the inputs it belongs to, `why` the usual reason."""
    tensor = assert_tensor(values, what=what).detach()
    bad = ~tensor.isfinite()
    if bad.any():
        number = element(tensor[bad][0].item())
        where = "" if at is None or at.shape != bad.shape else f" at x = {at[bad][0].item():g}"
        reason = f": {why}" if why else ": something overflows on the way"
        one = bad.numel() == 1
        count = what if one else f"{int(bad.sum())} of {bad.numel()} entries of {what}"
        are = verb(what, "is", "are") if one else "is" if bad.sum() == 1 else "are"
        line = f"{count} {are} not finite ({tensor.dtype}): {number}{where}{reason}"
        raise failed([sentence(line if line.endswith(("?", ")")) else f"{line}.")])


def check_large_inputs(
    output: Any, leaves: Mapping[str, Tensor], *, what: str = "the output", why: str = ""
) -> None:
    """For large inputs an output is finite, and so are the gradients of its leaves, by name."""
    check_finite(output, what=f"{what} for large inputs", why=why)
    check_attached(output, what)
    output.sum().backward()
    for name, leaf in leaves.items():
        if leaf.grad is not None:
            check_finite(leaf.grad, what=f"{name}.grad for large inputs", why=why)


# --- gradients --------------------------------------------------------------------------------------


def check_attached(output: Tensor, what: str = "the output") -> None:
    """Check that a tensor hangs together with the inputs that require a gradient."""
    if not output.requires_grad:
        line = f"{what} does not require a gradient: something cuts the graph (detach, .data, "
        raise failed([sentence(f"{line}torch.no_grad(), torch.tensor(...), NumPy).")])


def gradient_at(
    f: Callable[[Tensor], Any], x: Tensor, grad_output: Tensor, *, what: str = "the output"
) -> Tensor:
    """The gradient of f at x, elementwise, for this grad_output: of the shape and dtype of x."""
    import torch

    x = x.detach().clone().requires_grad_()
    y = assert_tensor(f(x), shape=x.shape, what=what)
    check_attached(y, what)
    total = (y * grad_output.to(y.dtype)).sum()
    (gradient,) = torch.autograd.grad(total, x, allow_unused=True)
    return assert_tensor(gradient, shape=x.shape, dtype=x.dtype, what="the gradient")


def check_gradients(
    output: Any,
    leaves: Mapping[str, Tensor],
    formula: Callable[..., Tensor],
    *,
    mistakes: Mapping[str, Callable[..., Tensor]] | None = None,
    what: str = "the output",
) -> None:
    """Gradients reach every leaf and are those of `formula`, for whatever gradient comes in.

    `leaves` are local tensors that `output` was computed from, by name; `formula` and each mistake get
    copies of them and compute what `output` should be, or would be.

        check_gradients(layer(x), {"x": x}, lambda x: gated(x, weight, bias))
    """
    import torch

    copies = [leaf.detach().clone().requires_grad_() for leaf in leaves.values()]
    expected = formula(*copies)
    output = assert_tensor(output, shape=expected.shape, dtype=expected.dtype, what=what)
    check_attached(output, what)
    upstream = torch.randn_like(expected)

    def gradients(f: Callable[..., Tensor], incoming: Tensor = upstream) -> list[Tensor]:
        total = (f(*copies) * incoming).sum()
        found = torch.autograd.grad(total, copies, allow_unused=True)
        return [torch.zeros_like(c) if g is None else g for g, c in zip(found, copies, strict=True)]

    # A sum, not backward(upstream): that imports sympy on its first use, in 0.3 s.
    (output * upstream).sum().backward()
    for name, leaf in leaves.items():
        if leaf.grad is None or not leaf.grad.any():
            cut = "something cuts it off (detach, .data, torch.no_grad(), a new tensor of its values)."
            raise failed([f"No gradient reaches {name}: {cut}"])
    names = " and ".join(f"{name}.grad" for name in leaves)
    ones = "The gradient ignores the one that comes in from behind (grad_output)."
    assert_close(
        [leaf.grad for leaf in leaves.values()],
        gradients(formula),
        what=f"the list of {names}" if len(leaves) > 1 else names,
        mistakes=lambda: {
            **{told: gradients(wrong) for told, wrong in (mistakes or {}).items()},
            ones: gradients(formula, torch.ones_like(upstream)),
        },
    )
