"""Take a model out of Python: as TorchScript, with torch.export, and as ONNX.

A model that is deployed often runs without Python, in C++, on a phone, in another framework. Three ways lead
there, and each sees something else of the model:

- `torch.jit.trace` runs the model once and keeps the operations that ran: of an `if` only the branch that
  the example took. `torch.jit.script` compiles the source of `forward`, with its `if` and its loops.
- `torch.export.export` runs the model on stand-ins for tensors, which have shapes and no values. An `if` on a
  value is an error there, and sizes become constants unless they are declared as dynamic.
- `torch.onnx.export` writes the operations in the format ONNX, which other programs read.

Why it matters: an export that lost a branch, kept dropout on, or knows one batch size only runs without an
error and is wrong. So what was exported is compared with the model, on inputs that take every branch.

Warnings that TorchScript and the older ONNX exporter are deprecated are expected (torch 2.9 and later).

Sources: PyTorch documentation, TorchScript, torch.export, and torch.onnx; ONNX documentation, Concepts.

These rules hold for everything that you write here:

- Models take one tensor, `(B, ...)` with the batch first, and return one tensor.
- The exporters export the model in eval mode, whatever mode it is in, and leave it as it was: parameters,
  buffers and the mode of every submodule. They leave `example` as it was, too.

`Tensor` is `torch.Tensor`.
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
        """`(B, in_features)` to `(B, out_features)`: what the router gives for every `x` that is finite.

        `x` has at least one row. The decision is one for the whole batch, and a mean of 0 is not positive.
        Exported by torch.export, with a dynamic batch size, it is right for batches of both kinds. Both
        layers may be computed; gradients are not asked for.
        """
        # TODO: choose without an if.
        raise NotImplementedError("BranchFreeRouter.forward: choose without an if")


def to_torchscript(model: nn.Module) -> torch.jit.ScriptModule:
    """Return the model as TorchScript, with the control flow that depends on values (`if`, `while`).

    The result has the outputs of the model in eval mode, in float32 and float64 (the dtype of the model),
    also after `torch.jit.save` and `torch.jit.load`. The model can be scripted. Whether the result is
    frozen, and whether it sees later changes of the model, is not asked.
    """
    # TODO: script the model, not trace it.
    raise NotImplementedError("to_torchscript: script the model, not trace it")


def to_exported(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """Return the model as torch.export exports it: one program for every batch size from 1.

    `result.module()` has the outputs of the model in eval mode. `example` is an input of the model with any
    number of rows, also one: a size of 1 would become a constant, so export with two rows or more. The model
    has no branch on values, and treats all rows alike or as `BranchFreeRouter` does. An empty batch is not
    asked for.
    """
    # TODO: export at least two rows, with a dynamic batch size.
    raise NotImplementedError("to_exported: export at least two rows, with a dynamic batch size")


def largest_difference(
    model: nn.Module, exported: Callable[[Tensor], Tensor], inputs: Iterable[Tensor]
) -> float:
    """Return the largest absolute difference of an output of the model in eval mode and one of `exported`.

    It is taken over all inputs and all elements, as a float. Outputs of different shapes (even of shapes that
    broadcast), and a difference that is NaN, make it infinity; other outputs are finite. With nothing to
    compare (no inputs, or empty outputs) it is 0.0. Afterwards every submodule has the mode that it had. An
    error of `exported` comes through.
    """
    # TODO: compare shapes first, then values.
    raise NotImplementedError("largest_difference: compare shapes first, then values")


def to_onnx(model: nn.Module, example: Tensor) -> bytes:
    """Return the bytes of an ONNX model with one input, `"features"`, and one output, `"logits"`.

    Its batch dimension is dynamic, whatever the number of rows of `example`, also one. Its outputs are
    those of the model in eval mode, up to 1e-4. The model is float32, of linear layers, BatchNorm, ReLU and
    Dropout. Either exporter of torch will do (`dynamo=False` is much faster), with any opset.

    Judged only where the packages onnx and onnxscript are installed: `pip install 'lab-bench[onnx]'`.
    """
    # TODO: export with names and a dynamic batch dimension.
    raise NotImplementedError("to_onnx: export with names and a dynamic batch dimension")
