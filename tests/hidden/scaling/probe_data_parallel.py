"""What the hidden suite does with a student's module: live models, ranks, spies, fake clocks.

A probe exercises and reports; what is right is not known here. Ranks cost time, so several tests look at
one launch. Ranks are forks: what a spy in a rank sees comes back through a file, a line of JSON for each
thing seen (`_Diary`).
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

# How long a rank dawdles so that a missing barrier shows; nothing right waits for it in vain.
_DELAY_SECONDS = 0.02

# How long the launch that was given lets ranks wait for each other; a test has little time.
_PATIENCE_SECONDS = 3.0


def _be_patient(module: ModuleType) -> None:
    if "_JOIN_SECONDS" in vars(module):
        vars(module)["_JOIN_SECONDS"] = _PATIENCE_SECONDS


def unwritten(module: ModuleType, message: str) -> None:
    """Raise what a rank raised where a part is still to be written."""
    raise NotImplementedError(message)


def _told(error: BaseException) -> dict[str, Any]:
    ancestry = [kind.__name__ for kind in type(error).__mro__]
    return {"type": type(error).__name__, "message": str(error), "ancestry": ancestry}


def _attempt(call: Callable[[], Any]) -> dict[str, Any]:
    """The value of a call in a rank, or what it raised: the other parts of the launch go on."""
    try:
        return {"value": call(), "error": None}
    except Exception as error:  # noqa: BLE001 - it is reported
        return {"value": None, "error": _told(error)}


@contextmanager
def _replaced(owner: Any, **new: Any) -> Iterator[None]:
    old = {name: getattr(owner, name) for name in new}
    for name, value in new.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in old.items():
            setattr(owner, name, value)


def _plain(value: Any) -> Any:
    """A gradient as a value: a tensor, None, or the name of the type that it is instead."""
    if value is None or isinstance(value, Tensor):
        return None if value is None else value.detach().clone()
    return type(value).__name__


class _Net(nn.Module):
    """A model with exactly these parameters; its forward is linear in `weight` and `bias`."""

    weight: Tensor
    bias: Tensor

    def __init__(self, parameters: dict[str, Tensor], frozen: list[str]) -> None:
        super().__init__()
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value.clone(), name not in frozen))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def _values(model: nn.Module) -> dict[str, Tensor]:
    return {name: each.detach().clone() for name, each in model.named_parameters()}


def _gradients(model: nn.Module) -> dict[str, Any]:
    return {name: _plain(each.grad) for name, each in model.named_parameters()}


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A mean in which outputs and targets play different parts."""
    return (outputs - 2 * targets).square().mean()


# ---- wrap, average_gradients, train_step without a group -----------------------------------------


_WRAPPERS = (nn.parallel.DistributedDataParallel, nn.DataParallel)


def _kind(wrapped: Any, model: Any) -> str:
    """The wrappers of a model by name, from the outside inward."""
    if wrapped is model:
        return "the model itself"
    for kind in _WRAPPERS:
        if isinstance(wrapped, kind):
            inner = wrapped.module
            around = f" around {_kind(inner, model)}" if isinstance(inner, _WRAPPERS) else ""
            return kind.__name__ + around
    return type(wrapped).__name__


def wrap_alone(module: ModuleType, weight: Tensor, bias: Tensor, x: Tensor) -> dict[str, Any]:
    """Wrap a model where there is no process group."""
    model = _Net({"weight": weight, "bias": bias}, [])
    wrapped = module.wrap(model)
    output = wrapped(x) if isinstance(wrapped, nn.Module) else None
    return {
        "kind": _kind(wrapped, model),
        "output": _plain(output),
    }


def average_alone(module: ModuleType, weight: Tensor, bias: Tensor, gradients: bool) -> None:
    """Average gradients where there is no process group."""
    model = _Net({"weight": weight, "bias": bias}, [])
    if gradients:
        model(weight.new_ones(2, weight.shape[0])).sum().backward()
    module.average_gradients(model)


