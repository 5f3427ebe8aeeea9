# right: one generic recorder for all three; handles in a dict by module; a flag that turns tensor hooks off
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Callable

import torch
import torch.nn as nn


@contextmanager
def _hooked(pairs: list[tuple[str, nn.Module]], see: Callable) -> Iterator[None]:
    handles = {}
    try:
        for name, module in pairs:
            def hook(module, args, kwargs, output, name=name):
                see(name, output)

            handles[name] = module.register_forward_hook(hook, with_kwargs=True)
        yield
    finally:
        for handle in handles.values():
            handle.remove()


def _pairs(model: nn.Module, names: Sequence[str]) -> list[tuple[str, nn.Module]]:
    all_names = [name for name, _ in model.named_modules()]
    for name in names:
        if all_names.count(name) == 0:
            raise ValueError(f"{name!r} is none of {all_names}")
    return [(name, module) for name, module in model.named_modules() if name in names]


def trace_shapes(model: nn.Module, x: torch.Tensor) -> list[tuple[str, tuple[int, ...]]]:
    calls: list[tuple[str, tuple[int, ...]]] = []

    def see(name, output):
        match output:
            case torch.Tensor(shape=shape):
                calls.append((name, tuple(shape)))

    leaves = [pair for pair in model.named_modules() if len(list(pair[1].modules())) == 1]
    with _hooked(leaves, see):
        model(x)
    return calls


@contextmanager
def capture_activations(model: nn.Module, names: Sequence[str]):
    values: dict[str, torch.Tensor] = {}

    def see(name, output):
        with torch.no_grad():
            values[name] = torch.empty_like(output).copy_(output)

    with _hooked(_pairs(model, names), see):
        yield values


@contextmanager
def capture_gradients(model: nn.Module, names: Sequence[str]):
    values: dict[str, torch.Tensor] = {}
    active = True

    def see(name, output):
        def note(gradient):
            if active:
                values[name] = gradient.clone().data

        if output.requires_grad:
            output.register_hook(note)

    try:
        with _hooked(_pairs(model, names), see):
            yield values
    finally:
        active = False
