# right: compact, without type hints, by tree_leaves
from collections import Counter, namedtuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

OperatorCall = namedtuple("OperatorCall", "name input_shapes output_shapes")


def shapes(value):
    return tuple(tuple(leaf.shape) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


class OperatorLogger(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inputs = shapes(args) + shapes(kwargs)
        result = func(*args, **kwargs)
        self.calls.append(OperatorCall(str(func), inputs, shapes(result)))
        return result


def log_operators(f, *args, **kwargs):
    logger = OperatorLogger()
    with logger:
        result = f(*args, **kwargs)
    return result, logger.calls


def count_operators(calls):
    counts = {}
    for call in calls:
        counts[call.name] = counts.get(call.name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def matmul_flops(calls):
    total = 0
    for name, inputs, _ in calls:
        if name in ("aten.mm.default", "aten.addmm.default"):
            a, b = inputs[-2:]
            total += 2 * a[0] * a[1] * b[1]
        if name in ("aten.bmm.default", "aten.baddbmm.default"):
            a, b = inputs[-2:]
            total += 2 * a[0] * a[1] * a[2] * b[2]
    return total
