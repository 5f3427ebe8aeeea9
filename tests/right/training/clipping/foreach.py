# right: torch._foreach_* under no_grad; always multiplies, by a factor that is clamped to 1
import torch


@torch.no_grad()
def total_norm(parameters, norm_type=2.0):
    grads = [p.grad for p in parameters if p.grad is not None]
    if len(grads) == 0:
        return torch.zeros((), dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, norm_type)), norm_type)


@torch.no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    if not max_norm > 0:
        raise ValueError("max_norm must be positive")
    parameters = tuple(parameters)
    norm = total_norm(parameters, norm_type=norm_type)
    if error_if_nonfinite and (norm.isnan() or norm.isinf()):
        raise RuntimeError(f"norm is {norm}")
    grads = [p.grad for p in parameters if p.grad is not None]
    if grads:
        torch._foreach_mul_(grads, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


@torch.no_grad()
def clip_grad_value_(parameters, clip_value):
    if not clip_value > 0:
        raise ValueError("clip_value must be positive")
    grads = [p.grad for p in parameters if p.grad is not None]
    if grads:
        torch._foreach_clamp_min_(grads, -clip_value)
        torch._foreach_clamp_max_(grads, clip_value)


def train_step(model, loss_fn, optimizer, inputs, targets, max_norm):
    for p in model.parameters():
        p.grad = None
    loss_fn(model(inputs), targets).backward()
    try:
        norm = clip_grad_norm_(model.parameters(), max_norm, error_if_nonfinite=True)
    except RuntimeError:
        return float(total_norm(model.parameters()))
    optimizer.step()
    return float(norm)
