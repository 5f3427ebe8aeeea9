"""Models, spies and fake clocks for the functions of throughput.

The notes of a spy in a rank come back with the result of the rank's worker.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

import parallel
import ranks

# The delay of rank 1, which makes a missing barrier visible.
DELAY_SECONDS = 0.05
ranks.JOIN_SECONDS = 3.0  # shorter than for students, because tests have little time


class Net(nn.Module):
    """A linear model with `weight` and `bias`. It does not use further parameters."""

    weight: Tensor
    bias: Tensor

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value.clone()))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def values_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def gradients_of(model: nn.Module) -> dict[str, Any]:
    """The gradients by name, None for parameters without one."""
    gradients: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        gradients[name] = None if gradient is None else gradient.detach().clone()
    return gradients


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that changes if its arguments are swapped."""
    return (outputs - 2 * targets).square().mean()


def launch_that_reports(notes: Any, reports: dict[int, list[Any]]) -> Callable[..., list[Any]]:
    """A launch for the student's code, which writes each rank's `notes` into `reports`, by world size."""

    def launch_and_report(worker: Any, world_size: int, *arguments: Any) -> list[Any]:
        def worker_with_notes(rank: int, *rest: Any) -> Any:
            return worker(rank, *rest), notes

        pairs = ranks.launch(worker_with_notes, world_size, *arguments)
        reports[world_size] = [own for _, own in pairs]
        return [result for result, _ in pairs]

    return launch_and_report


@contextmanager
def replaced(module: ModuleType, **new: Any) -> Iterator[None]:
    """Replace functions in the student's module and in the given ones, as long as the block runs."""
    modules = [vars(each) for each in (module, sys.modules["ranks"], sys.modules["parallel"])]
    old = [{name: names[name] for name in new if name in names} for names in modules]
    for names, own in zip(modules, old, strict=True):
        names.update({name: new[name] for name in own})
    try:
        yield
    finally:
        for names, own in zip(modules, old, strict=True):
            names.update(own)


# --- throughput ----------------------------------------------------------------------------------


class Machine:
    """A machine with a fake clock. Step i takes `seconds[i]` and processes `samples[i]` samples.

    Each reading of the clock takes `reading` seconds. If `waiting` is given, the machine is asynchronous: a
    step returns at once, and synchronize takes the step's seconds and `waiting` more.
    """

    def __init__(
        self,
        samples: list[int],
        seconds: list[float],
        reading: float = 0.0,
        waiting: float | None = None,
    ) -> None:
        self.samples, self.seconds = samples, seconds
        self.reading, self.waiting = reading, waiting
        self.now = 100.0
        self.pending = 0.0
        self.taken = 0

    def step(self) -> int:
        taken = self.taken
        self.taken += 1
        if self.waiting is None:
            self.now += self.seconds[taken]
        else:
            self.pending += self.seconds[taken]
        return self.samples[taken]

    def synchronize(self) -> None:
        self.now += self.pending + (self.waiting or 0.0)
        self.pending = 0.0

    def clock(self) -> float:
        self.now += self.reading
        return self.now


def throughput(module: ModuleType, machine: dict[str, Any], options: dict[str, int]) -> Any:
    """The throughput of a Machine, with these options."""
    made = Machine(**machine)
    synchronize = None if made.waiting is None else made.synchronize
    return module.throughput(made.step, clock=made.clock, synchronize=synchronize, **options)


def checked_throughput(module: ModuleType, steps: int, warmup: int) -> Any:
    """Measure at most two steps. A ValueError after a step becomes a RuntimeError."""
    machine = Machine([4, 4], [0.5, 0.5])
    try:
        return module.throughput(machine.step, steps, warmup, machine.clock)
    except ValueError:
        if machine.taken:
            raise RuntimeError("ran steps before it refused steps or warmup") from None
        raise


# --- measure_overheads ---------------------------------------------------------------------------


