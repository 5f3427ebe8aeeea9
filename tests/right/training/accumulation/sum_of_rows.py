# right: knows the rows of a group only at its end: backward of sums, then the new part is scaled
import torch


class Accumulator:
    """Sums over rows, whose mean is taken when the group is over."""

    def __init__(self, model, loss_fn):
        self.model, self.loss_fn = model, loss_fn
        self.before = {p: p.grad for p in model.parameters()}
        for p in self.before:
            p.grad = None
        self.rows, self.total = 0, 0.0

    def add(self, inputs, targets):
        loss = self.loss_fn(self.model(inputs), targets) * len(inputs)
        loss.backward()
        self.total += loss.item()
        self.rows += len(inputs)

    @torch.no_grad()
    def finish(self):
        for p, old in self.before.items():
            if p.grad is None:
                p.grad = old
            else:
                p.grad /= self.rows
                if old is not None:
                    p.grad += old
        return self.total / self.rows


def accumulate_gradients(model, batches, loss_fn):
    group = Accumulator(model, loss_fn)
    for inputs, targets in batches:
        group.add(inputs, targets)
    if group.rows == 0:
        raise ValueError("batches: none given")
    return group.finish()


def train_epoch(model, loader, loss_fn, optimizer, accumulation_steps, max_norm=None):
    if not accumulation_steps >= 1:
        raise ValueError("accumulation_steps: at least one")
    model.train()
    losses, group = [], None

    def step():
        losses.append(group.finish())
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=max_norm, norm_type=2.0)
        optimizer.step()

    for i, (inputs, targets) in enumerate(loader):
        if i % accumulation_steps == 0:
            if group is not None:
                step()
            model.zero_grad(set_to_none=True)
            group = Accumulator(model, loss_fn)
        group.add(inputs, targets)
    if group is not None:
        step()
    return losses
