# right: the common tutorial's way: model.train() and back, early return, frozen parameters passed over
import math

import torch


def with_gradient(parameters):
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    return [p for p in parameters if p.requires_grad and p.grad is not None]


def total_norm(parameters, norm_type=2.0):
    grads = [p.grad for p in with_gradient(parameters)]
    if len(grads) == 0:
        return torch.tensor(0.0)
    norms = [torch.linalg.vector_norm(g, norm_type) for g in grads]
    return torch.linalg.vector_norm(torch.stack(norms), norm_type)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    params = with_gradient(parameters)
    if not params:
        return torch.tensor(0.0)
    if not max_norm > 0:
        raise ValueError(f"max_norm must be positive, got {max_norm}")
    norm = total_norm(params, norm_type)
    if error_if_nonfinite and (norm.isnan() or norm.isinf()):
        raise RuntimeError(f"The total norm of order {norm_type} is non-finite")
    coefficient = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for p in params:
        p.grad.mul_(coefficient)
    return norm


@torch.no_grad()
def clip_grad_value_(parameters, clip_value):
    clip_value = float(clip_value)
    if clip_value <= 0:
        raise ValueError(f"clip_value must be positive, got {clip_value}")
    for p in with_gradient(parameters):
        p.grad.clamp_(min=-clip_value, max=clip_value)


def train_step(model, loss_fn, optimizer, inputs, targets, max_norm):
    modes = {module: module.training for module in model.modules()}
    model.train()
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), max_norm).item()
    if not math.isnan(norm) and not math.isinf(norm):
        optimizer.step()
    for module, mode in modes.items():
        module.training = mode
    return norm
