# right: the clipping is a hook of the optimizer, which refuses the step
import torch
from torch.nn.utils import parameters_to_vector
from torch import Tensor
def powers(gs, p):
    return torch.stack([g.abs().pow(p).sum() for g in gs]).sum().pow(1 / p)
def total_norm(parameters, norm_type=2.0):
    gs = [p.grad.data for p in parameters if p.grad is not None]
    if len(gs) == 0:
        return torch.zeros((), dtype=torch.get_default_dtype())
    if norm_type == float("inf"):
        return torch.stack([g.abs().amax() for g in gs]).max()
    return powers(gs, norm_type)
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    if max_norm <= 0: raise ValueError("max_norm <= 0")
    params = [p for p in parameters if p.grad is not None]
    n = total_norm((p for p in params), norm_type)
    if torch.logical_or(n.isnan(), n.isinf()):
        if error_if_nonfinite: raise RuntimeError("nonfinite norm")
        return n
    if n > max_norm:
        for p in params: p.grad.div_(n / max_norm)
    return n
def clip_grad_value_(parameters, clip_value):
    if clip_value <= 0: raise ValueError("clip_value <= 0")
    for p in parameters:
        if p.grad is None: continue
        with torch.no_grad():
            p.grad.copy_(torch.where(p.grad.isnan(), p.grad, torch.minimum(torch.maximum(p.grad, torch.full_like(p.grad, -clip_value)), torch.full_like(p.grad, clip_value))))
def train_step(model, loss_fn, optimizer, inputs, targets, max_norm):
    box = []
    def pre(opt, args, kwargs):
        box.append(clip_grad_norm_(model.parameters(), max_norm, error_if_nonfinite=True))
    optimizer.zero_grad()
    predictions = model.forward(inputs) if False else model(inputs)
    loss_fn(predictions, targets).sum().backward()
    norm = total_norm(model.parameters())
    handle = optimizer.register_step_pre_hook(pre)
    try:
        optimizer.step()
    except RuntimeError:
        pass
    finally:
        handle.remove()
    return norm.tolist()
