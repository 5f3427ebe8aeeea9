"""Graphs to count, functions with breaks to compile, and a clock that only calls and waits advance."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

# A function of x and a name. The name decides how many breaks it has, but does not show the number. `runs` gets
# the name of each run that is not compiled. The breaks are written out: if they were in a loop, torch.compile
# would give up the whole function. A call without x does nothing: dropped arguments then fail only test_calls.
HEAD = """
def f(x=None, name=""):
    if not torch.compiler.is_compiling():
        runs.append(name)
    if x is None:
        return
    breaks = breaks_of[name]
    x = x * 2
"""
BREAK = """
    if breaks > {i}:
        torch._dynamo.graph_break()
    x = x + 1
"""
MOST_BREAKS = 6
SOURCE = HEAD + "".join(BREAK.format(i=i) for i in range(MOST_BREAKS)) + "    return x"


# --- the backend ---------------------------------------------------------------------------------


class Program(nn.Module):
    """A program of steps. Each is one call node in a graph: of a module, a method or a function."""

    def __init__(self, steps: list[str], factor: Tensor) -> None:
        super().__init__()
        self.steps, self.tanh, self.factor = steps, nn.Tanh(), nn.Parameter(factor)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        for step in self.steps:
            if step == "module":
                x = self.tanh(x)
            elif step == "method":
                x = x.neg()
            elif step == "function":
                x = torch.sin(x)
            else:
                x = x * self.factor
        return (x,)


def graph_of(steps: list[str], factor: Tensor) -> Any:
    return torch.fx.symbolic_trace(Program(steps, factor))


def counts_of(backend: Any) -> list[Any]:
    operations = backend.operations
    if isinstance(operations, list):
        operations = list(operations)  # a copy, because the backend may append to it
    return [backend.graphs, operations]


def counted(module: Any, programs: list[list[str]], factor: Tensor, x: Tensor) -> dict[str, Any]:
    """The counts of a backend at first and after each graph, and then those of two other backends."""
    backend, other = module.CountingBackend(), module.CountingBackend()
    counts = [counts_of(backend)]
    for steps in programs:
        backend(graph_of(steps, factor), [x])
        counts.append(counts_of(backend))
    return {"counts": counts, "others": [counts_of(other), counts_of(module.CountingBackend())]}


def ran(module: Any, steps: list[str], factor: Tensor, inputs: list[Tensor]) -> dict[str, Any]:
    """The results of the backend's callable for each input, and the number of graphs afterwards."""
    backend = module.CountingBackend()
    run = backend(graph_of(steps, factor), inputs[:1])
    return {"values": [run(x) for x in inputs], "graphs": backend.graphs}


def gradient(module: Any, steps: list[str], factor: Tensor, x: Tensor) -> Tensor | None:
    """The gradient of x for the sum of a compiled program's output."""
    module.CountingBackend()(graph_of(steps, factor), [x])  # raises here if it is not written yet
    torch._dynamo.reset()
    compiled = torch.compile(Program(steps, factor), backend=module.CountingBackend())
    x = x.requires_grad_()
    (output,) = compiled(x)
    if output.requires_grad:
        output.sum().backward()
    return x.grad


# --- compilations and breaks ---------------------------------------------------------------------


def function(
    module: Any, breaks: dict[str, int] | None = None, runs: list[str] | None = None
) -> Callable[..., Any]:
    """A function with this number of breaks for each name. It shares no compiled code with other functions.

    `runs` gets the name in each call that is not compiled.
    """
    runs = [] if runs is None else runs
    breaks = {"": 0, **(breaks or {})}
    names: dict[str, Any] = {"torch": torch, "breaks_of": breaks, "runs": runs}
    exec(SOURCE, names)
    made: Callable[..., Any] = names["f"]
    return made


class PlainBackend:
    """A backend that counts graphs but no operations, because students have to find out how to count those."""

    def __init__(self) -> None:
        self.graphs, self.operations = 0, list[int]()

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.graphs += 1
        self.operations.append(0)
        return gm.forward


def apart_from_backend(module: Any, name: str, *arguments: Any) -> Any:
    """The result of a function with PlainBackend, so that mistakes in the student's backend do not count again.

    If the function uses an attribute that PlainBackend lacks, it runs with the student's backend after all.
    """
    own = module.CountingBackend
    module.CountingBackend = PlainBackend
    try:
        return getattr(module, name)(*arguments)
    except AttributeError:
        module.CountingBackend = own
        return getattr(module, name)(*arguments)
    finally:
        module.CountingBackend = own


