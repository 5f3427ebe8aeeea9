# right: evaluate switches gradients off and on by hand, and goes over the loader twice
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def make_loaders(train, validation, batch_size=32, seed=0):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return (
        DataLoader(train, batch_size, shuffle=True, generator=generator),
        DataLoader(validation, batch_size),
    )


def make_optimizer(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4)


def classification_loss(logits, targets):
    return F.nll_loss(F.log_softmax(logits, dim=-1), targets)


def train_epoch(model, loader, loss_fn, optimizer):
    model.train(True)
    running = 0.0
    batches = list(loader)
    for x, y in batches:
        model.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.detach().item() * len(y)
    return running / sum(len(y) for _, y in batches)


def evaluate(model, loader, loss_fn):
    model.train(False)
    torch.set_grad_enabled(False)
    outputs = [model(x) for x, _ in loader]
    targets = [y for _, y in loader]
    losses = [loss_fn(output, y).item() for output, y in zip(outputs, targets)]
    hits = [output.argmax(1) == y for output, y in zip(outputs, targets)]
    torch.set_grad_enabled(True)
    return sum(losses) / len(losses), torch.cat(hits).double().mean().item()


def fit(model, train, validation, epochs=5, batch_size=32, seed=0):
    torch.manual_seed(seed)
    loader, held_out = make_loaders(train, validation, batch_size, seed)
    optimizer = make_optimizer(model)
    train_losses, validation_losses, accuracies = [], [], []
    for _ in range(epochs):
        train_losses.append(train_epoch(model, loader, classification_loss, optimizer))
        loss, accuracy = evaluate(model, held_out, classification_loss)
        validation_losses.append(loss)
        accuracies.append(accuracy)
    return dict(train_loss=train_losses, validation_loss=validation_losses, accuracy=accuracies)
