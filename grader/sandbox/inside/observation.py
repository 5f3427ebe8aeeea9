"""Raw facts about live objects, before and after a call. The judge compares and interprets them.

Facts are plain data: a dict with a `kind`, and for a tensor a copy of its values. A fact that cannot be read is
left out.
"""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

from grader.sandbox.private import keep_builtins

keep_builtins(globals())

_DEEPEST, _MOST = 6, 1000
# An inference mode ends with its guard.
_guards: list[Any] = []


def seed_all(seed: int) -> None:
    """Seed the global random states of Python and of the loaded libraries."""
    random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:
        # torch.manual_seed also seeds devices, and formats a stack each time (1 ms).
        torch.default_generator.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def draws() -> dict[str, list[float]]:
    """Return the next numbers of each global random state, and the last seed of torch's."""
    numbers = {"Python": [random.random()]}  # noqa: S311 (it shows the state)
    if (torch := sys.modules.get("torch")) is not None:
        numbers["torch seed"] = [torch.default_generator.initial_seed()]
        numbers["torch"] = torch.rand(2, dtype=torch.float64).tolist()
    if (numpy := sys.modules.get("numpy")) is not None:
        numbers["NumPy"] = [float(numpy.random.random_sample())]
    return numbers


def facts_of_call(function: Any, arguments: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of the arguments, of the module that is called, and of PyTorch's modes."""
    return {
        "arguments": [facts(value) for value in arguments],
        "keywords": {name: facts(value) for name, value in keywords.items()},
        "module": facts(function) if _is(function, "torch.nn", "Module") else None,
        "modes": modes(),
    }


def modes() -> dict[str, Any]:
    """Return PyTorch's global modes, under names for students."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    module = torch.nn.modules.module
    tables = [name for name in vars(module) if name.startswith("_global_") and "hooks" in name]
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "default dtype": str(torch.get_default_dtype()),
        "global hooks": sum(len(getattr(module, name) or ()) for name in tables),
    }


def settings() -> dict[str, Any]:
    """Return the modes that the student's module may set at import; each test begins with them."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "warnings": list(warnings.filters),
        "device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "grad": torch.is_grad_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "dtype": torch.get_default_dtype(),
        "dispatch": torch._C._len_torch_dispatch_stack(),
    }


