# right: expanded times, a linspace of times, flat rows, the velocity written out in the loss
import torch
import torch.nn.functional as F


def expanded(t, like):
    while t.dim() < like.dim():
        t = t.unsqueeze(-1)
    return t.expand_as(like)


def path(x0, x1, t):
    u = x1 - x0
    return x0 + expanded(t, x0) * u, u


def flow_matching_loss(model, x1, generator=None):
    x0 = torch.normal(0.0, 1.0, size=tuple(x1.shape), generator=generator).to(x1)
    t = 1 - torch.rand((len(x1),), generator=generator).to(x1)
    t = t.clamp(max=1 - 1e-6)
    s = t.view(t.shape + (1,) * (x1.ndim - 1))
    out = model(s * x1 + (1 - s) * x0, t)
    return F.mse_loss(x1 - x0, out, reduction="mean")


def sample(model, x0, steps):
    training = [m.training for m in model.modules()]
    times = torch.linspace(0, 1, steps + 1, dtype=x0.dtype)
    x = x0.detach()
    model.train(False)
    try:
        for start, end in zip(times[:-1], times[1:]):
            with torch.no_grad():
                x = torch.add(x, model(x, start.expand(x.shape[0])) * (end - start))
    except BaseException:
        raise
    finally:
        for m, mode in zip(model.modules(), training):
            m.training = mode
    return x
