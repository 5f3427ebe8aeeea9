# right: a permuted dataset in each pass, RMSprop, gradients by autograd.grad, one-hot targets
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset


class Shuffling:
    """A loader of the data in a new order in each pass."""

    def __init__(self, data, batch_size, seed):
        self.data, self.batch_size = data, batch_size
        self.generator = torch.Generator().manual_seed(seed)

    @property
    def dataset(self):
        return self.data

    def __len__(self):
        return (len(self.data) + self.batch_size - 1) // self.batch_size

    def __iter__(self):
        order = torch.rand(len(self.data), generator=self.generator).argsort().tolist()
        return iter(DataLoader(Subset(self.data, order), batch_size=self.batch_size))


def make_loaders(train, validation, batch_size=32, seed=0):
    return Shuffling(train, batch_size, seed), DataLoader(validation, batch_size=3)


def make_optimizer(model):
    return torch.optim.RMSprop([p for p in model.parameters()], lr=torch.tensor(0.01).item())


def classification_loss(logits, targets):
    chances = F.one_hot(targets, logits.shape[1]).to(logits.dtype)
    return F.cross_entropy(logits, chances)


def train_epoch(model, loader, loss_fn, optimizer):
    model = model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = count = 0
    for x, y in loader:
        loss = loss_fn(model(x), y)
        grads = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, grad in zip(parameters, grads):
            parameter.grad = grad
        optimizer.step()
        total, count = total + float(loss.detach()), count + 1
    return total / count


def evaluate(model, loader, loss_fn):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    rows = []

    @torch.no_grad
    def run(x, y):
        z = model(x)
        rows.append((loss_fn(z, y).item(), z.argmax(-1).eq(y).sum().item(), y.numel()))

    for x, y in loader:
        run(x, y)
    for module, mode in modes.items():
        module.training = mode
    losses, hits, counts = zip(*rows)
    weighed = sum(loss * n for loss, n in zip(losses, counts))
    return weighed / sum(counts), sum(hits) / sum(counts)


def fit(model, train, validation, epochs=5, batch_size=32, seed=0):
    history = {
        "train_loss": [0.0] * epochs,
        "validation_loss": [0.0] * epochs,
        "accuracy": [0.0] * epochs,
    }
    a, b = make_loaders(train, validation, batch_size, seed)
    optimizer = make_optimizer(model)
    for i in range(epochs):
        history["train_loss"][i] = train_epoch(model, a, classification_loss, optimizer)
        history["validation_loss"][i], history["accuracy"][i] = evaluate(
            model, b, classification_loss
        )
    return history
