"""Facts that the grader's own probe reports about a student's module, tested on small modules."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks.laws import grader_probe as probe


class Square(torch.autograd.Function):
    """x ** 2 with its own gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * gradients[0]


class Forgetful(Square):
    """A Square that keeps the last x on the class, shared by all calls."""

    last: Tensor

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Forgetful.last = x
        return x * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return 2 * Forgetful.last * gradients[0]


def square(x: Tensor) -> Tensor:
    return Square.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def module(**names: Any) -> Any:
    return SimpleNamespace(**names)


STUDENT = module(
    square=square,
    forgetful=lambda x: Forgetful.apply(x),  # type: ignore[no-untyped-call]
    plain=lambda x: x * x,
    detached=lambda x: (x * x).detach(),
    Square=Square,
    Forgetful=Forgetful,
)


# --- live arguments ---------------------------------------------------------------------------------


def test_a_live_tensor_is_a_leaf_or_the_result_of_an_operation() -> None:
    grad = torch.ones(2)
    leaf = probe.tensor(None, torch.ones(2), grad, True)
    assert leaf.is_leaf and leaf.requires_grad and leaf.grad is grad
    made = probe.tensor(None, torch.ones(2), None, False)
    assert made.requires_grad and not made.is_leaf


def test_live_objects_are_found_by_name_or_made_from_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert probe.value(None, "torch.nn.functional.relu") is nn.functional.relu
    # A real optimizer imports the compiler, which takes a second.
    monkeypatch.setattr(torch.optim, "Own", lambda of, lr: (len(list(of)), lr), raising=False)
    assert probe.optimizer(None, "Own", nn.Linear(2, 1), lr=0.5) == (2, 0.5)
    dataset = probe.items(None, [3, 4])
    assert (len(dataset), dataset[1]) == (2, 4)
    loader = probe.batches(None, [1, 2])
    assert (len(loader), list(loader), list(loader)) == (2, [1, 2], [1, 2])
    once = probe.once(None, [1, 2])
    assert (list(once), list(once)) == ([1, 2], [])


# --- calls ------------------------------------------------------------------------------------------


def test_backward_gets_exactly_this_gradient() -> None:
    x, grad_output = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 1.0])
    assert probe.both_passes(STUDENT, "square", x, grad_output).tolist() == [20, 4]


