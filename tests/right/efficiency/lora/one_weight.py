# right: the whole weight in each forward pass, a delta that merge keeps, children replaced by recursion, state by names
import torch
import torch.nn.functional as F
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        if not rank > 0:
            raise ValueError(f"{rank=} is too small")
        self.base = base
        for parameter in base.parameters():
            parameter.requires_grad = False
        out, features = base.weight.shape
        kind = {"dtype": base.weight.dtype, "device": base.weight.device}
        self.A = nn.Parameter(torch.randn(rank, features, **kind) / rank)
        self.B = nn.Parameter(torch.zeros(out, rank, **kind))
        self.rank, self.alpha = rank, alpha
        self.delta = None

    def change(self):
        return torch.einsum("or,ri->oi", self.B, self.A).mul(self.alpha / self.rank)

    def forward(self, x):
        weight = self.base.weight
        if self.delta is None:
            weight = weight + self.change()
        return F.linear(x, weight, self.base.bias)

    @torch.no_grad()
    def merge(self):
        if self.delta is None:
            self.delta = self.change()
            self.base.weight.add_(self.delta)

    @torch.no_grad()
    def unmerge(self):
        if self.delta is not None:
            self.base.weight.sub_(self.delta)
            self.delta = None


def replace(module, names, rank, alpha):
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear) and name in names:
            module._modules[name] = LoRALinear(child, rank, alpha)
        else:
            replace(child, names, rank, alpha)


def add_lora(model, names, rank, alpha):
    for name in names:
        if not any(
            ("." + path).endswith("." + name) and isinstance(each, nn.Linear)
            for path, each in model.named_modules()
        ):
            raise ValueError(f"names has {name}, which is no layer's name")
    for parameter in model.parameters():
        parameter.requires_grad = False
    replace(model, names, rank, alpha)


def lora_state_dict(model):
    learns = {name for name, p in model.named_parameters() if p.requires_grad}
    return {name: t for name, t in model.state_dict().items() if name in learns}
