# right: one long vector, cut again with split; errors with other words; step inside a helper
import torch
from torch.nn.utils import parameters_to_vector


def _grads(parameters):
    with torch.no_grad():
        return [p.grad for p in parameters if p.grad is not None]


def _finite(x):
    return not (torch.isnan(x).any() or torch.isinf(x).any())


def total_norm(parameters, norm_type=2.0):
    with torch.no_grad():
        grads = _grads(parameters)
        if not grads:
            return torch.zeros([])
        vector = parameters_to_vector([g.contiguous() for g in grads]).abs()
        return vector.max() if norm_type == float("inf") else vector.norm(p=norm_type)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    if max_norm > 0:
        parameters = [*parameters]
        norm = total_norm(iter(parameters), norm_type)
        if not _finite(norm):
            if error_if_nonfinite:
                raise RuntimeError(norm)
        elif float(norm) > max_norm:
            with torch.no_grad():
                grads = _grads(parameters)
                vector = torch.cat([g.reshape(-1) for g in grads]) * (max_norm / norm)
                for g, part in zip(grads, vector.split([g.numel() for g in grads])):
                    g[...] = part.reshape(g.shape)
        return norm
    raise ValueError(f"expected a positive max_norm but it is {max_norm}")


def clip_grad_value_(parameters, clip_value):
    if clip_value > 0:
        for g in _grads(parameters):
            with torch.no_grad():
                torch.clamp(g, min=-clip_value, max=clip_value, out=g)
    else:
        raise ValueError(f"expected a positive clip_value but it is {clip_value}")


def train_step(model, loss_fn, optimizer, inputs, targets, max_norm):
    model.zero_grad()
    outputs = model.forward(inputs)
    loss_fn(outputs, targets).backward()
    norm = clip_grad_norm_(parameters=model.parameters(), max_norm=max_norm)
    return (optimizer.step() if _finite(norm) else None, norm.item())[1]
