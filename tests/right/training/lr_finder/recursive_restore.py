# right: a class that remembers everything, restores state by hand (also the optimizer's) and peeks at the loader first
import math
from typing import NamedTuple

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class LRRangeTest(NamedTuple):
    """Rates and losses."""

    learning_rates: torch.Tensor
    losses: torch.Tensor


class Snapshot:
    """Everything that a training step changes."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.tensors = [(t, t.detach().clone()) for t in (*model.parameters(), *model.buffers())]
        self.modes = self._modes(model)
        self.groups = [
            {k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups
        ]
        self.state = {
            p: {k: v.clone() if torch.is_tensor(v) else v for k, v in state.items()}
            for p, state in optimizer.state.items()
        }

    def _modes(self, module):
        return module.training, [self._modes(child) for child in module.children()]

    def _set_modes(self, module, modes):
        module.training = modes[0]
        for child, below in zip(module.children(), modes[1]):
            self._set_modes(child, below)

    @torch.no_grad()
    def restore(self):
        for tensor, value in self.tensors:
            tensor.copy_(value)
        self._set_modes(self.model, self.modes)
        for group, saved in zip(self.optimizer.param_groups, self.groups):
            for key in list(group):
                if key != "params" and key not in saved:
                    del group[key]
            group.update(saved)
        self.optimizer.state.clear()
        self.optimizer.state.update(self.state)
        self.optimizer.zero_grad()


def _require(condition, message):
    if not condition:
        raise ValueError(message)


def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    _require(lr_min > 0, "lr_min <= 0")
    _require(lr_max > lr_min, "lr_max <= lr_min")
    _require(steps >= 2, "steps < 2")
    ratio = math.log(lr_max / lr_min)
    rates = torch.linspace(0.0, ratio, steps, dtype=torch.float64)
    rates.exp_()
    rates *= lr_min
    return rates


def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    _require(next(iter(loader), None) is not None, "Your loader is empty!")
    rates = exponential_lrs(lr_min, lr_max, steps)
    snapshot = Snapshot(model, optimizer)
    try:
        losses = list(_losses(model.train(), optimizer, loss_fn, loader, rates))
    finally:
        snapshot.restore()
    return LRRangeTest(rates[: len(losses)].clone(), torch.tensor(losses, dtype=torch.float64))


def _losses(model, optimizer, loss_fn, loader, rates):
    lowest, epoch = math.inf, []
    for rate in rates:
        if not epoch:
            epoch = list(loader)
        inputs, targets = epoch.pop(0)
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        yield loss.item()
        if loss.isnan() or loss.isinf() or loss.item() / lowest > 4.0:
            return
        lowest = min(lowest, loss.item())
        torch.autograd.backward(loss)
        for group in optimizer.param_groups:
            group["lr"] = float(rate)
        optimizer.step()


def suggest_lr(result, factor=4.0):
    def search(i, lowest):
        if i == len(result.losses):
            raise ValueError(f"The {i} losses do not diverge.")
        loss = result.losses[i].item()
        if math.isfinite(loss) and loss / lowest <= factor:
            return search(i + 1, min(lowest, loss))
        return result.learning_rates[i].item() / 10.0

    return search(0, math.inf)


def plot_lr_range_test(result, suggestion=None):
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(111, xscale="log", xlabel="learning rate $\\eta$", ylabel="loss $L$")
    axes.step(result.learning_rates.numpy(), result.losses.numpy(), where="mid")
    if suggestion is not None:
        axes.axvline(x=suggestion, ymin=0.1, ymax=0.9)
        axes.annotate("suggestion", (suggestion, 0.5), xycoords=("data", "axes fraction"))
    figure.tight_layout()
    return figure
