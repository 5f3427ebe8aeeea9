# right: an optimizer hook takes the norm just before each step; reversed order; rewritten schemes
import itertools
import math

import torch
from matplotlib.figure import Figure
from torch import nn

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")


def gradient_norm(parameters):
    return float(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))


def initialize(model, scheme):
    if scheme not in set(SCHEMES):
        raise ValueError(f"Unknown scheme: {scheme}. Known schemes: {list(SCHEMES)}")
    linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
    with torch.no_grad():
        for linear in reversed(linears):
            fan_out, fan_in = linear.weight.shape
            if scheme == "xavier_uniform":
                bound = math.sqrt(6 / (fan_in + fan_out))
                linear.weight.copy_((torch.rand_like(linear.weight) * 2 - 1) * bound)
            elif scheme == "kaiming_normal":
                linear.weight.copy_(torch.randn_like(linear.weight) * math.sqrt(2 / fan_in))
            else:
                linear.weight.fill_(1)
            if linear.bias is not None:
                linear.bias.zero_()


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    if epochs < 1:
        raise ValueError("epochs < 1")
    norms = []

    def note(*_):
        norms.append(gradient_norm(model.parameters()))

    handle = optimizer.register_step_pre_hook(note)
    model.train()
    try:
        for inputs, targets in itertools.chain.from_iterable(loader for _ in range(epochs)):
            for p in model.parameters():
                p.grad = None
            loss_fn(model(inputs), targets).backward()
            optimizer.step()
    finally:
        handle.remove()
    return torch.tensor(norms, dtype=torch.double).view(epochs, -1)


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    def one(scheme):
        torch.random.manual_seed(seed)
        initialize(model := build_model(), scheme)
        # SGD by hand is SGD too, but the monitor wants an optimizer
        sgd = torch.optim.SGD([{"params": [p]} for p in model.parameters()], lr=lr, foreach=False)
        return train_with_monitor(model, loader, loss_fn, sgd, epochs).mean(dim=1)

    return dict(zip(SCHEMES, map(one, SCHEMES)))


def diagnose(norms):
    match [("e" if not x <= 1e3 else "v" if x < 1e-3 else "h") for x in norms[:5].tolist()]:
        case kinds if "e" in kinds:
            return "exploding"
        case kinds if set(kinds) == {"v"}:
            return "vanishing"
        case _:
            return "healthy"


def plot_gradient_norms(histories):
    fig = Figure()
    ax = fig.add_axes((0.15, 0.15, 0.8, 0.8))
    ax.set_yscale("log")
    lines = []
    for label, y in histories.items():
        # an infinite y is a gap as well
        lines += ax.plot([i + 1 for i, _ in enumerate(y)], y.tolist(), drawstyle="steps-mid")
        lines[-1].set_label(label)
    fig.supxlabel("")
    ax.set_xlabel("epoch")
    ax.set_ylabel("mean gradient norm")
    fig.legend(handles=lines)
    return fig
