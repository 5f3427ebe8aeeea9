# right: plain and short; most of the wrong answers are changes of it
import copy
import math

import torch


def train_epoch(model, loader, loss_fn, optimizer):
    model.train()
    total = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def evaluate(model, loader, loss_fn):
    model.eval()
    total, correct = 0.0, 0
    with torch.no_grad():
        for inputs, targets in loader:
            outputs = model(inputs)
            loss = loss_fn(outputs, targets)
            total += loss.item() * len(inputs)
            correct += (outputs.argmax(1) == targets).sum().item()
    size = len(loader.dataset)
    return total / size, correct / size


def fit(model, train_loader, val_loader, loss_fn, optimizer, epochs, patience=5, scheduler=None):
    if epochs < 1:
        raise ValueError("epochs")
    if patience < 1:
        raise ValueError("patience")
    history = {"train_loss": [], "val_loss": [], "val_acc": []}
    lowest = math.inf
    best = None
    waited = 0
    for epoch in range(epochs):
        train_loss = train_epoch(model, train_loader, loss_fn, optimizer)
        val_loss, val_acc = evaluate(model, val_loader, loss_fn)
        history["train_loss"].append(train_loss)
        history["val_loss"].append(val_loss)
        history["val_acc"].append(val_acc)
        if scheduler is not None:
            scheduler.step()
        if math.isfinite(val_loss) and val_loss < lowest:
            lowest = val_loss
            best = copy.deepcopy(model.state_dict())
            waited = 0
        else:
            waited += 1
        if waited >= patience:
            break
    if best is not None:
        model.load_state_dict(best)
    return history
