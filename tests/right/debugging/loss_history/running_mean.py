# right: a running mean, which makes NaN of a loss that is inf; the rows of the targets, which are those of the inputs
import torch


class LossHistory:
    def __init__(self):
        self.epochs = []
        self.reset()

    def reset(self):
        self.mean = None
        self.count = 0

    def update(self, loss, size=1):
        if loss.ndim:
            raise ValueError(f"loss has {loss.ndim} dimensions: reduce it first")
        if size <= 0:
            raise ValueError(f"size={size} is not positive")
        loss = loss.detach()
        loss = loss.double() if loss.dtype == torch.float64 else loss.float()
        self.count += size
        if self.mean is None:
            self.mean = loss.clone()
        else:
            self.mean += (loss - self.mean) * (size / self.count)

    def end_epoch(self):
        if self.mean is None:
            raise ValueError("nothing to average")
        self.epochs.append(self.mean.item())
        self.reset()
        return self.epochs[-1]


def train_epoch(model, loader, loss_fn, optimizer, history):
    model.train()
    for step in range(len(loader)):
        x, y = loader[step] if isinstance(loader, list) else list(loader)[step]
        out = model(x)
        loss = loss_fn(out, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        history.update(loss.detach(), y.size(0))
    return history.end_epoch()
