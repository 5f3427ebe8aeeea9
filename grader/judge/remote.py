"""Ordinary PyTorch in the judge for code that runs elsewhere: autograd nodes and a module proxy.

A call of the student's code returns plain tensors and, where they need gradients, the number of the
graph that the sandbox keeps. `_Attach` ties such tensors to the judge's own inputs: its backward asks
the sandbox for the vector-Jacobian product, and that product is attached in the same way, so that
gradients of gradients work too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from grader.judge.outcomes import SandboxDied
from grader.judge.session import Session
from grader.sandbox.wire.messages import Backward, Build, Built, Forward, Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.unpacking import Unpacking


def attach(session: Session, reply: Returned, unpacking: Unpacking, inputs: list[Tensor]) -> Any:
    """The returned value, its differentiable tensors attached to `inputs` (the graph's order)."""
    value = unpacking.unpack(reply.value)
    if reply.graph is None or not inputs:
        return value
    named = set(reply.differentiable)
    known = all(0 <= index < len(unpacking.tensors) for index in named)
    if not known or len(named) != len(reply.differentiable):
        raise SandboxDied("Your code gave an answer that cannot be read: no such tensor.")
    remote = [unpacking.tensors[index] for index in reply.differentiable]
    # Integers have no gradient, whatever a reply says.
    remote = [each for each in remote if each.is_floating_point() or each.is_complex()]
    if len(remote) != len(reply.differentiable):
        raise SandboxDied("Your code gave an answer that cannot be read: a gradient of integers.")
    # A function's fresh outputs become nodes themselves: the value already holds them, in whatever
    # lists, dicts or records they stand.
    node: Any = _Attach
    node.apply(session, reply.graph, remote, *inputs)
    return value


class _Attach(torch.autograd.Function):
    """The node between the judge's inputs and tensors that were computed elsewhere."""

    @staticmethod
    def forward(
        ctx: Any, session: Session, graph: int, remote: list[Tensor], *inputs: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.session, ctx.graph = session, graph
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        return tuple(remote)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        products = _products(ctx.session, ctx.graph, list(ctx.saved_tensors), list(gradients))
        return None, None, None, *products


def _products(
    session: Session, graph: int, inputs: list[Tensor], gradients: list[Tensor | None]
) -> list[Tensor | None]:
    differentiable = torch.is_grad_enabled()
    packing = Packing()
    request = Backward(graph, packing.pack(gradients), differentiable)
    reply, unpacking = session.ask(request, packing)
    assert isinstance(reply, Returned)
    given = [each for each in gradients if each is not None]
    if differentiable and len(given) != len(gradients):
        # The sandbox differentiates by all gradients; an absent one stands there as zeros.
        gradients = [g if g is not None else torch.zeros(()) for g in gradients]
    leaves = [*inputs, *(each for each in gradients if each is not None)]
    products = attach(session, reply, unpacking, leaves if differentiable else [])
    return _fitting(products, inputs)


def _fitting(products: Any, inputs: list[Tensor]) -> list[Tensor | None]:
    """The gradients, one for each input, as autograd would have them; else the reply is odd."""
    if not isinstance(products, list) or len(products) != len(inputs):
        raise SandboxDied(
            "Your code gave an answer that cannot be read: wrong number of gradients."
        )
    # Nobody asks for the gradient of what needs none (the zeros of an absent gradient, say).
    fitting: list[Tensor | None] = [
        product if tensor.requires_grad else None
        for product, tensor in zip(products, inputs, strict=True)
    ]
    for product, tensor in zip(fitting, inputs, strict=True):
        fits = product is None or (
            isinstance(product, Tensor)
            and product.shape == tensor.shape
            and product.dtype == tensor.dtype
        )
        if not fits:
            raise SandboxDied("Your code gave a gradient whose shape or dtype is not its input's.")
    return fitting


def wanted(packing: Packing) -> tuple[list[Tensor], tuple[int, ...]]:
    """The packed tensors that need gradients, and their positions."""
    if not torch.is_grad_enabled():
        return [], ()
    positions = tuple(i for i, tensor in enumerate(packing.tensors) if tensor.requires_grad)
    return [packing.tensors[index] for index in positions], positions


class RemoteModule(nn.Module):
    """A module of the student's class: its state is here, its `forward` runs in the sandbox."""

    def __init__(
        self,
        session: Session,
        class_name: str,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        on_mutation: Callable[[tuple[str, ...]], None],
    ) -> None:
        super().__init__()
        packing = Packing(strided=True)
        session.refuse_forbidden(class_name)
        request = Build(class_name, packing.pack(list(arguments)), packing.pack(keywords))
        reply, unpacking = session.ask(request, packing)
        if not isinstance(reply, Built):
            raise SandboxDied("Your code gave an answer that cannot be read: no module.")
        parameters = _named_tensors(unpacking.unpack(reply.parameters))
        buffers = _named_tensors(unpacking.unpack(reply.buffers))
        # Sets: an enemy's lists are as long as a frame can be.
        trainables, saved = set(reply.trainable), set(reply.saved)
        try:
            for name, tensor in parameters.items():
                learnable = tensor.is_floating_point() or tensor.is_complex()
                trainable = learnable and name in trainables
                _register(self, name, nn.Parameter(tensor, requires_grad=trainable), True)
            for name, tensor in buffers.items():
                _register(self, name, tensor, name in saved)
        except (AttributeError, KeyError, TypeError):  # names that no module can have
            raise SandboxDied(_ODD_PARAMETERS) from None
        self.training = reply.training
        # Not as attributes of the module: nn.Module would look into them.
        object.__setattr__(self, "_remote", (session, reply.handle, on_mutation))
        object.__setattr__(self, "saved_names", reply.saved)

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        session, _, on_mutation = self.__dict__["_remote"]
        packing = Packing(strided=True)
        request = self._request(packing, arguments, keywords)
        inputs, positions = wanted(packing)
        reply, unpacking = session.ask(msgspec.structs.replace(request, wants=positions), packing)
        assert isinstance(reply, Returned)
        on_mutation(reply.mutated)
        learning = [tensor for tensor in self.parameters() if tensor.requires_grad]
        own = learning if torch.is_grad_enabled() else []
        return attach(session, reply, unpacking, [*own, *inputs])

    def observed(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], seed: int
    ) -> tuple[Returned, Unpacking]:
        """Call forward with seeded random states; the reply reports how it left everything."""
        packing = Packing(strided=True)
        request = self._request(packing, arguments, keywords)
        own = {name: tensor.grad for name, tensor in self.named_parameters()}
        request = msgspec.structs.replace(request, observe=seed, gradients=packing.pack(own))
        reply, unpacking = self.__dict__["_remote"][0].ask(request, packing)
        assert isinstance(reply, Returned)
        return reply, unpacking

    def _request(
        self, packing: Packing, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Forward:
        parameters = packing.pack(dict(self.named_parameters()))
        buffers = packing.pack(dict(self.named_buffers()))
        # The positions of wanted gradients count the arguments alone.
        packing.tensors.clear()
        packed = packing.pack(list(arguments)), packing.pack(keywords)
        trainable = tuple(name for name, each in self.named_parameters() if each.requires_grad)
        handle = self.__dict__["_remote"][1]
        return Forward(handle, parameters, buffers, trainable, self.training, *packed)


_ODD_PARAMETERS = (
    "The names of your module's parameters and buffers cannot be read: give each one a plain name, "
    "by assigning it to self."
)


# More than any exercise builds, and less than what nn.Module or its recursion cannot bear.
_MOST_PARAMETERS, _DEEPEST_NAME, _LONGEST_NAME = 10_000, 30, 1_000


def _is_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and name.count(".") <= _DEEPEST_NAME


def _named_tensors(value: Any) -> dict[str, Tensor]:
    if (
        isinstance(value, dict)
        and len(value) <= _MOST_PARAMETERS
        and all(_is_name(name) and isinstance(tensor, Tensor) for name, tensor in value.items())
    ):
        return value
    raise SandboxDied(_ODD_PARAMETERS)


def _register(module: nn.Module, dotted: str, tensor: Tensor | nn.Parameter, saved: bool) -> None:
    """Register under a dotted name, with plain modules on the way, so that names stay as they are."""
    *path, name = dotted.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        inner = module._modules[part]
        assert inner is not None
        module = inner
    if isinstance(tensor, nn.Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor, persistent=saved)
