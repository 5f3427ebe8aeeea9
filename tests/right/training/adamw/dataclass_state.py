# right: a default dict of tensors, uncorrected moments by sums, the count as a 0-d int64 tensor
import dataclasses

import torch


@dataclasses.dataclass
class Options:
    lr: float = 1e-3
    betas: tuple = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2
    decoupled_weight_decay: bool = True

    def __post_init__(self):
        for field in dataclasses.fields(self)[:4]:
            value = getattr(self, field.name)
            values = value if field.name == "betas" else [value]
            top = 1 if field.name == "betas" else float("inf")
            if not all(0 <= number < top for number in values):
                raise ValueError(f"{field.name}={value} is out of range")


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, *args, **kwargs):
        super().__init__(params, vars(Options(*args, **kwargs)))

    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for p in filter(lambda p: p.grad is not None, group["params"]):
                    self._one(p, p.grad, **{k: v for k, v in group.items() if hasattr(Options, k)})
        return loss

    def _one(self, p, grad, lr, betas, eps, weight_decay, decoupled_weight_decay):
        state = self.state[p]
        count = int(state.get("count", torch.tensor(0))) + 1
        state["count"] = torch.tensor(count)
        if not decoupled_weight_decay:
            grad = grad.add(p, alpha=weight_decay)
        else:
            p.sub_(p, alpha=lr * weight_decay)
        hats = []
        for name, beta, power in (("first", betas[0], grad), ("second", betas[1], grad.pow(2))):
            old = state.setdefault(name, torch.zeros_like(p, memory_format=torch.preserve_format))
            old.mul_(beta).add_(power.mul(1 - beta))
            hats.append(old.div(1 - beta**count))
        p.addcdiv_(hats[0], hats[1].sqrt_().add_(eps), value=-lr)