def train(
    module: ModuleType,
    weight: Tensor,
    bias: Tensor,
    stale: float,
    lr: float,
    batches: list[tuple[Tensor, Tensor]],
) -> dict[str, Any]:
    """Train steps in one process, from a model that still holds gradients of something else."""
    model = _Net({"weight": weight, "bias": bias}, [])
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for each in model.parameters():
        each.grad = torch.full_like(each, stale)
    returned, weights = [], []
    for inputs, targets in batches:
        returned.append(module.train_step(model, _loss, optimizer, inputs, targets))
        weights.append(_values(model))
    return {"returned": returned, "weights": weights}


def moded(module: ModuleType, modes: list[bool]) -> nn.Module:
    """A model whose modules are in these modes."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0), nn.Sequential(nn.Linear(2, 1)))
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    return model


def loss(module: ModuleType) -> Callable[[Tensor, Tensor], Tensor]:
    return _loss


# ---- ranks ---------------------------------------------------------------------------------------


def group(module: ModuleType, step: dict[str, Any], cases: list[dict[str, Any]]) -> dict[str, Any]:
    """What happens in a process group, all in one launch: the reports on each part by rank.

    "wrap" is about a wrapped model, "step" about one train step of it, from the weights, the rate
    and the ranks' batches of `step`, and "plain" about one of a model that is not wrapped.
    "averages" is about average_gradients in each of the `cases`: they hold the names and values of
    `parameters`, the `frozen` ones, whether they are those of a submodule (`nested`), and each
    rank's `gradients`. "order" are the ranks in the order of the results.
    """

    def train(rank: int, wrapped: Any) -> dict[str, Any]:
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=step["lr"])
        module.train_step(wrapped, _loss, optimizer, *step["batches"][rank])
        return _values(getattr(wrapped, "module", wrapped))

    def average(rank: int, case: dict[str, Any]) -> dict[str, Any]:
        # The ranks' parameters differ, so that it shows if these are averaged instead.
        model = _Net({name: value + rank for name, value in case["parameters"].items()}, [])
        for name in case["frozen"]:
            getattr(model, name).requires_grad_(False)
        for name, gradient in case["gradients"][rank].items():
            getattr(model, name).grad = None if gradient is None else gradient.clone()
        module.average_gradients(nn.Sequential(model) if case["nested"] else model)
        return {"gradients": _gradients(model), "parameters": _values(model)}

    def averages(rank: int) -> Iterator[dict[str, Any]]:
        attempt: dict[str, Any] = {"error": None}
        for case in cases:
            # After an error the ranks may wait for each other in vain, and that takes time.
            if attempt["error"] is None:
                attempt = _attempt(functools.partial(average, rank, case))
            yield attempt

    def worker(rank: int, world_size: int) -> dict[str, Any]:
        del world_size
        # Only rank 0 starts with the given weights: a wrapper is to bring them to all.
        model = _Net({"weight": step["weight"] + rank, "bias": step["bias"] - rank}, [])
        wrapped: Any = None

        def wrap() -> dict[str, Any]:
            nonlocal wrapped
            wrapped = module.wrap(model)
            return {"kind": _kind(wrapped, model)}

        return {
            "rank": rank,
            "wrap": _attempt(wrap),
            "step": _attempt(lambda: train(rank, wrapped)),
            "plain": _attempt(
                lambda: train(rank, _Net({"weight": step["weight"], "bias": step["bias"]}, []))
            ),
            "averages": list(averages(rank)),
            # A result that no pipe swallows at once.
            "ballast": torch.zeros(20_000),
        }

    _be_patient(module)
    ranks = module.launch(worker, len(step["batches"]))
    sorted_ranks = sorted(ranks, key=lambda rank: rank["rank"])
    parts = ("wrap", "step", "plain", "averages")
    return {
        "order": [rank["rank"] for rank in ranks],
        **{part: [rank[part] for rank in sorted_ranks] for part in parts},
    }


def launched_error(module: ModuleType) -> str | None:
    """All that an exception in a rank shows where launch raises it, while another rank waits."""

    def divide_by_zero(rank: int, world_size: int) -> Any:
        del world_size
        return 1 // 0 if rank == 1 else dist.barrier()

    try:
        module.launch(divide_by_zero, 2)
    except Exception as error:  # noqa: BLE001 - it is reported, with its notes and causes
        return "".join(traceback.format_exception(error))
    return None


# ---- throughput ----------------------------------------------------------------------------------


def throughput(
    module: ModuleType,
    counts: list[int],
    seconds: list[float],
    options: dict[str, int],
    asynchronous: bool = False,
    stuck: float | None = None,
) -> dict[str, Any]:
    """Measure steps that take fake seconds; reports the result or the error, and all that was done.

    Asynchronous steps return at once and leave their seconds to the synchronization. A clock that
    is `stuck` moves by that many seconds between its readings, whatever the steps do.
    """
    events: list[str] = []
    now, pending, taken = 100.0, 0.0, 0

    def step() -> int:
        nonlocal now, pending, taken
        events.append("step")
        which = taken % len(counts)
        taken += 1
        if asynchronous:
            pending += seconds[which]
        else:
            now += seconds[which]
        return counts[which]

    def synchronize() -> None:
        nonlocal now, pending
        events.append("synchronize")
        now, pending = now + pending, 0.0

    def clock() -> float:
        nonlocal now
        events.append("clock")
        if stuck is None:
            return now
        return 100.0 + stuck * (events.count("clock") - 1)

    keywords: dict[str, Any] = {**options, "clock": clock}
    if asynchronous:
        keywords["synchronize"] = synchronize
    try:
        result = module.throughput(step, **keywords)
    except NotImplementedError:
        raise
    except Exception as error:  # noqa: BLE001 - it is reported
        return {"result": None, "error": _told(error), "events": events}
    return {"result": result, "error": None, "events": events}


def real_throughput(module: ModuleType) -> Any:
    """Measure by the clock that is the default; a step takes a moment."""

    def step() -> int:
        time.sleep(0.001)
        return 3

    return module.throughput(step, steps=2, warmup=1)


# ---- measure_overheads and benchmark -------------------------------------------------------------


class _Diary:
    """A file to which all ranks write what they see."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, **facts: Any) -> None:
        alone = not dist.is_initialized()
        entry = {"kind": kind, "rank": -1 if alone else dist.get_rank(), "at": time.monotonic()}
        entry["world_size"] = 0 if alone else dist.get_world_size()
        line = json.dumps({**entry, **facts}) + "\n"
        # One write to a file that is open for appending: lines of several ranks do not mix.
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)

    def read(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]


