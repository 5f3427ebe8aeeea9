"""Functions to compile, graphs to count, and a clock that only calls and waiting let advance."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch import Tensor, nn

trace: Any = torch.fx.symbolic_trace


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.shift = nn.Linear(2, 2, bias=False), nn.Parameter(torch.ones(2))
        with torch.no_grad():
            self.linear.weight.copy_(2 * torch.eye(2))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (self.linear(x).add(y) + self.shift,)  # a module, a method, a function, an attribute


GRAPHS: dict[str, Any] = {
    "net": _Net,
    "sine": lambda: lambda x, y: (torch.sin(x) * y * x, x.sum()),
    "inputs": lambda: lambda x, y: (y, x),
}


def counted(module: Any, names: list[str], x: Tensor, y: Tensor) -> list[dict[str, Any]]:
    """What one backend holds at first, and after each of these graphs; what runs of each return."""
    backend = module.CountingBackend()
    reports: list[dict[str, Any]] = [{"counts": _counts(backend)}]
    for name in names:
        run = backend(trace(GRAPHS[name]()), [x, y])
        report = {"counts": _counts(backend), "kind": type(run).__name__, "runs": []}
        if callable(run):
            report = {**report, "kind": "callable", "runs": [run(x, y), run(y, x)]}
        report["later"], report["other"] = _counts(backend), _counts(module.CountingBackend())
        reports.append(report)
    return reports


def _counts(backend: Any) -> list[Any]:
    operations = backend.operations
    return [backend.graphs, list(operations) if isinstance(operations, list) else operations]


def compiled(module: Any, x: Tensor) -> dict[str, Any]:
    """Values, gradients and counts of a function that is compiled with the student's backend."""
    module.CountingBackend()(trace(GRAPHS["inputs"]()), [x, x])  # is it written at all?
    backend = module.CountingBackend()
    torch._dynamo.reset()
    x = x.requires_grad_()
    f = torch.compile(lambda x: torch.sin(x) * x, backend=backend)
    values = f(x)
    if values.requires_grad:
        values.sum().backward()
    f(x.detach() + 1)
    return {"values": values.detach(), "grad": x.grad, "graphs": backend.graphs}


def function(module: Any, breaks: int, runs: Tensor | None = None, plain: Any = None) -> Any:
    """A function with so many breaks (no tensor operation for 3), and counters of its runs.

    For 2 they are as many as its second argument less one, up to 5: torch.compile gives up a loop with breaks.
    """
    total, outside = torch.zeros(()) if runs is None else runs, [] if plain is None else plain
    ran: Any = torch._dynamo.disable(lambda: total.add_(1))  # a break, which counts every run

    def f(x: Any = None, factor: int = 2) -> Any:
        if not torch.compiler.is_compiling():
            outside.append(1)
        if breaks == 3:
            return 3
        x = x * factor
        ran() if breaks else total.add_(1)
        x = x + 1
        if breaks == 2 and factor >= 3:
            torch._dynamo.graph_break()
        x = x + 1
        if breaks == 2 and factor >= 4:
            torch._dynamo.graph_break()
        x = x + 1
        if breaks == 2 and factor >= 5:
            torch._dynamo.graph_break()
        x = x + 1
        if breaks == 2 and factor >= 6:
            torch._dynamo.graph_break()
        return x + 1

    return f


class _Plain:
    """A counting backend, beside which a student's other functions are judged by themselves."""

    def __init__(self) -> None:
        self.graphs, self.operations = 0, list[int]()

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.graphs += 1
        self.operations.append(0)  # how to count them is the student's to find out
        return gm.forward


def plainly(module: Any, name: str, *arguments: Any) -> Any:
    """What a function gives with a plain backend in place of the student's, None where it fails."""
    own = module.CountingBackend
    module.CountingBackend = _Plain
    try:
        return getattr(module, name)(*arguments)
    except Exception:  # noqa: BLE001 - it runs again with the student's own backend
        return None
    finally:
        module.CountingBackend = own


def afresh(
    module: Any, with_plain: bool, name: str, breaks: int, times: int, *arguments: Any
) -> dict[str, Any]:
    """What is said of a function that torch.compile gave up, and how often this one ran, and ran plainly."""
    runs, plain = torch.zeros(()), list[int]()
    f = function(module, breaks, runs, plain)
    # One size more than torch.compile is ready for: nothing is compiled until it is reset.
    config: Any = torch._dynamo.config
    with config.patch(recompile_limit=1):
        compiled: Any = torch.compile(f, backend=lambda gm, _: gm.forward, dynamic=False)
        compiled(torch.ones(7)), compiled(torch.ones(8))
    runs.zero_()
    plain.clear()
    if with_plain:
        answers = [plainly(module, name, f, *arguments) for _ in range(times)]
    else:
        answers = [getattr(module, name)(f, *arguments) for _ in range(times)]
    return {"answers": answers, "runs": int(runs), "plain": len(plain)}


def clipped(module: Any, inner: bool, xs: list[Tensor], max_norm: float) -> dict[str, Any]:
    """Values of the compiled function for each x, and how many graphs there are afterwards."""
    clip: Any = module.clip_by_norm
    with redirect_stdout(StringIO()) as printed:
        clip(xs[0], max_norm)  # dynamo would wrap what a function raises that is not written
    torch._dynamo.reset()
    graphs: list[int] = []

    def backend(gm: Any, inputs: Any) -> Any:
        graphs.append(len(inputs))
        return gm.forward

    def caller(x: Tensor, max_norm: float) -> Any:
        return clip(x * 2, max_norm) + 1

    f = torch.compile(caller if inner else clip, backend=backend, fullgraph=not inner)
    report: dict[str, Any] = {"values": [], "graphs": [], "printed": printed.getvalue()}
    for x in xs:
        try:
            report["values"].append(f(x, max_norm))
        except Exception as error:  # noqa: BLE001 - torch.compile's own, of many kinds
            return {**report, "error": str(error).partition("\n")[0][:300]}
        report["graphs"].append(len(graphs))
    return report


def timed(module: Any, seconds: list[float], queued: float | None, options: Any) -> Any:
    """Time calls of these seconds, left to `synchronize` where some are queued; what was done in order."""
    now, waiting, given, log = 100.0, queued or 0.0, list[Any](), list[str]()

    def f(*args: Any, **keywords: Any) -> str:
        nonlocal now, waiting
        took = seconds[len(given) % len(seconds)]
        log.append("f")
        given.append([list(args), keywords])
        now, waiting = (now + took, waiting) if queued is None else (now, waiting + took)
        return "result"

    def clock() -> float:
        log.append("clock")
        return now

    def synchronize() -> None:
        nonlocal now, waiting
        log.append("synchronize")
        now, waiting = now + waiting, 0.0

    if queued is not None:
        options = {**options, "synchronize": synchronize}
    if not options.pop("real", False):
        options = {**options, "clock": clock}
    report: dict[str, Any] = {"error": None, "value": None}
    torch._dynamo.reset()
    frames: Any = torch._dynamo.utils.counters["frames"]
    frames.clear()
    try:
        report["value"] = module.first_and_later(f, 3, "b", **options)
    except ValueError as error:
        report["error"] = str(error)
    return {**report, "log": log, "given": given, "frames": frames["total"]}
