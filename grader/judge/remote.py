"""Ordinary PyTorch in the judge for code that runs in the sandbox: autograd nodes and a module proxy.

A call of the student's code returns plain tensors. If they need gradients, it also returns the number of the
graph that the sandbox keeps. `_Attach` connects such tensors to the judge's own inputs: its backward asks the
sandbox for the vector-Jacobian product. That product is attached in the same way, so gradients of gradients
work, too.
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


def attach(session: Session, reply: Returned, tensors: list[Tensor], inputs: list[Tensor]) -> Any:
    """Return a reply's value, with its differentiable tensors attached to `inputs` (in the graph's order).

    Raises SandboxDied for a reply that names no tensor or a tensor of integers.
    """
    if reply.graph is None or not inputs:
        return reply.value
    named = set(reply.differentiable)
    exist = all(0 <= index < len(tensors) for index in named)
    if not exist or len(named) != len(reply.differentiable):
        raise SandboxDied("Your code gave an answer that cannot be read: no such tensor.")
    remote = [tensors[index] for index in reply.differentiable]
    # Integers have no gradient, even if a reply claims so.
    remote = [tensor for tensor in remote if tensor.is_floating_point() or tensor.is_complex()]
    if len(remote) != len(reply.differentiable):
        raise SandboxDied("Your code gave an answer that cannot be read: a gradient of integers.")
    # The tensors become the node's outputs in place, so the value holds them already, even in lists or dicts.
    node: Any = _Attach
    with session.clock():
        node.apply(session, reply.graph, remote, *inputs)
    return reply.value


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
    """Return the sandbox's vector-Jacobian products, one for each input, in the input's shape and dtype."""
    differentiable = torch.is_grad_enabled()
    packing = Packing()
    request = Backward(graph, packing.pack(gradients), differentiable)
    reply, tensors = session.ask(request, packing)
    assert isinstance(reply, Returned)
    given = [gradient for gradient in gradients if gradient is not None]
    if differentiable and len(given) != len(gradients):
        # The sandbox differentiates by all gradients, and uses zeros for an absent one.
        gradients = [g if g is not None else torch.zeros(()) for g in gradients]
    leaves = [*inputs, *(gradient for gradient in gradients if gradient is not None)]
    products = attach(session, reply, tensors, leaves if differentiable else [])
    return _fitting(products, inputs)


def _fitting(products: Any, inputs: list[Tensor]) -> list[Tensor | None]:
    """Return the gradients, one for each input, as autograd would return them.

    Raises SandboxDied if there are too many or too few, or if one has another shape or dtype.
    """
    if not isinstance(products, list) or len(products) != len(inputs):
        raise SandboxDied(
            "Your code gave an answer that cannot be read: wrong number of gradients."
        )
    # Drop gradients of inputs that need none, such as the zeros of an absent gradient.
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
    """Return the packed tensors that need gradients, and their positions."""
    if not torch.is_grad_enabled():
        return [], ()
    positions = tuple(i for i, tensor in enumerate(packing.tensors) if tensor.requires_grad)
    return [packing.tensors[index] for index in positions], positions


class RemoteModule(nn.Module):
    """A module of the student's class, with its state here and its `forward` in the sandbox."""

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
        reply, _ = session.ask(request, packing)
        if not isinstance(reply, Built):
            raise SandboxDied("Your code gave an answer that cannot be read: no module.")
        # Charged to the test: a hostile sandbox can send as many names as fit into a message.
        with session.clock():
            self._take_state(reply)
        # Not as attributes of the module: nn.Module would look into them.
        object.__setattr__(self, "_remote", (session, reply.handle, on_mutation))
        object.__setattr__(self, "saved_names", reply.saved)
        object.__setattr__(self, "_class_name", class_name)

    def __getattr__(self, name: str) -> Any:
        """Explain to a suite's author which attributes there are."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise AttributeError(
                f"the module that student.module built has no parameter, buffer or module {name!r}; "
                "other attributes and methods exist only in the sandbox: read them in a probe"
            ) from None

    def _take_state(self, reply: Built) -> None:
        """Register the parameters and buffers of a reply; raises SandboxDied for impossible names."""
        _check_names(reply.parameters, reply.buffers)
        trainables, saved = set(reply.trainable), set(reply.saved)
        try:
            for name, tensor in reply.parameters.items():
                learnable = tensor.is_floating_point() or tensor.is_complex()
                trainable = learnable and name in trainables
                _register(self, name, nn.Parameter(tensor, requires_grad=trainable), True)
            for name, tensor in reply.buffers.items():
                _register(self, name, tensor, name in saved)
        except (AttributeError, KeyError, TypeError):  # names that no module can have
            raise SandboxDied(_ODD_PARAMETERS) from None
        self.training = reply.training

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Call `forward` in the sandbox; the result is connected to parameters and arguments."""
        session, _, on_mutation = self.__dict__["_remote"]
        packing = Packing(strided=True)
        request = self._request(packing, arguments, keywords)
        inputs, positions = wanted(packing)
        reply, tensors = session.ask(msgspec.structs.replace(request, wants=positions), packing)
        assert isinstance(reply, Returned)
        on_mutation(reply.mutated)
        learning = [tensor for tensor in self.parameters() if tensor.requires_grad]
        own = learning if torch.is_grad_enabled() else []
        return attach(session, reply, tensors, [*own, *inputs])

    def observed(self, arguments: tuple[Any, ...], keywords: dict[str, Any], seed: int) -> Returned:
        """Call `forward` with seeded random states; the reply reports its side effects."""
        packing = Packing(strided=True)
        request = self._request(packing, arguments, keywords)
        own = {name: tensor.grad for name, tensor in self.named_parameters()}
        request = msgspec.structs.replace(request, observe=seed, gradients=packing.pack(own))
        reply, _ = self.__dict__["_remote"][0].ask(request, packing)
        assert isinstance(reply, Returned)
        return reply

    def _request(
        self, packing: Packing, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Forward:
        """Return the request for a call of `forward`, with all state and the arguments."""
        parameters = packing.pack(dict(self.named_parameters()))
        buffers = packing.pack(dict(self.named_buffers()))
        # Positions of wanted gradients count only the tensors of the arguments.
        packing.tensors.clear()
        packed = packing.pack(list(arguments)), packing.pack(keywords)
        trainable = tuple(name for name, tensor in self.named_parameters() if tensor.requires_grad)
        handle = self.__dict__["_remote"][1]
        return Forward(handle, parameters, buffers, trainable, self.training, *packed)


_ODD_PARAMETERS = (
    "The names of your module's parameters and buffers cannot be read: give each one a plain name, "
    "by assigning it to self."
)


# More than any exercise builds, and buildable within 0.1 s: each part of a dotted name is a module of its own.
# Deeper names would exceed the recursion limit in nn.Module.
_MAX_PARAMETERS, _MAX_MODULES, _DEEPEST_NAME, _LONGEST_NAME = 2_000, 4_000, 30, 1_000


def _check_names(*states: Any) -> None:
    """Raise SandboxDied unless these are dicts of tensors whose names a module can have."""
    modules: set[str] = set()
    tensors = 0
    for state in states:
        if not isinstance(state, dict):
            raise SandboxDied(_ODD_PARAMETERS)
        tensors += len(state)
        if tensors > _MAX_PARAMETERS:
            raise SandboxDied(
                f"Your module has more than {_MAX_PARAMETERS} parameters and buffers, too many to be "
                "judged: store many numbers in one tensor."
            )
        for name, tensor in state.items():
            if not isinstance(tensor, Tensor) or not isinstance(name, str):
                raise SandboxDied(_ODD_PARAMETERS)
            parts = name[: _LONGEST_NAME + 1].split(".")
            if len(name) > _LONGEST_NAME or len(parts) > _DEEPEST_NAME:
                raise SandboxDied(_ODD_PARAMETERS)
            modules.update(".".join(parts[:end]) for end in range(1, len(parts)))
            if len(modules) > _MAX_MODULES:
                raise SandboxDied(
                    f"Your module contains more than {_MAX_MODULES} modules, too many to be judged."
                )


def _register(module: nn.Module, dotted: str, tensor: Tensor | nn.Parameter, saved: bool) -> None:
    """Register a tensor under a dotted name, with plain modules for the parts before the last."""
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