@contextmanager
def _diary() -> Iterator[_Diary]:
    with tempfile.TemporaryDirectory() as folder:
        yield _Diary(Path(folder, "diary"))


def _listed(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: each.tolist() if isinstance(each, Tensor) else each for name, each in values.items()
    }


class _Watch:
    """What happens in this process, counted from one reading of the clock to the next."""

    def __init__(self, diary: _Diary, ticks: list[list[float]], elements: int = 0) -> None:
        self.diary, self.ticks, self.elements = diary, ticks, elements
        self.counts: Counter[str] = Counter()
        self.readings = 0
        self.now = 50.0
        self.inside = False  # what average_gradients does within is its own affair
        self.reduced = False
        self.late: dict[str, float] = {}
        self.model: Any = None  # the one that average_gradients gets, else the one given

    def clock(self) -> float:
        """Read the fake clock: it moves by this rank's own ticks."""
        rank = dist.get_rank() if dist.is_initialized() else 0
        ticks = self.ticks[rank % len(self.ticks)]
        # Beyond the expected readings it goes on, by steps that fit nothing.
        tick = ticks[self.readings] if self.readings < len(ticks) else 1000.0 + self.readings
        self.now += tick
        model = self.model if isinstance(self.model, nn.Module) else None
        self.diary.write(
            "reading",
            number=self.readings,
            counts=dict(self.counts),
            late=self.late,
            values=None if model is None else _listed(_values(model)),
        )
        self.counts.clear()
        if model is not None and self.readings in (3, 4):
            # The ranks drift apart; what is broadcast after this brings them together again.
            with torch.no_grad():
                for each in model.parameters():
                    each.add_(rank)
        self.readings += 1
        return self.now

    def done(self, what: str, amount: int = 1) -> None:
        self.counts[what] += amount

    def dawdle(self, what: str) -> None:
        """Make rank 1 end its first call of each kind late."""
        if what in self.late or not dist.is_initialized() or dist.get_rank() != 1:
            return
        time.sleep(_DELAY_SECONDS)
        self.late[what] = time.monotonic()


