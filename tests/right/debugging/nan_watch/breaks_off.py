# right: breaks off with an exception of its own, under no_grad; a post-accumulate hook; hooks on the nodes of the graph
import contextlib
import math
from typing import Any, Callable, Iterator, Optional

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


class Found(BaseException):
    pass


class NonFiniteGradient(RuntimeError):
    def __init__(self, name: str) -> None:
        super().__init__(f"non-finite gradient at parameter '{name}'")


def bad(value: Any) -> bool:
    return any(
        not bool(torch.isfinite(leaf).all()) for leaf in tree_leaves(value) if isinstance(leaf, Tensor)
    )


def gradient_norms(model: nn.Module) -> dict:
    norms = {}
    for name, parameter in model.named_parameters():
        grad = parameter.grad
        norms[name] = None if grad is None else math.sqrt((grad.detach() ** 2).sum().item())
    return norms


def first_non_finite(model: nn.Module, *inputs: Any) -> Optional[str]:
    names = {module: name for name, module in model.named_modules()}

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        if module in names and bad(output):
            raise Found(names[module])

    handle = nn.modules.module.register_module_forward_hook(hook)
    try:
        with torch.no_grad():
            model(*inputs)
    except Found as found:
        return found.args[0]
    finally:
        handle.remove()
    return None


@contextlib.contextmanager
def watch_gradients(model: nn.Module) -> Iterator[nn.Module]:
    with contextlib.ExitStack() as stack:
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:

                def check(p: Tensor, name: str = name) -> None:
                    if bad(p.grad):
                        raise NonFiniteGradient(name)

                handle = parameter.register_post_accumulate_grad_hook(check)
                stack.callback(handle.remove)
        yield model


def backward_nan(closure: Callable[[], Tensor]) -> Optional[str]:
    loss = closure()
    found = []
    seen, stack, handles = set(), [loss.grad_fn], []
    while stack:
        node = stack.pop()
        if node is None or node in seen or node.name().startswith("torch::autograd::AccumulateGrad"):
            continue
        seen.add(node)
        stack.extend(before for before, _ in node.next_functions)

        def hook(grad_inputs: Any, grad_outputs: Any, name: str = node.name()) -> None:
            if any(g is not None and bool(g.isnan().any()) for g in grad_inputs):
                found.append(name)

        handles.append(node.register_hook(hook))
    try:
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None
