"""Models with given weights, what exporters make of them and leave of them, and ONNX bytes that are run."""

from __future__ import annotations

import importlib.util
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# TorchScript reads a model's source from a file.
LOOP = """
import torch
class Loop(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x / 2
        return x
"""

State = dict[str, Tensor]


def loop() -> Any:
    path = Path(tempfile.mkdtemp(), "loop.py")
    path.write_text(LOOP)
    spec: Any = importlib.util.spec_from_file_location("loop", path)
    made = sys.modules["loop"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made.Loop()


def router(module: Any, state: State) -> Any:
    model = module.Router(3, 2).to(state["positive.weight"].dtype)
    model.load_state_dict(state)
    return model


def net(state: State, modes: list[bool]) -> nn.Module:
    """The network with these weights, of which a part is frozen, and whose modules have these modes."""
    inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5))
    model = nn.Sequential(nn.BatchNorm1d(3), inner, nn.Linear(4, 2))
    model.to(state["0.weight"].dtype).load_state_dict(state)
    next(model.parameters()).requires_grad_(False)
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    return model


def left_of(model: nn.Module) -> dict[str, Any]:
    return {
        "modes": [part.training for part in model.modules()],
        "needs": [parameter.requires_grad for parameter in model.parameters()],
        "state": {name: value.clone() for name, value in model.state_dict().items()},
    }


def words_of(error: Exception) -> str:
    """The first line of an error; the last one of TorchScript's, which tells of another error in it."""
    lines = str(error).strip().splitlines() or [""]
    if "TorchScript" in lines[0]:
        return lines[-1][:200]
    return f"{type(error).__name__}: {lines[0][:200]}"


def outputs_of(run: Callable[[Tensor], Any], xs: list[Tensor]) -> list[Any]:
    """The outputs for each x, or what was raised in their place."""
    outputs: list[Any] = []
    for x in xs:
        try:
            output = run(x)
        except Exception as error:  # noqa: BLE001 - torch's own, of many kinds
            output = words_of(error)
        outputs.append(output.detach() if isinstance(output, Tensor) else output)
    return outputs


# --- BranchFreeRouter ----------------------------------------------------------------------------


def routed(module: Any, state: State, xs: list[Tensor]) -> list[Any]:
    return outputs_of(module.BranchFreeRouter(router(module, state)), xs)


def shared(module: Any, state: State) -> dict[str, Any]:
    """Whether a BranchFreeRouter is another module, with the very parameters of its router."""
    given = router(module, state)
    free = module.BranchFreeRouter(given)
    own = {id(parameter) for parameter in free.parameters()}
    return {
        "another": free is not given,
        "shared": [id(parameter) in own for parameter in given.parameters()],
        "count": len(own),
    }


def branches(module: Any, state: State, example: Tensor, xs: list[Tensor]) -> dict[str, Any]:
    """Outputs of a BranchFreeRouter that torch.export exported, or why it could not."""
    free = module.BranchFreeRouter(router(module, state))
    free(example)
    try:
        dims = ({0: torch.export.Dim("batch", min=1)},)
        program = torch.export.export(free.eval(), (example,), dynamic_shapes=dims)
    except Exception as error:  # noqa: BLE001 - torch's own, of many kinds
        return {"error": words_of(error)}
    return {"error": None, "values": outputs_of(program.module(), xs)}


# --- the exporters -------------------------------------------------------------------------------


def script_of(module: Any, model: nn.Module, xs: list[Tensor]) -> dict[str, Any]:
    """The outputs of a scripted model, at once and after it was saved and loaded."""
    script = module.to_torchscript(model)
    if not isinstance(script, torch.jit.ScriptModule):
        return {"kind": type(script).__name__}
    buffer = io.BytesIO()
    torch.jit.save(script, buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer)
    values, again = outputs_of(script, xs), outputs_of(loaded, xs)
    return {"kind": "ScriptModule", "values": values, "loaded": again}


