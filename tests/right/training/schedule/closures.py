# right: one function a group, a closure for the optimizer, rates as a tuple from a generator; cos from torch
import functools

import torch


def warmup_cosine(step, total_steps, warmup_steps=0, min_factor=0.0):
    checks = {
        "total_steps": total_steps >= 1,
        "warmup_steps": 0 <= warmup_steps <= total_steps,
        "min_factor": 0 <= min_factor <= 1,
        "step": step >= 0,
    }
    for name, holds in checks.items():
        if not holds:
            raise ValueError(f"bad {name}")
    if step < warmup_steps:
        return (1 + step) / warmup_steps
    left = total_steps - warmup_steps
    angle = torch.pi * min(step - warmup_steps, left) / left if left else torch.pi
    wave = torch.cos(torch.tensor(angle, dtype=torch.float64)).add(1).div(2)
    return torch.lerp(
        torch.tensor(min_factor, dtype=torch.float64), torch.tensor(1.0).double(), wave
    ).item()


def warmup_cosine_scheduler(optimizer, *arguments, last_epoch=-1, **keywords):
    if len(arguments) == 4:
        *arguments, last_epoch = arguments
    one = functools.partial(_swapped, (arguments, keywords))
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, [one for _ in optimizer.param_groups], last_epoch=last_epoch
    )


def _swapped(settings, step):
    arguments, keywords = settings
    return warmup_cosine(step, *arguments, **keywords)


def train_with_schedule(model, loader, loss_fn, optimizer, scheduler, epochs):
    if not epochs >= 1:
        raise ValueError("there are no epochs")

    def steps():
        for _ in range(epochs):
            for x, y in loader:

                def closure():
                    model.zero_grad()
                    loss = loss_fn(model.train()(x), y)
                    loss.backward()
                    return loss

                rate = float(optimizer.param_groups[0]["lr"])
                optimizer.step(closure)
                scheduler.step()
                yield rate

    return tuple(steps())
