"""Ask the two checks about a wrong gradient."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def doubled(module: Any, function: str, x: Tensor) -> Any:
    """The result of gradient_error or check_gradients for x while backward returns twice the gradient."""
    own = getattr(module, "GELUFunction", None)
    backward = getattr(own, "backward", None)

    def twice(ctx: Any, *grad_outputs: Tensor) -> Any:
        assert backward is not None
        gradient = backward(ctx, *grad_outputs)
        if isinstance(gradient, tuple):
            return tuple(None if each is None else 2 * each for each in gradient)
        return 2 * gradient

    if not isinstance(own, type) or backward is None:
        return getattr(module, function)(x)
    kept = vars(own).get("backward")
    own.backward = staticmethod(twice)  # type: ignore[attr-defined]  # the student's class
    try:
        return getattr(module, function)(x)
    finally:
        if kept is None:
            del own.backward  # type: ignore[attr-defined]  # the inherited one is back
        else:
            own.backward = kept  # type: ignore[attr-defined]  # as above
