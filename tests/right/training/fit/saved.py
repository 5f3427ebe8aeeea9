# right: the best state is written with torch.save; NumPy does the means; generators; assign=True
import io

import numpy as np
import torch


def _losses(model, loader, loss_fn, optimizer):
    for inputs, targets in loader:
        loss = loss_fn(model.train()(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


def train_epoch(model, loader, loss_fn, optimizer):
    optimizer.zero_grad()
    return float(np.mean(list(_losses(model, loader, loss_fn, optimizer))))


def evaluate(model, loader, loss_fn):
    model.eval()
    with torch.no_grad():
        triples = [
            (loss_fn(out, y).item(), (out.max(dim=1)[1] == y).float().mean().item(), len(y))
            for x, y in loader
            for out in [model(x)]
        ]
    losses, accuracies, rows = zip(*triples)
    return float(np.average(losses, weights=rows)), float(np.average(accuracies, weights=rows))


def fit(model, train_loader, val_loader, loss_fn, optimizer, epochs, patience=5, scheduler=None):
    if not epochs >= 1:
        raise ValueError("epochs: one at least")
    if not patience >= 1:
        raise ValueError("patience: one at least")
    file, history = None, {key: [] for key in ("train_loss", "val_loss", "val_acc")}
    since = 0
    for _ in range(epochs):
        numbers = (train_epoch(model, train_loader, loss_fn, optimizer), *evaluate(model, val_loader, loss_fn))
        for column, number in zip(history.values(), numbers):
            column.append(number)
        finite = [loss for loss in history["val_loss"][:-1] if np.isfinite(loss)]
        if np.isfinite(numbers[1]) and numbers[1] < min(finite, default=np.inf):
            file, since = io.BytesIO(), 0
            torch.save(model.state_dict(), file)
        else:
            since += 1
        if scheduler is not None:
            scheduler.step()
        if since == patience:
            break
    if file is not None:
        file.seek(0)
        model.load_state_dict(torch.load(file, weights_only=True), assign=True)
    return history
