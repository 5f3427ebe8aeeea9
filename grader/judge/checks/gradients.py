"""Numerical checks of gradients, with a failure that a student can read.

These are torch.autograd.gradcheck and gradgradcheck done again, with their step and tolerances and for
what suites need of them: dense real tensors. torch's own work in the judge too, but its first explicit
`grad_outputs` imports sympy (0.3 s of every cold start), it calls the function three times as
often, and what it finds is only a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grader.judge.checks.comparison import Tolerance, is_tensor
from grader.judge.checks.explanation import explain_type
from grader.judge.checks.shapes import explain_shape
from grader.judge.checks.wording import element, message, sentence
from grader.judge.outcomes import CheckFailed, SubmissionFailure
from grader.results import Cause
from grader.sandbox.wire.values import Record
from grader.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from torch import Tensor

# The step and the tolerances of torch.autograd.gradcheck: a central difference in float64 is good for
# about 1e-9, and the nearest wrong derivative (a forgotten factor or term) is off by far more than 1e-3.
# So many derivatives are taken at most; those of the suites are far fewer.
_MAX_OUTPUTS = 10_000
_STEP = 1e-6
_TOLERANCE = Tolerance(rtol=1e-3, atol=1e-5)
# How exactly a relation between two Jacobians is told.
_RELATION = Tolerance(rtol=1e-4, atol=1e-4)


def gradcheck(f: Callable[..., Any], inputs: Any, *, what: str) -> None:
    """Check the gradients of `f` at `inputs` (float64, any shapes) against finite differences.

    Every input that requires a gradient is checked, for every element of every output. Exceptions
    of the student's code pass through.
    """
    _check(f, _tuple(inputs), _First(what))


def gradgradcheck(f: Callable[..., Any], inputs: Any, *, what: str) -> None:
    """The same for second derivatives: whether the backward pass is itself differentiable."""
    import torch

    inputs = _tuple(inputs)
    outputs = _Watched(f, what)(*inputs)
    weights = tuple(torch.randn_like(output).requires_grad_() for output in outputs)
    sources = [i for i, x in enumerate(inputs) if x.requires_grad]

    @torch.enable_grad()
    def gradients(*arguments: Tensor) -> tuple[Tensor, ...]:
        points, factors = list(arguments[: len(inputs)]), arguments[len(inputs) :]
        for i in sources:
            # Between finite steps the points are plain numbers.
            points[i] = points[i] if points[i].requires_grad else points[i].requires_grad_()
        wanted = [points[i] for i in sources]
        total = _total(_tuple(f(*points)), factors)
        found = torch.autograd.grad(total, wanted, create_graph=True, allow_unused=True)
        return tuple(
            torch.zeros_like(x) if g is None else g for g, x in zip(found, wanted, strict=True)
        )

    _check(gradients, (*inputs, *weights), _Second(what, len(inputs)))


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list, Record)) else (value,)


def _total(outputs: Sequence[Tensor], factors: Sequence[Tensor]) -> Tensor:
    """The sum whose gradient is the vector-Jacobian product with these factors."""
    import torch

    products = [(y * v).sum() for y, v in zip(outputs, factors, strict=True)]
    return torch.stack(products).sum()


def _check(f: Callable[..., Any], inputs: tuple[Any, ...], names: _First) -> None:
    watched = _Watched(f, names.what)
    try:
        found = _mismatch(watched, inputs)
    except SubmissionFailure:
        raise
    except RuntimeError as error:  # what autograd's engine says of gradients that do not fit
        said = sentence(f"{names.what}: {clean(str(error), 300)}")
        raise CheckFailed(message([said, *watched.remarks]), Cause.GRADIENT) from None
    if found is not None:
        raise CheckFailed(message([*_explain(*found, names), *watched.remarks]), Cause.GRADIENT)


def _mismatch(
    f: _Watched, inputs: tuple[Any, ...]
) -> tuple[int, int, NDArray[Any], NDArray[Any]] | None:
    """The first output and input whose Jacobians disagree, with both, as (input, output) elements."""
    outputs = f(*inputs)
    # Where there is no element there is no derivative to compare.
    sources = [i for i, x in enumerate(inputs) if is_tensor(x) and x.requires_grad and x.numel()]
    numerical = [_numerical(f, inputs, source) for source in sources]
    for number, output in enumerate(outputs):
        if not output.dtype.is_floating_point or not output.numel():
            continue
        analytical = _analytical(output, [inputs[source] for source in sources])
        for source, wanted, found in zip(sources, numerical, analytical, strict=True):
            if not _agree(found, wanted[number]):
                return number, source, wanted[number], found
    return None


def _numerical(f: _Watched, inputs: tuple[Any, ...], source: int) -> list[NDArray[Any]]:
    """By central differences: for each output the rows of its change by each element of an input."""
    import numpy as np
    import torch

    rows: list[tuple[NDArray[Any], ...]] = []
    with torch.no_grad():
        for index in range(inputs[source].numel()):
            ends = []
            for step in (_STEP, -_STEP):
                moved = inputs[source].detach().clone()
                moved.view(-1)[index] += step
                ends.append(f(*inputs[:source], moved, *inputs[source + 1 :]))
            above, below = ends
            rows.append(
                tuple(
                    ((a.detach().double() - b.detach().double()) / (2 * _STEP)).reshape(-1).numpy()
                    for a, b in zip(above, below, strict=True)
                )
            )
    return [np.array(column) for column in zip(*rows, strict=True)]


def _analytical(output: Tensor, inputs: list[Tensor]) -> list[NDArray[Any]]:
    """By backward: for each input its rows, a column for each element of the output."""
    import torch

    columns: list[list[NDArray[Any]]] = []
    for index in range(output.numel()):
        unit = torch.zeros_like(output)
        unit.view(-1)[index] = 1
        total = (output * unit).sum()
        found = (
            torch.autograd.grad(total, inputs, retain_graph=True, allow_unused=True)
            if output.requires_grad
            else [None] * len(inputs)
        )
        columns.append([_flat(g, x) for g, x in zip(found, inputs, strict=True)])
    import numpy as np

    return [np.stack(column, axis=1) for column in zip(*columns, strict=True)]


def _flat(gradient: Tensor | None, tensor: Tensor) -> NDArray[Any]:
    import torch

    gradient = torch.zeros_like(tensor) if gradient is None else gradient
    flat: NDArray[Any] = gradient.detach().double().reshape(-1).numpy()
    return flat


def _agree(analytical: NDArray[Any], numerical: NDArray[Any]) -> bool:
    import numpy as np

    return bool(np.allclose(analytical, numerical, rtol=_TOLERANCE.rtol, atol=_TOLERANCE.atol))


# --- the mismatch, in the student's words ---------------------------------------------------------


class _First:
    """How the parts of a first derivative are called."""

    disagrees = "backward disagrees with finite differences"

    def __init__(self, what: str) -> None:
        self.what = what

    def derivative(self, output: int, column: int, source: int, row: int) -> str:
        return f"element {column} of output {output} by element {row} of input {source}"


class _Second(_First):
    """The same for the derivative of a gradient, whose inputs end with the outputs' gradients."""

    disagrees = "the derivative of backward disagrees with finite differences"

    def __init__(self, what: str, inputs: int) -> None:
        super().__init__(what)
        self._inputs = inputs

    def derivative(self, output: int, column: int, source: int, row: int) -> str:
        past = source - self._inputs
        by = f"input {source}" if past < 0 else f"grad_output {past}"
        return f"element {column} of gradient {output} by element {row} of {by}"


