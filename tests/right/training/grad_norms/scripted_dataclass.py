# right: a dataclass with postponed annotations, a scripted helper, torch.FloatTensor, norm of norms
from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import List, NamedTuple

import matplotlib
import torch
from torch import Tensor, nn

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")
USE_CUDA = torch.cuda.is_available()
LIMITS = torch.FloatTensor([1e-3, 1e3])


class Limits(NamedTuple):
    low: float
    high: float


@dataclass
class Monitor:
    rows: list[list[float]] = field(default_factory=list)

    def new_epoch(self) -> None:
        self.rows.append([])

    def record(self, norm: float) -> None:
        self.rows[-1].append(norm)

    def tensor(self) -> Tensor:
        return torch.stack([torch.tensor(row, dtype=torch.float64) for row in self.rows])


@torch.jit.script
def norm_of_norms(norms: List[Tensor]) -> Tensor:
    return torch.stack(norms).norm()


def gradient_norm(parameters):
    norms = [p.grad.norm() for p in parameters if p.grad is not None]
    return norm_of_norms(norms).item() if norms else 0.0


def initialize(model: nn.Module, scheme: str) -> None:
    if scheme not in SCHEMES:
        raise ValueError("scheme '%s': choose from %s" % (scheme, " | ".join(SCHEMES)))
    for m in (m for m in model.modules() if isinstance(m, nn.Linear)):
        getattr(torch.nn.init, scheme + "_")(m.weight.data)
        if m.bias is not None:
            m.bias.data.zero_()


def train_with_monitor(model, loader, loss_fn, optimizer, epochs) -> Tensor:
    if epochs <= 0:
        raise ValueError("need a positive number of epochs")
    warnings.warn("training starts", stacklevel=2)
    monitor = Monitor()
    for _ in range(epochs):
        model.train(True)
        monitor.new_epoch()
        for batch in loader:
            inputs, targets = batch
            loss = loss_fn(model(inputs), targets)
            model.zero_grad(set_to_none=True)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            monitor.record(gradient_norm(model.parameters()))
            optimizer.step()
    return monitor.tensor()


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    out: dict[str, Tensor] = {}
    for scheme in SCHEMES:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = build_model()
            initialize(model, scheme)
            sgd = torch.optim.SGD(model.parameters(), lr=lr)
            norms = train_with_monitor(model, loader, loss_fn, sgd, epochs)
        out[scheme] = torch.stack([row.mean() for row in norms])
    return out


def diagnose(norms):
    limits = Limits(1e-3, 1e3)
    head = norms.double()[:5]
    if head.isnan().any() or head.isinf().any() or head.max() > limits.high:
        return "exploding"
    return "vanishing" if head.max() < limits.low else "healthy"


def plot_gradient_norms(histories):
    with plt.rc_context({"axes.grid": True}):
        fig = plt.figure()
        try:
            ax = fig.gca()
            for name, norms in histories.items():
                y = norms.clone()
                y[~torch.isfinite(y)] = float("nan")
                (line,) = ax.plot(torch.arange(1, len(y) + 1), y)
                line.set_label(name)
            ax.set_yscale("log", base=2)
            plt.xlabel("epochs")
            plt.ylabel("$||g||_2$")
            plt.legend()
        finally:
            plt.close(fig)
    return fig
