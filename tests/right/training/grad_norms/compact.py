# right: plain and short; most of the wrong answers are changes of it
import torch
from matplotlib.figure import Figure
from torch import nn

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")


def gradient_norm(parameters):
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            total += p.grad.double().pow(2).sum().item()
    return total**0.5


def initialize(model, scheme):
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme!r}, choose from {SCHEMES}")
    for module in model.modules():
        if isinstance(module, nn.Linear):
            getattr(nn.init, scheme + "_")(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    if epochs < 1:
        raise ValueError("epochs must be at least 1")
    model.train()
    norms = torch.zeros(epochs, len(loader), dtype=torch.float64)
    for epoch in range(epochs):
        for i, (inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            norms[epoch, i] = gradient_norm(model.parameters())
            optimizer.step()
    return norms


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    histories = {}
    for scheme in SCHEMES:
        torch.manual_seed(seed)
        model = build_model()
        initialize(model, scheme)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        norms = train_with_monitor(model, loader, loss_fn, optimizer, epochs)
        histories[scheme] = norms.mean(dim=1)
    return histories


def diagnose(norms):
    first = norms[:5]
    if not torch.isfinite(first).all() or (first > 1e3).any():
        return "exploding"
    if (first < 1e-3).all():
        return "vanishing"
    return "healthy"


def plot_gradient_norms(histories):
    fig = Figure()
    ax = fig.subplots()
    for name, norms in histories.items():
        epochs = range(1, len(norms) + 1)
        ax.plot(epochs, norms.tolist(), label=name)
    ax.set_yscale("log")
    ax.set_xlabel("epoch")
    ax.set_ylabel("gradient norm")
    ax.legend()
    return fig
