"""Build models whose layers a module can find: Sequential, ModuleList, and why not a plain list.

A module registers a layer when you assign it: `self.first = nn.Linear(4, 3)`. Assign a list of layers, and it
sees a list. The forward pass works, but the optimizer never moves these layers, `state_dict()` does not save
them, `.to()` and `.eval()` do not reach them. `nn.Sequential` and `nn.ModuleList` register what they hold.

Source: He, Zhang, Ren and Sun (2016), "Deep Residual Learning for Image Recognition", section 3.1; PyTorch
documentation, torch.nn.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Collection, Iterable, Sequence

from torch import Tensor, nn


class MLP(nn.Module):
    """A multilayer perceptron: Linear layers with a ReLU between each two of them.

    `layers` is an `nn.Sequential`: for the widths [4, 8, 3] it holds `nn.Linear(4, 8)`, `nn.ReLU()` and
    `nn.Linear(8, 3)`. So the state dict has `layers.0.weight`, `layers.0.bias`, `layers.2.weight`,
    `layers.2.bias`, and nothing else.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        """Create `layers`: an `nn.Linear(widths[i], widths[i + 1])` for each two neighboring widths.

        There is no ReLU after the last Linear. Every Linear has a bias and PyTorch's initialization.

        Raises ValueError that names `widths` if there are fewer than two or one of them is below 1.
        """
        super().__init__()
        # begin solution: check widths, then create self.layers
        if len(widths) < 2 or min(widths) < 1:
            raise ValueError(f"widths must be at least two numbers of at least 1, got {widths}")
        layers: list[nn.Module] = []
        for i in range(len(widths) - 1):
            # A new Linear in each round: [nn.Linear(n, n)] * 3 is one layer, three times.
            layers += [nn.Linear(widths[i], widths[i + 1]), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])
        # end solution

    def forward(self, x: Tensor) -> Tensor:
        """Map `x` of shape (..., widths[0]) to (..., widths[-1]) by running `layers`."""
        # begin solution: run the layers
        output: Tensor = self.layers(x)
        return output
        # end solution


class ResidualStack(nn.Module):
    """Blocks with a skip connection around each of them: `x = x + block(x)`."""

    def __init__(self, blocks: Iterable[nn.Module]) -> None:
        """Keep the modules `blocks`, in order, in `self.blocks`, an `nn.ModuleList`. There may be none."""
        super().__init__()
        # begin solution: create self.blocks
        self.blocks = nn.ModuleList(blocks)
        # end solution

    def forward(self, x: Tensor, skip: Collection[int] = ()) -> Tensor:
        """Send `x` through the blocks: for each in order `x = x + block(x)`. Returns the last `x`.

        - A block whose index is in `skip` (a list, tuple, set, range, ..., with or without repeats) is not
          called, and `x` goes on unchanged.
        - The other blocks are called once each.
        - Nothing is changed in place: neither the caller's `x`, nor what a block was given or returned, since
          autograd may need it. Gradients reach `x` and the parameters of all blocks that were called.

        Raises ValueError that names `skip` if an index in it is not one of 0..len(blocks)-1, before any block
        is called.
        """
        # begin solution: check skip, then go through the blocks
        skipped = set(skip)
        if not skipped <= set(range(len(self.blocks))):
            raise ValueError(f"skip must name blocks 0 to {len(self.blocks) - 1}, got {skip}")
        for index, block in enumerate(self.blocks):
            if index not in skipped:
                x = x + block(x)  # not x +=, which writes into the tensor of the caller
        return x
        # end solution


def plain_containers(model: nn.Module) -> list[str]:
    """Find the plain lists, tuples and dicts that hide a layer or parameter from PyTorch.

    Returns the dotted names of all attributes of `model` and of its submodules that are a list, tuple or dict
    (or of a subclass of these) which directly holds an `nn.Module` or an `nn.Parameter`, maybe among other
    things; in a dict, as a value. `layers` of the model itself is "layers", that of its submodule `encoder` is
    "encoder.layers". In any order, each once; [] if there is none.

    - `nn.Sequential`, `nn.ModuleList`, `nn.ModuleDict` and `nn.ParameterList` are not plain.
    - Leave out attributes whose name begins with an underscore: PyTorch keeps its own tables there.
    - Do not look into containers inside containers, nor into modules that only a plain container holds.
    """
    # begin solution: go through named_modules() and the vars() of each
    hidden = []
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            # An nn.ModuleList is not a list but an nn.Module, and is in _modules anyway.
            if name.startswith("_") or not isinstance(value, (list, tuple, dict)):
                continue
            items = value.values() if isinstance(value, dict) else value
            if any(isinstance(item, (nn.Module, nn.Parameter)) for item in items):
                hidden.append(f"{prefix}.{name}" if prefix else name)
    return hidden
    # end solution
