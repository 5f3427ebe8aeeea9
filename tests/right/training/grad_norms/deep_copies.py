# right: trains deep copies of model and optimizer and loads the result back, in one final step
import copy
import math

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")
EARLY = 5


def gradient_norm(parameters):
    total = 0.0
    for parameter in parameters:
        if parameter.grad is None:
            continue
        total += parameter.grad.double().square().sum().item()
    return math.sqrt(total)


def initialize(model, scheme):
    table = {
        "xavier_uniform": torch.nn.init.xavier_uniform_,
        "kaiming_normal": torch.nn.init.kaiming_normal_,
        "ones": torch.nn.init.ones_,
    }
    try:
        fill = table[scheme]
    except KeyError:
        known = ", ".join(table)
        raise ValueError(f"scheme {scheme!r} is not known, I know {known}") from None
    for _name, layer in model.named_modules():
        if not isinstance(layer, torch.nn.Linear):
            continue
        fill(layer.weight)
        if layer.bias is not None:
            torch.nn.init.constant_(layer.bias, 0)


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    if not epochs >= 1:
        raise ValueError(f"epochs={epochs} makes no sense")
    # together, so that the optimizer's copy holds the copied parameters
    twin, stepper = copy.deepcopy((model, optimizer))
    twin.train()
    norms = np.full((epochs, len(loader)), np.nan)
    for row in norms:
        for i, (x, t) in enumerate(loader):
            twin.zero_grad()
            loss_fn(twin(x), t).backward()
            row[i] = gradient_norm(twin.parameters())
            stepper.step()
    model.load_state_dict(twin.state_dict())
    optimizer.load_state_dict(stepper.state_dict())
    model.train()
    return torch.from_numpy(norms)


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    def run(scheme):
        torch.manual_seed(seed)
        model = build_model()
        initialize(model, scheme)
        sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=0, weight_decay=0)
        norms = train_with_monitor(model, loader, loss_fn, sgd, epochs)
        return norms.sum(dim=-1) / len(loader)

    return {scheme: run(scheme) for scheme in SCHEMES}


def diagnose(norms):
    values = norms.tolist()[:EARLY]
    if any(not math.isfinite(v) or v > 1e3 for v in values):
        return "exploding"
    if max(values) < 1e-3:
        return "vanishing"
    return "healthy"


def plot_gradient_norms(histories):
    figure = Figure(figsize=(6, 4))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(111)
    for name in histories:
        values = np.asarray(histories[name], dtype=float)
        masked = np.ma.masked_invalid(values)
        axes.plot(np.arange(values.size) + 1, masked, "o-", label=name)
    axes.set(yscale="log", xlabel="epoch", ylabel="norm")
    axes.legend(title="initialization")
    return figure
