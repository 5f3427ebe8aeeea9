# right: class-heavy: a logger that wraps a recorder of its own, with contextlib and einops-like tables of operators
import collections
import contextlib
import typing

import torch
import torch.utils._python_dispatch as dispatch


OperatorCall = typing.NamedTuple(
    "OperatorCall", [("name", str), ("input_shapes", tuple), ("output_shapes", tuple)]
)


class Shapes:
    def __init__(self):
        self.items = []

    def visit(self, value):
        if torch.is_tensor(value):
            self.items.append(tuple(value.shape))
        elif isinstance(value, typing.Mapping):
            self.visit(list(value.values()))
        elif isinstance(value, (list, tuple)):
            [self.visit(item) for item in value]
        return self

    @classmethod
    def of(cls, *values):
        return tuple(cls().visit(values).items)


class Recorder:
    def __init__(self):
        self.log = []

    def __call__(self, func, args, kwargs):
        inputs = Shapes.of(args, kwargs)
        try:
            result = func(*args, **kwargs)
        except Exception:
            self.log.append(OperatorCall(str(func), inputs, ()))
            raise
        self.log.append(OperatorCall(str(func), inputs, Shapes.of(result)))
        return result


class OperatorLogger(dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self._recorder = Recorder()

    @property
    def calls(self):
        return self._recorder.log

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self._recorder(func, args, kwargs if kwargs is not None else {})


def log_operators(f, *args, **kwargs):
    with contextlib.ExitStack() as stack:
        logger = stack.enter_context(OperatorLogger())
        result = f(*args, **kwargs)
    return (result, logger.calls)


def count_operators(calls):
    counts = collections.Counter()
    counts.update(call.name for call in calls)
    ordered = collections.Counter()
    for name, number in counts.most_common():
        ordered[name] = number
    return ordered


FACTORS = {
    "aten.mm.default": slice(0, 2),
    "aten.addmm.default": slice(1, 3),
    "aten.bmm.default": slice(0, 2),
    "aten.baddbmm.default": slice(1, 3),
}


def matmul_flops(calls):
    total = 0
    for call in calls:
        if call.name in FACTORS:
            first, second = call.input_shapes[FACTORS[call.name]]
            total += 2 * torch.Size(first).numel() * second[-1]
    return total


if __name__ == "__main__":
    print(count_operators(log_operators(torch.nn.Linear(3, 4), torch.ones(2, 3))[1]))
