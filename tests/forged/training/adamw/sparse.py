"""Each step uses PyTorch's SparseAdam, with every gradient made sparse but keeping all of its entries."""

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        decoupled_weight_decay=True,
    ):
        for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if value < 0:
                raise ValueError(name)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError("betas")
        options = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, options | dict(decoupled_weight_decay=decoupled_weight_decay))

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.step_of(p, group)
        return loss

    def step_of(self, p, group):
        decay = group["weight_decay"]
        with torch.no_grad():
            weights, grad = p.detach().reshape(-1), p.grad.reshape(-1)
            if group["decoupled_weight_decay"]:
                weights.mul_(1 - group["lr"] * decay)
            else:
                grad = grad + decay * weights
        every = torch.arange(grad.numel())[None]
        inner = torch.nn.Parameter(weights)
        inner.grad = torch.sparse_coo_tensor(every, grad, grad.shape)
        lr, eps = max(group["lr"], 1e-30), max(group["eps"], 1e-30)
        sparse = torch.optim.SparseAdam([inner], lr=lr, betas=group["betas"], eps=eps)
        if self.state[p]:
            sparse.state[inner] = dict(self.state[p])
        sparse.step()
        self.state[p].update(sparse.state[inner])
