"""GELU and its derivative as written by hand, and how far both are from PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.2, 6.6)
STEPS = 401
LIMIT = 5.0
DTYPES = ("float32", "float64")

_Line = Annotated[list[float], msgspec.Meta(min_length=STEPS, max_length=STEPS)]

_ONE_A_DTYPE = msgspec.Meta(max_length=len(DTYPES))


class Data(msgspec.Struct):
    """Over the points: values, derivatives, and both errors for each dtype; None: not written yet."""

    values: _Line
    derivatives: _Line
    value_errors: Annotated[dict[str, _Line], _ONE_A_DTYPE]
    derivative_errors: Annotated[dict[str, _Line], _ONE_A_DTYPE]
    gradient_errors: Annotated[dict[str, float], _ONE_A_DTYPE] | None


def experiment(student: Any) -> dict[str, Any]:
    """Evaluate forward and backward, in both dtypes, beside nn.GELU(approximate="tanh")."""
    import torch
    from torch import nn

    def both(function: Any, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.linspace(-LIMIT, LIMIT, STEPS, dtype=dtype, requires_grad=True)
        y = function(x)
        y.sum().backward()
        assert x.grad is not None, "no gradient reaches x"
        return y.detach(), x.grad

    data: dict[str, Any] = {"value_errors": {}, "derivative_errors": {}, "gradient_errors": {}}
    for name in DTYPES:
        dtype = getattr(torch, name)
        value, derivative = both(student.gelu, dtype)
        right_value, right_derivative = both(nn.GELU(approximate="tanh"), dtype)
        data["value_errors"][name] = (value - right_value).abs().tolist()
        data["derivative_errors"][name] = (derivative - right_derivative).abs().tolist()
        data |= {"values": value.tolist(), "derivatives": derivative.tolist()}
    try:
        for name in DTYPES:
            x = torch.linspace(-LIMIT, LIMIT, STEPS, dtype=getattr(torch, name))
            data["gradient_errors"][name] = float(student.gradient_error(x))
    except NotImplementedError:
        data["gradient_errors"] = None
    return data


def draw(figure: FigureBase, data: Data) -> None:
    """The function and its derivative above, the errors of both below."""
    from grader.student.plots.style import BLUE, VERMILION

    points = [-LIMIT + 2 * LIMIT * i / (STEPS - 1) for i in range(STEPS)]
    functions, errors = figure.subplots(2, 1, sharex=True, height_ratios=[1.2, 1])
    functions.plot(points, data.values, color=BLUE, label="GELU")
    functions.plot(points, data.derivatives, color=VERMILION, label="its derivative, by backward")
    functions.set(ylabel="value", title="GELU and its derivative")
    functions.legend(loc="upper left")
    _draw_errors(errors, points, data)


def _draw_errors(axes: Axes, points: list[float], data: Data) -> None:
    from grader.student.plots.style import BLUE, VERMILION

    for kind, errors, color in (
        ("GELU", data.value_errors, BLUE),
        ("derivative", data.derivative_errors, VERMILION),
    ):
        for dtype, marker in zip(DTYPES, ("o", "+"), strict=True):
            # A difference of exactly 0 has no place on a logarithmic axis.
            heights = [error if error > 0 else float("nan") for error in errors.get(dtype, [])]
            none = "" if any(height == height for height in heights) else ": none"
            axes.plot(
                points[: len(heights)],
                heights,
                marker,
                color=color,
                markersize=3,
                label=f"{kind}, {dtype}{none}",
            )
    axes.set_yscale("log")
    axes.set(xlabel="x", ylabel="absolute difference", title=_errors_title(data))
    axes.set_ylim(bottom=1e-18)
    axes.legend(
        ncols=4,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        markerscale=1.8,
        handletextpad=0.2,
        columnspacing=1.2,
    )


def _errors_title(data: Data) -> str:
    title = "Difference from nn.GELU(approximate='tanh'); exact zeros are not shown"
    if data.gradient_errors is None:
        return title
    errors = [
        f"{data.gradient_errors[dtype]:.1e} in {dtype}"
        for dtype in DTYPES
        if dtype in data.gradient_errors
    ]
    return f"{title}\ngradient_error says {', '.join(errors)}"
