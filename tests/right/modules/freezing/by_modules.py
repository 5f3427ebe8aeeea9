# right: goes by modules, with get_submodule, and keeps track of the parameters seen by their id
import torch


def _unique(model):
    seen = set()
    for prefix, module in model.named_modules():
        for name, p in module._parameters.items():
            if p is not None and id(p) not in seen:
                seen.add(id(p))
                yield (prefix + "." if prefix else "") + name, p


def count_parameters(model):
    total = trainable = 0
    for _, p in _unique(model):
        n = 1
        for size in p.shape:
            n *= size
        total += n
        if p.requires_grad:
            trainable += n
    return total, trainable


def _parameters_of(model, name):
    """The parameters that one name covers."""
    owner, _, last = name.rpartition(".")
    try:
        module = model.get_submodule(owner)
    except AttributeError:
        return []
    if module._parameters.get(last) is not None:
        return [module._parameters[last]]
    if isinstance(module._modules.get(last), torch.nn.Module):
        return list(module._modules[last].parameters())
    return []


def freeze(model, names):
    chosen = []
    for name in names:
        covered = _parameters_of(model, name)
        if len(covered) == 0:
            raise ValueError("nothing to freeze under the name " + name)
        chosen.extend(covered)
    ids = set(map(id, chosen))
    for p in chosen:
        p.requires_grad_(False)
        p.grad = None
    return [name for name, p in model.named_parameters() if id(p) in ids]


def parameter_groups(model, weight_decay):
    if not weight_decay >= 0:
        raise ValueError("weight_decay must be at least 0")
    groups = {True: [], False: []}
    for _, p in _unique(model):
        if p.requires_grad:
            groups[len(p.shape) > 1].append(p)
    return [
        dict(params=groups[True], weight_decay=weight_decay),
        dict(params=groups[False], weight_decay=0.0),
    ]
