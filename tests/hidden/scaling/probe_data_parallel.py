"""Models, ranks, spies and fake clocks for the functions of data_parallel.

Ranks are forks and cost time: several tests look at one launch. What a spy in a rank saw comes back with the
result of the rank's worker, through a launch of the suite's own: the student's could change it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

# How late rank 1 is, so that a missing barrier shows.
DELAY_SECONDS = 0.05
# How long ranks wait for each other: a test has little time.
PATIENCE_SECONDS = 3.0


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


def kind_of(wrapper: Any) -> str:
    own = type(wrapper)
    for kind in (nn.parallel.DistributedDataParallel, nn.DataParallel):
        if issubclass(own, kind):
            return kind.__name__
    return f"{own.__module__}.{own.__qualname__}"


def launch(worker: Callable[..., Any], world_size: int, *arguments: Any) -> list[Any]:
    """What `worker(rank, world_size, *arguments)` returns on each rank, in the order of the ranks.

    Raises:
        ValueError: `world_size` is below 1.
        RuntimeError: a rank raised an exception, or ended without a word.
    """
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    fork = multiprocessing.get_context("fork")
    ranks = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(world_size):
                pipe, its_pipe = fork.Pipe()
                task = (its_pipe, f"file://{folder}/store", worker, rank, world_size, arguments)
                process = fork.Process(target=be_rank, args=task)
                process.start()
                # Only the rank holds its end now: where it dies, reading ends.
                its_pipe.close()
                ranks.append((process, pipe))
            return received([pipe for _, pipe in ranks])
        finally:
            for process, pipe in ranks:
                process.kill()
                process.join()
                pipe.close()


def be_rank(
    pipe: Connection,
    store: str,
    worker: Callable[..., Any],
    rank: int,
    world_size: int,
    arguments: tuple[Any, ...],
) -> None:
    """Join the group, work, send what came of it, and stay until all ranks are done and this one is ended."""
    try:
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        patience = timedelta(seconds=PATIENCE_SECONDS)
        dist.init_process_group(
            "gloo", init_method=store, rank=rank, world_size=world_size, timeout=patience
        )
        # Plain pickle: multiprocessing's own sends tensors as handles that die with the rank.
        message = pickle.dumps((worker(rank, world_size, *arguments), None))
    except BaseException as error:  # noqa: BLE001 - it is raised again where launch is called
        message = pickle.dumps((None, f"rank {rank} raised {type(error).__name__}: {error}"))
    pipe.send_bytes(message)
    pipe.poll(PATIENCE_SECONDS)


def received(pipes: list[Any]) -> list[Any]:
    """The results of all ranks; raise as soon as one has failed."""
    results: dict[Any, Any] = {}
    while len(results) < len(pipes):
        for pipe in wait([pipe for pipe in pipes if pipe not in results]):
            assert isinstance(pipe, Connection)
            try:
                results[pipe], failure = pickle.loads(pipe.recv_bytes())
            except (EOFError, OSError):
                failure = f"rank {pipes.index(pipe)} ended without a word"
            if failure is not None:
                raise RuntimeError(failure)
    return [results[pipe] for pipe in pipes]


def launch_that_reports(notes: Any, reports: dict[int, list[Any]]) -> Callable[..., list[Any]]:
    """A launch for the student's code, after which `reports` holds each rank's `notes`, by world size."""

    def launch_and_report(worker: Any, world_size: int, *arguments: Any) -> list[Any]:
        def worker_with_notes(rank: int, *rest: Any) -> Any:
            return worker(rank, *rest), notes

        ranks = launch(worker_with_notes, world_size, *arguments)
        reports[world_size] = [own for _, own in ranks]
        return [result for result, _ in ranks]

    return launch_and_report


@contextmanager
def replaced(module: ModuleType, **new: Any) -> Iterator[None]:
    old = {name: getattr(module, name) for name in new}
    vars(module).update(new)
    try:
        yield
    finally:
        vars(module).update(old)


# --- without a process group ---------------------------------------------------------------------


def wrap_alone(module: ModuleType, parameters: dict[str, Tensor], x: Tensor) -> tuple[str, Any]:
    wrapper = module.wrap(Net(parameters))
    output = wrapper(x) if isinstance(wrapper, nn.Module) else None
    return kind_of(wrapper), output


def average_alone(module: ModuleType, parameters: dict[str, Tensor], x: Tensor) -> None:
    model = Net(parameters)
    model(x).sum().backward()
    module.average_gradients(model)


def train(
    module: ModuleType,
    parameters: dict[str, Tensor],
    old_gradient: float,
    lr: float,
    batches: list[tuple[Tensor, Tensor]],
    modes: list[bool],
) -> dict[str, Any]:
    """What train steps of a model in these modes, which still holds gradients, returned and left."""
    net = Net(parameters)
    model = nn.Sequential(net, nn.Dropout(0.0))
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, old_gradient)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    returned, weights = [], []
    for inputs, targets in batches:
        returned.append(module.train_step(model, loss, optimizer, inputs, targets))
        weights.append(values_of(net))
    left = [part.training for part in model.modules()]
    return {"returned": returned, "weights": weights, "modes": left}


# --- in a process group --------------------------------------------------------------------------


def attempt(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """What a part of a launch returned or raised: the other parts go on."""
    try:
        return {"value": function(*arguments)}
    except Exception as error:  # noqa: BLE001 - it is reported
        return {"error": type(error).__name__, "message": str(error)}


def wrap_in_group(module: ModuleType, parameters: dict[str, Tensor]) -> dict[str, Any]:
    wrapper = module.wrap(Net(parameters))
    return {"kind": kind_of(wrapper), "weights": values_of(getattr(wrapper, "module", wrapper))}


def wrapped_step(
    module: ModuleType, parameters: dict[str, Tensor], lr: float, batch: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    wrapper = module.wrap(Net(parameters))
    optimizer = torch.optim.SGD(wrapper.parameters(), lr=lr)
    module.train_step(wrapper, loss, optimizer, *batch)
    return values_of(getattr(wrapper, "module", wrapper))


def plain_step(
    module: ModuleType, parameters: dict[str, Tensor], lr: float, batch: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    model = Net(parameters)
    module.train_step(model, loss, torch.optim.SGD(model.parameters(), lr=lr), *batch)
    return values_of(model)


def average(
    module: ModuleType, gradients: dict[str, Tensor | None], frozen: list[str]
) -> dict[str, Any]:
    """The gradients that a rank holds after average_gradients; the parameters belong to a submodule."""
    zeros = torch.zeros(2, 3, dtype=torch.float64)
    inner = nn.ParameterDict({name: zeros.clone() for name in gradients})
    for name, gradient in gradients.items():
        inner[name].requires_grad_(name not in frozen)
        inner[name].grad = gradient
    module.average_gradients(nn.Sequential(inner))
    return gradients_of(inner)


def group(
    module: ModuleType,
    parameters: list[dict[str, Tensor]],
    lr: float,
    batches: list[tuple[Tensor, Tensor]],
    cases: dict[str, Any],
) -> list[dict[str, Any]]:
    """What each rank of one launch reports, part by part.

    `parameters` and `batches` are those of each rank. A case of average_gradients has the gradients of each
    rank, and the names of those that are frozen.
    """

    def worker(rank: int, world_size: int) -> dict[str, Any]:
        del world_size
        mine, batch = parameters[rank], batches[rank]
        report = {
            "wrap": attempt(wrap_in_group, module, mine),
            "step": attempt(wrapped_step, module, mine, lr, batch),
            "plain": attempt(plain_step, module, mine, lr, batch),
        }
        for name, (gradients, frozen) in cases.items():
            report[name] = attempt(average, module, gradients[rank], frozen)
            if "error" in report[name]:
                break  # the ranks may wait for each other in vain now
        return report

    return launch(worker, len(batches))


def raise_unwritten(module: ModuleType, message: str) -> NoReturn:
    """Raise here what a rank raised, because a part is still to be written."""
    raise NotImplementedError(message)


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
    shard, average = module.shard, module.average_gradients

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

    ranks: dict[int, list[Any]] = {}
    watched: dict[str, Any] = {
        "launch": launch_that_reports(watch.notes, ranks),
        "shard": watched_shard,
        "average_gradients": watched_average,
    }
    with replaced(module, **watched):
        result = module.measure_overheads(model, inputs, len(costs), clock=clock)
    return {"result": result, "ranks": ranks}


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
    wrap = module.wrap
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

    ranks: dict[int, list[Any]] = {}
    watched: dict[str, Any] = {
        "launch": launch_that_reports(notes, ranks),
        "wrap": late_wrap,
        "throughput": fake_throughput,
    }
    with replaced(module, **watched):
        result = module.benchmark(build_model, inputs, targets, loss, **options)
    return {"result": result, "ranks": ranks}


def default_benchmark(module: ModuleType) -> Any:
    """Benchmark with its defaults; a throughput tells how many steps it was asked for."""

    def fake_throughput(step: Any, steps: int = 20, warmup: int = 5, *_: Any, **__: Any) -> float:
        return 1000.0 * steps + warmup

    def launch_one(worker: Any, world_size: int, *arguments: Any) -> list[Any]:
        """Launch one rank, whose result stands for that of all."""
        return launch(worker, 1, *arguments) * world_size

    with replaced(module, launch=launch_one, throughput=fake_throughput):
        return module.benchmark(lambda: nn.Linear(2, 1), torch.ones(4, 2), torch.ones(4, 1), loss)


def unlaunched_benchmark(
    module: ModuleType, rows: int, world_sizes: list[int], steps: int, warmup: int
) -> None:
    inputs, targets = torch.ones(rows, 2), torch.ones(rows, 1)
    with replaced(module, launch=no_launch):
        module.benchmark(lambda: nn.Linear(2, 1), inputs, targets, loss, world_sizes, steps, warmup)
