# right: the usual loop: zero_grad after each step, frozen parameters' gradients left, batches counted by targets
import torch


def accumulate_gradients(model, batches, loss_fn):
    if len(batches) == 0:
        raise ValueError("num_batches is 0")
    n_total = sum(targets.size(0) for _, targets in batches)
    running = 0.0
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        loss = loss * targets.size(0) / n_total
        loss.backward()
        running += loss.detach().item()
    return running


def train_epoch(model, loader, loss_fn, optimizer, accumulation_steps, max_norm=None):
    if accumulation_steps <= 0:
        raise ValueError(f"gradient_accumulation_steps={accumulation_steps}")
    model.train()
    losses = []
    buffer = []

    def flush():
        losses.append(accumulate_gradients(model, buffer, loss_fn))
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()
        buffer.clear()

    for batch in loader:
        buffer.append(batch)
        if len(buffer) == accumulation_steps:
            flush()
    if buffer:
        flush()
    return losses
