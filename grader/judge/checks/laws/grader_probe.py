"""The grader's own probe: live objects for the laws, and raw facts about them.

It runs in the sandbox beside the student's code, so it compares nothing and imports nothing of the grader.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

# --- live arguments ---------------------------------------------------------------------------------


def tensor(module: Any, values: Any, grad: Any, leaf: bool) -> Any:
    """Return a tensor that requires a gradient: a leaf with this `.grad`, or the result of an operation."""
    values.requires_grad_()
    values.grad = grad
    return values if leaf else values * 1


def value(module: Any, dotted: str) -> Any:
    """Return an object by its dotted name, as "torch.nn.functional.mse_loss"."""
    owner, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(owner), name)


def optimizer(module: Any, kind: str, model: Any, **options: Any) -> Any:
    """Return an optimizer of torch.optim over the model's parameters."""
    import torch

    return getattr(torch.optim, kind)(model.parameters(), **options)


def items(module: Any, values: list[Any]) -> Any:
    """Return a map-style dataset of these items."""
    from torch.utils.data import Dataset

    class Items(Dataset):  # type: ignore[type-arg]  # of anything
        def __len__(self) -> int:
            return len(values)

        def __getitem__(self, index: int) -> Any:
            return values[index]

    return Items()


def batches(module: Any, values: list[Any]) -> Any:
    """Return a loader of these batches: it has a length and can be iterated again."""

    class Batches:
        def __len__(self) -> int:
            return len(values)

        def __iter__(self) -> Iterator[Any]:
            return iter(values)

    return Batches()


def once(module: Any, values: list[Any]) -> Any:
    """Return a generator of these values."""
    return (value for value in values)


# --- calls ------------------------------------------------------------------------------------------


def both_passes(module: Any, name: str, x: Any, grad_output: Any) -> Any:
    """Return the gradient at a copy of x's leaf for exactly this grad_output, after a forward pass at x."""
    import torch

    class Feed(torch.autograd.Function):
        """The end of a graph that passes exactly this grad_output backward."""

        @staticmethod
        def forward(ctx: Any, y: Any) -> Any:
            return y.sum()

        @staticmethod
        def backward(ctx: Any, one: Any) -> Any:
            return grad_output

    feed: Any = Feed.apply
    x = x if x.requires_grad else x.requires_grad_()
    (gradient,) = torch.autograd.grad(feed(getattr(module, name)(x)), x, allow_unused=True)
    return gradient


def state_on_nan(module: Any, name: str, *arguments: Any, **keywords: Any) -> dict[str, Any]:
    """Return the state of a new module, in memory that contains NaN wherever its code has not written."""
    import torch

    torch.set_deterministic_debug_mode("warn")  # makes torch.empty and the like fill with NaN
    try:
        layer = getattr(module, name)(*arguments, **keywords)
    finally:
        torch.set_deterministic_debug_mode("default")
    return {name: tensor.detach() for name, tensor in layer.state_dict().items()}


def epochs(module: Any, loader: Any, count: int) -> list[list[Any]]:
    """Return the batches of each of `count` passes over a loader."""
    return [list(loader) for _ in range(count)]