def afresh(module: Any, name: str, breaks: dict[str, int], *arguments: Any) -> Any:
    """The result of compilations or graph_breaks for a function that torch.compile has given up."""
    f = function(module, breaks)
    # One size above torch.compile's limit: nothing is compiled until it is reset.
    config: Any = torch._dynamo.config
    with config.patch(recompile_limit=1):
        compiled = torch.compile(f, backend=lambda gm, _: gm.forward, dynamic=False)
        compiled(torch.ones(7))
        compiled(torch.ones(8))
    return apart_from_backend(module, name, f, *arguments)


def own_runs(module: Any, name: str, *arguments: Any) -> int:
    """How often compilations or graph_breaks runs a function itself instead of the compiled one."""
    names = list[str]()
    apart_from_backend(module, name, function(module, runs=names), *arguments)
    return len(names)


# --- clip_by_norm --------------------------------------------------------------------------------


def clipped(module: Any, inputs: list[Tensor], max_norm: float) -> dict[str, Any]:
    """The values of the compiled clip_by_norm, and the number of graphs after each."""
    return compiled_values(module, module.clip_by_norm, True, inputs, max_norm)


def clipped_inside(module: Any, inputs: list[Tensor], max_norm: float) -> dict[str, Any]:
    """The same for a compiled function that calls clip_by_norm."""

    def caller(x: Tensor, max_norm: float) -> Any:
        return module.clip_by_norm(x * 2, max_norm) + 1

    return compiled_values(module, caller, False, inputs, max_norm)


def compiled_values(
    module: Any, f: Any, whole: bool, inputs: list[Tensor], max_norm: float
) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        module.clip_by_norm(inputs[0], max_norm)  # dynamo would wrap an error raised here
    torch._dynamo.reset()
    backend = PlainBackend()
    compiled: Any = torch.compile(f, backend=backend, fullgraph=whole)
    values, graphs = [], []
    for x in inputs:
        try:
            values.append(compiled(x, max_norm))
        except Exception as error:  # noqa: BLE001 - torch.compile raises many kinds
            return {"printed": printed.getvalue(), "error": str(error).partition("\n")[0][:300]}
        graphs.append(backend.graphs)
    return {"printed": printed.getvalue(), "error": None, "values": values, "graphs": graphs}


# --- first_and_later -----------------------------------------------------------------------------


class Work:
    """Calls that take these seconds, at once or when they are waited for, and a log of events in order.

    `pending` is the number of seconds of work that is not done yet.
    """

    def __init__(self, seconds: list[float], pending: float) -> None:
        self.seconds, self.pending = seconds, pending
        self.now = 100.0
        self.calls, self.log = list[Any](), list[str]()

    def call(self, *arguments: Any) -> None:
        self.pending += self.seconds[len(self.calls) % len(self.seconds)]
        self.calls.append(list(arguments))
        self.log.append("f")

    def call_and_wait(self, *arguments: Any) -> None:
        self.call(*arguments)
        self.wait()

    def wait(self) -> None:
        self.now += self.pending
        self.pending = 0.0

    def synchronize(self) -> None:
        self.log.append("synchronize")
        self.wait()

    def clock(self) -> float:
        self.log.append("clock")
        return self.now


def timed(module: Any, seconds: list[float], arguments: list[Any], options: Any) -> dict[str, Any]:
    """The report on first_and_later for calls that take these seconds."""
    work = Work(seconds, 0.0)
    return report_on(module, work, work.call_and_wait, arguments, options)


def timed_with_queue(
    module: Any, seconds: list[float], earlier_work: float, options: Any
) -> dict[str, Any]:
    """The report on first_and_later for calls that are queued behind `earlier_work` seconds of other work."""
    work = Work(seconds, earlier_work)
    return report_on(module, work, work.call, [], {**options, "synchronize": work.synchronize})


def report_on(
    module: Any, work: Work, f: Any, arguments: list[Any], options: Any
) -> dict[str, Any]:
    """The result of first_and_later for this work, with the calls and the log.

    A ValueError after a call of f becomes a RuntimeError.
    """
    torch._dynamo.reset()
    frames: Any = torch._dynamo.utils.counters["frames"]
    frames.clear()
    try:
        value = module.first_and_later(f, *arguments, clock=work.clock, **options)
    except ValueError:
        if work.calls:
            raise RuntimeError("f was called before calls was refused") from None
        raise
    return {"value": value, "calls": work.calls, "log": work.log, "compiled": frames["total"]}
