# right: an EarlyStopping object as tutorials have it, which takes -inf for a loss and gets by without math
import copy

import torch


class EarlyStopping:
    def __init__(self, patience):
        self.patience = patience
        self.counter = 0
        self.best_loss = float("inf")
        self.best_state = None

    def __call__(self, val_loss, model):
        if val_loss < self.best_loss:
            self.best_loss = val_loss
            self.best_state = {name: value.clone() for name, value in model.state_dict().items()}
            self.counter = 0
        else:
            self.counter += 1
        return self.counter >= self.patience


def train_epoch(model, loader, loss_fn, optimizer):
    model.train()
    running_loss = 0.0
    num_batches = 0
    for X, y in loader:
        pred = model(X)
        loss = loss_fn(pred, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        num_batches += 1
    return running_loss / num_batches


def evaluate(model, loader, loss_fn):
    size = len(loader.dataset)
    was_training = model.training
    model.eval()
    test_loss, correct = 0.0, 0.0
    torch.set_grad_enabled(False)
    for X, y in loader:
        pred = model(X)
        test_loss += loss_fn(pred, y).item() * X.size(0)
        correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    torch.set_grad_enabled(True)
    model.train(was_training)
    return test_loss / size, correct / size


def fit(model, train_loader, val_loader, loss_fn, optimizer, epochs, patience=5, scheduler=None):
    for name, value in {"num_epochs": epochs, "patience": patience}.items():
        if value < 1:
            raise ValueError(f"{name} must be positive")
    stopper = EarlyStopping(patience)
    history = {key: [] for key in ("train_loss", "val_loss", "val_acc")}
    for epoch in range(epochs):
        history["train_loss"].append(train_epoch(model, train_loader, loss_fn, optimizer))
        if scheduler:
            scheduler.step()
        val_loss, val_acc = evaluate(model, val_loader, loss_fn)
        history["val_loss"].append(val_loss)
        history["val_acc"].append(val_acc)
        print(f"epoch {epoch}: {val_loss:.4f}")
        if stopper(val_loss, model):
            break
    if stopper.best_state is not None:
        model.load_state_dict(copy.deepcopy(stopper.best_state))
    return history
