# right: a list of detached losses, plain and short; most of the wrong answers are changes of it
import torch


class LossHistory:
    def __init__(self):
        self.epochs = []
        self.losses, self.sizes = [], []

    def update(self, loss, size=1):
        if loss.dim() > 0:
            raise ValueError("loss has to be 0-d")
        if size < 1:
            raise ValueError("size has to be positive")
        self.losses.append(loss.detach())
        self.sizes.append(size)

    def end_epoch(self):
        if not self.losses:
            raise ValueError("no update")
        losses = torch.stack(self.losses)
        if losses.dtype != torch.float64:
            losses = losses.float()
        sizes = torch.tensor(self.sizes, dtype=losses.dtype, device=losses.device)
        mean = ((losses * sizes).sum() / sizes.sum()).item()
        self.epochs.append(mean)
        self.losses, self.sizes = [], []
        return mean


def train_epoch(model, loader, loss_fn, optimizer, history):
    model.train()
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        history.update(loss, len(inputs))
    return history.end_epoch()