class _Watched:
    """A function that gives tensors attached to its inputs and of one shape, or ends the check."""

    def __init__(self, f: Callable[..., Any], what: str) -> None:
        self._f, self._what = f, what
        self._first: tuple[Tensor, ...] | None = None
        self.remarks: list[str] = []

    def __call__(self, *inputs: Any) -> tuple[Tensor, ...]:
        value = self._f(*inputs)
        many = isinstance(value, (tuple, list, Record)) and len(value) > 0
        outputs = tuple(value) if many else (value,)
        for output in outputs:
            if is_tensor(output) and output.is_complex():
                told = f"{self._what}: the output is complex, expected real numbers."
                raise CheckFailed(message([sentence(told)]))
            if not is_tensor(output) or output.is_meta:
                raise CheckFailed(message(explain_type(output, "a Tensor", self._what)), Cause.TYPE)
        if self._first is None:
            self._meet(inputs, outputs)
        else:
            self._compare(outputs, self._first)
        return outputs

    def _meet(self, inputs: tuple[Any, ...], outputs: tuple[Tensor, ...]) -> None:
        self._first = tuple(output.detach() for output in outputs)
        attached = [x for x in inputs if is_tensor(x) and x.requires_grad]
        if attached and not any(output.requires_grad for output in outputs):
            cut = "no gradient flows back from the output to the input: is it detached on the way?"
            raise CheckFailed(message([sentence(f"{self._what}: {cut}")]))
        narrow = [
            o.dtype for o in outputs if any(o.dtype.itemsize < x.dtype.itemsize for x in attached)
        ]
        if narrow:
            self.remarks.append(
                f"The output has dtype {narrow[0]} for an input of {attached[0].dtype}."
            )
        # Each of them is differentiated on its own, on no clock but ours.
        if (count := sum(output.numel() for output in outputs)) > _MAX_OUTPUTS:
            told = f"{self._what}: the output has {count:,} elements, far more than expected."
            raise CheckFailed(message([sentence(told)]))

    def _compare(self, outputs: tuple[Tensor, ...], first: tuple[Tensor, ...]) -> None:
        if len(outputs) != len(first):
            many = f"{self._what}: two calls give different numbers of tensors."
            raise CheckFailed(message([sentence(many)]))
        for output, earlier in zip(outputs, first, strict=True):
            if output.shape != earlier.shape or output.dtype != earlier.dtype:
                lines = explain_shape(output, tuple(earlier.shape), self._what)
                raise CheckFailed(
                    message([*lines, "Expected is what an earlier call gave."]), Cause.SHAPE
                )