class Watch:
    """The fake clock of a rank, advanced by calls, and notes about events on the rank.

    `costs` has the seconds of each rank: for a `row` in shard, for `average` and `forward`, and for a `reading`
    of the clock. The first calls of shard and average_gradients take `first` seconds longer.
    """

    def __init__(self, costs: list[dict[str, float]]) -> None:
        self.costs = costs
        self.now = 50.0
        self.notes: dict[str, Any] = {"read_at": [], "ended_at": {}}

    def cost(self, name: str) -> float:
        return self.costs[dist.get_rank()][name]

    def end(self, name: str, begin: float, seconds: float) -> None:
        """Advance the clock to the end of a call that took `seconds`, whatever it called.

        The first call of each name takes longer, and on rank 1 it is delayed in real time, too.
        """
        self.now = begin + seconds
        if name in self.notes["ended_at"]:
            return
        self.now += self.cost("first")
        if dist.get_rank() == 1:
            time.sleep(DELAY_SECONDS)
        self.notes["ended_at"][name] = time.monotonic()

    def read(self, model: nn.Module) -> float:
        """Read the clock and note the parameters, replacing those of the reading before.

        Each reading also lets the ranks drift apart, so that they agree again only after a broadcast.
        """
        self.notes["read_at"].append(time.monotonic())
        self.notes["parameters"] = values_of(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(dist.get_rank())
        self.now += self.cost("reading")
        return self.now


def overheads(
    module: ModuleType,
    parameters: dict[str, Tensor],
    frozen: list[str],
    inputs: Tensor,
    costs: list[dict[str, float]],
) -> dict[str, Any]:
    """Measure the overheads on one rank for each entry of `costs`, with a Watch in each rank."""
    watch = Watch(costs)
    shard = getattr(module, "shard", parallel.shard)
    average = getattr(module, "average_gradients", parallel.average_gradients)

    class WatchedNet(Net):
        def forward(self, x: Tensor) -> Tensor:
            watch.now += watch.cost("forward")
            return super().forward(x)

    model = WatchedNet(parameters)
    for name in frozen:
        getattr(model, name).requires_grad_(False)
    # The last one is the model that the rank uses, which may be a copy.
    models: list[nn.Module] = [model]

    def watched_shard(*arguments: Any, **keywords: Any) -> Any:
        begin = watch.now
        part = shard(*arguments, **keywords)
        if dist.is_initialized():  # otherwise the call only checks the arguments before the launch
            watch.end("shard", begin, len(part) * watch.cost("row"))
        return part

    def watched_average(model: nn.Module) -> None:
        begin = watch.now
        models.append(model)
        watch.notes.setdefault("gradients", gradients_of(model))
        average(model)
        watch.end("average", begin, watch.cost("average"))

    def clock() -> float:
        return watch.read(models[-1])

    notes_of: dict[int, list[Any]] = {}
    watched: dict[str, Any] = {
        "launch": launch_that_reports(watch.notes, notes_of),
        "shard": watched_shard,
        "average_gradients": watched_average,
    }
    with replaced(module, **watched):
        result = module.measure_overheads(model, inputs, len(costs), clock=clock)
    return {"result": result, "ranks": notes_of}


def no_launch(worker: Any, world_size: int, *arguments: Any) -> NoReturn:
    """Refuse the world sizes that launch refuses, and launch nothing."""
    if world_size < 1:
        raise ValueError("world_size")
    raise RuntimeError("launched ranks before it checked its arguments")


def unlaunched_overheads(module: ModuleType, rows: int, world_size: int) -> None:
    with replaced(module, launch=no_launch):
        module.measure_overheads(nn.Linear(2, 1), torch.ones(rows, 2), world_size)


# --- benchmark -----------------------------------------------------------------------------------


def benchmark(
    module: ModuleType,
    parameters: list[dict[str, Tensor]],
    inputs: Tensor,
    targets: Tensor,
    rates: dict[int, list[float]],
    steps_taken: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Run benchmark with a fake throughput that takes `steps_taken` steps, whatever it was asked for.

    The fake returns the rank's rate for the world size, and 0.0 outside of launch. Each rank builds a model
    with its own `parameters`. The launching process builds one with the last ones.
    """
    wrap = getattr(module, "wrap", parallel.wrap)
    notes: dict[str, Any] = {"returned": [], "weights": []}

    class WatchedNet(Net):
        def forward(self, x: Tensor) -> Tensor:
            notes["weights"].append(values_of(self))
            return super().forward(x)

    def build_model() -> nn.Module:
        if dist.is_initialized():
            return WatchedNet(parameters[dist.get_rank()])
        return WatchedNet(parameters[-1])

    def late_wrap(model: nn.Module) -> Any:
        wrapper = wrap(model)
        if dist.is_initialized() and dist.get_rank() == 1:
            time.sleep(DELAY_SECONDS)
        notes["wrapped_at"] = time.monotonic()
        return wrapper

    def fake_throughput(
        step: Callable[[], Any], steps: Any = None, warmup: Any = None, *_: Any, **__: Any
    ) -> float:
        notes["asked"] = [steps, warmup]
        notes["measured_at"] = time.monotonic()
        for _step in range(steps_taken):
            notes["returned"].append(step())
        if not dist.is_initialized():
            return 0.0
        return rates[dist.get_world_size()][dist.get_rank()]

    notes_of: dict[int, list[Any]] = {}
    watched: dict[str, Any] = {
        "launch": launch_that_reports(notes, notes_of),
        "wrap": late_wrap,
        "throughput": fake_throughput,
    }
    with replaced(module, **watched):
        result = module.benchmark(build_model, inputs, targets, loss, **options)
    return {"result": result, "ranks": notes_of}


def default_benchmark(module: ModuleType) -> Any:
    """Run benchmark with its defaults and a fake throughput whose result tells its steps and warm-up."""

    def fake_throughput(step: Any, steps: int = 20, warmup: int = 5, *_: Any, **__: Any) -> float:
        return 1000.0 * steps + warmup

    def launch_one(worker: Any, world_size: int, *arguments: Any) -> list[Any]:
        """Launch one rank, and repeat its result for all."""
        return ranks.launch(worker, 1, *arguments) * world_size

    with replaced(module, launch=launch_one, throughput=fake_throughput):
        return module.benchmark(lambda: nn.Linear(2, 1), torch.ones(4, 2), torch.ones(4, 1), loss)


def unlaunched_benchmark(
    module: ModuleType, rows: int, world_sizes: list[int], steps: int, warmup: int
) -> None:
    inputs, targets = torch.ones(rows, 2), torch.ones(rows, 1)
    with replaced(module, launch=no_launch):
        module.benchmark(lambda: nn.Linear(2, 1), inputs, targets, loss, world_sizes, steps, warmup)
