"""Take a model out of Python: as TorchScript, with torch.export, and as ONNX.

- `torch.jit.trace` runs the model once and keeps the operations that ran: of an `if` only the branch that the
  example took. `torch.jit.script` compiles the source of `forward`, with its `if` and its loops.
- `torch.export.export` runs the model on stand-ins for tensors, which have no values. An `if` on a value is an
  error there, and sizes become constants unless they are declared as dynamic.
- `torch.onnx.export` writes the operations in the format ONNX, which other programs read.

An export that lost a branch or kept dropout on runs without an error: compare it with the model.

Models take one tensor, `(B, ...)` with the batch first, and return one tensor. The exporters export the model
in eval mode, whatever mode it is in, and leave it in that one.

Source: PyTorch documentation, TorchScript, torch.export, and torch.onnx; ONNX documentation, Concepts.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


class Router(nn.Module):
    """Two linear layers, of which the mean of the whole batch chooses one. Given; it branches on a value."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.positive = nn.Linear(in_features, out_features)
        self.negative = nn.Linear(in_features, out_features)

    def forward(self, x: Tensor) -> Tensor:
        """`positive` of `x` where its mean is above 0, else `negative`."""
        if x.mean() > 0:
            output: Tensor = self.positive(x)
        else:
            output = self.negative(x)
        return output


class BranchFreeRouter(nn.Module):
    """The values of a `Router`, without an `if` on values, so that torch.export keeps both branches.

    The two layers are those of `router` itself, shared and not copied, under names of your choice.
    """

    def __init__(self, router: Router) -> None:
        super().__init__()
        # TODO: keep both layers.
        raise NotImplementedError("BranchFreeRouter.__init__: keep both layers")

    def forward(self, x: Tensor) -> Tensor:
        """`(B, in_features)` to `(B, out_features)`: the values of the router.

        There is one decision for the whole batch, and a mean of 0 is not positive. Exported by torch.export,
        with a dynamic batch size, the module is right for batches of both kinds. Both layers may be computed
        (neither overflows).
        """
        # TODO: choose without an if.
        raise NotImplementedError("BranchFreeRouter.forward: choose without an if")


def to_torchscript(model: nn.Module) -> torch.jit.ScriptModule:
    """Return the model as TorchScript, with the control flow that depends on values (`if`, `while`).

    The result has the outputs of the model in eval mode, also after `torch.jit.save` and `torch.jit.load`. The
    model can be scripted.
    """
    # TODO: script the model, not trace it.
    raise NotImplementedError("to_torchscript: script the model, not trace it")


def to_exported(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """Return the model as torch.export exports it: one program for every batch size from 1.

    `result.module()` has the outputs of the model in eval mode. `example` is an input of the model with any
    number of rows, also one: a size of 1 would become a constant, so export with two rows or more. The model
    has no branch on values.
    """
    # TODO: export at least two rows, with a dynamic batch size.
    raise NotImplementedError("to_exported: export at least two rows, with a dynamic batch size")


def largest_difference(
    model: nn.Module, exported: Callable[[Tensor], Tensor], inputs: Iterable[Tensor]
) -> float:
    """Return the largest absolute difference of an output of the model in eval mode and one of `exported`.

    It is taken over all inputs and all elements, as a float. Outputs of different shapes (even of shapes that
    broadcast) and a NaN in an output make it infinity.
    """
    # TODO: compare shapes first, then values.
    raise NotImplementedError("largest_difference: compare shapes first, then values")


def to_onnx(model: nn.Module, example: Tensor) -> bytes:
    """Return the bytes of an ONNX model with one input, `"features"`, and one output, `"logits"`.

    Its batch dimension is dynamic, whatever the number of rows of `example`, also one. Its outputs are those of
    the model in eval mode, up to 1e-4. The model is float32, of linear layers, BatchNorm, ReLU and Dropout.
    Either exporter of torch will do; `dynamo=False` is much faster.

    This is judged only where the packages onnx and onnxscript are installed: `pip install 'lab-bench[onnx]'`.
    """
    # TODO: export with names and a dynamic batch dimension.
    raise NotImplementedError("to_onnx: export with names and a dynamic batch dimension")
