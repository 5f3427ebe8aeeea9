# right: no type hints, no docstrings, prints, a main guard, rates from plain Python floats
import collections, copy, math
import torch
import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

LRRangeTest = collections.namedtuple("LRRangeTest", "learning_rates losses")


def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    if lr_min <= 0:
        raise ValueError("bad lr_min")
    if lr_max <= lr_min:
        raise ValueError("bad lr_max")
    if steps < 2:
        raise ValueError("bad steps")
    a, b = math.log(lr_min), math.log(lr_max)
    return torch.tensor(
        [math.exp(a + (b - a) * k / (steps - 1)) for k in range(steps)], dtype=torch.double
    )


def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    if len(loader) == 0:
        raise ValueError("empty loader")
    P = [(p, p.data.clone()) for p in model.parameters()]
    B = [(b, b.data.clone()) for b in model.buffers()]
    M = [(m, m.training) for m in model.modules()]
    O = copy.deepcopy(optimizer.state_dict())
    lrs, out, it = exponential_lrs(lr_min, lr_max, steps), [], iter(())
    model.train()
    print("range test:", steps, "steps")
    for lr in lrs.tolist():
        batch = next(it, None)
        if batch is None:
            it = iter(loader)
            batch = next(it)
        for g in optimizer.param_groups:
            g.update(lr=lr)
        optimizer.zero_grad()
        l = loss_fn(model(batch[0]), batch[1])
        l.backward()
        optimizer.step()
        out.append(l.item())
        if l != l or abs(out[-1]) == math.inf or out[-1] > 4 * min(out):
            break
    for p, v in P + B:
        p.data.copy_(v)
    for m, t in M:
        m.training = t
    optimizer.load_state_dict(O)
    return LRRangeTest(lrs[: len(out)], torch.DoubleTensor(out))


def suggest_lr(result, factor=4.0):
    lr, l = result
    for i in range(len(l)):
        if not torch.isfinite(l[i]) or (i and l[i] > factor * l[:i].min()):
            return (lr[i] / 10).item()
    raise ValueError("loss does not diverge")


def plot_lr_range_test(result, suggestion=None):
    fig = plt.figure()
    ax = plt.gca()
    ax.plot(*result)
    plt.xscale("log")
    plt.yscale("log")
    plt.xlabel("lr")
    plt.ylabel("loss")
    plt.title("range test")
    if suggestion is not None:
        plt.axvline(suggestion)
    plt.close(fig)
    return fig


if __name__ == "__main__":
    print(exponential_lrs(1e-3, 1.0, 4))
