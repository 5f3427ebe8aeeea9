# right: plain and short; most of the wrong answers are changes of it
import torch


def accumulate_gradients(model, batches, loss_fn):
    if len(batches) == 0:
        raise ValueError("no batches")
    rows = 0
    for inputs, targets in batches:
        rows += len(inputs)
    total = 0.0
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        weight = len(inputs) / rows
        (loss * weight).backward()
        total += loss.item() * weight
    return total


def train_epoch(model, loader, loss_fn, optimizer, accumulation_steps, max_norm=None):
    if accumulation_steps < 1:
        raise ValueError(f"bad accumulation_steps: {accumulation_steps}")
    model.train()
    losses = []

    def step(group):
        optimizer.zero_grad()
        loss = accumulate_gradients(model, group, loss_fn)
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        losses.append(loss)

    group = []
    for batch in loader:
        group.append(batch)
        if len(group) == accumulation_steps:
            step(group)
            group = []
    if group:
        step(group)
    return losses
