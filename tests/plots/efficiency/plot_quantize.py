"""The error of rows with one scale and with a scale for each, and the end of the range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 6.0)
ROWS, POINTS = 16, 241
LOW, HIGH = 118.0, 136.0

_Rows = Annotated[list[float], msgspec.Meta(min_length=ROWS, max_length=ROWS)]
_Line = Annotated[list[float], msgspec.Meta(min_length=POINTS, max_length=POINTS)]


class Data(msgspec.Struct):
    """Relative errors of rows, for one scale and for each its own; value and gradient of fake_quantize."""

    one: _Rows
    own: _Rows
    values: _Line
    gradients: _Line


def experiment(student: Any) -> dict[str, Any]:
    """Rows whose sizes grow from 0.01 to 1, and numbers around the end of the range for a scale of 1."""
    import torch

    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(ROWS, 256, generator=generator) * torch.logspace(-2, 0, ROWS)[:, None]
    errors = []
    for axis in (None, 0):
        scale = student.absmax_scale(weight, axis)
        back = student.dequantize(student.quantize(weight, scale, axis), scale, axis)
        errors.append(((back - weight).norm(dim=1) / weight.norm(dim=1)).tolist())
    x = torch.linspace(LOW, HIGH, POINTS).requires_grad_()
    values = student.fake_quantize(x, torch.tensor(1.0))
    values.sum().backward()
    assert x.grad is not None
    lines = {"values": values.tolist(), "gradients": x.grad.tolist()}
    return {"one": errors[0], "own": errors[1], **lines}


def draw(figure: FigureBase, data: Data) -> None:
    """Errors above, on a logarithmic scale, and the border below."""
    from grader.student.plots.style import COLORS

    errors, border = figure.subplots(2, 1)
    errors.semilogy(data.one, "o-", color=COLORS[0], label="one scale")
    errors.semilogy(data.own, "o-", color=COLORS[1], label="a scale for each row")
    errors.set(xlabel="row, from small numbers to large", ylabel="relative error")
    errors.set_title("One scale is too coarse for rows of small numbers")
    errors.legend()
    xs = [LOW + (HIGH - LOW) * i / (POINTS - 1) for i in range(POINTS)]
    border.plot(xs, data.values, color=COLORS[0], label="value")
    border.set(xlabel="x / scale", ylabel="value / scale")
    border.set_title("fake_quantize at the end of the range")
    slope = border.twinx()
    slope.plot(xs, data.gradients, color=COLORS[1], label="gradient")
    slope.set(ylabel="gradient", ylim=(-0.1, 1.6))
    border.legend(loc="upper left")
    slope.legend(loc="center right")
