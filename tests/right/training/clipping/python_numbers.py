# right: Python floats, running sums, .data, zeros instead of None, a closure for the optimizer
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn


def gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [p.grad.data for p in parameters if p.grad is not None]


def norm_of(grads: list[Tensor], p: float) -> float:
    total = 0.0
    for grad in grads:
        magnitudes = grad.double().abs()
        if p == math.inf:
            largest = magnitudes.max().item()
            total = largest if not (total >= largest or math.isnan(total)) else total
        else:
            total += (magnitudes**p).sum().item()
    return total if p == math.inf else total ** (1 / p)


def total_norm(parameters: Iterable[Tensor], norm_type: float = 2.0) -> Tensor:
    grads = gradients(parameters)
    return torch.tensor(norm_of(grads, norm_type), dtype=grads[0].dtype if grads else None)


def clip_grad_norm_(
    parameters: Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    if max_norm <= 0.0:
        raise ValueError("max_norm <= 0")
    kept = [p for p in parameters if p.grad is not None]
    norm = total_norm(kept, norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise FloatingPointRuntimeError("non-finite norm")
    if math.isfinite(norm.item()) and norm.item() > max_norm:
        for grad in gradients(kept):
            grad *= max_norm / norm.item()
    return norm


class FloatingPointRuntimeError(RuntimeError):
    pass


def clip_grad_value_(parameters: Iterable[Tensor], clip_value: float) -> None:
    if clip_value <= 0.0:
        raise ValueError("clip_value <= 0")
    for grad in gradients(parameters):
        grad[grad > clip_value] = clip_value
        grad[grad < -clip_value] = -clip_value


def train_step(model: nn.Module, loss_fn, optimizer, inputs, targets, max_norm: float) -> float:
    optimizer.zero_grad(set_to_none=False)
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    before = norm_of(gradients(model.parameters()), 2)
    if not math.isfinite(before):
        return before
    clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step(lambda: loss)
    return before
