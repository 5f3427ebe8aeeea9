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
_LOOP = """
import torch
class Loop(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x / 2
        return x
"""

State = dict[str, Tensor]


def _loop() -> nn.Module:
    path = Path(tempfile.mkdtemp(), "loop.py")
    path.write_text(_LOOP)
    spec: Any = importlib.util.spec_from_file_location("loop", path)
    loop = sys.modules["loop"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loop)
    return loop.Loop()  # type: ignore[no-any-return]  # the class in the text above


def made(module: Any, name: str, state: State, training: list[bool]) -> Any:
    """A model with these weights, whose modules have these modes, in the order of modules()."""
    inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5))
    net = nn.Sequential(nn.BatchNorm1d(3), inner, nn.Linear(4, 2))
    model: Any = _loop() if name == "loop" else net
    if name in ("router", "free"):
        model = module.Router(3, 2)
    model.to(next(iter(state.values()), torch.ones(1)).dtype).load_state_dict(state)
    for parameter in [*model.parameters()][:1]:
        parameter.requires_grad_(False)  # as in a model of which a part is frozen
    if name == "free":
        model = module.BranchFreeRouter(model)
    for part, mode in zip(model.modules(), training, strict=False):
        part.training = mode
    return model


def _left(model: Any, example: list[Tensor]) -> dict[str, Any]:
    modes = [part.training for part in model.modules()]
    needs = [tensor.requires_grad for tensor in (*model.parameters(), *example)]
    state = {n: v.clone() for n, v in model.state_dict().items()}
    left = [x.detach() for x in example]
    return {"modes": modes, "needs": needs, "state": state, "example": left}


def _said(error: Exception) -> str:
    """The first line of an error; the last one of TorchScript's, which tells of another error in it."""
    lines = str(error).strip().splitlines() or [""]
    told = "TorchScript" in lines[0]
    return lines[-1][:200] if told else f"{type(error).__name__}: {lines[0][:200]}"


def _ran(run: Callable[[Tensor], Any], xs: list[Tensor]) -> list[Any]:
    """The outputs for each x, or what was raised in their place."""
    outputs: list[Any] = []
    for x in xs:
        try:
            outputs.append(run(x))
        except Exception as error:  # noqa: BLE001 - torch's own, of many kinds
            outputs.append(_said(error))
    return [output.detach() if isinstance(output, Tensor) else output for output in outputs]


def routed(module: Any, state: State, xs: list[Tensor]) -> dict[str, Any]:
    """Outputs of a BranchFreeRouter, live and exported; how it holds the router's parameters."""
    router = made(module, "router", state, [])
    free = module.BranchFreeRouter(router)
    report = {"values": _ran(free, xs) if free is not router else "the router itself"}
    own = {id(parameter) for parameter in free.parameters()}
    report["shared"] = [id(parameter) in own for parameter in router.parameters()]
    report["count"] = [len(own)]
    return report


def branches(module: Any, state: State, example: Tensor, xs: list[Tensor]) -> dict[str, Any]:
    """Outputs of a BranchFreeRouter that torch.export exported, or why it could not."""
    free = made(module, "free", state, [])
    free(example)
    try:
        dims = ({0: torch.export.Dim("batch", min=1)},)
        program = torch.export.export(free.eval(), (example,), dynamic_shapes=dims)
    except Exception as error:  # noqa: BLE001 - torch's own, of many kinds
        return {"error": _said(error)}
    return {"error": None, "values": _ran(program.module(), xs)}


def exported(
    module: Any, exporter: str, name: str, state: State, modes: list[bool], *inputs: Any
) -> dict[str, Any]:
    """What an exporter made of a model: its kind and its outputs, and what is left of the model."""
    *example, xs = inputs
    model = made(module, name, state, modes)
    result = getattr(module, exporter)(model, *example)
    report = {**_left(model, example), "kind": type(result).__name__}
    if isinstance(result, torch.jit.ScriptModule):
        buffer = io.BytesIO()
        torch.jit.save(result, buffer)
        buffer.seek(0)
        loaded = torch.jit.load(buffer)
        report |= {"kind": "ScriptModule", "values": _ran(result, xs)}
        return {**report, "loaded": _ran(loaded, xs)}
    if isinstance(result, torch.export.ExportedProgram):
        return {**report, "values": _ran(result.module(), xs)}
    return {**report, "bytes": result}


class _Given(nn.Module):
    """Returns the tensor at the place that the width of x says, plus 100 for each module in train mode."""

    def __init__(self, outputs: list[Tensor], modes: list[bool]) -> None:
        super().__init__()
        self.outputs, self.inner = outputs, nn.Sequential(nn.Dropout(), nn.Identity())
        for part, mode in zip(self.modules(), modes, strict=True):
            part.training = mode

    def forward(self, x: Tensor) -> Tensor:
        return self.outputs[x.shape[1] - 1] + 100 * sum(part.training for part in self.modules())


def difference(
    module: Any, pairs: list[list[Tensor]], modes: list[bool], raises: bool = False
) -> dict[str, Any]:
    """The largest difference of these pairs of outputs, and the modes afterwards."""
    model = _Given([pair[0] for pair in pairs], modes)

    def other(x: Tensor) -> Tensor:
        if raises:
            raise LookupError("exported")
        return pairs[x.shape[1] - 1][1]

    xs = (torch.ones(len(pair[0]), i) for i, pair in enumerate(pairs, 1))
    value = module.largest_difference(model, other, xs)
    return {"value": value, "modes": [part.training for part in model.modules()]}


def run_onnx(module: Any, model: bytes, xs: list[Tensor]) -> dict[str, Any]:
    """What an ONNX model says of itself, and its outputs; called where no student's code runs."""
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.version_converter import convert_version

    try:
        proto = onnx.load_from_string(model)
        versions = [one.version for one in proto.opset_import if one.domain in ("", "ai.onnx")]
        if max(versions, default=0) < 15:
            # The evaluator takes every BatchNormalization of older opsets for one that is trained.
            proto = convert_version(proto, 15)
        evaluator = ReferenceEvaluator(proto)
    except Exception as error:  # noqa: BLE001 - of bytes that may be anything
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    given = {one.name for one in proto.graph.initializer}
    sides = {
        "inputs": [one for one in proto.graph.input if one.name not in given],
        "outputs": list(proto.graph.output),
    }
    report: dict[str, Any] = {
        side: [[one.name, _rows(one.type.tensor_type.shape.dim)] for one in values]
        for side, values in sides.items()
    }
    names = [one.name for one in sides["inputs"][:1]]
    run: Any = evaluator.run
    report["values"] = _ran(lambda x: torch.from_numpy(run(None, {names[0]: x.numpy()})[0]), xs)
    return {**report, "error": None}


def _rows(dims: Any) -> int | None:
    """The number of rows that a shape fixes; None where it fixes none."""
    return dims[0].dim_value if len(dims) and dims[0].HasField("dim_value") else None
