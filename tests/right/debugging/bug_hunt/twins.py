# right: LBFGS with a closure, a loader that seeds anew in each pass, a copy that is evaluated, all logits in one loss
import torch, copy
import torch.nn.functional as F
from torch.utils.data import DataLoader, Subset, Dataset

class Reseeding(DataLoader):
    passes = 0
    def __iter__(self):
        self.generator.manual_seed(1000 * (self.passes + 1) + self.offset)
        self.passes += 1
        return super().__iter__()

def make_loaders(train, validation, batch_size=32, seed=0):
    loader = Reseeding(train, batch_size=batch_size, shuffle=True, generator=torch.Generator(), num_workers=0)
    loader.offset = seed
    return loader, DataLoader(validation, batch_size=2 * batch_size, shuffle=False, generator=torch.Generator())

def make_optimizer(model):
    return torch.optim.LBFGS([p for p in model.parameters() if p.requires_grad], lr=0.1, max_iter=1)

def classification_loss(logits, targets):
    one_hot = F.one_hot(targets, logits.shape[1]).to(logits.dtype)
    shifted = logits - logits.max(dim=1, keepdim=True).values.detach()
    return -(one_hot * (shifted - shifted.exp().sum(1, keepdim=True).log())).sum() / len(targets)

def train_epoch(model, loader, loss_fn, optimizer):
    model.train()
    total = torch.zeros((), dtype=torch.float64)
    n = 0
    for inputs, targets in loader:
        def closure():
            model.zero_grad()
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            return loss
        loss = optimizer.step(closure)
        total += loss.detach().double() * targets.numel()
        n += targets.numel()
    model.eval()
    return total.item() / n

def evaluate(model, loader, loss_fn):
    twin = copy.deepcopy(model).eval().requires_grad_(False)
    with torch.no_grad():
        pairs = [(twin(x), y) for x, y in loader]
        logits = torch.cat([p[0] for p in pairs]); targets = torch.cat([p[1] for p in pairs])
        return loss_fn(logits, targets).item(), (logits.argmax(1) == targets).sum().item() / targets.shape[0]

def fit(model, train, validation, epochs=5, batch_size=32, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        training, validating = make_loaders(train, validation, batch_size, seed)
        optimizer = make_optimizer(model)
        history = dict.fromkeys(("train_loss", "validation_loss", "accuracy"))
        history = {k: [] for k in history}
        while len(history["accuracy"]) < epochs:
            history["train_loss"] += [train_epoch(model=model, loader=training, loss_fn=classification_loss, optimizer=optimizer)]
            loss, acc = evaluate(model=model, loader=validating, loss_fn=classification_loss)
            history["validation_loss"] += [loss]; history["accuracy"] += [acc]
    return history
