# right: lists for the outer tuples, torch.Size for the shapes; the call is noted before it runs, and completed after it
import math
from collections import Counter, OrderedDict
from typing import NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class OperatorCall(NamedTuple):
    name: str
    input_shapes: list
    output_shapes: list


def collect(value, into):
    if isinstance(value, Tensor):
        into.append(value.shape)
    elif isinstance(value, (list, tuple)):
        for item in value:
            collect(item, into)
    return into


class OperatorLogger(TorchDispatchMode):
    """Records also operators that raise, without outputs."""

    def __init__(self):
        self.calls = []
        super().__init__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        call = OperatorCall(f"{func}", collect([args, list((kwargs or {}).values())], []), [])
        self.calls.append(call)
        out = func(*args, **(kwargs or {}))
        collect(out, call.output_shapes)
        return out


def log_operators(f, /, *args, **kwargs):
    with OperatorLogger() as logger:
        return f(*args, **kwargs), logger.calls


def count_operators(calls):
    return OrderedDict(Counter(call.name for call in calls).most_common())


def matmul_flops(calls):
    # 2 operations for each entry of the output and each step of the sum.
    kinds = {f"aten.{name}.default" for name in ("mm", "addmm", "bmm", "baddbmm")}
    return sum(
        2 * math.prod(call.output_shapes[0]) * call.input_shapes[-1][-2]
        for call in calls
        if call.name in kinds
    )
