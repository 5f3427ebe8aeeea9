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


# begin solution


class _Evaluating:
    """Put the model into eval mode for a block, and afterwards restore every submodule's own mode."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def __enter__(self) -> None:
        self._modes = [(module, module.training) for module in self._model.modules()]
        self._model.eval()

    def __exit__(self, *error: object) -> None:
        for module, mode in self._modes:
            module.training = mode


def _two_rows(example: Tensor) -> Tensor:
    """The example with at least two rows, because one row would make the batch size a constant."""
    return example if len(example) > 1 else torch.cat([example, example])


# end solution


class BranchFreeRouter(nn.Module):
    """The values of a `Router`, without an `if` on values, so that torch.export keeps both branches.

    The two layers are those of `router` itself, shared and not copied, under names of your choice.
    """

    def __init__(self, router: Router) -> None:
        super().__init__()
        # begin solution: keep both layers
        self.positive, self.negative = router.positive, router.negative
        # end solution

    def forward(self, x: Tensor) -> Tensor:
        """`(B, in_features)` to `(B, out_features)`: the values of the router.

        There is one decision for the whole batch, and a mean of 0 is not positive. Exported by torch.export,
        with a dynamic batch size, the module is right for batches of both kinds. Both layers may be computed
        (neither overflows).
        """
        # begin solution: choose without an if
        return torch.where(x.mean() > 0, self.positive(x), self.negative(x))
        # end solution


def to_torchscript(model: nn.Module) -> torch.jit.ScriptModule:
    """Return the model as TorchScript, with the control flow that depends on values (`if`, `while`).

    The result has the outputs of the model in eval mode, also after `torch.jit.save` and `torch.jit.load`. The
    model can be scripted.
    """
    # begin solution: script the model, not trace it
    with _Evaluating(model):
        scripted: torch.jit.ScriptModule = torch.jit.script(model)
        return scripted
    # end solution


def to_exported(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """Return the model as torch.export exports it: one program for every batch size from 1.

    `result.module()` has the outputs of the model in eval mode. `example` is an input of the model with any
    number of rows, also one: a size of 1 would become a constant, so export with two rows or more. The model
    has no branch on values.
    """
    # begin solution: export at least two rows, with a dynamic batch size
    with _Evaluating(model):
        batch = torch.export.Dim("batch", min=1)
        return torch.export.export(model, (_two_rows(example),), dynamic_shapes=({0: batch},))
    # end solution


def largest_difference(
    model: nn.Module, exported: Callable[[Tensor], Tensor], inputs: Iterable[Tensor]
) -> float:
    """Return the largest absolute difference of an output of the model in eval mode and one of `exported`.

    It is taken over all inputs and all elements, as a float. Outputs of different shapes (even of shapes that
    broadcast) and a NaN in an output make it infinity.
    """
    # begin solution: compare shapes first, then values
    largest = 0.0
    with _Evaluating(model), torch.no_grad():
        for x in inputs:
            expected, actual = model(x), exported(x)
            if expected.shape != actual.shape:
                return float("inf")
            difference = (expected - actual).abs().max().item()
            largest = max(largest, float("inf") if difference != difference else difference)
    return largest
    # end solution


def to_onnx(model: nn.Module, example: Tensor) -> bytes:
    """Return the bytes of an ONNX model with one input, `"features"`, and one output, `"logits"`.

    Its batch dimension is dynamic, whatever the number of rows of `example`, also one. Its outputs are those of
    the model in eval mode, up to 1e-4. The model is float32, of linear layers, BatchNorm, ReLU and Dropout.
    Either exporter of torch will do; `dynamo=False` is much faster.

    This is judged only where the packages onnx and onnxscript are installed: `pip install 'lab-bench[onnx]'`.
    """
    # begin solution: export with names and a dynamic batch dimension
    import io

    buffer = io.BytesIO()
    with _Evaluating(model):
        torch.onnx.export(
            model,
            (_two_rows(example),),
            buffer,  # type: ignore[arg-type]  # the older exporter takes a buffer, too
            input_names=["features"],
            output_names=["logits"],
            dynamic_axes={"features": {0: "batch"}, "logits": {0: "batch"}},
            dynamo=False,
        )
    return buffer.getvalue()
    # end solution
