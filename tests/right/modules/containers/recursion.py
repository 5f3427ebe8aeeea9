# right: recursion in forward, functools.reduce, a dict of layers in order
import functools
from collections import OrderedDict

from torch import nn


class MLP(nn.Module):
    def __init__(self, widths):
        super().__init__()
        try:
            first, *rest = widths
            assert rest and all(w > 0 for w in widths)
        except (ValueError, AssertionError) as error:
            raise ValueError("widths: at least two positive integers") from error
        layers = OrderedDict()
        for out in rest:
            layers[str(len(layers))] = nn.Linear(first, out, bias=True)
            layers[str(len(layers))] = nn.ReLU()
            first = out
        layers.popitem()
        self.layers = nn.Sequential(layers)

    def forward(self, x):
        return functools.reduce(lambda value, layer: layer(value), self.layers, x)


class ResidualStack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList([*blocks])

    def _from(self, index, x, skip):
        if index == len(self.blocks):
            return x
        if index in skip:
            return self._from(index + 1, x, skip)
        return self._from(index + 1, self.blocks[index](x) + x, skip)

    def forward(self, x, skip=()):
        n = len(self.blocks)
        if len(skip) and not (0 <= min(skip) <= max(skip) < n):
            raise ValueError(f"skip must lie in 0..{n - 1}")
        return self._from(0, x, frozenset(skip))


def plain_containers(model):
    found = set()
    registered = {name: m for name, m in model.named_modules()}
    for path, m in registered.items():
        for key in m.__dict__:
            if key.startswith("_"):
                continue
            attribute = m.__dict__[key]
            if isinstance(attribute, dict):
                attribute = [attribute[k] for k in attribute]
            elif not isinstance(attribute, (list, tuple)):
                continue
            for thing in attribute:
                if isinstance(thing, nn.Module) or isinstance(thing, nn.Parameter):
                    found.add((path + "." + key).lstrip("."))
    return list(found)
