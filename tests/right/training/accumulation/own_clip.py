# right: loops with next(); the norm is clipped by hand; losses as a numpy mean
import numpy as np


def accumulate_gradients(model, batches, loss_fn):
    n = [len(b[0]) for b in batches]
    if n == []:
        raise ValueError("batches must not be empty")
    values = []
    for b in batches:
        loss = loss_fn(model(b[0]), b[1])
        (loss / (sum(n) / len(b[0]))).backward()
        values.append(loss.item())
    return float(np.average(values, weights=n))


def train_epoch(model, loader, loss_fn, optimizer, accumulation_steps, max_norm=None):
    if accumulation_steps < 1:
        raise ValueError("accumulation_steps")
    model.train()
    it, done, out = iter(loader), False, []
    while not done:
        group = []
        while len(group) < accumulation_steps and not done:
            try:
                group.append(next(it))
            except StopIteration:
                done = True
        if not group:
            break
        optimizer.zero_grad()
        model.zero_grad()
        out.append(accumulate_gradients(model, group, loss_fn))
        if max_norm is not None:
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            norm = sum(float((g**2).sum()) for g in grads) ** 0.5
            for g in grads:
                g *= min(1.0, max_norm / (norm + 1e-6))
        optimizer.step()
    return out
