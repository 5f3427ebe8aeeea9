"""An item of a dataset, and the classes that loaders yield."""

from __future__ import annotations

from typing import Any


def item(module: Any, X: Any, y: Any, idx: int) -> Any:
    made = module.TabularDataset(X, y)[idx]
    return tuple(made) if isinstance(made, list) else made


def loaded(module: Any, X: Any, y: Any, *arguments: int) -> dict[str, Any]:
    """The classes in each batch of four training epochs; classes and input sums of the other loaders."""
    train, *others = loaders = list(module.make_loaders(X, y, *arguments))
    for loader in loaders:
        if getattr(loader, "num_workers", 0):  # Workers are fine, but the sandbox is one process.
            loader.num_workers = loader.timeout = 0
    epochs = [[[int(t) for t in targets] for _, targets in train] for _ in range(4)]
    batches = [batch for loader in others for batch in loader]
    return {
        "epochs": epochs,
        "others": [int(target) for _, targets in batches for target in targets],
        "sum": sum(inputs.sum(0) for inputs, _ in batches),
        "parts": [[int(i) for i in part] for part in module.split_indices(len(X), *arguments[1:])],
    }
