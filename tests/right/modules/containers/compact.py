# right: plain and short; most of the wrong answers are changes of it
from torch import nn


class MLP(nn.Module):
    def __init__(self, widths):
        super().__init__()
        if len(widths) < 2 or min(widths) < 1:
            raise ValueError(f"bad widths: {widths}")
        layers = []
        for i in range(len(widths) - 1):
            if i > 0:
                layers.append(nn.ReLU())
            layers.append(nn.Linear(widths[i], widths[i + 1]))
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class ResidualStack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x, skip=()):
        for index in skip:
            if index < 0 or index >= len(self.blocks):
                raise ValueError(f"skip has no such block: {index}")
        for index, block in enumerate(self.blocks):
            if index not in skip:
                x = x + block(x)
        return x


def plain_containers(model):
    names = []
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            if isinstance(value, dict):
                value = list(value.values())
            if isinstance(value, (list, tuple)):
                if any(isinstance(item, (nn.Module, nn.Parameter)) for item in value):
                    names.append(prefix + "." + name if prefix else name)
    return names
