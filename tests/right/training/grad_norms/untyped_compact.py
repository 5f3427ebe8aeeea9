# right: no hints, as few lines as possible, numpy where it will do
import numpy as np, torch, torch.nn as nn
import matplotlib.pyplot as plt

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")
INIT = {s: getattr(nn.init, s + "_") for s in SCHEMES}


def gradient_norm(parameters):
    g = [p.grad.numpy().ravel() for p in parameters if p.grad is not None]
    return float(np.linalg.norm(np.concatenate(g))) if g else 0.0


def initialize(model, scheme):
    if scheme not in INIT:
        raise ValueError(f"scheme? {scheme} is none of {sorted(INIT)}")
    for m in model.modules():
        if isinstance(m, nn.Linear):
            INIT[scheme](m.weight), m.bias is None or nn.init.zeros_(m.bias)


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    assert_epochs(epochs)
    model.train()

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss_fn(model(x), y).backward()
        n = gradient_norm(model.parameters())
        optimizer.step()
        return n

    return torch.from_numpy(
        np.array([[step(x, y) for x, y in loader] for _ in range(epochs)], dtype="f8")
    )


def assert_epochs(epochs):
    if epochs < 1:
        raise ValueError("epochs")


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    r = {}
    for s in SCHEMES:
        torch.manual_seed(seed)
        m = build_model()
        initialize(m, s)
        r[s] = train_with_monitor(
            m, loader, loss_fn, torch.optim.SGD(m.parameters(), lr), epochs
        ).mean(-1)
    return r


def diagnose(norms):
    a = norms.numpy()[:5]
    return "exploding" if not (a <= 1e3).all() else "vanishing" if (a < 1e-3).all() else "healthy"


def plot_gradient_norms(histories):
    f, ax = plt.subplots()
    plt.close(f)
    for k, v in histories.items():
        ax.plot(1 + np.arange(len(v)), np.where(np.isfinite(v), v, np.nan), label=k)
    ax.set_yscale("log")
    ax.set_xlabel("epoch")
    ax.set_ylabel("norm")
    ax.legend()
    return f
