"""Numerical checks of gradients: torch.autograd's own, with a failure that a student can read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from grader.judge.comparison import Tolerance, is_tensor
from grader.judge.explanation import explain_type
from grader.judge.outcomes import CheckFailed, Outcome
from grader.judge.shapes import explain_shape
from grader.judge.wording import clean, element, message, sentence
from grader.sandbox.protocol import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["gradcheck", "gradgradcheck"]

# What torch's messages other than a mismatch mean for a student, by a part of the message.
_MEANINGS = (
    ("expected to be zero", "the output depends on the input, but no gradient flows back to it."),
    ("not reentrant", "two backward passes at the same input give different gradients."),
    ("undefined", "backward has to cope with an output to which no gradient flows."),
    ("not multiplied", "for a grad_output of zeros the gradient is not zero."),
    ("dtype", "the gradient has another dtype than the input."),
    ("incorrect type", "the gradient has another dtype than the input."),
    ("size", "the gradient has another shape than the input."),
    ("does not require grad", "backward gives a gradient that cannot be differentiated again."),
)
# The digits that torch prints of a Jacobian bound how exactly relations can be told.
_PRINTED = Tolerance(rtol=1e-4, atol=1e-4)


def gradcheck(f: Callable[..., Any], inputs: Any, *, what: str, **options: Any) -> None:
    """Check the gradients of `f` at `inputs` (float64) against finite differences.

    `options` are those of torch.autograd.gradcheck. Exceptions of the student's code pass through.
    """
    import torch

    _run(torch.autograd.gradcheck, f, inputs, options, _First(what))


def gradgradcheck(f: Callable[..., Any], inputs: Any, *, what: str, **options: Any) -> None:
    """The same for second derivatives: whether the backward pass is itself differentiable."""
    import torch

    count = len(inputs) if isinstance(inputs, (tuple, list)) else 1
    _run(torch.autograd.gradgradcheck, f, inputs, options, _Second(what, count))


def _run(
    check: Callable[..., bool],
    f: Callable[..., Any],
    inputs: Any,
    options: dict[str, Any],
    names: _First,
) -> None:
    watched = _Watched(f, names.what)
    try:
        check(watched, inputs, **options, raise_exception=True)
    except Outcome:
        raise
    except RuntimeError as error:
        # Also what autograd's engine says of gradients that do not fit: GradcheckError is only
        # one of these. Where a check of torch's caught the student's own error, that one counts.
        if isinstance(error.__cause__, Outcome):
            raise error.__cause__ from None
        raise CheckFailed(message([*_explain(str(error), names), *watched.remarks()])) from None


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
    """A function that gives tensors attached to its inputs and of one shape, or ends the check.

    The numerical check takes this for granted and fails in ways of its own otherwise.
    """

    def __init__(self, f: Callable[..., Any], what: str) -> None:
        self._f, self._what = f, what
        self._first: tuple[Tensor, ...] | None = None
        self._narrowed = ""

    def __call__(self, *inputs: Any) -> Any:
        value = self._f(*inputs)
        many = isinstance(value, (tuple, list, Record)) and len(value) > 0
        outputs = tuple(value) if many else (value,)
        for output in outputs:
            if not is_tensor(output):
                raise CheckFailed(message(explain_type(output, "a Tensor", self._what)))
        if self._first is None:
            self._meet(inputs, outputs)
        else:
            self._compare(outputs, self._first)
        return outputs if many else value

    def remarks(self) -> list[str]:
        """What else may explain a failure."""
        return [self._narrowed] if self._narrowed else []

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
            self._narrowed = (
                f"The output has dtype {narrow[0]} for an input of {attached[0].dtype}."
            )

    def _compare(self, outputs: tuple[Tensor, ...], first: tuple[Tensor, ...]) -> None:
        if len(outputs) != len(first):
            many = f"{self._what}: two calls give different numbers of tensors."
            raise CheckFailed(message([sentence(many)]))
        for output, earlier in zip(outputs, first, strict=True):
            if output.shape != earlier.shape or output.dtype != earlier.dtype:
                lines = explain_shape(output, tuple(earlier.shape), self._what)
                raise CheckFailed(message([*lines, "Promised is what an earlier call gave."]))


# --- torch's message, read for the student --------------------------------------------------------

_MISMATCH = re.compile(
    r"mismatch for output (\d+) with respect to input (\d+),\s*numerical:(.*?)analytical:(.*)",
    re.DOTALL,
)


def _explain(text: str, names: _First) -> list[str]:
    found = _MISMATCH.search(text)
    if found is None:
        meaning = next((words for part, words in _MEANINGS if part in text), None)
        return [sentence(f"{names.what}: {meaning or clean(text, 300)}")]
    output, source = int(found[1]), int(found[2])
    numerical, analytical = _matrix(found[3]), _matrix(found[4])
    lines = [sentence(f"{names.what}: {names.disagrees}.")]
    if numerical is None or analytical is None or numerical.shape != analytical.shape:
        return [*lines, f"It is wrong for input {source} (counted from 0)."]
    row, column = _worst(numerical, analytical)
    got, wanted = element(analytical[row, column].item()), element(numerical[row, column].item())
    derivative = names.derivative(output, column, source, row)
    return [
        *lines,
        f"It is furthest off in the derivative of {derivative} (all counted from 0):",
        f"it gives {got}, finite differences give {wanted}.",
        *_relations(analytical, numerical),
    ]


def _matrix(text: str) -> NDArray[Any] | None:
    """A printed Jacobian (input elements, output elements); None if it was too large to print."""
    import numpy as np

    body = re.search(r"\[\[(.*?)\]\]", text, re.DOTALL)
    if body is None:
        return None
    try:
        rows = [[float(number) for number in row.split(",")] for row in _rows(body[1])]
        return np.array(rows)
    except ValueError:  # an ellipsis, complex numbers, rows of different lengths
        return None


def _rows(body: str) -> list[str]:
    return [row.strip(" \n[") for row in body.split("],")]


def _worst(numerical: NDArray[Any], analytical: NDArray[Any]) -> tuple[int, int]:
    import numpy as np

    with np.errstate(all="ignore"):
        error = np.abs(analytical - numerical)
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    return worst // error.shape[1], worst % error.shape[1]


def _relations(analytical: NDArray[Any], numerical: NDArray[Any]) -> list[str]:
    """What the Jacobian, seen as a whole, says about backward."""
    from grader.judge.relations import nonfinite, relation

    if not analytical.any():
        return ["It is 0 everywhere: does it come from detached values?"]
    if analytical.shape[1] > 1 and (analytical == analytical[:, :1]).all():
        # Every column is the answer to one other grad_output.
        return ["It is the same for every grad_output: does it multiply by grad_output?"]
    known = nonfinite(analytical, numerical)
    known = known or relation(analytical, numerical, "float64", _PRINTED)
    return [f"In its Jacobian: {known[0].lower()}{known[1:]}"] if known else []
