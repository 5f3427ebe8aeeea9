# right: sums in place on a fresh zero tensor that no block ever sees; a dataclass that only describes
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Description:
    widths: tuple

    def check(self):
        if len(self.widths) < 2 or any(w < 1 for w in self.widths):
            raise ValueError(f"{self.widths=} are not possible")
        return self


class MLP(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.description = Description(tuple(widths)).check()
        pairs = zip(widths, widths[1:])
        blocks = [[nn.Linear(m, n), nn.ReLU()] for m, n in pairs]
        self.layers = nn.Sequential(*sum(blocks, [])[:-1])
        print("an MLP of", self.description)

    def forward(self, x):
        return self.layers.forward(x)


class ResidualStack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks if isinstance(blocks, nn.ModuleList) else nn.ModuleList(blocks)

    def forward(self, x, skip=()):
        for i in set(skip):
            if i not in range(len(self.blocks)):
                raise ValueError("skip: no block " + str(i))
        for i in range(len(self.blocks)):
            if i in skip:
                continue
            total = torch.zeros_like(x)
            total += x
            total += self.blocks[i](x)
            x = total
        return x


def plain_containers(model):
    learn = (nn.Module, nn.Parameter)
    result = []
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            values = value.values() if isinstance(value, dict) else value
            plain = isinstance(value, (list, tuple, dict)) and not key.startswith("_")
            if plain and len([v for v in values if isinstance(v, learn)]) > 0:
                result.append(f"{name}.{key}" if name != "" else key)
    return result