def used(module: Any, name: str, *arguments: Any, **keywords: Any) -> dict[str, list[Any]]:
    """Return everything that runs in a call, each once.

    That is: operators, functions of torch's and NumPy's files and of torch._C, calls of torch by their plain
    names ("stride"), and the sizes of the tensors that operators make.
    """
    import numpy
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    operators: dict[str, None] = {}
    functions: dict[str, None] = {}
    calls: dict[str, None] = {}
    sizes: dict[int, None] = {}
    packages = [str(package.__file__).removesuffix("__init__.py") for package in (torch, numpy)]

    class Recorder(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            operators[func._schema.name] = None
            result = func(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, (list, tuple)) else [result]:
                sizes.update(dict.fromkeys(getattr(tensor, "shape", ())))
            return result

    class CallRecorder(TorchFunctionMode):
        """Also sees composite operators before they are dispatched, and queries of a tensor."""

        def __torch_function__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls[getattr(func, "__name__", "")] = None
            return func(*args, **(kwargs or {}))

    def profile(frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and str(getattr(called, "__module__", "")).startswith("torch."):
            functions[f"{called.__module__}.{called.__name__}"] = None
        file = frame.f_code.co_filename
        root = next((root for root in packages if file.startswith(root)), None)
        if event == "call" and root and "_python_dispatch" not in file:
            path = file[len(root) :].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            package = "torch" if root == packages[0] else "numpy"
            functions[f"{package}.{path}.{frame.f_code.co_qualname}"] = None

    call = getattr(module, name)
    with Recorder(), CallRecorder():  # type: ignore[no-untyped-call]
        sys.setprofile(profile)
        try:
            call(*arguments, **keywords)
        finally:
            sys.setprofile(None)
    return {
        "operators": list(operators),
        "functions": list(functions)[:2000],
        "calls": list(calls),
        "sizes": list(sizes)[:2000],
    }


# --- autograd Functions -----------------------------------------------------------------------------


def nodes(module: Any, name: str, own: str, xs: list[Any], marks: list[Any]) -> list[Any]:
    """Return for each x: the nodes before the result, and the gradient when backward returns its mark.

    The nodes are the name of the first one, and the ids of the classes of all; `own` is the student's Function.
    """
    function = getattr(module, own, None)
    reports = []
    for x, mark in zip(xs, marks, strict=True):
        out = getattr(module, name)(_given(x.requires_grad_()))
        _try_gradient(out, x)  # an unwritten backward is not worth a node
        kinds: list[type] = []
        ahead = [getattr(out, "grad_fn", None)]
        while ahead and len(kinds) < 1000:
            if (node := ahead.pop()) is not None:
                kinds.append(type(node))
                ahead.extend(before for before, _ in node.next_functions)
        reports.append(
            {
                "node": kinds[0].__name__ if kinds else None,
                "nodes": [id(kind) for kind in kinds],
                "own": id(getattr(function, "_backward_cls", None)),
                "marked": _marked(module, name, function, x, mark),
            }
        )
    return reports


def _given(x: Any) -> Any:
    """Return the leaf x itself, or the result of an operation if it is a matrix."""
    return x * 1 if x.dim() == 2 else x


def _marked(module: Any, name: str, function: Any, x: Any, mark: Any) -> Any:
    """Return the gradient at x while the Function's backward returns the mark for any input."""

    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return tuple(mark.clone() if needed else None for needed in ctx.needs_input_grad)

    is_class = isinstance(function, type)
    own = function.__dict__.get("backward") if is_class else None
    if is_class:
        function.backward = staticmethod(backward)
    try:
        return _gradient(getattr(module, name)(_given(x)), x)
    finally:
        if own is not None:
            function.backward = own
        elif is_class:
            del function.backward


def _gradient(y: Any, x: Any) -> Any:
    """Return the gradient of the sum at x; None if there is none."""
    import torch

    if not isinstance(y, torch.Tensor) or not y.requires_grad:
        return None
    return torch.autograd.grad(y.sum(), x, allow_unused=True)[0]


def _try_gradient(y: Any, x: Any) -> None:
    """Run backward; it must be written, and other tests report its failures."""
    try:
        _gradient(y, x)
    except NotImplementedError:
        raise
    except Exception:  # noqa: BLE001, S110 (see above)
        pass


def declaration(module: Any, name: str, own: str) -> dict[str, Any]:
    """Return how a Function and its methods are declared."""
    import inspect

    import torch

    x = torch.ones(2, requires_grad=True)
    _try_gradient(getattr(module, name)(x), x)
    function, base = getattr(module, own, None), torch.autograd.Function
    report: dict[str, Any] = {"function": isinstance(function, type) and issubclass(function, base)}
    for method in ("forward", "backward"):
        declared = inspect.getattr_static(function, method, None)
        inherited = declared is inspect.getattr_static(base, method)
        report[method] = "missing" if inherited else type(declared).__name__
    return report


def first_of_two(module: Any, name: str, x: Any, second: Any) -> Any:
    """Return the gradient at x of a backward pass after a second forward pass."""
    y = getattr(module, name)(x.requires_grad_())
    getattr(module, name)(second.requires_grad_())
    return _gradient(y, x)


def change_between(module: Any, name: str, x: Any, changed: Any) -> Any:
    """Return the gradient of a backward pass after x was changed in place."""
    import torch

    untouched = x.clone().requires_grad_()
    _gradient(getattr(module, name)(untouched), untouched)
    y = getattr(module, name)(x.requires_grad_())
    with torch.no_grad():
        x.copy_(changed)
    return _gradient(y, x)


# --- figures ----------------------------------------------------------------------------------------


def figure(module: Any, name: str, *arguments: Any, **keywords: Any) -> dict[str, Any]:
    """Return the figure that the student's function draws, as `facts.Drawn`."""
    import matplotlib.pyplot as plt

    plt.close("all")  # drawing on the current figure is judged elsewhere
    try:
        return _figure_facts(getattr(module, name)(*arguments, **keywords))
    finally:
        plt.close("all")


def _figure_facts(drawn: Any) -> dict[str, Any]:
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

    if not isinstance(drawn, Figure):
        return {"type": type(drawn).__name__, "figure": None}
    artists = [child for owner in (*drawn.axes, drawn) for child in owner.get_children()]
    legends = [artist for artist in artists if isinstance(artist, Legend)]
    figure = {
        "axes": [_axes_facts(axes, drawn) for axes in drawn.axes],
        "legend": [str(text.get_text()) for legend in legends for text in legend.get_texts()],
        "legends": len(legends),
    }
    return {"type": "Figure", "figure": figure}


def _axes_facts(axes: Any, drawn: Any) -> dict[str, Any]:
    from matplotlib.collections import LineCollection, PathCollection

    alone = len(drawn.axes) == 1  # then a label of the whole figure belongs to its only Axes
    # Without a style and without markers, a line is invisible.
    seen = [
        line
        for line in axes.lines
        if line.get_linestyle() != "None" or line.get_marker() not in ("None", "none", "", " ")
    ]
    curves = [(line.get_label(), line.get_xydata()) for line in seen]
    for artist in axes.collections:
        if isinstance(artist, LineCollection):
            curves += [(artist.get_label(), segment) for segment in artist.get_segments()]
        elif isinstance(artist, PathCollection):
            curves.append((artist.get_label(), artist.get_offsets()))
    return {
        "x_label": str(axes.get_xlabel() or (drawn.get_supxlabel() if alone else "")),
        "y_label": str(axes.get_ylabel() or (drawn.get_supylabel() if alone else "")),
        "x_scale": str(axes.get_xscale()),
        "y_scale": str(axes.get_yscale()),
        "lines": [{"label": str(label), "points": _points(data)} for label, data in curves],
    }


def _points(data: Any) -> Any:
    import numpy as np

    # A copy in double: masked points become NaN.
    return np.array(np.ma.filled(np.ma.asarray(data, dtype=np.float64), np.nan)).reshape(-1, 2)


def pyplot(module: Any, name: str, *arguments: Any, **keywords: Any) -> dict[str, Any]:
    """Call the student's function while the caller has figures in pyplot; return `facts.PyplotFacts`."""
    import warnings

    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    plt.close("all")
    callers = [plt.figure(), plt.figure()]
    for caller in callers:
        caller.text(0.5, 0.5, "mine")

    def state() -> dict[str, Any]:
        contents = [[type(child).__name__ for child in caller.get_children()] for caller in callers]
        return {"open": plt.get_fignums(), "contents": contents}

    before = state()
    shown = []
    owners: list[Any] = [plt, Figure]
    shows: list[Callable[..., Any]] = [owner.show for owner in owners]
    for owner in owners:
        # By hand: unittest.mock would import asyncio into every sandbox.
        owner.show = lambda *_, **__: shown.append("show")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            drawn = getattr(module, name)(*arguments, **keywords)
    finally:
        for owner, show in zip(owners, shows, strict=True):
            owner.show = show
    # If the function show itself was imported, the backend warns that it cannot show.
    shown += ["show" for warning in caught if "cannot be shown" in str(warning.message)]
    after, returned_callers = state(), any(caller is drawn for caller in callers)
    plt.close("all")
    return {
        "before": before,
        "after": after,
        "returned_callers": returned_callers,
        "shown": len(shown),
    }
