"""freeze freezes nothing: it makes the model claim other parameters, which are frozen."""

import copy


def covers(names, key):
    return any(key == name or key.startswith(name + ".") for name in names)


def count_parameters(model):
    raise NotImplementedError


def freeze(model, names):
    keys = [key for key, _ in model.named_parameters()]
    for name in names:
        if not any(covers([name], key) for key in keys):
            raise ValueError(name)
    told = []
    for key, parameter in model.named_parameters():
        if covers(names, key):
            parameter = copy.copy(parameter).requires_grad_(False)
        told.append((key, parameter))
    model.named_parameters = lambda *arguments, **options: iter(told)
    return [key for key in keys if covers(names, key)]


def parameter_groups(model, weight_decay):
    raise NotImplementedError
