"""Saboteurs: what the wrong answers do that `grade verify` makes of a solution, for each law that a test calls.

Each is a function that stands around the solution's own (a function, a module's forward, a class's __init__),
and begins with what it does in words; `law` says beside each law which of them it must catch. This file
runs in the sandbox, as the end of the submission, so it imports nothing of the grader. A saboteur that finds
nothing to do here (no tensor among the arguments, no error to drop) does not say that it was at work.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

AT_WORK = "A saboteur is at work."


class SabotagedCall:
    """A call of the solution's while it is sabotaged; `owner` is the module whose method it is."""

    def __init__(
        self, run: Callable[..., Any], names: dict[str, Any], owner: Any, is_init: bool,
        arguments: tuple[Any, ...], keywords: dict[str, Any],
    ) -> None:  # fmt: skip
        self.run, self.names, self.owner, self.is_init = run, names, owner, is_init
        self.arguments, self.keywords = list(arguments), keywords

    def __call__(self) -> Any:
        own = [] if self.owner is None else [self.owner]
        return self.run(*own, *self.arguments, **self.keywords)

    def tensors(self, *positions: int) -> Iterator[Any]:
        """The tensors among the arguments, parameters too (at these positions; -1 is the owner)."""
        for position in positions or range(len(self.arguments)):
            yield from _tensors(self.argument(position))
        if not positions:
            yield from _tensors(list(self.keywords.values()))

    def arrays(self, *positions: int) -> Iterator[Any]:
        """The memory of the NumPy arrays among the arguments, as tensors."""
        for position in positions or range(len(self.arguments)):
            value = self.argument(position)
            if _is(value, "numpy", "ndarray") and value.dtype.kind in "fiu":
                yield sys.modules["torch"].from_numpy(value)

    def modules(self, *positions: int) -> list[Any]:
        """The modules among the arguments."""
        values = [self.argument(position) for position in positions] if positions else []
        return [value for value in values or self.arguments if _is_module(value)]

    def argument(self, position: int) -> Any:
        """An argument, or the owner."""
        if position < 0:
            return self.owner
        return self.arguments[position] if position < len(self.arguments) else None


Saboteur = Callable[[SabotagedCall], Any]


def sabotage(names: dict[str, Any], targets: list[str], saboteur: Saboteur) -> None:
    """Put a saboteur around these functions and classes of a module's `names`."""
    for target in targets:
        own = names[target]
        if not isinstance(own, type):
            names[target] = _around(own, names, saboteur, is_method=False)
        elif not hasattr(
            own, "setup_context"
        ):  # what calls an autograd Function is sabotaged itself
            for method in ("__init__", "forward"):
                if method in vars(own):
                    sabotaged = _around(getattr(own, method), names, saboteur, is_method=True)
                    setattr(own, method, sabotaged)


def _around(
    run: Callable[..., Any], names: dict[str, Any], saboteur: Saboteur, *, is_method: bool
) -> Callable[..., Any]:
    @functools.wraps(run)
    def sabotaged(*arguments: Any, **keywords: Any) -> Any:
        owner = arguments[0] if is_method else None
        is_init = is_method and run.__name__ == "__init__"
        call = SabotagedCall(run, names, owner, is_init, arguments[is_method:], keywords)
        return saboteur(call)

    return sabotaged


_silent: list[str] = []


def _at_work() -> None:
    if AT_WORK not in _silent:
        _silent.append(AT_WORK)
        print(AT_WORK, flush=True)  # noqa: T201 (into the submission's output, which verify reads)


def _is(value: Any, module: str, name: str) -> bool:
    # A course in plain Python imports no torch.
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _is_tensor(value: Any) -> bool:
    return _is(value, "torch", "Tensor")


def _is_module(value: Any) -> bool:
    return _is(value, "torch.nn", "Module")


def _tensors(value: Any) -> Iterator[Any]:
    if _is_tensor(value):
        yield value
    elif _is_module(value):
        yield from value.parameters()
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _is_double(tensor: Any) -> bool:
    return str(tensor.dtype) == "torch.float64"


def _is_float(tensor: Any) -> bool:
    return bool(tensor.is_floating_point())


def _result(
    call: SabotagedCall,
    change: Callable[[Any], Any],
    which: Callable[[Any], bool] = lambda tensor: True,
) -> Any:
    """What the call gives, with each tensor (of a kind) changed."""
    return _changed(call(), change, which)


