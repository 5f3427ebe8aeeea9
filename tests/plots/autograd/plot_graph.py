"""The nodes of a small model's loss, level by level, as graph_nodes names them, with the leaves marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (8.4, 6.2)
MOST = 40

_Name = Annotated[str, msgspec.Meta(max_length=60)]


class Data(msgspec.Struct):
    """The nodes as the student names them, where each really lies, its edges, and leaves by name."""

    names: Annotated[list[_Name], msgspec.Meta(max_length=MOST)]
    levels: Annotated[list[int], msgspec.Meta(max_length=MOST)]
    edges: Annotated[list[tuple[int, int]], msgspec.Meta(max_length=2 * MOST)]
    leaves: dict[str, _Name] | None


def experiment(student: Any) -> dict[str, Any]:
    """A model of two layers, the second of which is used twice."""
    import torch

    shapes = {"first": (2, 2), "second": (2, 2), "bias": (2,)}
    parameters = {name: torch.ones(shape, requires_grad=True) for name, shape in shapes.items()}
    hidden = torch.tanh(torch.ones(3, 2) @ parameters["first"] + parameters["bias"])
    hidden = torch.tanh(hidden @ parameters["second"]) @ parameters["second"]
    loss = hidden.square().mean()
    nodes: list[Any] = [loss.grad_fn]
    levels, edges = {loss.grad_fn: 0}, []
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None:
                if following not in levels:
                    levels[following] = levels[node] + 1
                    nodes.append(following)
                edges.append((nodes.index(node), nodes.index(following)))
    owners = [getattr(node, "variable", None) for node in nodes]
    try:
        told = student.graph_leaves(loss)
        leaves = {
            str(place): name
            for name, leaf in parameters.items()
            for place, owner in enumerate(owners)
            if owner is leaf and any(item is leaf for item in told)
        }
    except NotImplementedError:
        leaves = None
    names = [str(name) for name in student.graph_nodes(loss)][:MOST]
    return {"names": names, "levels": list(levels.values()), "edges": edges, "leaves": leaves}


def draw(figure: FigureBase, data: Data) -> None:
    """Each node in the row of its level, in the order of the list."""
    from grader.student.plots.style import BLUE, GRAY, VERMILION

    axes = figure.subplots()
    rows: dict[int, list[int]] = {}
    for node, level in enumerate(data.levels):
        rows.setdefault(level, []).append(node)
    places = {
        node: ((i + 1) / (len(row) + 1), -level)
        for level, row in rows.items()
        for i, node in enumerate(row)
    }
    for start, end in data.edges:
        (x, y), (to_x, to_y) = places[start], places[end]
        axes.plot([x, to_x], [y, to_y], color=GRAY, linewidth=0.8, zorder=1)
    for node, (x, y) in places.items():
        leaf = (data.leaves or {}).get(str(node))
        name = data.names[node] if node < len(data.names) else "(missing)"
        words = f"{node}  {name}" + (f"\nleaf: {leaf}" if leaf else "")
        color = VERMILION if leaf else BLUE
        axes.text(x, y, words, ha="center", va="center", fontsize=7.5, color="white",
                  bbox={"boxstyle": "round", "facecolor": color, "edgecolor": "none"})  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(-max(rows) - 0.6, 0.6), ylabel="level", xticks=[])
    axes.set_yticks([-level for level in rows], [str(level) for level in rows])
    axes.set_title("The graph of a loss: the list of graph_nodes, by number")
    axes.grid(visible=False)
