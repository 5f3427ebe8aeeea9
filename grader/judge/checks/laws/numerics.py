"""Laws of numbers: the precision of the dtype, finite values, right gradients, and autograd Functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from grader.judge.checks.assertions import assert_close, assert_tensor, compare_named, entry, fields
from grader.judge.checks.comparison import Rule
from grader.judge.checks.laws.observation import observe, same, shipped
from grader.judge.checks.wording import element, failed, sentence, verb
from grader.judge.outcomes import CheckFailed
from grader.judge.student import Student
from grader.judge.text import capitalized, text
from grader.text import with_article

if TYPE_CHECKING:
    from torch import Tensor


def check_float64(
    actual: Any,
    expected: Tensor,
    *,
    what: str = "the output",
    scale: float = 1.0,
) -> None:
    """Check that a float64 result has the precision of float64; values are of the magnitude of `scale`."""
    import torch

    output = assert_tensor(actual, shape=expected.shape, dtype=torch.float64, what=what).detach()
    loose = torch.allclose(output, expected, rtol=1e-5, atol=1e-5 * scale)
    narrow = [torch.equal(values, values.float().double()) for values in (output, expected)]
    line = text(
        "In float64 {what} is right only to the precision of float32: something on the way is rounded "
        "to float32 (.float(), a dtype written out, a rounded constant). Compute in the dtype of x.",
        what,
    )
    if loose and narrow == [True, False]:
        raise failed(line)
    try:
        assert_close(output, expected, what=what)
    except CheckFailed:
        if not loose:
            raise
        raise failed(line) from None


_OVERFLOWS = ": something overflows on the way"
_OVERFLOWS_OR_EMPTY = ": something overflows on the way, or a softmax has nothing but -inf"


def check_finite(values: Any, *, what: str = "the output", why: str = "") -> None:
    """Check that a tensor contains no NaN and no inf; `why` is the usual reason."""
    if line := not_finite(assert_tensor(values, what=what).detach(), what, why):
        raise failed(line)


def not_finite(tensor: Tensor, what: str, why: str = "") -> str:
    """Return the sentence about the NaN and inf in a tensor; empty if there are none."""
    bad = ~tensor.isfinite()
    if not bad.any():
        return ""
    number = element(tensor[bad][0].item())
    reason = text(": {why}", why) if why else _OVERFLOWS
    if not why and tensor[bad].isnan().all():
        reason = _OVERFLOWS_OR_EMPTY
    one = bad.numel() == 1
    count = what
    if not one:
        count = text("{bad} of {all} entries of {what}", int(bad.sum()), bad.numel(), what)
    are = verb(what, "is", "are") if one else "is" if bad.sum() == 1 else "are"
    stop = "" if reason.endswith(("?", ")")) else "."
    words = "{count} {are} not finite ({dtype}): {number}{reason}{stop}"
    return sentence(words, count, are, tensor.dtype, number, reason, stop)


def check_large_inputs(
    output: Any, leaves: Mapping[str, Tensor], *, what: str = "the output", why: str = ""
) -> None:
    """Check that for large inputs an output is finite, and so are the gradients of its leaves, by name."""
    check_finite(output, what=text("{what} for large inputs", what), why=why)
    check_attached(output, what)
    output.sum().backward()
    for name, leaf in leaves.items():
        if leaf.grad is not None:
            check_finite(leaf.grad, what=text("{name}.grad for large inputs", name), why=why)


_NO_GRADIENT = (
    "{what} does not require a gradient: something cuts the graph (detach, .data, torch.no_grad(), "
    "torch.tensor(...), NumPy)."
)


# --- gradients --------------------------------------------------------------------------------------


def check_attached(output: Tensor, what: str = "the output") -> None:
    """Check that a tensor is connected to the inputs that require a gradient."""
    if not output.requires_grad:
        raise failed(sentence(_NO_GRADIENT, what))


def gradient_at(
    f: Callable[[Tensor], Any], x: Tensor, grad_output: Tensor, *, what: str = "the output"
) -> Tensor:
    """Return the gradient of f at x, elementwise, for this grad_output: with the shape and dtype of x."""
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
    what: str = "the output",
) -> None:
    """Check that gradients reach every leaf and equal the gradients of `formula`, for any incoming gradient.

    `leaves` are local tensors from which `output` was computed, by name; `formula` gets copies of them and
    computes the right `output`.

        check_gradients(layer(x), {"x": x}, lambda x: gated(x, weight, bias))
    """
    import torch

    copies = [leaf.detach().clone().requires_grad_() for leaf in leaves.values()]
    expected = formula(*copies)
    output = assert_tensor(output, shape=expected.shape, dtype=expected.dtype, what=what)
    check_attached(output, what)
    upstream = torch.randn_like(expected)

    def gradients(incoming: Tensor) -> list[Tensor]:
        total = (formula(*copies) * incoming).sum()
        grads = torch.autograd.grad(total, copies, allow_unused=True)
        return [torch.zeros_like(c) if g is None else g for g, c in zip(grads, copies, strict=True)]

    # A sum, not backward(upstream): that imports sympy on its first use, in 0.3 s.
    (output * upstream).sum().backward()
    for name, leaf in leaves.items():
        if leaf.grad is None or not leaf.grad.any():
            cut = "something cuts it off (detach, .data, torch.no_grad(), a new tensor of its values)."
            raise failed("No gradient reaches {name}: {cut}", name, cut)
    names = " and ".join(f"{name}.grad" for name in leaves)
    ones = "The gradient ignores the incoming gradient (grad_output)."
    compare_named(
        [leaf.grad for leaf in leaves.values()],
        gradients(upstream),
        Rule(),
        text("the list of {names}", names) if len(leaves) > 1 else names,
        lambda: {ones: gradients(torch.ones_like(upstream))},
    )


# --- autograd Functions: their use, their declaration, and their saved values -----------------------


def check_applied(student: Student, name: str, own: str) -> None:
    """Check that a function calls `apply` of the Function `own`, so that its backward runs."""
    import torch

    for x, mark, report in _nodes(student, name, own):
        node, marked = fields(report, "node", "marked")
        what = text("{name} of an x of shape {shape}", name, tuple(x.shape))
        if node is None:
            line = text(
                "{what} has no grad_fn although x requires a gradient: return the result "
                "of {own}.apply(x), without detach or no_grad.",
                what,
                own,
            )
            raise failed(line)
        if not (isinstance(marked, torch.Tensor) and torch.equal(marked, mark)):
            line = text(
                "{what} was not computed by {own}.apply: autograd differentiates it by itself, and "
                "never calls your backward. Return {own}.apply(x).",
                what,
                own,
            )
            raise failed(line)


def check_grad_fn(student: Student, name: str, own: str) -> None:
    """Check that the result's grad_fn is the backward node of the Function `own`: no operation follows it."""
    for x, _, report in _nodes(student, name, own):
        node, nodes, wanted = fields(report, "node", "nodes", "own")
        if not isinstance(nodes, list) or not same(nodes[:1], [wanted]):
            line = text(
                "The grad_fn of {name} for an x of shape {shape} is {node}, not the node of {own}: "
                "return the result of {own}.apply(x) unchanged, with no operation after it.",
                name,
                tuple(x.shape),
                element(node),
                own,
            )
            raise failed(line)


