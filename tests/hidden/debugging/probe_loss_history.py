"""Losses whose graphs are seen to live, reads of tensors' values, and epochs of training."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

TOKENS: weakref.WeakSet[Any] = weakref.WeakSet()
# What makes the CPU wait for a value; of a list of tensors so does what makes a new tensor.
READING = "item tolist cpu numpy is_nonzero equal allclose _local_scalar_dense __float__ __int__ "
READING += "__bool__ __index__ __complex__ __array__ __repr__ __format__ __dlpack__"
COPYING = ("tensor", "as_tensor", "asarray")


class Marked(torch.autograd.Function):
    """The exponential, or a value that stands for it; the node holds a token and the output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor | None = None) -> Tensor:
        y = x.exp() if value is None else value.clone()
        ctx.token = lambda: None  # lives as long as the node
        TOKENS.add(ctx.token)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        return grad_output * ctx.saved_tensors[0], None


class Reads(TorchFunctionMode):
    """How each value is read, once if it goes to the CPU, and what leaves the meta device."""

    def __init__(self) -> None:
        super().__init__()
        self.how: list[str] = []
        self.moving: list[str] = []
        self.counts, self.host = True, list[Tensor]()

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        there = all(any(one is other for other in self.host) for one in given)
        listed = name in COPYING and isinstance(args[0], (list, tuple))
        if self.counts and not there and (name in READING.split() or listed):
            self.how += [name] * sum(one.numel() for one in given)
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and given:
            if there or listed or name == "cpu":
                self.host.append(result)
            if any(one.is_meta for one in given) and not result.is_meta:
                self.moving.append(name)
        return result


def new_loss(value: Tensor, graph: bool = True) -> Any:
    x = torch.zeros_like(value, requires_grad=True)
    return Marked.apply(x, value) if graph else value.clone()  # type: ignore[no-untyped-call]


def played(module: Any, histories: int, steps: list[Any], graph: bool = True) -> dict[str, Any]:
    """The ends of epochs of several histories, and their epochs.

    A step is the number of a history and what its update is given, or this number alone: the epoch ends.
    """
    made, ends = [module.LossHistory() for _ in range(histories)], []
    for i, *given in steps:
        if given:
            made[i].update(new_loss(given[0], graph), *given[1:])
            continue
        try:
            ends.append(made[i].end_epoch())
        except ValueError:
            ends.append("ValueError")
    return {"ends": ends, "epochs": [history.epochs for history in made]}


def watched(
    module: Any, losses: list[Tensor], *, backward: bool = False, device: str = "cpu", **more: Any
) -> dict[str, Any]:
    """Live graphs after each update, the loss dropped, and after the epoch; reads in both."""
    TOKENS.clear()
    history, updating, ending, alive = module.LossHistory(), Reads(), Reads(), []
    for value in losses:
        loss = new_loss(value.to(device))
        if backward:
            loss.backward()
        try:
            with updating:
                history.update(loss, **more)
        except NotImplementedError as error:  # on the meta device it is torch's, not the stub's
            if device == "cpu":
                raise
            return {"refused": str(error)}
        del loss
        alive.append(len(TOKENS))
    with ending:
        mean = None if device == "meta" else history.end_epoch()
    reads = {"updating": updating.how, "moving": updating.moving, "ending": ending.how}
    return {"mean": mean, "alive": [*alive, len(TOKENS)], **reads}


def left(module: Any, losses: list[Tensor], graph: bool, size: int) -> dict[str, Any]:
    """The losses after all updates and the end of the epoch, and their backward passes."""
    history, made = module.LossHistory(), [new_loss(value, graph) for value in losses]
    nodes = [loss.grad_fn for loss in made]
    for loss in made:
        history.update(loss, size)
    mean, values = history.end_epoch(), [loss.detach().clone() for loss in made]
    attached = [loss.grad_fn is node for loss, node in zip(made, nodes, strict=True)]
    failed = ""
    try:
        for loss in made if graph and all(attached) else ():
            loss.backward()
    except RuntimeError as error:
        failed = str(error)
    return {"mean": mean, "values": values, "attached": attached, "failed": failed}


def update(module: Any, loss: Tensor, size: int = 1) -> None:
    history = module.LossHistory()
    history.update(loss, size)
    history.end_epoch()


class Network(nn.Module):
    """(n, 2, 3) to (n, 2, 2); it reports its modes, and its hook doubles the output."""

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


def trained(module: Any, weights: Tensor, epochs: list[Any], training: Any) -> dict[str, Any]:
    """Epochs of training with one history: what its updates were given, and what came of them."""
    model, reads = Network(weights), Reads()
    for name, part in model.named_modules():
        part.training = name in training
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    values, updates, ends = [], [], []

    class Recorded(module.LossHistory):  # type: ignore[misc]  # the student's
        def update(self, loss: Any, size: Any = 1) -> Any:
            reads.counts = False
            updates.append((loss.detach().clone() if isinstance(loss, Tensor) else loss, size))
            super().update(loss, size)
            reads.counts = True

        def end_epoch(self) -> Any:
            reads.counts = False
            ends.append(super().end_epoch())
            return ends[-1]

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.mse_loss(outputs, 3 * targets)

    TOKENS.clear()
    history, random = Recorded(), [torch.get_rng_state()]
    for batches in epochs:
        reads.counts = True
        with reads:
            values.append(module.train_epoch(model, batches, loss_fn, sgd, history))
    random.append(torch.get_rng_state())
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    report = {"values": values, "ends": ends, "updates": updates, "weights": weights}
    return {
        **report,
        "reads": reads.how,
        "modes": model.modes,
        "alive": len(TOKENS),
        "random": random,
    }
