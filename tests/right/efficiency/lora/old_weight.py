# right: two linear layers made parameters, merge keeps the old weight aside, clones in the state
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        if rank <= 0:
            raise ValueError("rank")
        self.base = base
        self.base.weight.requires_grad_(False)
        if self.base.bias is not None:
            self.base.bias.requires_grad_(False)
        self.A = nn.Linear(base.in_features, rank, bias=False).to(base.weight).weight
        self.B = nn.Linear(rank, base.out_features, bias=False).to(base.weight).weight
        nn.init.zeros_(self.B)
        self.factor = alpha / rank
        self.old = []

    def forward(self, x):
        y = self.base(x)
        if not self.old:
            y = y + nn.functional.linear(nn.functional.linear(self.factor * x, self.A), self.B)
        return y

    def merge(self):
        if self.old:
            return
        self.old.append(self.base.weight.data.clone())
        self.base.weight.data.addmm_(self.B.data, self.A.data, alpha=self.factor)

    def unmerge(self):
        if self.old:
            self.base.weight.data.copy_(self.old.pop())


def add_lora(model, names, rank, alpha):
    found = []
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is nn.Linear and name in set(names):
                found.append((parent, name, child))
    for name in names:
        if name not in [each[1] for each in found]:
            raise ValueError(f"Not all names are there: {name}")
    for p in model.parameters():
        p.requires_grad_(False)
    for parent, name, child in found:
        setattr(parent, name, LoRALinear(child, rank, alpha))


def lora_state_dict(model):
    state = {}
    for path, module in model.named_modules():
        if type(module).__name__ == "LoRALinear":
            prefix = path + "." if path else ""
            state[prefix + "B"] = module.B.data.clone()
            state[prefix + "A"] = module.A.data.clone()
    return state