def check_declared(student: Student, name: str, own: str) -> None:
    """Check that the class is a torch.autograd.Function with its own static methods forward and backward."""
    report = shipped(student, "declaration")(name, own)
    if entry(report, "function") is not True:
        raise failed("{own} should be a subclass of torch.autograd.Function.", own)
    for method in ("forward", "backward"):
        kind = str(entry(report, method))
        if kind in ("missing", "NoneType"):
            raise failed("{own} does not define its own {method}.", own, method)
        if kind != "staticmethod":
            line = text(
                "{own}.{method} is not a static method (it is {kind}): autograd calls it on the "
                "class, so write @staticmethod above it.",
                own,
                method,
                with_article(element(kind)),
            )
            raise failed(line)


def check_saved(
    student: Student,
    name: str,
    x: Tensor,
    *,
    changed: Tensor | None = None,
    itself: bool = True,
) -> None:
    """Check that autograd raises its own error if x is changed in place before the backward pass.

    `changed` is the new value of x, by default random numbers. With `itself=False`, something other than x may
    be saved, and the gradient at the old x is right, too. A second call at `changed` must not overwrite it
    either. The answer's own gradients at both show which x a gradient belongs to.
    """
    import torch

    changed = torch.randn_like(x) if changed is None else changed

    def derivative(at: Tensor) -> Tensor:
        gradient = shipped(student, "both_passes")(name, at.clone(), torch.ones_like(at))
        return assert_tensor(gradient, shape=at.shape, what="the gradient").double()

    gradient = shipped(student, "first_of_two")(name, x, changed)
    if isinstance(gradient, torch.Tensor) and gradient.shape == x.shape:
        off = [(gradient.double() - derivative(at)).abs().max() for at in (x, changed)]
        if off[1] < 1e-5 <= off[0]:
            line = (
                "After a second call, the first call has the gradient of the second: keep what a "
                "call saves on its ctx, not on the class."
            )
            raise failed(line)
    seen = observe(student, shipped(student, "change_between"), name, x, changed)
    which = "x" if x.is_contiguous() else "x (transposed, so not contiguous)"
    what = text(
        "After {which} was changed in place between forward and backward, backward raised", which
    )
    save = "save x itself, with ctx.save_for_backward(x): autograd then notices."
    if seen.error is None:
        gradient, why = assert_tensor(seen.value, shape=x.shape, what="the gradient").double(), ""
        if (gradient - derivative(changed)).abs().max() < 1e-5:
            why = (
                " and gave the gradient at the changed x: x was kept as an attribute, or as x.data"
            )
        elif (gradient - derivative(x)).abs().max() < 1e-5:
            if not itself:
                return
            why = ": you saved a copy of x, or something computed from x in forward"
        raise failed("{what} nothing{why}. {save}", what, why, capitalized(save))
    own = "modified by an inplace operation" in str(seen.error)
    if not (isinstance(seen.error, RuntimeError) and own):
        words = "{what} {error}, not autograd's own error about the change: {save}"
        raise failed(words, what, element(str(seen.error)), save)