def changed(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of settings that differ; new settings are not compared."""
    return tuple(name for name, value in after.items() if before.get(name, value) != value)


def set_modes(settings: dict[str, Any]) -> None:
    """Set the modes to these settings; end the last test's inference mode, dispatch modes and global hooks."""
    torch = sys.modules.get("torch")
    if torch is None or not settings:
        return
    if torch.is_inference_mode_enabled():
        _guards.append(torch._C._InferenceMode(False))
        _guards[-1].__enter__()
    if warnings.filters != settings["warnings"]:
        warnings.filters[:] = settings["warnings"]  # type: ignore[index]
    device = settings["device"]
    # A default device is a function mode; without any mode, there is no need to ask torch.
    is_plain = device.type == "cpu" and not torch._C._len_torch_function_stack()
    if not is_plain and torch.get_default_device() != device:
        # None is the CPU, without a function mode.
        torch.set_default_device(None if device.type == "cpu" else device)
    if torch.are_deterministic_algorithms_enabled() != settings["deterministic"]:
        # Not the public function, which imports torch._inductor (2 s).
        torch._C._set_deterministic_algorithms(settings["deterministic"], warn_only=False)
    torch.set_grad_enabled(settings["grad"])
    torch.set_anomaly_enabled(settings["anomaly"])
    torch.set_autocast_enabled("cpu", settings["autocast"])
    torch.set_default_dtype(settings["dtype"])
    while torch._C._len_torch_dispatch_stack() > settings["dispatch"]:
        torch._C._pop_torch_dispatch_stack(None)
    for name, table in vars(torch.nn.modules.module).items():
        if name.startswith("_global_") and "hooks" in name and table:
            table.clear()


def facts(value: Any, depth: int = 0) -> Any:
    """Return the facts of a value: a tensor, module or optimizer, a container of these, or plain data."""
    if _is(value, "torch", "Tensor"):
        return _tensor(value)
    if _is(value, "torch.nn", "Module"):
        return _module(value)
    if _is(value, "torch.optim", "Optimizer"):
        return _optimizer(value, depth)
    if _is(value, "torch", "Generator"):
        return _tensor(value.get_state())
    if _is(value, "torch.optim.lr_scheduler", "LRScheduler"):
        return facts(value.state_dict(), depth)
    if (names := getattr(type(value), "__dataclass_fields__", None)) is not None:
        value = {name: getattr(value, name, None) for name in names}
    if isinstance(value, (list, tuple, dict)) and depth < _DEEPEST and len(value) <= _MOST:
        items = value.values() if isinstance(value, dict) else value
        container = {
            "kind": "container",
            "id": id(value),
            "items": [facts(i, depth + 1) for i in items],
        }
        return {**container, "keys": list(value)} if isinstance(value, dict) else container
    if _is(value, "numpy", "ndarray"):
        return {"kind": "object", "id": id(value), "value": value.copy()}
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return {"kind": "object", "value": value}  # the identity of a number does not matter
    return {"kind": "object", "id": id(value), "value": type(value).__name__}


def _is(value: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _tensor(tensor: Any) -> dict[str, Any]:
    """Return the facts of a tensor: a copy of its values, and properties of the live object."""
    torch = sys.modules["torch"]
    inference = _own(tensor, "is_inference")()
    facts = {
        "kind": "tensor",
        "id": id(tensor),
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "values": _copy(tensor),
        "requires_grad": _own(tensor, "requires_grad"),
        "leaf": _own(tensor, "is_leaf"),
        "inference": inference,
        "version": None if inference else _own(tensor, "_version"),
        "grad": None,
        "sources": [],
    }
    if tensor.is_leaf:
        facts["grad"] = None if tensor.grad is None else _copy(tensor.grad)
    else:
        facts["sources"] = [_copy(leaf.grad) for leaf in _leaves(tensor) if leaf.grad is not None]
    if tensor.layout is torch.strided and not tensor.is_meta:
        storage = _own(tensor, "untyped_storage")()
        facts["storage"] = [storage.data_ptr(), storage.data_ptr() + storage.nbytes()]
    return facts


def _own(tensor: Any, name: str) -> Any:
    """Return an attribute by PyTorch's own class, which a subclass cannot override."""
    return getattr(sys.modules["torch"].Tensor, name).__get__(tensor)


def _copy(tensor: Any) -> Any:
    return tensor.detach().clone()


def _leaves(tensor: Any) -> list[Any]:
    """Return the leaves whose gradients a backward pass would accumulate."""
    nodes: set[Any] = set()
    ahead = [tensor.grad_fn]
    while ahead and len(nodes) < _MOST:
        node = ahead.pop()
        if node not in nodes:
            nodes.add(node)
            ahead.extend(before for before, _ in node.next_functions if before is not None)
    return [node.variable for node in nodes if hasattr(node, "variable")]


def _module(module: Any) -> dict[str, Any]:
    """Return the facts of a module: the mode of every submodule, its tensors, and its number of hooks."""
    parts = _parts(module)
    hooks = {
        f"{name}.{table}".lstrip("."): len(registered)
        for name, part in parts
        for table, registered in vars(part).items()
        if table.endswith("_hooks") and isinstance(registered, dict) and registered
    }
    return {
        "kind": "module",
        "id": id(module),
        "training": {name: part.training for name, part in parts},
        "parameters": _tensors_in(parts, "_parameters"),
        "buffers": _tensors_in(parts, "_buffers"),
        "hooks": hooks,
    }


def _parts(module: Any) -> list[tuple[str, Any]]:
    """Return the module and its submodules, each once, by their names.

    The result equals `named_modules`, which an object may override.
    """
    parts, seen = [], set[int]()
    ahead = [("", module)]
    while ahead:
        name, part = ahead.pop()
        if part is not None and id(part) not in seen:
            seen.add(id(part))
            parts.append((name, part))
            below = [(f"{name}.{key}".lstrip("."), child) for key, child in part._modules.items()]
            ahead += reversed(below)
    return parts


def _tensors_in(parts: list[tuple[str, Any]], table: str) -> dict[str, Any]:
    """Return the facts of the parameters or buffers of these modules, each once, by their names."""
    named = {
        id(tensor): (f"{name}.{key}".lstrip("."), tensor)
        for name, part in reversed(parts)
        for key, tensor in reversed(getattr(part, table).items())
        if tensor is not None
    }
    return {name: _tensor(tensor) for name, tensor in reversed(named.values())}


def _optimizer(optimizer: Any, depth: int) -> dict[str, Any]:
    """Return the facts of an optimizer: its options and state, and the identities of its parameters."""
    groups = optimizer.param_groups
    options = [{name: v for name, v in group.items() if name != "params"} for group in groups]
    states = [dict(optimizer.state.get(p, {})) for group in groups for p in group["params"]]
    return {
        "kind": "optimizer",
        "id": id(optimizer),
        "options": facts(options, depth + 1),
        "parameters": [[id(parameter) for parameter in group["params"]] for group in groups],
        "state": facts(states, depth + 1),
    }