class _Watched(_Net):
    """A model that counts its forward passes and notes what they get."""

    watch: _Watch

    def forward(self, x: Tensor) -> Tensor:
        _Watched.watch.done("forward")
        _Watched.watch.diary.write("forward", x=x.tolist())
        return super().forward(x)


@contextmanager
def _spies(module: ModuleType, watch: _Watch) -> Iterator[None]:
    """Count the calls of shard, average_gradients and collectives, which do what they always do."""
    shard, average = module.shard, module.average_gradients
    broadcast, barrier = dist.broadcast, dist.barrier

    def spied_shard(*args: Any, **keywords: Any) -> Any:
        part = shard(*args, **keywords)
        watch.done("shard")
        asked = {**dict(zip(("batch", "rank", "world_size"), args, strict=False)), **keywords}
        if dist.is_initialized() and asked.get("rank") != dist.get_rank():
            watch.done("shard of another rank")
        watch.dawdle("shard")
        return part

    def spied_average(*args: Any, **keywords: Any) -> Any:
        model = args[0] if args else keywords.get("model")
        if not watch.reduced and isinstance(model, nn.Module):
            watch.diary.write("gradients", gradients=_listed(_gradients(model)))
            watch.model, watch.reduced = model, True
        watch.inside = True
        try:
            result = average(*args, **keywords)
        finally:
            watch.inside = False
        watch.done("average")
        watch.dawdle("average")
        return result

    def spied_broadcast(tensor: Any, *args: Any, **keywords: Any) -> Any:
        result = broadcast(tensor, *args, **keywords)
        if not watch.inside and isinstance(tensor, Tensor):
            watch.done("broadcast", tensor.numel())
            if watch.counts["broadcast"] >= watch.elements:
                watch.dawdle("broadcast")
        return result

    def spied_barrier(*args: Any, **keywords: Any) -> Any:
        if not watch.inside:
            watch.done("barrier")
        return barrier(*args, **keywords)

    collectives = {"broadcast": spied_broadcast, "barrier": spied_barrier}
    own: dict[str, Any] = {"shard": spied_shard, "average_gradients": spied_average}
    # The student may have imported a collective itself, under any name.
    for name, value in vars(module).items():
        if value is broadcast or value is barrier:
            own[name] = spied_broadcast if value is broadcast else spied_barrier
    with _replaced(dist, **collectives), _replaced(module, **own):
        yield


def overheads(
    module: ModuleType,
    parameters: dict[str, Tensor],
    frozen: list[str],
    inputs: Tensor,
    ticks: list[list[float]],
) -> dict[str, Any]:
    """Measure overheads on as many ranks as there are lists of clock ticks, and watch it happen."""

    _be_patient(module)
    with _diary() as diary:
        elements = sum(each.numel() for each in parameters.values())
        watch = _Watched.watch = _Watch(diary, ticks, elements)
        model = watch.model = _Watched(parameters, frozen)
        with _spies(module, watch):
            result = module.measure_overheads(model, inputs, len(ticks), clock=watch.clock)
        return {
            "result": result,
            "keys": list(result) if isinstance(result, dict) else None,
            "diary": diary.read(),
            "values": _values(model),
            "gradients": _gradients(model),
            "training": model.training,
        }


