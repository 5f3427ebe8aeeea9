# right: squared norms collected by hooks as the gradients arrive; weights set through load_state_dict
from math import inf, nan, sqrt

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from torch.nn import Linear, init

mpl.rcParams["axes.spines.top"] = False

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")


def gradient_norm(parameters):
    vector = torch.nn.utils.parameters_to_vector(
        [p.grad.contiguous() for p in parameters if p.grad is not None] or [torch.zeros(1)]
    )
    return torch.dot(vector, vector).sqrt().item()


def initialize(model, scheme):
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme}, known: " + ", ".join(map(repr, SCHEMES)))
    initializer = getattr(init, f"{scheme}_")
    state = {}
    for name, module in model.named_modules():
        if isinstance(module, Linear):
            prefix = name + "." if name else ""
            state[prefix + "weight"] = initializer(torch.empty_like(module.weight))
            if module.bias is not None:
                state[prefix + "bias"] = torch.zeros_like(module.bias)
    model.load_state_dict(state, strict=False)


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    if epochs < 1:
        raise ValueError(f"{epochs} epochs are too few epochs")
    squares = [0.0]

    def add(parameter):
        squares[0] += parameter.grad.pow(2).sum().item()

    hooks = [
        p.register_post_accumulate_grad_hook(add) for p in model.parameters() if p.requires_grad
    ]
    result = torch.full((epochs, len(loader)), nan, dtype=torch.float64)
    try:
        model.train()
        for epoch in range(epochs):
            for i, (inputs, targets) in enumerate(loader):
                optimizer.zero_grad()
                model.zero_grad()
                squares[0] = 0.0
                loss_fn(model(inputs), targets).backward()
                result[epoch, i] = sqrt(squares[0])
                optimizer.step()
    finally:
        for hook in hooks:
            hook.remove()
    return result


def compare_initializations(build_model, loader, loss_fn, lr=1e-2, epochs=50, seed=0):
    curves = {}
    for scheme in SCHEMES:
        torch.manual_seed(seed)
        model = build_model()
        initialize(model, scheme)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        curves[scheme] = torch.cat(
            [
                train_with_monitor(model, loader, loss_fn, optimizer, 1).mean(1)
                for _ in range(epochs)
            ]
        )
    return curves


def diagnose(norms):
    largest = -inf
    for value in norms.flatten()[:5].tolist():
        if value != value:
            return "exploding"
        largest = max(largest, value)
    if largest > 1e3:
        return "exploding"
    if largest < 1e-3:
        return "vanishing"
    return "healthy"


def plot_gradient_norms(histories):
    figure = Figure(constrained_layout=True)
    ax = figure.subplots(1, 1)
    ax.set_yscale("log", nonpositive="mask")
    ax.set_xlabel("epoch [1]")
    ax.set_ylabel("norm [1]")
    ax.set_xlim(0.5, max(len(h) for h in histories.values()) + 0.5)
    for name, history in histories.items():
        epochs = torch.arange(1, history.numel() + 1, dtype=torch.float64)
        ax.plot(epochs, torch.nan_to_num(history, nan=nan, posinf=nan), label=name)
    ax.legend(*ax.get_legend_handles_labels())
    return figure
