# right: a context manager that saves the state with torch.save; a loop over epochs; a step is taken also after the loss that stops
import io
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple
import numpy
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
class LRRangeTest(NamedTuple):
    learning_rates: Tensor
    losses: Tensor
class Snapshot:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.file = io.BytesIO()
        torch.save({
            "p": [p.detach() for p in model.parameters()],
            "b": [b.detach() for b in model.buffers()],
            "o": optimizer.state_dict(),
        }, self.file)
        self.modes = [(m, m.training) for m in model.modules()]
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        self.file.seek(0)
        saved = torch.load(self.file, weights_only=True)
        with torch.no_grad():
            for p, q in zip(self.model.parameters(), saved["p"], strict=True):
                p.copy_(q)
            for p, q in zip(self.model.buffers(), saved["b"], strict=True):
                p.copy_(q)
        for m, mode in self.modes:
            m.training = mode
        self.optimizer.load_state_dict(saved["o"])
        return False
def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> Tensor:
    if lr_min <= 0:
        raise ValueError(f"lr_min is {lr_min}, not above 0")
    if lr_max <= lr_min:
        raise ValueError(f"lr_max is {lr_max}, not above lr_min")
    if steps < 2:
        raise ValueError(f"steps is {steps}, less than 2")
    return torch.as_tensor(numpy.logspace(numpy.log10(lr_min), numpy.log10(lr_max), num=steps))
def lr_range_test(model: nn.Module, optimizer: torch.optim.Optimizer, loss_fn: Callable[[Tensor, Tensor], Tensor], loader: Iterable[tuple[Tensor, Tensor]], lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> LRRangeTest:
    rates = exponential_lrs(lr_min, lr_max, steps)
    with Snapshot(model, optimizer):
        losses = []
        model.train()
        done = False
        while not done:
            seen = 0
            for x, y in loader:
                seen += 1
                for g in optimizer.param_groups:
                    g["lr"] = rates[len(losses)].item()
                optimizer.zero_grad()
                loss = loss_fn(model(x), y)
                loss.backward()
                optimizer.step()
                v = loss.item()
                low = min(losses) if losses else math.inf
                losses.append(v)
                if len(losses) == steps or not math.isfinite(v) or v > 4 * low:
                    done = True
                    break
            if not seen:
                raise ValueError("loader: nothing in it")
    return LRRangeTest(rates[: len(losses)], torch.tensor(losses, dtype=torch.float64))
def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    low = float("inf")
    for i in range(result.losses.shape[0]):
        loss = float(result.losses[i])
        if loss != loss or loss in (float("inf"), float("-inf")) or loss > low * factor:
            return float(result.learning_rates[i]) / 10.0
        if loss < low:
            low = loss
    raise ValueError(f"result: no loss is above {factor} times the lowest before it")
def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None) -> Figure:
    figure = Figure()
    axes = figure.subplots()
    axes.plot(result.learning_rates.numpy(), result.losses.numpy())
    if suggestion is not None:
        axes.axvline(suggestion)
    axes.semilogx()
    axes.set_xlabel("$\\eta$")
    axes.set_ylabel("$L$")
    return figure
