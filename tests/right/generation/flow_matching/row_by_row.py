# right: a loop over rows, lerp, a time that is added up, the loss by hand, a context manager for the mode
from contextlib import contextmanager

import torch


def path(x0, x1, t):
    points = [torch.lerp(a, b, s) for a, b, s in zip(x0, x1, t)]
    return torch.stack(points), torch.stack([b - a for a, b in zip(x0, x1)])


def flow_matching_loss(model, x1, generator=None):
    t = torch.rand(x1.size(0), generator=generator, device=x1.device, dtype=x1.dtype)
    noise = torch.randn(x1.shape, generator=generator, device=x1.device, dtype=x1.dtype)
    x_t, velocity = path(noise, x1, t)
    difference = model(x_t, t) - velocity
    return torch.sum(difference**2) / difference.numel()


@contextmanager
def evaluating(model):
    was = {name: module.training for name, module in model.named_modules()}
    model.eval()
    try:
        yield
    finally:
        for name, module in model.named_modules():
            module.train(was[name]) if not list(module.children()) else None
            module.training = was[name]


@torch.no_grad()
def sample(model, x0, steps):
    with evaluating(model):
        x, now = x0.clone(), 0.0
        for _ in range(steps):
            x += (1 / steps) * model(x, torch.tensor([now], dtype=x.dtype).repeat(len(x)))
            now += 1 / steps
    return x
