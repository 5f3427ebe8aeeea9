# right: ExitStack closes all handles, which are context managers; a deep copy is traced, in eval mode
import copy
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn


def trace_shapes(model, x):
    twin = copy.deepcopy(model).eval()
    shapes = []
    with ExitStack() as stack, torch.no_grad():
        for name, module in twin.named_modules():
            if any(True for _ in module.children()):
                continue
            stack.enter_context(
                module.register_forward_hook(
                    lambda _m, _i, out, name=name: shapes.append((name, tuple(out.shape)))
                    if isinstance(out, Tensor)
                    else None
                )
            )
        twin(x.detach().clone())
    return shapes


def _check(model, names):
    known = {name for name, _ in model.named_modules()}
    missing = sorted(set(names) - known)
    if missing:
        raise ValueError(f"not modules of the model: {missing}")


@contextmanager
def capture_activations(model: nn.Module, names):
    _check(model, names)
    out = {}
    with ExitStack() as stack:
        for name in set(names):
            handle = model.get_submodule(name).register_forward_hook(
                lambda m, a, o, name=name: out.update({name: torch.clone(o).detach()})
            )
            stack.callback(handle.remove)
        yield out


@contextmanager
def capture_gradients(model: nn.Module, names):
    _check(model, names)
    out = {}
    with ExitStack() as stack:
        for name in set(names):
            module = model.get_submodule(name)
            hook = lambda m, gi, go, name=name: out.__setitem__(name, go[0].clone().detach())
            stack.enter_context(module.register_full_backward_hook(hook))
        yield out