def real_overheads(module: ModuleType) -> Any:
    """Measure one rank by the clock that is the default."""
    _be_patient(module)
    model = _Net({"weight": torch.ones(2, 2), "bias": torch.zeros(2)}, [])
    return module.measure_overheads(model, torch.ones(2, 2), 1)


def benchmark(
    module: ModuleType,
    weight: Tensor,
    bias: Tensor,
    inputs: Tensor,
    targets: Tensor,
    rates: dict[int, list[float]],
    taken: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Benchmark with a `throughput` that takes a few steps and returns the given rates."""

    _be_patient(module)
    with _diary() as diary:
        watch = _Watched.watch = _Watch(diary, [])
        wrap = module.wrap

        def build_model() -> nn.Module:
            # Ranks that build different models are brought together by the wrapper.
            rank = dist.get_rank() if dist.is_initialized() else 0
            diary.write("build")
            return _Watched({"weight": weight + rank, "bias": bias}, [])

        def spied_wrap(*args: Any, **keywords: Any) -> Any:
            wrapped = wrap(*args, **keywords)
            watch.dawdle("wrap")
            diary.write("wrap", wrapper=_kind(wrapped, None))
            return wrapped

        def loss_fn(outputs: Tensor, part: Tensor) -> Tensor:
            diary.write("loss", targets=part.tolist())
            # Targets that are not sharded are for the judge to see, and no error here.
            return _loss(outputs, part[: len(outputs)])

        def spied_throughput(step: Any, *args: Any, **keywords: Any) -> float:
            names = ("steps", "warmup", "clock", "synchronize")
            asked = {**dict(zip(names, args, strict=False)), **keywords}
            diary.write("throughput", steps=asked.get("steps"), warmup=asked.get("warmup"))
            for _ in range(taken):
                rows = step()
                diary.write("step", rows=rows if type(rows) is int else type(rows).__name__)
            rank = dist.get_rank() if dist.is_initialized() else 0
            world_size = dist.get_world_size() if dist.is_initialized() else 1
            return rates[world_size][rank]

        def forward(model: _Watched, x: Tensor) -> Tensor:
            diary.write("forward", x=x.tolist(), values=_listed(_values(model)))
            return _Net.forward(model, x)

        spied = {"wrap": spied_wrap, "throughput": spied_throughput}
        with _replaced(module, **spied), _replaced(_Watched, forward=forward):
            result = module.benchmark(build_model, inputs, targets, loss_fn, **options)
        return {
            "result": result,
            "keys": list(result) if isinstance(result, dict) else None,
            "diary": diary.read(),
        }


def refused(module: ModuleType, function: str, options: dict[str, Any]) -> dict[str, Any]:
    """Call measure_overheads or benchmark with arguments that are to be refused, or with good ones.

    Reports what it raised, how often it launched or forked anything before, and on how many ranks;
    nothing runs.
    """
    forks: list[int] = []
    sizes: list[int] = []
    watching = True
    os.register_at_fork(before=lambda: forks.append(1) if watching else None)
    launch = module.launch

    def spied_launch(worker: Any, world_size: int, *args: Any) -> Any:
        if isinstance(world_size, int) and world_size < 1:
            return launch(worker, world_size, *args)  # which itself refuses it
        forks.append(1)
        sizes.append(world_size)
        raise RuntimeError("launched")

    model = _Net({"weight": torch.ones(2, 1), "bias": torch.zeros(1)}, [])
    rows = options.pop("rows")
    inputs = torch.ones(rows, 2)
    try:
        with _replaced(module, launch=spied_launch):
            if function == "measure_overheads":
                module.measure_overheads(model, inputs, **options)
            else:
                module.benchmark(lambda: model, inputs, torch.ones(rows, 1), _loss, **options)
    except NotImplementedError:
        raise
    except Exception as error:  # noqa: BLE001 - it is reported
        return {"error": _told(error), "launched": len(forks), "sizes": sizes}
    finally:
        watching = False
    return {"error": None, "launched": len(forks), "sizes": sizes}
