# right: the loss in a closure of the optimizer's step, callable objects, one padded matrix of lines
import functools
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")


def _norm(parameters, p):
    present = (q.grad for q in parameters if q.grad is not None)
    return math.hypot(*(torch.linalg.norm(g.flatten(), ord=p).item() for g in present))


gradient_norm = functools.partial(_norm, p=2)


class Initializer:
    table = dict(zip(SCHEMES, (nn.init.xavier_uniform_, nn.init.kaiming_normal_, nn.init.ones_)))

    def __call__(self, model, scheme):
        fill = self.table.get(scheme)
        if fill is None:
            raise ValueError(f"no such scheme: {scheme!r} (there are {list(self.table)})")
        queue = [model]
        while queue:
            module = queue.pop()
            queue.extend(module.children())
            if issubclass(type(module), nn.Linear):
                fill(module.weight)
                for name, parameter in module.named_parameters(recurse=False):
                    if name == "bias":
                        nn.init.zeros_(parameter)


initialize = Initializer()


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    if epochs not in range(1, 10**9):
        raise ValueError("the number of epochs has to be positive")
    model.train()
    records = {}

    def closure(key, x, y):
        optimizer.zero_grad()
        model.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        records[key] = gradient_norm(model.parameters())
        return loss

    for e in range(epochs):
        for b, (x, y) in enumerate(loader):
            optimizer.step(functools.partial(closure, (e, b), x, y))
    return (
        torch.tensor(list(records.values()))
        .double()
        .new_tensor([[records[e, b] for b in range(len(loader))] for e in range(epochs)])
    )


def compare_initializations(*arguments, **options):
    return dict(_compare(*arguments, **options))


def _compare(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    for scheme in SCHEMES:
        torch.manual_seed(seed)
        np.random.seed(seed)
        model = build_model()
        initialize(model, scheme)
        sgd = torch.optim.SGD(params=model.parameters(), lr=lr)
        norms = train_with_monitor(model, loader, loss_fn, sgd, epochs)
        yield scheme, torch.from_numpy(norms.numpy().mean(axis=1))


def diagnose(norms):
    early = np.array(norms)[:5]
    verdict = np.select(
        [~np.isfinite(early) | (early > 1e3), early < 1e-3], ["exploding", "vanishing"], "healthy"
    )
    if "exploding" in verdict:
        return "exploding"
    return str(verdict[0]) if len(set(verdict)) == 1 else "healthy"


def plot_gradient_norms(histories):
    longest = max(map(len, histories.values()))
    matrix = np.full((longest, len(histories)), np.nan)
    for column, history in enumerate(histories.values()):
        matrix[: len(history), column] = history
    figure = plt.figure()
    axes = plt.axes()
    lines = plt.plot(np.arange(longest) + 1, matrix, "-s", label=list(histories))
    plt.yscale("log")
    figure.supxlabel("epoch")
    figure.supylabel("norm")
    axes.legend(handles=lines, title="initialization")
    plt.close()
    return figure
