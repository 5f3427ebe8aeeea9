"""Device and dtype: move a batch of any structure, and find the tensors that `.to()` leaves behind.

"Expected all tensors to be on the same device" has two usual causes: a batch of which only a part was moved,
and a tensor that is a plain attribute of a module. You need no GPU: every machine has the device `meta`, whose
tensors have a shape and a dtype but no values.

Source: PyTorch documentation, "Tensor Attributes", "Meta device" and `torch.nn.Module.to`.

What holds for every exercise: docs/every-exercise.md.
"""

from typing import Any

import torch
from torch import nn


def to_device(batch: Any, device: torch.device | str, dtype: torch.dtype | None = None) -> Any:
    """Return a batch of the same structure with every tensor moved to `device`.

    A batch is a tensor, or a dict, list, tuple or NamedTuple of batches, nested to any depth, maybe empty. The
    result has the same kinds of container: a dict with its keys in the same order, a list, a tuple, a
    NamedTuple of the same type. Anything else (None, numbers, strings, arrays) is passed on as the same object,
    and so may be a tensor that needs no change.

    With a `dtype`, floating-point tensors are cast to it; integer, bool and complex tensors keep theirs.

    Raises ValueError that names `dtype` if it is not a floating-point dtype.
    """
    # begin solution: tensors, each kind of container, everything else
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating-point dtype, got {dtype}")
    if isinstance(batch, torch.Tensor):
        return batch.to(device=device, dtype=dtype if batch.is_floating_point() else None)
    if isinstance(batch, dict):
        return {key: to_device(value, device, dtype) for key, value in batch.items()}
    if isinstance(batch, list):
        return [to_device(value, device, dtype) for value in batch]
    if isinstance(batch, tuple):
        values = (to_device(value, device, dtype) for value in batch)
        # A NamedTuple takes its fields one by one, a tuple takes them all at once.
        return type(batch)(*values) if hasattr(batch, "_fields") else tuple(values)
    return batch
    # end solution


def unregistered(module: nn.Module) -> list[str]:
    """Return the sorted dotted names of all tensors that `module.to(device)` would leave behind.

    These are plain attributes of the module and its submodules: neither parameters nor buffers, and not inside
    lists or dicts. "encoder.table" is the attribute `table` of the submodule `encoder`, "scale" one of the
    module itself.
    """
    # begin solution: look at the plain attributes of every submodule
    return sorted(name for name, _ in _plain_tensors(module))
    # end solution


def misplaced(module: nn.Module, device: torch.device | str) -> list[str]:
    """Return the sorted dotted names of all tensors of the module that are not on `device`.

    These are parameters (frozen ones, too), buffers (persistent or not), and the plain attributes that
    `unregistered` names. A device without an index stands for any index of its type: a tensor on cuda:1 is on
    "cuda". And "cpu:0" is "cpu". The device need not exist on this machine.
    """
    # begin solution: compare types, and indices where one was asked for
    wanted = torch.device(device)

    def is_elsewhere(tensor: torch.Tensor) -> bool:
        if tensor.device.type != wanted.type:
            return True
        # There is one CPU, and its tensors have no index.
        return wanted.type != "cpu" and wanted.index not in (None, tensor.device.index)

    tensors = [*module.named_parameters(), *module.named_buffers(), *_plain_tensors(module)]
    return sorted(name for name, tensor in tensors if is_elsewhere(tensor))
    # end solution


# begin solution: a helper
def _plain_tensors(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """The names and tensors of ordinary attributes, which are not registered as parameters or buffers."""
    return [
        (f"{path}.{name}" if path else name, value)
        for path, submodule in module.named_modules()
        for name, value in vars(submodule).items()
        if isinstance(value, torch.Tensor)
    ]


# end solution