def test_unwritten_memory_of_a_new_object_is_nan() -> None:
    class Layer(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.unwritten = nn.Parameter(torch.empty(size))
            self.zeros = nn.Parameter(torch.zeros(size))

    state = probe.state_on_nan(module(Layer=Layer), "Layer", 2)
    assert all(map(math.isnan, state["unwritten"].tolist()))
    assert state["zeros"].tolist() == [0, 0] and not state["zeros"].requires_grad

    def refuses() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 (its own)
        probe.state_on_nan(module(Layer=refuses), "Layer")
    assert torch.get_deterministic_debug_mode() == 0


def test_passes_over_a_loader_are_separate() -> None:
    assert probe.epochs(None, probe.batches(None, [1, 2]), 2) == [[1, 2], [1, 2]]
    assert probe.epochs(None, probe.once(None, [1, 2]), 2) == [[1, 2], []]


def test_everything_that_runs_in_a_call_is_reported_once() -> None:
    def called(x: Tensor) -> Tensor:
        x.stride()
        return nn.functional.softmax(x @ torch.ones(3, 7), -1) + torch.softmax(x @ x.T, 0).sum()

    used = probe.used(module(called=called), "called", torch.ones(3, 3))
    assert {"aten::mm", "aten::_softmax"} <= set(used["operators"])
    assert "torch.nn.functional.softmax" in used["functions"]
    assert "stride" in used["calls"] and {3, 7} <= set(used["sizes"])
    for names in used.values():
        assert len(names) == len(set(names))
    assert sys.getprofile() is None


# --- autograd Functions -----------------------------------------------------------------------------


def nodes(name: str, own: str = "Square") -> dict[str, Any]:
    (report,) = probe.nodes(STUDENT, name, own, [torch.tensor([3.0])], [torch.tensor([42.0])])
    return dict(report)


def test_the_node_of_a_function_and_its_backward_are_detected() -> None:
    report = nodes("square")
    assert report["node"] == "SquareBackward" and report["own"] in report["nodes"]
    assert report["marked"].tolist() == [42]
    # The mark is removed again.
    x = torch.tensor([3.0], requires_grad=True)
    square(x).backward()
    assert x.grad is not None and x.grad.item() == 6


def test_the_graph_of_another_function_is_distinguished() -> None:
    report = nodes("plain")
    assert report["node"] == "MulBackward0" and report["own"] not in report["nodes"]
    assert report["marked"].tolist() == [6]
    report = nodes("detached")
    assert (report["node"], report["nodes"], report["marked"]) == (None, [], None)
    assert nodes("plain", own="Missing")["own"] == id(None)


def test_an_unwritten_backward_raises_not_implemented_error() -> None:
    class Unwritten(Square):
        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            raise NotImplementedError

    apply: Any = Unwritten.apply
    of = module(unwritten=apply, Unwritten=Unwritten)
    with pytest.raises(NotImplementedError):
        probe.nodes(of, "unwritten", "Unwritten", [torch.ones(1)], [torch.ones(1)])


def test_declarations_of_methods_are_reported() -> None:
    class Bound(torch.autograd.Function):
        def forward(self, x: Any) -> Any:  # type: ignore[override]
            return x

    of = module(square=square, Square=Square, Bound=Bound)
    declared = probe.declaration(of, "square", "Square")
    assert declared == {"function": True, "forward": "staticmethod", "backward": "staticmethod"}
    declared = probe.declaration(of, "square", "Bound")
    assert declared == {"function": True, "forward": "function", "backward": "missing"}
    assert not probe.declaration(module(square=square), "square", "Square")["function"]


@pytest.mark.parametrize(("name", "first"), [("square", 2.0), ("forgetful", 10.0)])
def test_a_second_forward_pass_reveals_state_kept_on_the_class(name: str, first: float) -> None:
    x, second = torch.tensor([1.0]), torch.tensor([5.0])
    assert probe.first_of_two(STUDENT, name, x, second).tolist() == [first]


def test_saved_tensors_detect_a_change_of_x_between_the_passes() -> None:
    x, changed = torch.tensor([1.0]), torch.tensor([5.0])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        probe.change_between(STUDENT, "square", x, changed)
    kept = probe.change_between(STUDENT, "forgetful", torch.tensor([1.0]), changed)
    assert kept.tolist() == [10]


# --- figures ----------------------------------------------------------------------------------------


class LineCollection(SimpleNamespace):
    """Lines drawn by `vlines`."""


class PathCollection(SimpleNamespace):
    """Dots drawn by `scatter`."""


def line(label: str, style: str = "-", marker: str = "None") -> Any:
    return SimpleNamespace(
        get_label=lambda: label,
        get_linestyle=lambda: style,
        get_marker=lambda: marker,
        get_xydata=lambda: [[0, 1]],
    )


def axes(x_label: str = "", lines: Any = (), collections: Any = ()) -> Any:
    return SimpleNamespace(
        lines=lines,
        collections=collections,
        get_xlabel=lambda: x_label,
        get_ylabel=lambda: "loss",
        get_xscale=lambda: "linear",
        get_yscale=lambda: "log",
    )


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function for the facts of a figure's first axes, without importing matplotlib (1 s)."""
    kinds = SimpleNamespace(LineCollection=LineCollection, PathCollection=PathCollection)
    monkeypatch.setitem(sys.modules, "matplotlib", cast(Any, SimpleNamespace()))
    monkeypatch.setitem(sys.modules, "matplotlib.collections", cast(Any, kinds))

    def of(*drawn: Any) -> dict[str, Any]:
        figure = SimpleNamespace(
            axes=drawn, get_supxlabel=lambda: "epoch", get_supylabel=lambda: ""
        )
        return probe._axes_facts(drawn[0], figure)

    return of


def test_invisible_lines_are_skipped_and_collections_included(facts: Any) -> None:
    lines = [
        line("loss"),
        line("hidden", "None"),
        line("blank", "None", " "),
        line("dots", "None", "o"),
    ]
    segments = LineCollection(get_label=lambda: "bars", get_segments=lambda: [[[0, 0]], [[1, 1]]])
    scattered = PathCollection(get_label=lambda: "points", get_offsets=lambda: [[3, 4]])
    found = facts(axes(lines=lines, collections=[segments, scattered, object()]))["lines"]
    assert [each["label"] for each in found] == ["loss", "dots", "bars", "bars", "points"]
    assert [each["points"].tolist() for each in found[-2:]] == [[[1, 1]], [[3, 4]]]


def test_a_label_of_the_figure_counts_for_its_only_axes(facts: Any) -> None:
    assert facts(axes())["x_label"] == "epoch"
    assert facts(axes("step"))["x_label"] == "step"
    assert facts(axes(), axes())["x_label"] == ""
    alone = facts(axes())
    assert (alone["y_label"], alone["x_scale"], alone["y_scale"]) == ("loss", "linear", "log")


def test_masked_points_are_nan() -> None:
    points = probe._points(np.ma.masked_equal([[0, 1], [1, 7]], 7))
    assert points.shape == (2, 2) and points[0].tolist() == [0, 1]
    assert math.isnan(points[1, 1])
    assert probe._points([]).shape == (0, 2)
