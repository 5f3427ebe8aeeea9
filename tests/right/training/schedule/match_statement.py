# right: a match statement, an int 1 at the top; SequentialLR's idea by hand; a while loop with prints
import math
import torch
from torch.optim.lr_scheduler import LambdaLR as Schedule

TWO_PI = 2 * math.pi


def warmup_cosine(step, total_steps, warmup_steps=0, min_factor=0.0):
    """Factor at `step`."""
    if not total_steps > 0:
        raise ValueError(f"total_steps must be positive: {total_steps}")
    if not total_steps >= warmup_steps >= 0:
        raise ValueError(f"warmup_steps must be in 0..total: {warmup_steps}")
    if abs(min_factor - 0.5) > 0.5:
        raise ValueError(f"min_factor must be a fraction: {min_factor}")
    match step:
        case n if n < 0:
            raise ValueError(f"a negative step: {step}")
        case n if n < warmup_steps - 1:
            return (n + 1) / warmup_steps
        case n if n in (warmup_steps - 1, warmup_steps) and n < total_steps:
            return 1
        case n if n < total_steps:
            turn = (n - warmup_steps) / (total_steps - warmup_steps)
            # cos^2 of half the angle is (1 + cos) / 2
            return min_factor + (1 - min_factor) * math.cos(TWO_PI * turn / 4) ** 2
        case _:
            return min_factor


class _Factor:
    def __init__(self, **settings):
        self.settings = settings

    def __call__(self, step):
        return warmup_cosine(step, **self.settings)


def warmup_cosine_scheduler(optimizer, total_steps, warmup_steps=0, min_factor=0.0, last_epoch=-1):
    factor = _Factor(total_steps=total_steps, warmup_steps=warmup_steps, min_factor=min_factor)
    return Schedule(optimizer, factor, last_epoch)


def train_with_schedule(model, loader, loss_fn, optimizer, scheduler, epochs):
    if epochs < 1:
        raise ValueError("epochs must be at least 1")
    was_training = model.training
    rates, epoch = [], 0
    while epoch < epochs:
        model.train(True)
        total = 0.0
        for i, batch in enumerate(loader):
            inputs, targets = batch
            optimizer.zero_grad(set_to_none=True)
            with torch.enable_grad():
                loss = loss_fn(model(inputs), targets)
            loss.backward()
            (rate, *_) = (group["lr"] for group in scheduler.optimizer.param_groups)
            optimizer.step()
            scheduler.step()
            rates.append(rate)
            total += loss.item()
        epoch += 1
        print(f"epoch {epoch}/{epochs}: mean loss {total / len(loader):.4f}, rate {rates[-1]:.2e}")
    model.train(was_training)
    return rates


if __name__ == "__main__":
    print([warmup_cosine(step, 10, 3) for step in range(12)])
