"""Losses that show whether their graph is alive and their value is read, and epochs of training."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

# A token lives as long as the graph of its loss.
TOKENS: weakref.WeakSet[Any] = weakref.WeakSet()
# Functions that make the CPU wait for a value.
READING = {
    "item",
    "tolist",
    "cpu",
    "numpy",
    "is_nonzero",
    "equal",
    "allclose",
    "_local_scalar_dense",
}
READING |= {"__float__", "__int__", "__bool__", "__index__", "__complex__", "__array__"}
READING |= {"__repr__", "__format__", "__dlpack__"}
# These wait for every tensor in a list that they are given.
COPYING = ("tensor", "as_tensor", "asarray")
# The value that is in the memory of a loss while its own value must not be read.
DECOY = -1.0


class Marked(torch.autograd.Function):
    """The exponential of x, or a value in its place. The node holds a token."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor | None = None) -> Tensor:
        y = x.exp() if value is None else value.clone()
        ctx.token = lambda: None
        TOKENS.add(ctx.token)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        return grad_output * ctx.saved_tensors[0], None


def memory_of(tensor: Tensor) -> Tensor:
    """Return a tensor without a graph in the same memory."""
    size, stride = tensor.size(), tensor.stride()
    with torch.inference_mode(False):
        plain = torch.empty(0, dtype=tensor.dtype)
        return plain.set_(tensor.untyped_storage(), tensor.storage_offset(), size, stride)


class Device(TorchDispatchMode):
    """Record what is computed from losses, and compute it again in the same memory with other values.

    So the probe need not know all ways to read memory: a value that is not there cannot be read at all.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.losses: list[Tensor] = []
        self.calls: list[Any] = []
        self.before: dict[int, tuple[Tensor, Tensor]] = {}
        self.recording = True

    def loss(self, value: Tensor) -> Any:
        """Make a loss of this value, with a graph."""
        self.recording = False
        loss = loss_with_graph(value)
        self.losses.append(memory_of(loss))
        self.recording = True
        return loss

    def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.recording:
            return func(*args, **kwargs)
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor) and tensor.data_ptr() not in self.before:
                memory = memory_of(tensor)
                self.before[tensor.data_ptr()] = memory, memory.clone()
        result = func(*args, **kwargs)
        self.calls.append(tree_map_only(Tensor, memory_of, (func, args, kwargs, result)))
        return result

    def fill(self, value: Any) -> None:
        """Give all losses this value, and compute everything again that was computed from them."""
        self.recording = False
        for memory, before in self.before.values():
            memory.copy_(before)
        for loss in self.losses:
            loss.fill_(value)
        for func, args, kwargs, result in self.calls:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)
        self.recording = True


class Reads(TorchFunctionMode):
    """Record the names of functions that read values, once for each value, or move them from the meta device.

    A value that was moved to the CPU was read once, and computing with it there does not count again. If there
    is a `device`, only these functions get the values.
    """

    def __init__(self, device: Device | None = None, value: Any = None) -> None:
        super().__init__()
        self.device, self.value = device, value
        self.reads: list[str] = []
        self.moves: list[str] = []
        self.counting = True
        self.on_the_cpu: list[Tensor] = []

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        was_read = all(self.is_on_the_cpu(tensor) for tensor in given)
        is_copy = name in COPYING and isinstance(args[0], (list, tuple))
        is_read = not was_read and (is_copy or name in READING)
        if self.counting and is_read:
            self.reads += [name] * sum(tensor.numel() for tensor in given)
        if self.device and is_read:
            result = self.read(self.device, func, args, kwargs or {})
        else:
            result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and given:
            if was_read or is_copy or name == "cpu":
                self.on_the_cpu.append(result)
            if any(tensor.is_meta for tensor in given) and not result.is_meta:
                self.moves.append(name)
        return result

    def read(self, device: Device, func: Any, args: Any, kwargs: Any) -> Any:
        device.fill(self.value)
        device.recording = False
        args, kwargs = tree_map_only(Tensor, torch.clone, (args, kwargs))
        result = func(*args, **kwargs)
        device.fill(DECOY)
        return result

    def is_on_the_cpu(self, tensor: Tensor) -> bool:
        return any(tensor is other for other in self.on_the_cpu)


def loss_with_graph(value: Tensor) -> Any:
    x = torch.zeros_like(value, requires_grad=True)
    return Marked.apply(x, value)  # type: ignore[no-untyped-call]


def number(value: Any) -> Any:
    """Return a tensor of one element as a number. `played` shows whether a mean is a float."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


# --- LossHistory ---------------------------------------------------------------------------------


def played(module: Any, epochs: list[Any]) -> dict[str, Any]:
    """Run epochs of losses and sizes in one history. Return each result of end_epoch, and `epochs`.

    A size of None is not given to `update`.
    """
    history = module.LossHistory()
    ends: list[Any] = []
    for values, sizes in epochs:
        for value, size in zip(values, sizes, strict=True):
            given = () if size is None else (size,)
            history.update(loss_with_graph(value), *given)
        try:
            ends.append(history.end_epoch())
        except ValueError:
            ends.append("ValueError")
    return {"ends": ends, "epochs": history.epochs, "numbers": [number(end) for end in ends]}


