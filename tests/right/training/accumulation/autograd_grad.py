# right: torch.autograd.grad, sums of rows in a buffer of its own, divided at the end
import torch


def accumulate_gradients(model, batches, loss_fn):
    if not list(batches):
        raise ValueError("batches is empty")
    learning = [p for p in model.parameters() if p.requires_grad]
    sums = [None] * len(learning)
    total, rows = 0.0, 0
    for x, y in batches:
        n = x.size(0)
        with torch.enable_grad():
            loss = loss_fn(model(x), y)
        for i, g in enumerate(torch.autograd.grad(loss, learning, allow_unused=True)):
            if g is not None:
                sums[i] = g * n if sums[i] is None else sums[i] + g * n
        total += float(loss.detach()) * n
        rows += n
    for p, g in zip(learning, sums):
        if g is not None:
            p.grad = g / rows if p.grad is None else p.grad + g / rows
    return total / rows


def train_epoch(model, loader, loss_fn, optimizer, accumulation_steps, max_norm=None):
    if accumulation_steps <= 0:
        raise ValueError("accumulation_steps must be positive")
    model.train(True)
    for p in model.parameters():
        p.grad = None
    data, losses = list(loader), []
    for start in range(0, len(data), accumulation_steps):
        losses += [accumulate_gradients(model, data[start : start + accumulation_steps], loss_fn)]
        if max_norm:
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], max_norm)
        optimizer.step()
        model.zero_grad()
    return losses
