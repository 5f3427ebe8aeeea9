# right: plain and short; most of the wrong answers are changes of it
def count_parameters(model):
    total = sum(p.numel() for p in model.parameters())
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return total, trainable


def freeze(model, names):
    keys = [key for key, _ in model.named_parameters()]
    for name in names:
        if not any(key == name or key.startswith(name + ".") for key in keys):
            raise ValueError(f"no parameter is covered by {name}")
    frozen = []
    for key, p in model.named_parameters():
        if any(key == name or key.startswith(name + ".") for name in names):
            p.requires_grad = False
            p.grad = None
            frozen.append(key)
    return frozen


def parameter_groups(model, weight_decay):
    if weight_decay < 0:
        raise ValueError(f"weight_decay is negative: {weight_decay}")
    decay, rest = [], []
    for p in model.parameters():
        if not p.requires_grad:
            continue
        if p.dim() >= 2:
            decay.append(p)
        else:
            rest.append(p)
    return [
        {"params": decay, "weight_decay": weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
