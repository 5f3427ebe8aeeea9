# right: loaders made anew with another seed in each epoch, SGD with a closure, the loss by logsumexp
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler


def make_loaders(train, validation, batch_size=32, seed=0):
    generator = torch.Generator("cpu").manual_seed(seed)
    sampler = RandomSampler(train, generator=generator)
    batches = BatchSampler(sampler, batch_size, drop_last=False)
    return DataLoader(train, batch_sampler=batches), DataLoader(validation, batch_size=1)


def make_optimizer(model):
    return torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-1)


def classification_loss(logits, targets):
    own = logits.gather(1, targets[:, None]).squeeze(1)
    return (torch.logsumexp(logits, dim=1) - own).mean()


def train_epoch(model, loader, loss_fn, optimizer):
    losses = []
    for module in model.modules():
        module.train()
    for batch in loader:

        def closure(batch=batch):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None
            loss = loss_fn(model(batch[0]), batch[1])
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).detach())
    return torch.stack(losses).mean().item()


def evaluate(model, loader, loss_fn):
    for module in model.modules():
        module.eval()
    was = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        outputs = [(model(x), y) for x, y in loader]
        losses = [loss_fn(logits, y).item() for logits, y in outputs]
    finally:
        torch.set_grad_enabled(was)
    logits, targets = (torch.cat(parts) for parts in zip(*outputs))
    accuracy = torch.eq(logits.topk(1).indices.squeeze(1), targets).double().mean().item()
    return sum(losses) / len(losses), accuracy


def fit(model, train, validation, epochs=5, batch_size=32, seed=0):
    optimizer = make_optimizer(model)
    history = {name: [] for name in ("accuracy", "train_loss", "validation_loss")}
    for epoch in range(epochs):
        training, validating = make_loaders(train, validation, batch_size, 1000 * seed + epoch)
        loss = train_epoch(model, training, classification_loss, optimizer)
        history["train_loss"] += [loss]
        loss, accuracy = evaluate(model, validating, classification_loss)
        history["validation_loss"] += [loss]
        history["accuracy"] += [accuracy]
    return history