def scripted_router(module: Any, state: State, xs: list[Tensor]) -> dict[str, Any]:
    return script_of(module, router(module, state), xs)


def scripted_loop(module: Any, xs: list[Tensor]) -> dict[str, Any]:
    return script_of(module, loop(), xs)


def scripted_net(module: Any, state: State, modes: list[bool], xs: list[Tensor]) -> dict[str, Any]:
    model = net(state, modes)
    return {**script_of(module, model, xs), **left_of(model)}


def exported_net(
    module: Any, state: State, modes: list[bool], example: Tensor, xs: list[Tensor]
) -> dict[str, Any]:
    """The outputs of a network that to_exported exported, and what is left of it and of the example."""
    model = net(state, modes)
    program = module.to_exported(model, example)
    report = {"kind": type(program).__name__, **left_of(model)}
    report |= {"example": example.detach(), "example_needs": example.requires_grad}
    if isinstance(program, torch.export.ExportedProgram):
        report["values"] = outputs_of(program.module(), xs)
    return report


def onnx_net(module: Any, state: State, modes: list[bool], example: Tensor) -> dict[str, Any]:
    model = net(state, modes)
    data = module.to_onnx(model, example)
    return {"data": data, **left_of(model)}


def run_onnx(module: Any, models: list[bytes], xs: list[Tensor]) -> list[dict[str, Any]]:
    """What ONNX models say of themselves, and their outputs; called where no student's code runs."""
    return [run_one_onnx(data, xs) for data in models]


def run_one_onnx(data: bytes, xs: list[Tensor]) -> dict[str, Any]:
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.version_converter import convert_version

    try:
        proto = onnx.load_from_string(data)
        versions = [one.version for one in proto.opset_import if one.domain in ("", "ai.onnx")]
        if max(versions, default=0) < 15:
            # The evaluator takes every BatchNormalization of older opsets for one that is trained.
            proto = convert_version(proto, 15)
        evaluator: Any = ReferenceEvaluator(proto)
    except Exception as error:  # noqa: BLE001 - of bytes that may be anything
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    given = {one.name for one in proto.graph.initializer}
    inputs = [one for one in proto.graph.input if one.name not in given]
    outputs = list(proto.graph.output)

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(evaluator.run(None, {inputs[0].name: x.numpy()})[0])

    return {
        "error": None,
        "names": [one.name for one in inputs + outputs],
        "rows": [rows_of(one) for one in inputs + outputs],
        "values": outputs_of(run, xs),
    }


def rows_of(one: Any) -> int | None:
    """The number of rows that the shape of an input or output fixes; None where it fixes none."""
    dims = one.type.tensor_type.shape.dim
    return dims[0].dim_value if len(dims) and dims[0].HasField("dim_value") else None


# --- largest_difference --------------------------------------------------------------------------


class Given(nn.Module):
    """Returns the tensor at the place that the width of x says, plus 100 for each module in train mode."""

    def __init__(self, outputs: list[Tensor], modes: list[bool]) -> None:
        super().__init__()
        self.outputs, self.inner = outputs, nn.Sequential(nn.Dropout(), nn.Identity())
        for part, mode in zip(self.modules(), modes, strict=True):
            part.training = mode

    def forward(self, x: Tensor) -> Tensor:
        training = sum(part.training for part in self.modules())
        return self.outputs[x.shape[1] - 1] + 100 * training


def difference(module: Any, pairs: list[list[Tensor]], modes: list[bool]) -> dict[str, Any]:
    """The largest difference of these pairs of outputs, and the modes afterwards."""
    model = Given([pair[0] for pair in pairs], modes)

    def exported(x: Tensor) -> Tensor:
        return pairs[x.shape[1] - 1][1]

    xs = (torch.ones(len(pair[0]), place) for place, pair in enumerate(pairs, 1))
    value = module.largest_difference(model, exported, xs)
    return {"value": value, "modes": [part.training for part in model.modules()]}
