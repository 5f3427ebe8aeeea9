"""Models with drawn weights, their exports, and runs of the saved exports."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

FEATURES, OUTPUTS = 3, 2
# For the network, its BatchNorm, the Sequential behind it, and the Linear, ReLU and Dropout in that.
NETWORK_MODES = [True, True, False, False, True, True]


# --- models --------------------------------------------------------------------------------------


def router(module: Any, seed: int, like: Tensor) -> nn.Module:
    """The stub's Router, with weights from this seed, in the dtype of `like`."""
    return drawn(module.Router(FEATURES, OUTPUTS).to(like.dtype), seed)


def network(module: Any, seed: int, like: Tensor) -> nn.Module:
    """A network with weights and statistics from this seed, partly frozen and partly in train mode."""
    inner = nn.Sequential(nn.Linear(FEATURES, OUTPUTS), nn.ReLU(), nn.Dropout(0.5))
    made = drawn(nn.Sequential(nn.BatchNorm1d(FEATURES), inner).to(like.dtype), seed)
    made.get_submodule("0").weight.requires_grad_(False)
    set_modes(made, NETWORK_MODES)
    return made


def drawn(model: nn.Module, seed: int) -> nn.Module:
    """The model, with drawn weights, biases and statistics."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.state_dict().items():
        if "running_var" in name:
            value.uniform_(0.5, 1.5, generator=generator)
        elif value.is_floating_point():
            value.normal_(generator=generator)
    return model


class Answering(nn.Module):
    """Return output i for the number i, plus 100 for each module that is in train mode."""

    def __init__(self, outputs: list[Tensor]) -> None:
        super().__init__()
        self.outputs, self.inner = outputs, nn.Sequential(nn.Dropout(), nn.Identity())

    def forward(self, x: Tensor) -> Tensor:
        return self.outputs[int(x)] + 100 * sum(part.training for part in self.modules())


def answering(module: Any, outputs: list[Tensor], modes: list[bool]) -> nn.Module:
    made = Answering(outputs)
    set_modes(made, modes)
    return made


def set_modes(model: nn.Module, modes: list[bool]) -> None:
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode


# --- exports and their outputs -------------------------------------------------------------------


def outputs_of(run: Callable[[Tensor], Any], batches: list[Tensor]) -> list[Any]:
    """The output for each batch, or the first line of its error."""
    outputs: list[Any] = []
    for x in batches:
        try:
            outputs.append(run(x).detach())
        except Exception as error:  # noqa: BLE001 - torch raises many kinds
            outputs.append(first_line(error))
    return outputs


def first_line(error: Exception) -> str:
    """The first line of an error, or the last one if it comes from TorchScript, which puts the cause there."""
    lines = str(error).strip().splitlines() or [""]
    if "TorchScript" in lines[0]:
        return lines[-1][:200]
    return f"{type(error).__name__}: {lines[0][:200]}"


def shared(module: Any, router: nn.Module) -> dict[str, Any]:
    """The number of parameters that a BranchFreeRouter shares with the router, and of all its parameters."""
    free = module.BranchFreeRouter(router)
    own = {id(parameter) for parameter in free.parameters()}
    of_router = {id(parameter) for parameter in router.parameters()}
    return {"is_router": free is router, "shared": len(own & of_router), "count": len(own)}


def routed(module: Any, router: nn.Module, batches: list[Tensor]) -> dict[str, Any]:
    """The outputs of a BranchFreeRouter, and whether it is the router itself."""
    made = module.BranchFreeRouter(router)
    return {"itself": made is router, "outputs": outputs_of(made, batches)}


def router_program(module: Any, free: Any, example: Tensor) -> dict[str, Any]:
    """A BranchFreeRouter exported by torch.export and saved, or the reason why that failed."""
    free(example)  # raises here if it is not written yet
    sizes = ({0: torch.export.Dim("batch", min=1)},)
    try:
        program = torch.export.export(free.eval(), (example,), dynamic_shapes=sizes)
    except Exception as error:  # noqa: BLE001 - torch raises many kinds
        return {"error": first_line(error)}
    return {"error": None, "saved": saved(torch.export.save, program)}


def script(module: Any, model: nn.Module) -> bytes | None:
    """The saved TorchScript of the model, or None if the result has another class."""
    result = module.to_torchscript(model)
    if not issubclass(type(result), torch.jit.ScriptModule):
        return None
    return saved(torch.jit.save, result)


def program(module: Any, model: nn.Module, example: Tensor) -> bytes | None:
    """The saved program of the model, or None if the result has another class."""
    result = module.to_exported(model, example)
    if type(result) is not torch.export.ExportedProgram:
        return None
    return saved(torch.export.save, result)


def saved(save: Callable[[Any, Any], None], value: Any) -> bytes:
    file = io.BytesIO()
    save(value, file)
    return file.getvalue()


def run_saved(module: Any, kind: str, data: bytes, batches: list[Tensor]) -> list[Any]:
    """The outputs of a saved script or program. It runs in a process without the student's code."""
    file = io.BytesIO(data)
    try:
        run = torch.jit.load(file) if kind == "script" else torch.export.load(file).module()
    except Exception as error:  # noqa: BLE001 - of bytes that may be anything
        return [first_line(error)] * len(batches)
    return outputs_of(run, batches)


def difference(module: Any, model: nn.Module, outputs: list[Tensor]) -> Any:
    """The largest_difference between a model and a function that returns output i for the number i."""
    inputs = (torch.tensor(i) for i in range(len(outputs)))
    return module.largest_difference(model, lambda x: outputs[int(x)], inputs)


def run_onnx(module: Any, model: bytes, batches: list[Tensor]) -> dict[str, Any]:
    """The names in an ONNX model, and its outputs. It runs in a process without the student's code."""
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.version_converter import convert_version

    try:
        proto = onnx.load_from_string(model)
        versions = [one.version for one in proto.opset_import if one.domain in ("", "ai.onnx")]
        if max(versions, default=0) < 15:
            # For older opsets, the evaluator runs every BatchNormalization in training mode.
            proto = convert_version(proto, 15)
        evaluator = ReferenceEvaluator(proto)
    except Exception as error:  # noqa: BLE001 - of bytes that may be anything
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    weights = {one.name for one in proto.graph.initializer}
    inputs = [one for one in proto.graph.input if one.name not in weights]
    outputs = list(proto.graph.output)

    evaluate: Any = evaluator.run

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(evaluate(None, {inputs[0].name: x.numpy()})[0])

    return {
        "error": None,
        "inputs": [one.name for one in inputs],
        "outputs": [one.name for one in outputs],
        "fixed_rows": [fixed_rows(one) for one in (*inputs[:1], *outputs[:1])],
        "values": outputs_of(run, batches),
    }


def fixed_rows(value: Any) -> int | None:
    """The number of rows to which a value's shape is fixed, or None."""
    sizes = value.type.tensor_type.shape.dim
    return sizes[0].dim_value if len(sizes) and sizes[0].HasField("dim_value") else None
