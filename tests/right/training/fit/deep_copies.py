# right: trains copies of model, optimizer and scheduler, and writes the best weights into the model in the end
import copy
from math import isfinite

from torch import no_grad


def train_epoch(model, loader, loss_fn, optimizer):
    model.train()
    seen = 0
    mean = 0.0
    for x, y in loader:
        model.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        seen += 1
        mean += (loss.item() - mean) / seen
    return mean


def evaluate(model, loader, loss_fn):
    twin = copy.deepcopy(model).requires_grad_(False)
    twin.eval()
    size, loss, right = 0, 0.0, 0.0
    with no_grad():
        for x, y in loader:
            outputs = twin(x)
            weight = len(x) / (size + len(x))
            loss = (1 - weight) * loss + weight * float(loss_fn(outputs, y))
            right = (1 - weight) * right + weight * float((outputs.argmax(dim=1) == y).float().mean())
            size += len(x)
    return loss, right


def fit(model, train_loader, val_loader, loss_fn, optimizer, epochs, patience=5, scheduler=None):
    if epochs < 1 or patience < 1:
        raise ValueError("epochs and patience are at least 1")
    net, opt, plan = copy.deepcopy((model, optimizer, scheduler))
    train, losses, accuracies, states = [], [], [], []
    for _ in range(epochs):
        train.append(train_epoch(net, train_loader, loss_fn, opt))
        if plan is not None:
            plan.step()
        loss, accuracy = evaluate(net, val_loader, loss_fn)
        losses.append(loss)
        accuracies.append(accuracy)
        states.append(copy.deepcopy(net.state_dict()))
        order = [i for i, value in enumerate(losses) if isfinite(value)]
        best = min(order, key=losses.__getitem__, default=-1)
        if len(losses) - 1 - best >= patience:
            break
    model.load_state_dict(states[best])
    return dict(train_loss=train, val_loss=losses, val_acc=accuracies)
