"""Log every operator with a dispatch mode.

Everything you write in PyTorch ends as operators, such as `aten.addmm.default` (a matrix product plus a bias).
A `TorchDispatchMode` sits right before their kernels: inside `with mode:`, each operator goes to the mode's
`__torch_dispatch__` instead. That is after autograd: `nn.Linear` has become `t` and `addmm`, and a backward
pass is seen as well.

An operator's name is library, operator and overload: `str(func)` is "aten.add.Tensor" for the sum of two
tensors, "aten.add.out" for `torch.add(a, b, out=c)`.

Source: PyTorch documentation, Extending PyTorch: "Extending all torch API with Modes".

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
from collections import Counter

# end solution
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# begin solution: imports
import torch

# end solution
from torch.utils._python_dispatch import TorchDispatchMode

Shape = tuple[int, ...]


class OperatorCall(NamedTuple):
    """One call of an operator: its name, and the shapes of the tensors that went in and came out (given)."""

    name: str
    input_shapes: tuple[Shape, ...]
    output_shapes: tuple[Shape, ...]


# begin solution: shapes of anything
def _shapes(value: Any) -> tuple[Shape, ...]:
    """The shapes of the tensors in a value, in order, also of those in lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape),)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return tuple(shape for item in value for shape in _shapes(item))
    return ()


# end solution


class OperatorLogger(TorchDispatchMode):
    """A mode that records every operator that runs inside its `with` block.

        with OperatorLogger() as logger:
            torch.cat([torch.ones(2, 3), torch.ones(1, 3)])
        logger.calls[-1]
        # OperatorCall("aten.cat.default", input_shapes=((2, 3), (1, 3)), output_shapes=((3, 3),))

    `calls` is a list of OperatorCall, in the order in which the operators run: views, in-place operators and
    those of a backward pass are among them.

    - A new logger has no calls, and its list is its own. Entered again, it goes on with its list.
    - If a logger's block is inside another logger's block, both record what runs in the inner one.
    - The program runs as it would without the logger: each operator runs once with all of its arguments, errors
      come through, and the logger runs no operator of its own (no copy, no `detach`).
    - It keeps no tensor alive: it stores shapes, not arguments.
    """

    calls: list[OperatorCall]

    def __init__(self) -> None:
        """Begin without calls."""
        # begin solution: begin an empty list
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = []
        # end solution

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the operator `func`, record it, and return its own result.

        PyTorch calls this for each operator, with the mode switched off. `func(*args, **kwargs)` runs it;
        `types` is of no use here.

        - `name` is `str(func)`.
        - `input_shapes` are the shapes of the tensors in `args`, then of those in `kwargs`, in order, as they
          were when the operator was called: `x.t_()` changes that of x. A list of tensors gives one shape for
          each, in its place; numbers, None and other values give none.
        - `output_shapes` are those of the result, in the same way: a tensor, several tensors, or none.
        - A shape is a tuple of ints, such as a `torch.Size`; () for a 0-d tensor.

        You are free to record an operator that raises, or not.
        """
        # begin solution: run func and record it
        kwargs = kwargs or {}
        inputs = _shapes((args, kwargs))  # before the call, which may change them
        result = func(*args, **kwargs)
        self.calls.append(OperatorCall(str(func), inputs, _shapes(result)))
        return result
        # end solution


def log_operators(
    f: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, list[OperatorCall]]:
    """Call `f(*args, **kwargs)` once under a logger; return what it returned, and the list of calls.

    An error of `f` comes through, and the mode is off afterwards in any case.
    """
    # begin solution: call f inside of a logger's block
    with OperatorLogger() as logger:
        result = f(*args, **kwargs)
    return result, logger.calls
    # end solution


def count_operators(calls: Sequence[OperatorCall]) -> dict[str, int]:
    """Count the calls of each name: a dict from name to number, the most frequent first.

    Names that are equally frequent come in any order. No calls give {}.
    """
    # begin solution: count the names, most frequent first
    return dict(Counter(call.name for call in calls).most_common())
    # end solution


def matmul_flops(calls: Sequence[OperatorCall]) -> int:
    """Count the floating-point operations of the matrix products among the calls.

    A product of (m, k) and (k, n) takes 2 * m * k * n operations: k multiplications and k additions for each
    entry.

    - "aten.mm.default": its two tensors are the factors.
    - "aten.addmm.default": `bias + a @ b`; the second and third tensor are the factors. The addition of the
      bias is not counted.
    - "aten.bmm.default" and "aten.baddbmm.default": the same for a batch, with factors (batch, m, k) and
      (batch, k, n): as many products as the batch size.
    - Elementwise operators and views count 0. Other products (mv, dot, convolutions) do not occur.

    Not allowed: `torch.utils.flop_counter`.
    """
    # begin solution: add up the four operators
    total = 0
    for call in calls:
        if call.name in ("aten.mm.default", "aten.addmm.default"):
            (m, k), (_, n) = call.input_shapes[-2:]
            total += 2 * m * k * n
        elif call.name in ("aten.bmm.default", "aten.baddbmm.default"):
            (batch, m, k), (_, _, n) = call.input_shapes[-2:]
            total += 2 * batch * m * k * n
    return total
    # end solution
