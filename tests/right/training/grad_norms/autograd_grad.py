# right: gradients from torch.autograd.grad, put into .grad by hand; a class that does the work
import contextlib

import matplotlib.pyplot as plt
import torch

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")


def gradient_norm(parameters):
    squares = [(p.grad**2).sum() for p in list(parameters) if p.grad is not None]
    return sum(squares).sqrt().item() if squares else 0.0


def _linears(module):
    if isinstance(module, torch.nn.Linear):
        yield module
    for child in module.children():
        yield from _linears(child)


@torch.no_grad()
def initialize(model, scheme):
    if scheme not in SCHEMES:
        raise ValueError(
            "the scheme has to be xavier_uniform, kaiming_normal or ones, not " + str(scheme)
        )
    for linear in _linears(model):
        if scheme == "xavier_uniform":
            torch.nn.init.xavier_uniform_(linear.weight, gain=1.0)
        if scheme == "kaiming_normal":
            torch.nn.init.kaiming_normal_(linear.weight, mode="fan_in", nonlinearity="relu")
        if scheme == "ones":
            linear.weight[...] = 1
        if linear.bias is not None:
            linear.bias *= 0


class _Trainer:
    def __init__(self, model, loss_fn, optimizer):
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer

    def step(self, x, y):
        learnable = [p for p in self.model.parameters() if p.requires_grad]
        with torch.enable_grad():
            loss = self.loss_fn(self.model(x), y)
            grads = torch.autograd.grad(loss, learnable, allow_unused=True)
        for p, g in zip(learnable, grads):
            p.grad = g
        norm = gradient_norm(learnable)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    if epochs < 1:
        raise ValueError(f"expected epochs >= 1 but got {epochs=}")
    model.train()
    trainer = _Trainer(model, loss_fn, optimizer)
    norms = torch.empty((epochs, len(loader)), dtype=torch.float64)
    for e in range(epochs):
        iterator = iter(loader)
        for b in range(len(loader)):
            x, y = next(iterator)
            norms[e][b] = trainer.step(x, y)
    return norms


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    histories = dict.fromkeys(SCHEMES)
    for key in histories:
        torch.manual_seed(seed)
        net = build_model()
        initialize(net, key)
        norms = train_with_monitor(
            net, loader, loss_fn, torch.optim.SGD(net.parameters(), lr=lr), epochs
        )
        histories[key] = norms.mean(axis=1)
    return histories


def diagnose(norms):
    n = min(5, len(norms))
    small = 0
    for i in range(n):
        x = float(norms[i])
        if x != x or x == float("inf") or x > 1000:
            return "exploding"
        small += x < 0.001
    return "vanishing" if small == n else "healthy"


@contextlib.contextmanager
def _figure():
    before = plt.gcf() if plt.get_fignums() else None
    fig = plt.figure()
    try:
        yield fig
    finally:
        plt.close(fig)
        if before is not None:
            plt.figure(before.number)


def plot_gradient_norms(histories):
    with _figure() as fig:
        ax = fig.add_subplot()
        for key, values in histories.items():
            xs = torch.linspace(1, len(values), len(values))
            ys = [v if torch.isfinite(torch.tensor(v)) else None for v in values.tolist()]
            ax.semilogy(xs.tolist(), ys, marker="x", label=key)
        ax.set_xlabel("epoch", fontsize=12)
        ax.set_ylabel("norm of the gradient", fontsize=12)
        ax.legend(loc="best")
    return fig
