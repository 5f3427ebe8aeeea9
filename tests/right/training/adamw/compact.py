# right: untyped, all in step, values by .data
import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2,
                 decoupled_weight_decay=True):
        for name, value in dict(lr=lr, eps=eps, weight_decay=weight_decay).items():
            if value < 0:
                raise ValueError(f"{name} must be at least 0")
        if not 0 <= betas[0] < 1 or not 0 <= betas[1] < 1:
            raise ValueError("betas must be in [0, 1)")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      decoupled_weight_decay=decoupled_weight_decay))

    def step(self, closure=None):
        loss = closure() if closure else None
        for group in self.param_groups:
            lr, eps, wd = group["lr"], group["eps"], group["weight_decay"]
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad.detach()
                state = self.state[p]
                if len(state) == 0:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p.data)
                    state["v"] = torch.zeros_like(p.data)
                if group["decoupled_weight_decay"]:
                    p.data = p.data * (1 - lr * wd)
                else:
                    g = g + wd * p.data
                state["t"] += 1
                m = state["m"] = b1 * state["m"] + (1 - b1) * g
                v = state["v"] = b2 * state["v"] + (1 - b2) * g**2
                m_hat = m / (1 - b1 ** state["t"])
                v_hat = v / (1 - b2 ** state["t"])
                p.data = p.data - lr * m_hat / (v_hat.sqrt() + eps)
        return loss
