"""ReLU and its derivative as written by hand, and where the derivative differs from PyTorch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.2, 5.6)
STEPS = 401
LIMIT = 2.0

_Line = Annotated[list[float], msgspec.Meta(min_length=STEPS, max_length=STEPS)]
_Marks = Annotated[list[bool], msgspec.Meta(min_length=STEPS, max_length=STEPS)]


class Data(msgspec.Struct):
    """Over the points: values, both derivatives, and what differs_from_torch says; None: not written yet."""

    values: _Line
    derivatives: _Line
    torchs: _Line
    differs: _Marks | None


def experiment(student: Any) -> dict[str, Any]:
    """Evaluate forward and backward beside torch.relu; one of the points is 0."""
    import torch

    def both(function: Any) -> tuple[list[float], list[float]]:
        x = points.clone().requires_grad_()
        y = function(x)
        y.sum().backward()
        assert x.grad is not None, "no gradient reaches x"
        return y.tolist(), x.grad.tolist()

    points = torch.linspace(-LIMIT, LIMIT, STEPS, dtype=torch.float64)
    points[STEPS // 2] = 0.0
    values, derivatives = both(student.relu)
    _, torchs = both(torch.relu)
    try:
        differs = student.differs_from_torch(points).tolist()
    except NotImplementedError:
        differs = None
    return {"values": values, "derivatives": derivatives, "torchs": torchs, "differs": differs}


def draw(figure: FigureBase, data: Data) -> None:
    """The function above and the derivatives below, each in two parts, with the point at 0 marked."""
    from grader.student.plots.style import BLUE, GRAY, VERMILION

    middle = STEPS // 2
    points = [-LIMIT + 2 * LIMIT * i / (STEPS - 1) for i in range(STEPS)]
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(points, data.values, color=BLUE, label="relu")
    above.plot([0], [data.values[middle]], "o", color=BLUE)
    above.set(ylabel="value", title="relu, by forward")
    for name, line, color, style in (
        ("the derivative, by backward", data.derivatives, VERMILION, "-"),
        ("that of torch.relu", data.torchs, GRAY, "--"),
    ):
        # A gap at 0: what is taken there is one point, not a line between the two sides.
        gap = [*line[:middle], float("nan"), *line[middle + 1 :]]
        below.plot(points, gap, style, color=color, label=name)
        below.plot([0], [line[middle]], "o", color=color, label=f"at 0: {line[middle]:g}")
    below.set(xlabel="x", ylabel="slope", title=_title(data, points))
    below.margins(y=0.15)
    below.legend(loc="center left")


def _title(data: Data, points: list[float]) -> str:
    if data.differs is None:
        return "The derivative"
    places = [f"{x:g}" for x, differs in zip(points, data.differs, strict=True) if differs]
    if len(places) > 5:
        places = [*places[:5], f"{len(places) - 5} more points"]
    where = f"at {', '.join(places)}" if places else "nowhere"
    return f"The derivative; differs_from_torch says: {where}"
