"""Random inputs of a test, the same for the answer and for the solution."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from grader.judge.checks.assertions import assert_tensor
from grader.judge.checks.wording import no_parameter
from grader.judge.text import text

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

T = TypeVar("T")

# The shapes of a layer's parameters, by name.
Shapes = dict[str, tuple[int, ...]]


class Draw:
    """Random numbers that depend only on a seed and on the order of the calls.

    Tensors with a name (`grad="x"`) and the parameters of layers that `fill` filled are the test's `leaves`:
    the gradients of its yielded values are compared with respect to each of them.
    """

    def __init__(
        self, seed: int, filled: Callable[[int], Shapes | None] = lambda number: None
    ) -> None:
        """Draw from `seed`; `filled` returns the parameters of the solution's layers for each `fill`."""
        self._numbers = random.Random(seed)  # noqa: S311 (inputs, no secrets)
        self._filled = filled
        self.leaves: dict[str, Tensor] = {}
        # For the solution: the parameters of each layer that was filled.
        self.shapes: list[Shapes] = []

    # --- tensors ---------------------------------------------------------------------------------

    def normal(
        self,
        *shape: int,
        dtype: torch.dtype | None = None,
        scale: float = 1.0,
        grad: str = "",
    ) -> Tensor:
        """Draw a tensor of this shape from a normal distribution with standard deviation `scale`.

            x = draw.normal(4, 6, grad="x")

        The default dtype is float32. With `grad`, the tensor is a leaf of this name, which requires a gradient.
        """
        return self.leaf(grad, self._drawn("randn", shape, dtype) * scale)

    def uniform(
        self,
        *shape: int,
        low: float = 0.0,
        high: float = 1.0,
        dtype: torch.dtype | None = None,
        grad: str = "",
    ) -> Tensor:
        """Draw a tensor of this shape, uniformly from `low` up to `high`; see `normal`."""
        return self.leaf(grad, self._drawn("rand", shape, dtype) * (high - low) + low)

    def integers(self, *shape: int, low: int = 0, high: int) -> Tensor:
        """Draw an int64 tensor of this shape, from `low` to `high - 1`."""
        import torch

        return torch.randint(low, high, shape, generator=self._generator())

    def permutation(self, count: int) -> Tensor:
        """Draw an order of the numbers 0 to `count - 1`: an int64 tensor of shape (count,)."""
        import torch

        return torch.randperm(count, generator=self._generator())

    def leaf(self, name: str, tensor: Tensor) -> Tensor:
        """Make a tensor a leaf of this name, which requires a gradient; without a name, leave it unchanged."""
        if not name:
            return tensor
        self.leaves[name] = tensor.detach().requires_grad_()
        return self.leaves[name]

    def fill(self, layer: nn.Module, *, scale: float = 1.0, **scales: float) -> Any:
        """Fill every parameter of a layer with normal numbers, and return the layer.

            layer = draw.fill(code.module("GatedLinearUnit", 6, 5))

        The parameters come from the solution's layer, by name, so a test of a layer's output does not depend
        on its initialization. `scale` is the standard deviation of all; keywords set that of single parameters.
        Raises CheckFailed if the answer's layer lacks a parameter, or has it in another shape.
        """
        import torch

        own = dict(layer.named_parameters())
        shapes = self._filled(len(self.shapes))
        if shapes is None:
            shapes = {name: tuple(parameter.shape) for name, parameter in own.items()}
        self.shapes.append(shapes)
        for name, shape in shapes.items():
            last = name.rpartition(".")[2]
            # A layer may keep it in an inner module: another test checks its place.
            parameter = _parameter(layer, own, name)
            assert_tensor(parameter, shape=shape, what=text("the layer's {name}", name))
            drawn = self._drawn("randn", shape, parameter.dtype) * scales.get(last, scale)
            with torch.no_grad():
                parameter.copy_(drawn)
            self.leaves[name] = parameter
        return layer

    # --- numbers ---------------------------------------------------------------------------------

    def size(self, low: int = 8, high: int = 64) -> int:
        """Draw a size from `low` to `high - 1`, which no answer can know beforehand."""
        return self._numbers.randrange(low, high)

    def number(self, low: float = 0.0, high: float = 1.0) -> float:
        """Draw a number from `low` up to `high`."""
        return self._numbers.uniform(low, high)

    def choice(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return self._numbers.choice(options)

    def seed(self) -> int:
        """Draw a seed, for a probe or for the code itself."""
        return self._numbers.randrange(2**31)

    # --- within ----------------------------------------------------------------------------------

    def _generator(self) -> torch.Generator:
        import torch

        return torch.Generator().manual_seed(self.seed())

    def _drawn(self, kind: str, shape: Sequence[int], dtype: torch.dtype | None) -> Tensor:
        """Draw in float64, so that every dtype gets the same numbers, rounded."""
        import torch

        make = {"randn": torch.randn, "rand": torch.rand}[kind]
        drawn = make(tuple(shape), generator=self._generator(), dtype=torch.float64)
        return drawn.to(dtype or torch.float32)


def _parameter(layer: nn.Module, own: Mapping[str, Tensor], name: str) -> Tensor:
    """Return the parameter of this name, or the only one whose last part is the name."""
    if name in own:
        return own[name]
    alike = [each for each in own if each.rpartition(".")[2] == name.rpartition(".")[2]]
    if len(alike) != 1:
        raise no_parameter(name, layer)
    return own[alike[0]]
