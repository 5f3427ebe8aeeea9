# right: a state of two moments in one tensor, a class for the rule
import torch


class Moments:
    """Two moments side by side, and a count, in a parameter's state."""

    def __init__(self, state, like):
        if "both" not in state:
            state["both"] = torch.stack([torch.zeros_like(like)] * 2)
            state["t"] = 0
        self.state = state

    def take(self, gradient, betas):
        beta1, beta2 = betas
        both = self.state["both"]
        both[0] += (1 - beta1) * (gradient - both[0])
        both[1] += (1 - beta2) * (gradient * gradient - both[1])
        self.state["t"] = t = self.state["t"] + 1
        return both[0] / (1 - beta1**t), both[1] / (1 - beta2**t)


class AdamW(torch.optim.Optimizer):
    NAMES = ("lr", "betas", "eps", "weight_decay", "decoupled_weight_decay")

    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01,
                 decoupled_weight_decay=True):
        options = dict(zip(self.NAMES, (lr, betas, eps, weight_decay, decoupled_weight_decay)))
        wrong = [n for n in ("lr", "eps", "weight_decay") if options[n] < 0]
        if min(betas) < 0 or max(betas) >= 1:
            wrong.append("betas")
        if wrong:
            raise ValueError(", ".join(wrong) + " out of range")
        super().__init__(params, defaults=options)

    def parameters(self):
        for group in self.param_groups:
            yield from ((p, [group[name] for name in self.NAMES]) for p in group["params"])

    def step(self, closure=None):
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        with torch.no_grad():
            for p, (lr, betas, eps, decay, decoupled) in self.parameters():
                if p.grad is None:
                    continue
                gradient = p.grad.clone() if decoupled else torch.add(p.grad, p, alpha=decay)
                p *= 1 - lr * decay * bool(decoupled)
                first, second = Moments(self.state[p], p).take(gradient, betas)
                p -= lr * first / (second**0.5 + eps)
        return result
