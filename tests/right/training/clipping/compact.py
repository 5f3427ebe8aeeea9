# right: plain and short; most of the wrong answers are changes of it
import math

import torch


def total_norm(parameters, norm_type=2.0):
    grads = [p.grad.detach().flatten() for p in parameters if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    return torch.linalg.vector_norm(torch.cat(grads), norm_type)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    if max_norm <= 0:
        raise ValueError(f"bad max_norm: {max_norm}")
    parameters = list(parameters)
    norm = total_norm(parameters, norm_type)
    if error_if_nonfinite and not torch.isfinite(norm):
        raise RuntimeError("the norm is not finite")
    factor = max_norm / (norm + 1e-6)
    if factor < 1:
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(factor)
    return norm


def clip_grad_value_(parameters, clip_value):
    if clip_value <= 0:
        raise ValueError(f"bad clip_value: {clip_value}")
    for p in parameters:
        if p.grad is not None:
            p.grad.clamp_(-clip_value, clip_value)


def train_step(model, loss_fn, optimizer, inputs, targets, max_norm):
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), max_norm).item()
    if math.isfinite(norm):
        optimizer.step()
    return norm