def _explain(
    output: int, source: int, numerical: NDArray[Any], analytical: NDArray[Any], names: _First
) -> list[str]:
    row, column = _worst(numerical, analytical)
    got, wanted = element(analytical[row, column].item()), element(numerical[row, column].item())
    derivative = names.derivative(output, column, source, row)
    return [
        sentence(f"{names.what}: {names.disagrees}."),
        f"It is furthest off in the derivative of {derivative} (all counted from 0):",
        f"it gives {got}, finite differences give {wanted}.",
        *_relations(analytical, numerical),
    ]


def _worst(numerical: NDArray[Any], analytical: NDArray[Any]) -> tuple[int, int]:
    import numpy as np

    with np.errstate(all="ignore"):
        error = np.abs(analytical - numerical)
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    return worst // error.shape[1], worst % error.shape[1]


def _relations(analytical: NDArray[Any], numerical: NDArray[Any]) -> list[str]:
    """What the Jacobian, seen as a whole, says about backward."""
    from grader.judge.checks.relations import nonfinite, relation

    if not analytical.any():
        return ["It is 0 everywhere: does it come from detached values?"]
    if analytical.shape[1] > 1 and (analytical == analytical[:, :1]).all():
        # Every column is the answer to one other grad_output.
        return ["It is the same for every grad_output: does it multiply by grad_output?"]
    known = nonfinite(analytical, numerical)
    known = known or relation(analytical, numerical, "float64", _RELATION)
    return [f"In its Jacobian: {known[0].lower()}{known[1:]}"] if known else []
