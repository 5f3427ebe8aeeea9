"""Models, spies and fake clocks for the functions of throughput.

What a spy in a rank saw comes back with the result of the rank's worker.
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

# How late rank 1 is, so that a missing barrier shows.
DELAY_SECONDS = 0.05
ranks.JOIN_SECONDS = 3.0  # a test has less time than a student


class Net(nn.Module):
    """A model that is linear in `weight` and `bias`; further parameters are not used."""

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
    """The gradients by name, None where there is none."""
    gradients: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        gradients[name] = None if gradient is None else gradient.detach().clone()
    return gradients


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A mean in which outputs and targets play different parts."""
    return (outputs - 2 * targets).square().mean()


def launch_that_reports(notes: Any, reports: dict[int, list[Any]]) -> Callable[..., list[Any]]:
    """A launch for the student's code, after which `reports` holds each rank's `notes`, by world size."""

    def launch_and_report(worker: Any, world_size: int, *arguments: Any) -> list[Any]:
        def worker_with_notes(rank: int, *rest: Any) -> Any:
            return worker(rank, *rest), notes

        pairs = ranks.launch(worker_with_notes, world_size, *arguments)
        reports[world_size] = [own for _, own in pairs]
        return [result for result, _ in pairs]

    return launch_and_report


@contextmanager
def replaced(module: ModuleType, **new: Any) -> Iterator[None]:
    """Let the student's code find other functions, in its own module and in those that it is given."""
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
    """A machine with a fake clock, whose steps take these seconds and get through so many samples.

    Reading the clock takes time, too, and so does waiting for the machine. It is asynchronous where there
    is something to wait for: then a step returns at once and leaves its seconds to synchronize.
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
    """The throughput of such a machine, with these options."""
    made = Machine(**machine)
    synchronize = None if made.waiting is None else made.synchronize
    return module.throughput(made.step, clock=made.clock, synchronize=synchronize, **options)


def checked_throughput(module: ModuleType, steps: int, warmup: int) -> Any:
    """Measure two steps at most; a ValueError after a step is another error."""
    machine = Machine([4, 4], [0.5, 0.5])
    try:
        return module.throughput(machine.step, steps, warmup, machine.clock)
    except ValueError:
        if machine.taken:
            raise RuntimeError("ran steps before it refused steps or warmup") from None
        raise


# --- measure_overheads ---------------------------------------------------------------------------


class Watch:
    """The fake clock of a rank, which moves by what is called, and notes of what happened there.

    `costs` are the seconds of each rank: of a `row` in shard, of `average` and `forward`, of a `reading`
    of the clock, and what the `first` shard and average_gradients take longer.
    """

    def __init__(self, costs: list[dict[str, float]]) -> None:
        self.costs = costs
        self.now = 50.0
        self.notes: dict[str, Any] = {"read_at": [], "ended_at": {}}

    def cost(self, name: str) -> float:
        return self.costs[dist.get_rank()][name]

    def end(self, name: str, begin: float, seconds: float) -> None:
        """End a call that took so long, whatever it called; the first one takes longer, and rank 1 waits."""
        self.now = begin + seconds
        if name in self.notes["ended_at"]:
            return
        self.now += self.cost("first")
        if dist.get_rank() == 1:
            time.sleep(DELAY_SECONDS)
        self.notes["ended_at"][name] = time.monotonic()

    def read(self, model: nn.Module) -> float:
        """Read the clock and note the parameters, of which those at the last reading stay.

        At each reading the ranks drift apart: they agree at the next one only after a broadcast.
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
    """Measure the overheads on as many ranks as there are costs, and watch it in each rank."""
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
    # The last one is the model that the rank works on: it may be a copy.
    models: list[nn.Module] = [model]

    def watched_shard(*arguments: Any, **keywords: Any) -> Any:
        begin = watch.now
        part = shard(*arguments, **keywords)
        if dist.is_initialized():  # and not to check the arguments before the launch
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
    """Refuse what launch refuses, and launch nothing."""
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
    """Benchmark with a throughput that takes `steps_taken` steps, whatever it was asked for.

    It measures the rank's rate in a world size, and 0.0 outside of launch. Each rank builds a model with its
    own `parameters`, and the process that launches with the last ones.
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
    """Benchmark with its defaults; a throughput tells how many steps it was asked for."""

    def fake_throughput(step: Any, steps: int = 20, warmup: int = 5, *_: Any, **__: Any) -> float:
        return 1000.0 * steps + warmup

    def launch_one(worker: Any, world_size: int, *arguments: Any) -> list[Any]:
        """Launch one rank, whose result stands for that of all."""
        return ranks.launch(worker, 1, *arguments) * world_size

    with replaced(module, launch=launch_one, throughput=fake_throughput):
        return module.benchmark(lambda: nn.Linear(2, 1), torch.ones(4, 2), torch.ones(4, 1), loss)


def unlaunched_benchmark(
    module: ModuleType, rows: int, world_sizes: list[int], steps: int, warmup: int
) -> None:
    inputs, targets = torch.ones(rows, 2), torch.ones(rows, 1)
    with replaced(module, launch=no_launch):
        module.benchmark(lambda: nn.Linear(2, 1), inputs, targets, loss, world_sizes, steps, warmup)
