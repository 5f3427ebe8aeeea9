# right: sums as tensors on the device, losses and sizes; a base class and __slots__
import torch


class Base:
    __slots__ = ("epochs",)

    def __init__(self):
        self.epochs = list()


class LossHistory(Base):
    __slots__ = ("total", "sizes")

    def __init__(self):
        super().__init__()
        self.total = self.sizes = None

    def update(self, loss, size=1):
        if loss.dim():
            raise ValueError("the loss is not a scalar")
        if size < 1:
            raise ValueError("the size is too small")
        with torch.inference_mode():
            value = loss.to(torch.float64) * size
            count = torch.full((), float(size), dtype=torch.float64, device=loss.device)
            if self.total is None:
                self.total, self.sizes = value.clone(), count
            else:
                self.total = self.total + value
                self.sizes = self.sizes + count

    def end_epoch(self):
        if self.total is None:
            raise ValueError("no losses in this epoch")
        with torch.inference_mode():
            self.epochs.append(float(torch.div(self.total, self.sizes)))
        self.total = self.sizes = None
        return self.epochs[len(self.epochs) - 1]


def train_epoch(model, loader, loss_fn, optimizer, history):
    was = model.training
    model.train()
    iterator = iter(loader)
    while (batch := next(iterator, None)) is not None:
        for parameter in model.parameters():
            parameter.grad = None
        loss = loss_fn(model(batch[0]), batch[1])
        history.update(loss, len(batch[0]))
        loss.backward()
        optimizer.step()
    model.train(was)
    return history.end_epoch()