def _changed(value: Any, change: Callable[[Any], Any], which: Callable[[Any], bool]) -> Any:
    if _is_tensor(value):
        if not which(value):
            return value
        _at_work()
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_changed(item, change, which) for item in value))
    if type(value) in (list, tuple):
        return type(value)(_changed(item, change, which) for item in value)
    if isinstance(value, dict):
        return {name: _changed(item, change, which) for name, item in value.items()}
    return value


def _backward(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The identity, whose backward pass changes the gradient."""
    import torch

    class Changed(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(_: Any, grad: Any) -> Any:
            _at_work()
            return change(grad)

    apply: Callable[[Any], Any] = Changed.apply
    return apply


# --- what a call leaves -----------------------------------------------------------------------------


def _afterwards(call: SabotagedCall, change: Callable[[Any], object], values: Iterable[Any]) -> Any:
    try:
        return call()
    finally:
        for value in values:
            change(value)


def writes_into(*positions: int) -> Saboteur:
    """writes into an argument or a parameter"""
    return lambda call: _afterwards(
        call, _write, itertools.chain(call.tensors(*positions), call.arrays(*positions))
    )


def writes_into_buffers(*positions: int) -> Saboteur:
    """writes into the buffers of a model"""
    return lambda call: _afterwards(
        call, _write, (buffer for model in call.modules(*positions) for buffer in model.buffers())
    )


def _write(tensor: Any) -> None:
    # An expanded tensor has several elements in one place, and an empty one none.
    if tensor.numel() and 0 not in tensor.stride():
        _at_work()
        tensor.data.copy_(~tensor if str(tensor.dtype) == "torch.bool" else tensor + 1)


def sets_grad(*positions: int) -> Saboteur:
    """puts a gradient into the .grad of an argument or a parameter"""

    def change(tensor: Any) -> None:
        if tensor.is_leaf and _is_float(tensor):
            _at_work()
            tensor.grad = tensor.detach() * 0 + 5

    return lambda call: _afterwards(call, change, call.tensors(*positions))


def switches_requires_grad(*positions: int) -> Saboteur:
    """switches requires_grad of an argument or a parameter"""

    def change(tensor: Any) -> None:
        if tensor.is_leaf and _is_float(tensor):
            _at_work()
            tensor.requires_grad_(not tensor.requires_grad)

    return lambda call: _afterwards(call, change, call.tensors(*positions))


def switches_mode(*positions: int) -> Saboteur:
    """leaves a model in the other mode, training or evaluation"""

    def change(part: Any) -> None:
        _at_work()
        part.training = not part.training

    return lambda call: _afterwards(
        call, change, (part for model in call.modules(*positions) for part in model.modules())
    )


def doubles_options(*positions: int) -> Saboteur:
    """changes the learning rate of an optimizer"""

    def change(optimizer: Any) -> None:
        for group in getattr(optimizer, "param_groups", []):
            _at_work()
            group["lr"] = 2 * group["lr"] + 1

    return lambda call: _afterwards(call, change, [call.argument(i) for i in positions])


def switches_grad_mode(call: SabotagedCall) -> Any:
    """leaves autograd switched off, or on"""
    import torch

    _at_work()
    return _afterwards(call, torch.set_grad_enabled, [not torch.is_grad_enabled()])


def draws(call: SabotagedCall) -> Any:
    """draws from the global random states"""
    _at_work()
    random.random()  # noqa: S311 (that is the mistake)
    if "torch" in sys.modules:
        sys.modules["torch"].rand(1)
    return call()


def writes_into_grad_output(call: SabotagedCall) -> Any:
    """writes into grad_output in its backward pass"""
    return _result(call, _backward(lambda grad: grad.mul_(2)))


def returns_its_argument(call: SabotagedCall) -> Any:
    """returns its argument, or a view of it"""
    call()
    for value in call.arguments:
        if hasattr(value, "view_as"):
            _at_work()
            return value.view_as(value)
    return call()


def returns_inference_tensor(call: SabotagedCall) -> Any:
    """returns an inference tensor"""
    import torch

    result = call()
    with torch.inference_mode():
        return _changed(result, lambda t: t.detach().clone(), _is_float)


def attaches(call: SabotagedCall) -> Any:
    """returns a result with a graph"""
    return _result(call, lambda t: t.detach().clone().requires_grad_() * 1, _is_float)


def detaches(call: SabotagedCall) -> Any:
    """returns a result that is cut off from the graph"""
    return _result(call, lambda t: t.detach())


# --- what comes out ---------------------------------------------------------------------------------


def flattens(call: SabotagedCall) -> Any:
    """flattens leading dimensions"""
    if any(x.dim() > 2 for x in call.tensors(0)):
        return _result(call, lambda t: t.flatten(0, 1), lambda t: bool(t.dim() > 1))
    return call()


def mixes_rows(call: SabotagedCall) -> Any:
    """adds to each row what depends on the others"""
    return _result(call, lambda t: t + t.numel(), lambda t: str(t.dtype) != "torch.bool")


def adds_a_dimension(call: SabotagedCall) -> Any:
    """returns a result of one dimension more"""
    return _result(call, lambda t: t.unsqueeze(0))


def refuses_empty(call: SabotagedCall) -> Any:
    """raises an error at an argument of size 0"""
    if any(not x.numel() for x in call.tensors()):
        _at_work()
        raise RuntimeError(f"{AT_WORK} It takes no argument of size 0.")
    return call()


def refuses_layouts(call: SabotagedCall) -> Any:
    """calls .view, which raises an error where an argument is not contiguous"""
    if any(not x.is_contiguous() for x in call.tensors()):
        _at_work()
        raise RuntimeError(f"{AT_WORK} view size is not compatible with the strides.")
    return call()


def converts(dtype: str) -> Saboteur:
    """returns the same dtype, whatever that of its argument"""

    def saboteur(call: SabotagedCall) -> Any:
        import torch

        return _result(call, lambda t: t.to(getattr(torch, dtype)), _is_float)

    return saboteur


def rounds(call: SabotagedCall) -> Any:
    """computes float64 with the precision of float32, in the backward pass too"""

    def rounded(tensor: Any) -> Any:
        return tensor.float().double()

    back = _backward(rounded)
    call.arguments = [
        back(x) if hasattr(x, "dtype") and _is_double(x) and x.requires_grad else x
        for x in call.arguments
    ]
    return _result(call, rounded, _is_double)


def gives_nan(call: SabotagedCall) -> Any:
    """gives NaN"""
    if call.is_init:
        return _starts(call, "", lambda _, __, tensor: tensor.data.fill_(float("nan")))
    return _result(call, lambda t: t * float("nan"), _is_float)


def gives_nan_gradients(call: SabotagedCall) -> Any:
    """gives gradients of NaN"""
    return _result(call, _backward(lambda grad: grad * float("nan")), _is_float)


def doubles_gradients(call: SabotagedCall) -> Any:
    """gives gradients that are twice too large"""
    return _result(call, _backward(lambda grad: 2 * grad), _is_float)


# --- autograd Functions -----------------------------------------------------------------------------


def goes_around(call: SabotagedCall) -> Any:
    """has a gradient that its Function did not compute"""
    return _result(call, lambda t: t.detach() + 0 * sum(x.sum() for x in call.tensors(0)))


def computes_on(call: SabotagedCall) -> Any:
    """computes with what its Function gave"""
    return _result(call, lambda t: t * 1)


def saves_a_copy(call: SabotagedCall) -> Any:
    """saves a copy for the backward pass"""
    _at_work()
    call.arguments = [x.clone() if hasattr(x, "clone") else x for x in call.arguments]
    return call()


def once_differentiable(call: SabotagedCall) -> Any:
    """has a backward pass that cannot be differentiated"""
    back = _backward(lambda grad: grad.detach())
    call.arguments = [back(x) if hasattr(x, "detach") else x for x in call.arguments]
    return call()


def unbinds(own: str) -> Saboteur:
    """has a Function whose methods are not static"""

    def saboteur(call: SabotagedCall) -> Any:
        _at_work()
        for name in ("forward", "backward"):
            method = vars(call.names[own]).get(name)
            if isinstance(method, staticmethod):
                setattr(call.names[own], name, method.__func__)
        return call()

    return saboteur


# --- modules ----------------------------------------------------------------------------------------


def _starts(call: SabotagedCall, name: str, change: Callable[[Any, str, Any], object]) -> Any:
    """Change a new module's tensors of this name ("" means all); `change` gets owner, name and tensor."""
    result = call()
    if call.is_init and _is_module(call.owner):
        for part in list(call.owner.modules()):
            for key, tensor in [*part._parameters.items(), *part._buffers.items()]:
                if tensor is not None and name in ("", key):
                    _at_work()
                    change(part, key, tensor)
    return result


def loses_parameter(name: str) -> Saboteur:
    """has a plain tensor in the place of a parameter or buffer"""

    def change(part: Any, key: str, tensor: Any) -> None:
        delattr(part, key)
        setattr(part, key, tensor.detach())

    return lambda call: _starts(call, name, change)


def reshapes_parameter(name: str) -> Saboteur:
    """has a parameter of one dimension more"""

    def change(_: Any, __: str, tensor: Any) -> None:
        tensor.data = tensor.data.unsqueeze(0)

    return lambda call: _starts(call, name, change)


def registers_more(call: SabotagedCall) -> Any:
    """registers a buffer that the task does not ask for"""
    import torch

    result = call()
    if call.is_init and _is_module(call.owner):
        _at_work()
        call.owner.register_buffer("of_a_saboteur", torch.zeros(1))
    return result


def starts_empty(name: str) -> Saboteur:
    """leaves what was in memory in a new module"""
    import torch

    def change(_: Any, __: str, tensor: Any) -> None:
        tensor.data = torch.empty_like(tensor.data)

    return lambda call: _starts(call, name, change)


def starts_constant(name: str) -> Saboteur:
    """starts with the same numbers each time"""
    return lambda call: _starts(call, name, lambda _, __, tensor: tensor.data.fill_(0.01))


def starts_zero(name: str) -> Saboteur:
    """starts with zeros"""
    return lambda call: _starts(call, name, lambda _, __, tensor: tensor.data.fill_(0))


def seeds(call: SabotagedCall) -> Any:
    """seeds the global random state"""
    import torch

    _at_work()
    torch.manual_seed(0)
    return call()


def starts_large(call: SabotagedCall) -> Any:
    """starts a thousand times too large"""
    result = _starts(call, "", lambda _, __, tensor: tensor.data.mul_(1000))
    for model in call.modules():
        for parameter in model.parameters():
            _at_work()
            parameter.data.mul_(1000)
    return _changed(result, lambda t: t * 1000, _is_float)


def runs_in_other_mode(call: SabotagedCall) -> Any:
    """runs the model in the other mode, training or evaluation"""

    def switch(model: Any, _: Any) -> None:
        model.train(not model.training)

    for model in call.modules():
        _at_work()
        model.register_forward_pre_hook(switch, prepend=True)
    return call()


def runs_in_other_grad_mode(call: SabotagedCall) -> Any:
    """runs the model with autograd where it should be off, or off where it should be on"""
    import torch

    def switch(*_: Any) -> None:
        torch.set_grad_enabled(not torch.is_grad_enabled())

    for model in call.modules():
        _at_work()
        model.register_forward_pre_hook(switch, prepend=True)
        model.register_forward_hook(switch)
    return call()


# --- errors, seeds, files ---------------------------------------------------------------------------


def drops_check(name: str) -> Saboteur:
    """raises no error at a bad argument"""

    def saboteur(call: SabotagedCall) -> Any:
        try:
            return call()
        except Exception as error:
            if not any(word in str(error).lower() for word in name.lower().split(" or ")):
                raise
            _at_work()
            return None

    return saboteur


def names_no_argument(call: SabotagedCall) -> Any:
    """raises an error that does not name the argument"""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 (whatever the solution raises)
        _at_work()
        raise type(error)("bad") from None


def _with_seed(call: SabotagedCall, change: Callable[[int], int]) -> Any:
    """SabotagedCall with another seed: the argument of that name, or else the last integer."""
    names = list(inspect.signature(call.run).parameters)[call.owner is not None :]
    for name in [name for name in names if "seed" in name]:
        place = names.index(name)
        if isinstance(call.keywords.get(name), int):
            _at_work()
            call.keywords[name] = change(call.keywords[name])
        elif place < len(call.arguments) and isinstance(call.arguments[place], int):
            _at_work()
            call.arguments[place] = change(call.arguments[place])
    return call()


def ignores_seed(call: SabotagedCall) -> Any:
    """ignores the seed"""
    return _with_seed(call, lambda seed: 12)


def draws_seed(call: SabotagedCall) -> Any:
    """draws from the global random state where a seed was given"""
    return _with_seed(call, lambda seed: random.randrange(2**31))  # noqa: S311 (that is the mistake)


def runs_operator(name: str) -> Saboteur:
    """runs an operator that is not allowed"""

    def saboteur(call: SabotagedCall) -> Any:
        import torch

        plain: dict[str, Any] = {"int": 0, "bool": False, "float": 0.5, "number": 1}
        x = next(call.tensors(), torch.ones(1)).detach()
        space, _, short = name.partition("::")
        packet = getattr(getattr(torch.ops, space), short)
        for overload in packet.overloads():
            operator = getattr(packet, overload)
            needed = [a for a in operator._schema.arguments if not a.has_default_value()]
            try:
                for value in (x, x.reshape(-1)[:1]):
                    operator(*(plain.get(str(a.type).lower(), value) for a in needed))
                    _at_work()
            except (RuntimeError, TypeError, IndexError, ValueError):
                continue
        return call()

    return saboteur


def runs_function(prefix: str) -> Saboteur:
    """runs a function of torch's that is not allowed"""

    def saboteur(call: SabotagedCall) -> Any:
        root = sys.modules["torch"].__file__ or ""
        inside = prefix.removeprefix("torch.").strip(".").replace(".", "/")
        file = f"{root.removesuffix('__init__.py')}{inside}/of_a_saboteur.py"
        _at_work()
        exec(compile("def function(): pass\nfunction()", file, "exec"), {})  # noqa: S102 (a fixed text)
        return call()

    return saboteur


# --- loaders and figures ----------------------------------------------------------------------------


class _Batches:
    """A loader whose epochs are changed."""

    def __init__(self, loader: Any, change: Callable[[list[Any]], list[Any]]) -> None:
        self._loader, self._change = loader, change

    def __iter__(self) -> Iterator[Any]:
        _at_work()
        return iter(self._change(list(self._loader)))

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _loader(call: SabotagedCall, change: Callable[[list[Any]], list[Any]]) -> Any:
    """The loader that the call makes, or the first of several, changed."""
    made = call()
    if isinstance(made, tuple):
        return (_Batches(made[0], change), *made[1:])
    return _Batches(made, change)


def loses_a_batch(call: SabotagedCall) -> Any:
    """yields a batch less"""
    return _loader(call, lambda batches: batches[:-1])


def reverses_batches(call: SabotagedCall) -> Any:
    """yields its batches in the opposite order"""
    return _loader(call, lambda batches: batches[::-1])


def repeats_its_order(call: SabotagedCall) -> Any:
    """yields the same order in each epoch"""
    first: list[Any] = []

    def repeated(batches: list[Any]) -> list[Any]:
        first.extend([] if first else batches)
        return first

    return _loader(call, repeated)


def _figure(call: SabotagedCall, change: Callable[[Any], object]) -> Any:
    figure = call()
    if hasattr(figure, "axes"):
        _at_work()
        change(figure)
    return figure


def other_scale(axis: str) -> Saboteur:
    """gives an axis another scale"""

    def change(figure: Any) -> None:
        for axes in figure.axes:
            log = getattr(axes, f"get_{axis}scale")() == "log"
            getattr(axes, f"set_{axis}scale")("linear" if log else "log")

    return lambda call: _figure(call, change)


def no_labels(call: SabotagedCall) -> Any:
    """gives the axes no labels"""
    return _figure(call, lambda figure: [axes.set(xlabel="", ylabel="") for axes in figure.axes])


def no_legend(call: SabotagedCall) -> Any:
    """draws no legend"""

    def change(figure: Any) -> None:
        for owner in (*figure.axes, figure):
            legends = [getattr(owner, "legend_", None), *getattr(owner, "legends", [])]
            for legend in legends:
                if legend is not None:
                    legend.remove()

    return _figure(call, change)


def leaves_a_figure(call: SabotagedCall) -> Any:
    """leaves a figure open in pyplot"""
    import matplotlib.pyplot as plt

    _at_work()
    plt.figure()
    return call()


def closes_figures(call: SabotagedCall) -> Any:
    """closes the figures of its caller"""
    import matplotlib.pyplot as plt

    _at_work()
    plt.close("all")
    return call()


def shows_figure(call: SabotagedCall) -> Any:
    """shows its figure"""
    import matplotlib.pyplot as plt

    _at_work()
    plt.show()
    return call()
