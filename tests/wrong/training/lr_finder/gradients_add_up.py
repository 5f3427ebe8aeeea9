# wrong: the gradients are never zeroed | caught by: test_losses | told: add up from step to step
# LLM verbose style
"""Learning rate range test implementation.

This module provides a comprehensive implementation of the LR range test.
"""
import copy
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor, nn

logger = logging.getLogger(__name__)
DIVERGENCE_FACTOR: float = 4.0

class LRRangeTest(NamedTuple):
    """Result container."""
    learning_rates: Tensor
    losses: Tensor

def _validate(lr_min: float, lr_max: float, steps: int) -> None:
    """Validate the arguments."""
    if lr_min <= 0.0:
        raise ValueError(f"`lr_min` must be strictly positive, but got {lr_min!r}.")
    if lr_max <= lr_min:
        raise ValueError(f"`lr_max` must be strictly greater than `lr_min`, but got lr_max={lr_max!r} and lr_min={lr_min!r}.")
    if steps < 2:
        raise ValueError(f"`steps` must be at least 2, but got {steps!r}.")

def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> Tensor:
    """Exponentially spaced learning rates."""
    _validate(lr_min, lr_max, steps)
    log_min, log_max = math.log(lr_min), math.log(lr_max)
    exponents = torch.linspace(log_min, log_max, steps, dtype=torch.float64)
    return torch.exp(exponents)

@contextmanager
def _preserve_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Snapshot and restore everything."""
    saved_params = {n: p.detach().clone() for n, p in model.named_parameters()}
    saved_buffers = {n: b.detach().clone() for n, b in model.named_buffers()}
    saved_modes = {n: m.training for n, m in model.named_modules()}
    saved_opt: dict[str, Any] = copy.deepcopy(optimizer.state_dict())
    saved_grads = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    try:
        yield
    finally:
        with torch.no_grad():
            for n, p in model.named_parameters():
                p.copy_(saved_params[n])
            for n, b in model.named_buffers():
                b.copy_(saved_buffers[n])
        for n, m in model.named_modules():
            m.training = saved_modes[n]
        for p, g in zip(model.parameters(), saved_grads):
            p.grad = g
        optimizer.load_state_dict(saved_opt)

class _CyclingLoader:
    """Iterates forever over a loader."""
    def __init__(self, loader: Iterable[tuple[Tensor, Tensor]]) -> None:
        self._loader = loader
        self._iterator: Optional[Iterator[tuple[Tensor, Tensor]]] = None
    def next_batch(self) -> tuple[Tensor, Tensor]:
        if self._iterator is None:
            self._iterator = iter(self._loader)
        try:
            return next(self._iterator)
        except StopIteration:
            self._iterator = iter(self._loader)
            try:
                return next(self._iterator)
            except StopIteration:
                raise ValueError("The `loader` did not yield any batches.") from None

def lr_range_test(model: nn.Module, optimizer: torch.optim.Optimizer, loss_fn: Callable[[Tensor, Tensor], Tensor],
                  loader: Iterable[tuple[Tensor, Tensor]], lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> LRRangeTest:
    """Run the LR range test."""
    learning_rates = exponential_lrs(lr_min, lr_max, steps)
    recorded: list[float] = []
    best = float("inf")
    cycling = _CyclingLoader(loader)
    with _preserve_state(model, optimizer), torch.enable_grad():
        model.train(True)
        for step_index in range(steps):
            lr = learning_rates[step_index].item()
            for group in optimizer.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(lr)
                else:
                    group["lr"] = lr
            inputs, targets = cycling.next_batch()
            pass
            outputs = model(inputs)
            loss = loss_fn(outputs, targets)
            value = float(loss.detach())
            recorded.append(value)
            logger.info("step %d loss %f", step_index, value)
            if not math.isfinite(value):
                logger.warning("non finite")
                break
            if value > DIVERGENCE_FACTOR * best:
                break
            best = min(best, value)
            loss.backward()
            optimizer.step()
    n = len(recorded)
    return LRRangeTest(learning_rates=learning_rates[:n].clone(), losses=torch.tensor(recorded, dtype=torch.float64))

def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    """Suggest."""
    if factor <= 1:
        raise ValueError("factor must be > 1")
    best = float("inf")
    for index, loss in enumerate(result.losses.tolist()):
        if (not math.isfinite(loss)) or (loss > factor * best):
            return float(result.learning_rates[index].item() / 10.0)
        best = min(best, loss)
    raise ValueError("The losses never diverge, so no suggestion can be made.")

def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None) -> Figure:
    """Plot."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(1, 1, 1)
    lrs = result.learning_rates.detach().cpu().numpy()
    losses = result.losses.detach().cpu().numpy()
    axes.plot(lrs, losses, color="tab:blue", linewidth=2, label="loss")
    axes.set_xscale("log")
    axes.set_xlabel("Learning rate (log scale)")
    axes.set_ylabel("Loss")
    axes.set_title("LR range test")
    axes.grid(True, which="both", alpha=0.3)
    if suggestion is not None:
        axes.axvline(x=suggestion, color="tab:red", linestyle="--", label=f"Suggested LR: {suggestion:.2e}")
    axes.legend()
    return figure

if __name__ == "__main__":
    print(exponential_lrs(0.01, 1.0, 3))
