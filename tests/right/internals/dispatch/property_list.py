# right: a property that copies the list, a record before the call, products of a dataclass

import contextlib
import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# torch.utils.flop_counter would do this, too


class OperatorCall(NamedTuple):
    name: str
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...] = ()


@dataclasses.dataclass(frozen=True)
class Product:
    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def flops(self) -> int:
        return self.batch * self.rows * self.inner * self.columns << 1

    @classmethod
    def of(cls, call: OperatorCall) -> "Product | None":
        library, _, rest = call.name.partition(".")
        if library != "aten":
            return None
        match rest:
            case "mm.default":
                a, b = call.input_shapes
            case "addmm.default" | "baddbmm.default":
                _, a, b = call.input_shapes
            case "bmm.default":
                a, b = call.input_shapes
            case _:
                return None
        if len(a) == 2:
            a, b = (1, *a), (1, *b)
        return cls(a[0], a[1], a[2], b[2])


class ShapeWalker:
    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def walk(self, value: Any) -> "ShapeWalker":
        if isinstance(value, torch.Tensor):
            self.shapes.append(tuple(int(n) for n in value.size()))
        elif isinstance(value, dict):
            for v in value.values():
                self.walk(v)
        elif isinstance(value, (list, tuple)):
            for v in value:
                self.walk(v)
        return self


class OperatorLogger(TorchDispatchMode):
    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self._calls: list[OperatorCall] = []

    @property
    def calls(self) -> list[OperatorCall]:
        return list(self._calls)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        place = len(self._calls)
        self._calls.append(
            OperatorCall(str(func), tuple(ShapeWalker().walk(args).walk(kwargs).shapes))
        )
        result = func(*args, **({} if kwargs is None else kwargs))
        self._calls[place] = self._calls[place]._replace(
            output_shapes=tuple(ShapeWalker().walk(result).shapes)
        )
        return result


def log_operators(
    f: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[Any, list[OperatorCall]]:
    with contextlib.ExitStack() as stack:
        logger = stack.enter_context(OperatorLogger())
        result = f(*args, **kwargs)
    return result, logger.calls


def count_operators(calls: Sequence[OperatorCall]) -> dict[str, int]:
    table: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        table[call.name] += 1
    return OrderedDict(sorted(table.items(), key=lambda item: (-item[1], item[0])))


def matmul_flops(calls: Sequence[OperatorCall]) -> int:
    return sum(p.flops for p in map(Product.of, calls) if p is not None)


if __name__ == "__main__":
    print(log_operators(torch.cat, [torch.ones(2, 3)]))
