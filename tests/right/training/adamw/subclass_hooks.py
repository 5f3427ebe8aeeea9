# right: functional update of lists, inference of new values, copy_ at the end, load_state_dict extended
import torch


def adam(p, g, m, v, t, *, lr, betas, eps):
    m = torch.lerp(g, m, betas[0])
    v = torch.lerp(g.square(), v, betas[1])
    correction = (1 - betas[1] ** t) ** 0.5
    return p - (lr / (1 - betas[0] ** t)) * m / (v.sqrt() / correction + eps), m, v


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, decoupled_weight_decay=True):
        if lr < 0:
            raise ValueError(f"Invalid learning rate (lr): {lr}")
        if eps < 0:
            raise ValueError(f"eps: {eps}")
        if weight_decay < 0:
            raise ValueError(f"weight_decay: {weight_decay}")
        if any(not (0.0 <= b < 1.0) for b in betas):
            raise ValueError(f"betas: {betas}")
        defaults = {k: v for k, v in locals().items() if k not in ("self", "params", "__class__")}
        super(AdamW, self).__init__(params, defaults)
        self.last_loss = None
        print("made", type(self).__name__)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("decoupled_weight_decay", True)

    def step(self, closure=None):
        if closure is not None:
            with torch.set_grad_enabled(True):
                self.last_loss = closure()
        todo = [(p, group) for group in self.param_groups for p in group["params"] if p.grad is not None]
        for p, group in todo:
            old = self.state[p].get("moments") or [0 * p.detach(), 0 * p.detach(), 0]
            value, gradient = p.detach(), p.grad.detach()
            if group["decoupled_weight_decay"]:
                value = value - value * (group["lr"] * group["weight_decay"])
            else:
                gradient = gradient + value * group["weight_decay"]
            m, v, t = old
            rest = {name: group[name] for name in ("lr", "betas", "eps")}
            value, m, v = adam(value, gradient, m, v, t + 1, **rest)
            self.state[p]["moments"] = [m, v, t + 1]
            with torch.no_grad():
                p.copy_(value)
        return None if closure is None else self.last_loss
