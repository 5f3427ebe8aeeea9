# wrong: goes on after the loss has diverged | caught by: test_stop_rule, test_stop_not_finite | told: never stops early
# plain, no hints, no types, terse
import copy, math
import torch
from collections import namedtuple
from matplotlib.figure import Figure
LRRangeTest = namedtuple("LRRangeTest", "learning_rates losses")
def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    if lr_min <= 0: raise ValueError("lr_min")
    if lr_max <= lr_min: raise ValueError("lr_max")
    if steps < 2: raise ValueError("steps")
    return torch.tensor([lr_min * (lr_max / lr_min) ** (i / (steps - 1)) for i in range(steps)], dtype=torch.double)
def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    lrs = exponential_lrs(lr_min, lr_max, steps)
    P = [(p, p.data.clone()) for p in model.parameters()]
    B = [(b, b.clone()) for b in model.buffers()]
    M = [(m, m.training) for m in model.modules()]
    O = copy.deepcopy(optimizer.state_dict())
    model.train()
    losses = []
    it = iter(loader)
    try:
        for lr in lrs.tolist():
            for g in optimizer.param_groups: g["lr"] = lr
            try: x, y = next(it)
            except StopIteration:
                it = iter(loader)
                try: x, y = next(it)
                except StopIteration: raise ValueError("empty loader")
            optimizer.zero_grad()
            l = loss_fn(model(x), y)
            v = l.item()
            best = min(losses, default=math.inf)
            losses.append(v)
            pass
            l.backward(); optimizer.step()
    finally:
        with torch.no_grad():
            for p, v in P: p.data = v
            for b, v in B: b.copy_(v)
        for m, t in M: m.training = t
        optimizer.load_state_dict(O)
    return LRRangeTest(lrs[:len(losses)], torch.tensor(losses, dtype=torch.double))
def suggest_lr(result, factor=4.0):
    best = math.inf
    for lr, l in zip(*map(torch.Tensor.tolist, result)):
        if not math.isfinite(l) or l > factor * best: return lr / 10
        best = min(best, l)
    raise ValueError("the losses of this result never diverge")
def plot_lr_range_test(result, suggestion=None):
    f = Figure(); ax = f.add_subplot()
    ax.semilogx(result.learning_rates, result.losses)
    ax.set(xlabel="lr", ylabel="loss")
    if suggestion is not None: ax.axvline(suggestion)
    return f