def check_again_differentiable(
    f: Callable[[Tensor], Any],
    x: Tensor,
    first: Callable[[Tensor], Tensor],
    second: Callable[[Tensor], Tensor],
    *,
    loose: float = 0.0,
) -> None:
    """Check that the backward pass of an elementwise function can be differentiated, by x and by grad_output.

    `first` and `second` are its derivatives; `loose` is how far the first may be off, if another test checks
    it.
    """
    import torch

    g, v = torch.randn_like(x), torch.randn_like(x)
    by_x, by_g = gradients_again(f, x, g, v)
    wanted, what = v * g * second(x), "the gradient of the gradient with respect to"
    if not bool(((by_x - wanted).abs() <= loose * (1 + wanted.abs())).all()):
        by = text("{what} x, the second derivative,", what)
        compare_named(by_x, wanted, Rule(), by, lambda: {_CONSTANT: torch.zeros_like(by_x)})
    assert_close(by_g, v * first(x), what=text("{what} grad_output", what), atol=loose or None)


def gradients_again(
    f: Callable[[Tensor], Any], x: Tensor, grad_output: Tensor, incoming: Tensor
) -> list[Tensor]:
    """Return the gradients of f's own gradient at x, elementwise: by x and by grad_output, in float64.

    `incoming` is the incoming gradient. The gradient of x is zeros if nothing leads back to x.
    """
    import torch

    leaves = [x, g] = [leaf.detach().clone().requires_grad_() for leaf in (x, grad_output)]
    y = assert_tensor(f(x), shape=x.shape)
    check_attached(y)
    total = (y * g.to(y.dtype)).sum()
    (gradient,) = torch.autograd.grad(total, x, create_graph=True, allow_unused=True)
    gradient = assert_tensor(gradient, shape=x.shape, what="the gradient")
    if not gradient.requires_grad:
        raise failed(_NOT_AGAIN)
    by_x, by_g = torch.autograd.grad((gradient * incoming).sum(), leaves, allow_unused=True)
    if by_x is None and by_g is None:
        raise failed(_NOT_AGAIN)
    if by_g is None:
        line = (
            "The gradient cannot be differentiated with respect to grad_output: is grad_output "
            "forgotten in backward, or detached (detach(), .data, no_grad())?"
        )
        raise failed(line)
    by_x = torch.zeros_like(x) if by_x is None else by_x
    what = "the gradient of the gradient with respect to"
    by_x = assert_tensor(by_x, shape=x.shape, what=text("{what} x", what))
    return [
        by_x.double(),
        assert_tensor(by_g, shape=x.shape, what=text("{what} grad_output", what)).double(),
    ]


_NOT_AGAIN = (
    "The gradient cannot be differentiated again: autograd cannot follow what backward computes. Is "
    "there a detach(), a .data, a no_grad(), a detour through NumPy or a @once_differentiable?"
)
_CONSTANT = (
    "The second derivative does not depend on x: backward treats as a constant something that depends on x. "
    "Was it computed in forward and saved, or under no_grad(), with detach(), .data or NumPy? "
    "Compute it in backward from the x in ctx.saved_tensors."
)


def _nodes(student: Student, name: str, own: str) -> list[tuple[Tensor, Tensor, Any]]:
    """Return some x, the planned return value of backward, and the probe's report on the result's nodes."""
    import torch

    xs = [torch.randn(3), torch.randn(()), torch.randn(0, 2), torch.randn(2, 2).double()]
    marks = [torch.randn_like(x) for x in xs]
    reports = shipped(student, "nodes")(name, own, xs, marks)
    return list(zip(xs, marks, entry(reports, kind=list, count=len(xs)), strict=True))
