# right: torch._foreach operators over the parameters of a group, a count as a float64 tensor
from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import Tensor
from torch.optim import Optimizer


def check(**options: float) -> None:
    for name, number in options.items():
        if not number >= 0.0:
            raise ValueError(f"Invalid {name}: {number}")


class AdamW(Optimizer):
    def __init__(self, params, lr: float = 1e-3, betas=(0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, decoupled_weight_decay: bool = True) -> None:
        check(lr=lr, eps=eps, weight_decay=weight_decay)
        for i, beta in enumerate(betas):
            if beta < 0 or beta >= 1:
                raise ValueError(f"Invalid Betas[{i}]: {beta}")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps,
            "weight_decay": weight_decay, "decoupled_weight_decay": decoupled_weight_decay,
        })

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self.update(group, [p for p in group["params"] if p.grad is not None])
        return loss

    def update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        if not params:
            return
        beta1, beta2 = group["betas"]
        grads = [p.grad for p in params]
        for p in params:
            if not self.state[p]:
                self.state[p] = {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(p),
                                 "exp_avg_sq": torch.zeros_like(p)}
        counts, means, squares = ([self.state[p][k] for p in params] for k in ("step", "exp_avg", "exp_avg_sq"))
        torch._foreach_add_(counts, 1.0)
        if group["decoupled_weight_decay"]:
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        else:
            grads = torch._foreach_add(grads, params, alpha=group["weight_decay"])
        torch._foreach_lerp_(means, grads, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
        for p, count, mean, square in zip(params, counts, means, squares):
            t = count.item()
            denominator = square.sqrt().div_(math.sqrt(1 - beta2**t)).add_(group["eps"])
            p.addcdiv_(mean, denominator, value=-group["lr"] / (1 - beta1**t))
