# right: fit has its own loops; a deep copy of the model is kept; float32 tensors sum the losses; topk for argmax
import copy

import torch


def train_epoch(model, loader, loss_fn, optimizer):
    losses = []
    for xb, yb in loader:
        model.train()
        for p in model.parameters():
            p.grad = None
        loss = loss_fn(model(xb), yb)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


def evaluate(model, loader, loss_fn):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        for module in model.modules():
            module.training = False
        total, hits = torch.zeros(()), torch.zeros((), dtype=torch.long)
        for xb, yb in loader:
            scores = model(xb)
            total += loss_fn(scores, yb) * (len(yb) / len(loader.dataset))
            hits += (scores.topk(1, dim=1).indices.squeeze(1) == yb).sum()
    finally:
        torch.set_grad_enabled(before)
    return [total.item(), hits.item() / len(loader.dataset)]


def fit(model, train_loader, val_loader, loss_fn, optimizer, epochs, patience=5, scheduler=None):
    for name, value in (("epochs", epochs), ("patience", patience)):
        if value <= 0:
            raise ValueError(f"{name} = {value}")
    history = {"val_acc": [], "val_loss": [], "train_loss": []}
    best_model, best_loss, best_epoch, epoch = None, float("inf"), -1, 0
    while epoch < epochs and epoch - best_epoch <= patience:
        history["train_loss"] += [train_epoch(model, train_loader, loss_fn, optimizer)]
        loss, accuracy = evaluate(model, val_loader, loss_fn)
        if scheduler is not None:
            scheduler.step()
        history["val_loss"] += [loss]
        history["val_acc"] += [accuracy]
        if float("-inf") < loss < best_loss:
            best_model, best_loss, best_epoch = copy.deepcopy(model), loss, epoch
        epoch += 1
        if epoch - 1 - best_epoch == patience:
            break
    if best_model:
        with torch.no_grad():
            for mine, best in zip(model.parameters(), best_model.parameters()):
                mine.copy_(best)
            for mine, best in zip(model.buffers(), best_model.buffers()):
                mine.copy_(best)
    return history
