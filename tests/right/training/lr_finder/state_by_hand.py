# right: optimizer state and options put back by hand, without load_state_dict; rates from torch.jit.script; prints and warns
import copy, math, warnings
from typing import NamedTuple, Optional
import torch
import matplotlib
import matplotlib.pyplot as plt
warnings.warn("student module")
print("hello from lr_finder", torch.cuda.is_available())
class LRRangeTest(NamedTuple):
    learning_rates: torch.Tensor
    losses: torch.Tensor
@torch.jit.script
def _geom(lo: float, hi: float, n: int) -> torch.Tensor:
    k = torch.arange(n, dtype=torch.float64) / (n - 1)
    return lo * torch.pow(torch.tensor(hi / lo, dtype=torch.float64), k)
def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100):
    if lr_min <= 0:
        raise ValueError("lr_min <= 0")
    elif lr_max <= lr_min:
        raise ValueError("lr_max <= lr_min")
    elif steps < 2:
        raise ValueError("steps < 2")
    return _geom(float(lr_min), float(lr_max), int(steps))
def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    rates = exponential_lrs(lr_min, lr_max, steps)
    if len(loader) == 0:
        raise ValueError("the loader is empty")
    params = [p.detach().clone() for p in model.parameters()]
    bufs = [b.detach().clone() for b in model.buffers()]
    modes = [m.training for m in model.modules()]
    saved_state = {p: {k: copy.deepcopy(v) for k, v in s.items()} for p, s in optimizer.state.items()}
    saved_opts = [{k: copy.deepcopy(v) for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    model.train()
    history = []
    iterator = iter(loader)
    for i, lr in enumerate(rates):
        for g in optimizer.param_groups:
            g["lr"] = lr.item()
        try:
            xb, yb = next(iterator)
        except StopIteration:
            iterator = iter(loader)
            xb, yb = next(iterator)
        for p in model.parameters():
            p.grad = None
        loss = loss_fn(model(xb), yb)
        history.append(loss.item())
        if math.isnan(history[-1]) or math.isinf(history[-1]):
            break
        if i > 0 and history[-1] > 4 * min(history[:-1]):
            break
        loss.backward()
        optimizer.step()
    for p, v in zip(model.parameters(), params):
        p.data.copy_(v)
    for b, v in zip(model.buffers(), bufs):
        b.data.copy_(v)
    for m, v in zip(model.modules(), modes):
        m.training = v
    optimizer.state.clear()
    optimizer.state.update(saved_state)
    for g, v in zip(optimizer.param_groups, saved_opts):
        g.update(v)
    out = torch.DoubleTensor(history)
    return LRRangeTest(rates[: len(out)], out)
def suggest_lr(result, factor=4.0):
    losses = [float(v) for v in result.losses]
    for i in range(len(losses)):
        diverged = not math.isfinite(losses[i])
        if i > 0 and losses[i] > factor * min(losses[:i]):
            diverged = True
        if diverged:
            return float(result.learning_rates[i]) * 0.1
    raise ValueError("result never diverges")
def plot_lr_range_test(result, suggestion: Optional[float] = None):
    with plt.rc_context({"font.size": 9}):
        fig = plt.figure()
        try:
            ax = fig.gca()
            ax.semilogx(result.learning_rates.tolist(), result.losses.tolist(), "o-")
            ax.set_xlabel("learning rate")
            ax.set_ylabel("training loss")
            if suggestion is not None:
                ymin, ymax = ax.get_ylim()
                ax.plot([suggestion, suggestion], [ymin, ymax], "k--")
        finally:
            plt.close(fig)
    return fig
