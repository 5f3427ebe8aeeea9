"""Build models whose layers a module can find: Sequential, ModuleList, and why not a plain list.

A module registers a layer when you assign it: `self.first = nn.Linear(4, 3)`. Assign a list of layers, and
it sees a list. Nothing fails: the forward pass works and the loss is a number. But `parameters()` does not
know these layers, so that the optimizer never moves them, `state_dict()` does not save them, `.to()` leaves
them where they are, and `.eval()` does not reach them. `nn.Sequential` and `nn.ModuleList` are lists that
register what they hold.

You build one model with each of them, and then a tool that finds plain lists in other models. What you are
given stays as it is (values, `.grad`, `requires_grad`, modes).

Source: He, Zhang, Ren and Sun (2016), "Deep Residual Learning for Image Recognition", section 3.1, for the
skip connections; torch.nn's documentation for the containers.
"""

from collections.abc import Collection, Iterable, Sequence

from torch import Tensor, nn


class MLP(nn.Module):
    """A multilayer perceptron: Linear layers with a ReLU between each two of them.

    `layers` is an `nn.Sequential`: for the widths [4, 8, 3] it holds `nn.Linear(4, 8)`, `nn.ReLU()` and
    `nn.Linear(8, 3)`, in this order. So the names in the state dict are `layers.0.weight`, `layers.0.bias`,
    `layers.2.weight`, `layers.2.bias`, and nothing else is in it.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        """Create `layers`: an `nn.Linear(widths[i], widths[i + 1])` for each two neighboring widths.

        There is no ReLU after the last Linear. Every Linear is a layer of its own, has a bias, and keeps
        PyTorch's initialization.

        Raises ValueError, with a message that names `widths`, if there are fewer than two widths or one of
        them is below 1.
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
        """Map `x` of shape (..., widths[0]) to (..., widths[-1]) by running `layers`.

        `...` is any number of leading dimensions, none included.
        """
        # begin solution: run the layers
        output: Tensor = self.layers(x)
        return output
        # end solution


class ResidualStack(nn.Module):
    """Blocks with a skip connection around each of them: `x = x + block(x)`."""

    def __init__(self, blocks: Iterable[nn.Module]) -> None:
        """Keep the modules `blocks`, in order, in `self.blocks`, an `nn.ModuleList`.

        Any iterable is fine, a generator or an empty list, too.
        """
        super().__init__()
        # begin solution: create self.blocks
        self.blocks = nn.ModuleList(blocks)
        # end solution

    def forward(self, x: Tensor, skip: Collection[int] = ()) -> Tensor:
        """Send `x` through the blocks: for each in order `x = x + block(x)`. Returns the last `x`.

        - A block whose index is in `skip` is not called, and `x` goes on unchanged. `skip` is a list, tuple,
          set, range, ...; an index that is in it twice counts once.
        - The other blocks are called once each, as `block(x)`: `block.forward(x)` skips the block's hooks.
        - Nothing is changed in place: neither the caller's `x`, nor what a block was given, nor what a block
          returned, since autograd may need them in the backward pass. Gradients reach `x` and the parameters
          of all blocks that were called.

        Raises ValueError, with a message that names `skip`, if an index in `skip` is not one of
        0..len(blocks)-1, before any block is called.
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

    Returns the dotted names of all attributes of `model` and of its submodules that are a list, tuple or
    dict (or of a subclass of these) which directly holds an `nn.Module` or an `nn.Parameter`; in a dict, as a
    value. An attribute `layers` of the model itself is "layers", and that of its submodule `encoder` is
    "encoder.layers". In any order, each once; [] if there is none.

    - One module among other things, numbers for example, is enough.
    - `nn.Sequential`, `nn.ModuleList`, `nn.ModuleDict` and `nn.ParameterList` register what they hold, and
      are not plain.
    - Leave out attributes whose name begins with an underscore: PyTorch keeps its own tables there.

    Submodules are those that PyTorch knows: do not look into containers inside containers, nor into modules
    that only a plain container holds.
    """
    # begin solution: go through named_modules() and the vars() of each
    hidden = []
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            # An nn.ModuleList is no list, but an nn.Module; it stands in _modules anyway.
            if name.startswith("_") or not isinstance(value, (list, tuple, dict)):
                continue
            items = value.values() if isinstance(value, dict) else value
            if any(isinstance(item, (nn.Module, nn.Parameter)) for item in items):
                hidden.append(f"{prefix}.{name}" if prefix else name)
    return hidden
    # end solution
