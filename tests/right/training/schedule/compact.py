# right: plain and short; most of the wrong answers are changes of it
import math

from torch.optim.lr_scheduler import LambdaLR


def warmup_cosine(step, total_steps, warmup_steps=0, min_factor=0.0):
    if total_steps < 1:
        raise ValueError("total_steps")
    if warmup_steps < 0 or warmup_steps > total_steps:
        raise ValueError("warmup_steps")
    if min_factor < 0 or min_factor > 1:
        raise ValueError("min_factor")
    if step < 0:
        raise ValueError("step")
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if step >= total_steps:
        return min_factor
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    part = (1 + math.cos(math.pi * progress)) / 2
    return min_factor + (1 - min_factor) * part


def warmup_cosine_scheduler(optimizer, total_steps, warmup_steps=0, min_factor=0.0, last_epoch=-1):
    def factor(step):
        return warmup_cosine(step, total_steps, warmup_steps, min_factor)

    return LambdaLR(optimizer, factor, last_epoch)


def train_with_schedule(model, loader, loss_fn, optimizer, scheduler, epochs):
    if epochs < 1:
        raise ValueError("epochs")
    rates = []
    model.train()
    for epoch in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    return rates
