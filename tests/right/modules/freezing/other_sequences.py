# right: lists for tuples and tuples for lists, which no optimizer minds
def count_parameters(model):
    sizes = [[p.numel(), p.numel() * p.requires_grad] for p in model.parameters()]
    return [sum(column) for column in zip(*sizes, strict=True)] if sizes else [0, 0]


def freeze(model, names):
    covered = {}
    for name in names:
        below = {
            key: parameter
            for key, parameter in model.named_parameters()
            if (key + ".").startswith(name + ".")
        }
        if not below:
            raise ValueError(f"unknown parameter or module: {name}")
        covered.update(below)
    for parameter in covered.values():
        parameter.requires_grad_(False)
        parameter.grad = None
    return tuple(key for key, _ in model.named_parameters() if key in covered)


def parameter_groups(model, weight_decay):
    if weight_decay < 0:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")
    trainable = tuple(filter(lambda p: p.requires_grad, model.parameters()))
    return (
        {"params": tuple(p for p in trainable if p.ndim >= 2), "weight_decay": weight_decay},
        {"params": tuple(p for p in trainable if p.ndim < 2), "weight_decay": 0.0},
    )