def interleaved(module: Any, losses: list[Tensor]) -> dict[str, Any]:
    """Return the results of two histories that get one loss each, and the epochs of a third."""
    first, second, unused = (module.LossHistory() for _ in range(3))
    first.update(losses[0])
    second.update(losses[1])
    ends = [number(history.end_epoch()) for history in (first, second)]
    return {"ends": ends, "unused": unused.epochs}


def watched(module: Any, value: Tensor, updates: int) -> dict[str, Any]:
    """Return the numbers of live graphs after each update and after the epoch, and the reads in both.

    Each loss is dropped after its update. When the epoch ends, functions that read get the value of the losses,
    but a decoy is in memory.
    """
    TOKENS.clear()
    device, updating = Device(), Reads()
    ending = Reads(device, value)
    alive = []
    with device:
        history = module.LossHistory()
        for _ in range(updates):
            loss = device.loss(value)
            with updating:
                history.update(loss, 1)
            del loss
            alive.append(len(TOKENS))
        device.fill(DECOY)
        with ending:
            mean = history.end_epoch()
    alive.append(len(TOKENS))
    return {
        "mean": number(mean),
        "alive": alive,
        "updating": updating.reads,
        "ending": ending.reads,
    }


# The history that was updated with losses without values, and the Device of these losses.
WAITING: list[Any] = []


def without_values(module: Any, like: Tensor, updates: int) -> None:
    """Update a history with losses that have no values yet."""
    device = Device()
    with device:
        history = module.LossHistory()
        for _ in range(updates):
            history.update(device.loss(torch.full_like(like, DECOY)), 1)
    WAITING[:] = history, device


def with_values(module: Any, value: Tensor) -> Any:
    """Return the mean, now that the losses have this value."""
    history, device = WAITING
    device.fill(value)
    return number(history.end_epoch())


def on_meta(module: Any, value: Tensor) -> list[str]:
    """Return the functions that move a loss from the meta device in three updates, or the errors of torch."""
    history, updating = module.LossHistory(), Reads()
    for _ in range(3):
        loss = loss_with_graph(value.to("meta"))
        try:
            with updating:
                history.update(loss, 2)
        except NotImplementedError as error:  # it is torch's, not the stub's
            updating.moves.append(str(error))
    return updating.moves


def left(module: Any, value: Tensor, sizes: list[int]) -> dict[str, Any]:
    """Return the mean, and the values of equal losses after all updates, the epoch and backward passes."""
    history = module.LossHistory()
    made = [loss_with_graph(value) for _ in sizes]
    for loss, size in zip(made, sizes, strict=True):
        history.update(loss, size)
    mean = number(history.end_epoch())
    for loss in made:
        loss.backward()
    return {"mean": mean, "values": [loss.detach() for loss in made]}


def update(module: Any, loss: Tensor, size: int = 1) -> None:
    history = module.LossHistory()
    history.update(loss, size)


# --- train_epoch ---------------------------------------------------------------------------------


class Network(nn.Module):
    """Map (n, 2, 3) to (n, 2, 2). The modes of each call are reported, and a hook doubles the output."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 2), nn.Identity())
        self.double()
        nn.utils.vector_to_parameters(weights.clone(), self.parameters())
        self.register_forward_hook(lambda _, __, output: output * 2)
        self.modes: list[Any] = []

    def forward(self, x: Tensor) -> Any:
        self.modes.append([part.training for part in self.modules()])
        return Marked.apply(self.body(x))  # type: ignore[no-untyped-call]


def trained(module: Any, weights: Tensor, epochs: list[Any]) -> dict[str, Any]:
    """Train for some epochs with one history. Return what its updates got, and the results.

    At first, the model itself is in training mode, and its parts are in evaluation mode.
    """
    model, reads = Network(weights), Reads()
    model.body.eval()
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    values: list[Any] = []
    ends: list[Any] = []
    updates: list[tuple[Any, Any]] = []

    class Recorded(module.LossHistory):  # type: ignore[misc]  # the student's
        """The student's history. Its own reads do not count."""

        def update(self, loss: Any, size: Any = 1) -> Any:
            reads.counting = False
            value = loss.detach().clone() if isinstance(loss, Tensor) else loss
            updates.append((value, size))
            super().update(loss, size)
            reads.counting = True

        def end_epoch(self) -> Any:
            reads.counting = False
            ends.append(super().end_epoch())
            return ends[-1]

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.mse_loss(outputs, 3 * targets)

    TOKENS.clear()
    history, before = Recorded(), torch.get_rng_state()
    for batches in epochs:
        reads.counting = True
        with reads:
            values.append(module.train_epoch(model, batches, loss_fn, sgd, history))
    return {
        "number of ends": len(ends),
        "returned": values == ends,
        "losses": [loss for loss, _ in updates],
        "sizes": [size for _, size in updates],
        "weights": torch.cat([p.detach().flatten() for p in model.parameters()]),
        "reads": reads.reads,
        "modes": model.modes,
        "alive": len(TOKENS),
        "seeded": not torch.equal(before, torch.get_rng_state()),
    }
