# right: freezes with setattr, counts with functools.reduce, splits with one sort by key
import functools
import itertools


def count_parameters(model):
    def add(counts, p):
        return counts[0] + p.numel(), counts[1] + (p.numel() if p.requires_grad else 0)

    return functools.reduce(add, model.parameters(), (0, 0))


def prefixes(key):
    parts = key.split(".")
    return {".".join(parts[: i + 1]) for i in range(len(parts))}


def freeze(model, names):
    wanted = set(names)
    covering = {key: prefixes(key) & wanted for key, _ in model.named_parameters()}
    missing = wanted.difference(*covering.values())
    if missing:
        raise ValueError(f"cover nothing: {sorted(missing)}")
    for key, p in model.named_parameters():
        if covering[key]:
            setattr(p, "requires_grad", False)
            if p.grad is not None:
                setattr(p, "grad", None)
    return [key for key, by in covering.items() if by]


def parameter_groups(model, weight_decay):
    if weight_decay < 0:
        raise ValueError("negative weight_decay")
    trainable = sorted((p for p in model.parameters() if p.requires_grad), key=lambda p: p.dim() < 2)
    groups = {False: [], True: []}
    for vector, members in itertools.groupby(trainable, key=lambda p: p.dim() < 2):
        groups[vector] = list(members)
    return [
        {"params": groups[False], "weight_decay": weight_decay},
        {"params": groups[True], "weight_decay": 0.0},
    ]
