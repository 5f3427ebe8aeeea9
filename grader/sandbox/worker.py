"""The inside of a sandbox: load one student's module and answer the judge's calls, trusted by nobody.

Everything here runs beside the student's code, in a process that the student owns. It holds no
expected value, no suite and no secret; whatever it says is checked by the judge.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import marshal
import os
import random
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.sandbox.guard import Line, Watch
from grader.sandbox.protocol import (
    MAX_TEXT,
    PROBE_FILE,
    Backward,
    Build,
    Built,
    Call,
    Channel,
    ForbiddenReply,
    Forward,
    Load,
    Loaded,
    LoadProbe,
    Packing,
    Raised,
    Reply,
    Request,
    Returned,
    Unpacking,
)

if TYPE_CHECKING:
    import torch

__all__ = ["print_to_descriptors", "serve", "use_scratch"]

MAX_FRAMES = 20
MAX_WALKED = 20_000


class _Graph:
    """A call whose autograd graph the judge may come back to."""

    def __init__(
        self, inputs: list[torch.Tensor], outputs: list[torch.Tensor], watches: list[Watch]
    ) -> None:
        self.inputs, self.outputs, self.watches = inputs, outputs, watches


class Worker:
    """One student's module and what the judge built from it."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._file = ""
        self._student = types.ModuleType("student")
        self._probes: dict[str, types.ModuleType] = {}
        self._built: list[Any] = []
        self._built_by: list[str] = []
        self._graphs: list[_Graph] = []
        self._watches: dict[str, list[Watch]] = {}

    def answer(self, request: Request, unpacking: Unpacking) -> tuple[Reply, Packing]:
        """Carry out one request; whatever it raises becomes a `Raised` or `ForbiddenReply`."""
        packing = Packing()
        watches = [watch for each in self._watches.values() for watch in each]
        for watch in watches:
            watch.seen = None
        try:
            reply = self._dispatch(request, unpacking, packing)
        except BaseException as error:  # noqa: BLE001 (the border to the student's code: sys.exit comes here too)
            reply = self._raised(error)
            packing = Packing()
        for watch in watches:
            if watch.seen is not None:
                return ForbiddenReply(watch.seen.name, self._frames(watch.seen.stack)), Packing()
        return reply, packing

    def _dispatch(self, request: Request, unpacking: Unpacking, packing: Packing) -> Reply:
        match request:
            case Load():
                return self._load(request)
            case LoadProbe():
                module = types.ModuleType(request.name)
                # Under its name, as every module: what pickles an object of a probe looks there.
                sys.modules[request.name] = module
                exec(marshal.loads(request.code), module.__dict__)  # noqa: S102, S302 (the judge wrote it)
                self._probes[request.name] = module
                return Loaded()
            case Call():
                self._seed(request.seed)
                return self._call(request, unpacking, packing)
            case Build():
                self._seed(request.seed)
                return self._build(request, unpacking, packing)
            case Forward():
                self._seed(request.seed)
                return self._forward(request, unpacking, packing)
            case Backward():
                self._seed(request.seed)
                return self._backward(request, unpacking, packing)

    # --- loading --------------------------------------------------------------------------------

    def _load(self, request: Load) -> Reply:
        self._file = request.file
        path = self._scratch / request.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(request.source)
        for guard in request.guards:
            watch = Watch(guard)
            for name in guard.entry_points:
                self._watches.setdefault(name, []).append(watch)
        # Registered under its name before it runs: dataclasses, NamedTuple and pickle look there.
        # Compiled under the relative name, so that what Python prints shows the student's own path.
        self._student = types.ModuleType(request.name)
        self._student.__file__ = str(path)
        sys.modules[request.name] = self._student
        exec(compile(request.source, request.file, "exec"), self._student.__dict__)  # noqa: S102
        return Loaded()

    def _attribute(self, name: str) -> Any:
        try:
            return getattr(self._student, name)
        except AttributeError:
            raise AttributeError(
                f"{self._file} defines no {name!r}; keep the names of the stub"
            ) from None

    def _seed(self, seed: int | None) -> None:
        if seed is None:
            return
        # A new test begins: what the last one kept for its backward passes is of no use any more.
        self._graphs.clear()
        random.seed(seed)
        if (torch := sys.modules.get("torch")) is not None:
            # torch.manual_seed also tells the devices, which formats a stack each time (1 ms).
            torch.default_generator.manual_seed(seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed % 2**32)

    # --- calls ----------------------------------------------------------------------------------

    def _call(self, request: Call, unpacking: Unpacking, packing: Packing) -> Reply:
        arguments = unpacking.unpack(request.arguments)
        keywords = unpacking.unpack(request.keywords)
        if request.probe is not None:
            probe = getattr(self._probes[request.probe], request.function)
            return Returned(packing.pack(probe(self._student, *arguments, **keywords)))
        function = self._attribute(request.function)
        watches = self._watches.get(request.function, [])
        inputs = [unpacking.tensors[index].requires_grad_() for index in request.wants]
        return self._run(function, arguments, keywords, inputs, unpacking, watches, packing)

    def _run(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        keywords: dict[str, Any],
        inputs: list[torch.Tensor],
        unpacking: Unpacking,
        watches: list[Watch],
        packing: Packing,
    ) -> Reply:
        before = [_state(tensor) for tensor in unpacking.tensors]
        with _watched(watches):
            value = function(*arguments, **keywords)
        packed = packing.pack(value)
        changed = [
            tensor
            for tensor, old in zip(unpacking.tensors, before, strict=True)
            if _state(tensor) != old
        ]
        mutated = _names_of(function, arguments, keywords, changed) if changed else ()
        positions = tuple(i for i, t in enumerate(packing.tensors) if t.requires_grad)
        if not positions or not inputs:
            return Returned(packed, mutated=mutated)
        outputs = [packing.tensors[index] for index in positions]
        self._graphs.append(_Graph(inputs, outputs, watches))
        return Returned(packed, len(self._graphs) - 1, positions, mutated)

    def _build(self, request: Build, unpacking: Unpacking, packing: Packing) -> Reply:
        arguments = unpacking.unpack(request.arguments)
        keywords = unpacking.unpack(request.keywords)
        module = self._attribute(request.class_name)(*arguments, **keywords)
        torch = sys.modules["torch"]
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"{request.class_name} is no torch.nn.Module")
        self._built.append(module)
        self._built_by.append(request.class_name)
        parameters = dict(module.named_parameters())
        return Built(
            handle=len(self._built) - 1,
            parameters=packing.pack(parameters),
            buffers=packing.pack(dict(module.named_buffers())),
            saved=tuple(module.state_dict()),
            trainable=tuple(name for name, each in parameters.items() if each.requires_grad),
            training=bool(module.training),
        )

    def _forward(self, request: Forward, unpacking: Unpacking, packing: Packing) -> Reply:
        module = self._built[request.handle]
        parameters = unpacking.unpack(request.parameters)
        buffers = unpacking.unpack(request.buffers)
        _set_state(module, parameters, buffers, frozenset(request.trainable), request.training)
        # Only the arguments are looked at for changes from here on.
        unpacking.tensors.clear()
        arguments = unpacking.unpack(request.arguments)
        keywords = unpacking.unpack(request.keywords)
        own = [each for each in module.parameters() if each.requires_grad]
        inputs = own + [unpacking.tensors[index].requires_grad_() for index in request.wants]
        before = {name: _state(each) for name, each in module.named_parameters()}
        watches = self._watches.get(self._built_by[request.handle], [])
        reply = self._run(module, arguments, keywords, inputs, unpacking, watches, packing)
        assert isinstance(reply, Returned)
        changed = [n for n, each in module.named_parameters() if _state(each) != before.get(n)]
        return Returned(reply.value, reply.graph, reply.differentiable, (*reply.mutated, *changed))

    def _backward(self, request: Backward, unpacking: Unpacking, packing: Packing) -> Reply:
        torch = sys.modules["torch"]
        graph = self._graphs[request.graph]
        given = unpacking.unpack(request.gradients)
        gradients = [
            torch.zeros_like(output) if gradient is None else gradient
            for output, gradient in zip(graph.outputs, given, strict=True)
        ]
        if request.differentiable:
            for gradient in gradients:
                gradient.requires_grad_()
        packed = packing.pack(_products(graph, gradients, request.differentiable))
        positions = tuple(i for i, t in enumerate(packing.tensors) if t.requires_grad)
        if not request.differentiable or not positions:
            return Returned(packed)
        outputs = [packing.tensors[index] for index in positions]
        self._graphs.append(_Graph([*graph.inputs, *gradients], outputs, graph.watches))
        return Returned(packed, len(self._graphs) - 1, positions)

    # --- errors ---------------------------------------------------------------------------------

    def _raised(self, error: BaseException) -> Reply:
        stack = _stack_of(error)
        files = [file for file, _, _ in stack]
        probe = files.index(PROBE_FILE) if PROBE_FILE in files else None
        try:
            text = str(error)
        except BaseException:  # noqa: BLE001 (the student's own __str__)
            text = ""
        return Raised(
            type_name=type(error).__name__[:MAX_TEXT],
            ancestry=tuple(kind.__name__[:MAX_TEXT] for kind in type(error).__mro__[:20]),
            text=text[:MAX_TEXT],
            frames=self._frames(stack),
            # Its own only if the student's code was not in between: that may have called back.
            in_probe=probe is not None and self._file not in files[probe:],
        )

    def _frames(self, stack: Sequence[Line]) -> tuple[tuple[int, str], ...]:
        own = [(line, name[:MAX_TEXT]) for file, line, name in stack if file == self._file]
        return tuple(own[-MAX_FRAMES:])


def _stack_of(error: BaseException) -> list[Line]:
    """The lines of a traceback, outermost first; not by traceback.extract_tb, which reads files."""
    walked = itertools.islice(traceback.walk_tb(error.__traceback__), MAX_WALKED)
    return [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in walked]


def _watched(watches: list[Watch]) -> contextlib.AbstractContextManager[object]:
    # Most calls are watched by nobody, or by one.
    if len(watches) < 2:
        return watches[0] if watches else contextlib.nullcontext()
    stack = contextlib.ExitStack()
    for watch in watches:
        stack.enter_context(watch)
    return stack


def _state(tensor: torch.Tensor) -> tuple[object, ...]:
    """What a call must leave as it is. Not the version counter: `.data` and NumPy go around it."""
    values = tensor.detach()
    if values.dtype.itemsize == 2 and values.is_floating_point():
        values = values.float()  # NumPy has no bfloat16
    return values.numpy().tobytes(), values.shape, tensor.requires_grad, tensor.grad is None


def _products(graph: _Graph, gradients: list[torch.Tensor], differentiable: bool) -> list[Any]:
    """The vector-Jacobian products of a graph, one for each input (None where it is not reached).

    The gradients go in as factors of a sum and not as `grad_outputs`: for these torch imports
    its symbolic shapes, and with them sympy (0.3 s in every cold start).
    """
    torch = sys.modules["torch"]
    total = sum((o * g).sum() for o, g in zip(graph.outputs, gradients, strict=True))
    # The public name may have a guard around it, which is for the student.
    grad = inspect.unwrap(torch.autograd.grad)
    with _watched(graph.watches):
        products = grad(
            total,
            graph.inputs,
            create_graph=differentiable,
            retain_graph=True,
            allow_unused=True,
        )
    return list(products)


def _set_state(
    module: Any,
    parameters: dict[str, Any],
    buffers: dict[str, Any],
    trainable: frozenset[str],
    training: bool,
) -> None:
    """Make the student's module what the judge's local copy of it is."""
    torch = sys.modules["torch"]
    for own, given in ((module.named_parameters(), parameters), (module.named_buffers(), buffers)):
        for name, tensor in own:
            new = given.get(name)
            # Replaced only if it differs: graphs of earlier calls refer to the tensor as it is.
            same = new is None or (tensor.dtype == new.dtype and torch.equal(tensor, new))
            if not same:
                tensor.data = new
    for name, tensor in module.named_parameters():
        if tensor.requires_grad != (name in trainable):
            tensor.requires_grad_(name in trainable)
    if module.training != training:
        module.train(training)


def _names_of(
    function: Callable[..., Any],
    arguments: list[Any],
    keywords: dict[str, Any],
    changed: list[torch.Tensor],
) -> tuple[str, ...]:
    """What the function itself calls the arguments that hold the changed tensors."""
    target = getattr(function, "forward", function)
    try:
        bound = inspect.signature(target).bind(*arguments, **keywords).arguments
    except (TypeError, ValueError):
        bound = {f"args[{i}]": each for i, each in enumerate(arguments)} | keywords
    return tuple(
        name for name, value in bound.items() if any(_holds(value, each) for each in changed)
    )


def _holds(value: Any, tensor: torch.Tensor) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds(each, tensor) for each in value)
    if isinstance(value, dict):
        return any(_holds(each, tensor) for each in value.values())
    return value is tensor


@contextlib.contextmanager
def _flushed() -> Iterator[None]:
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the student may have closed or replaced it
                stream.flush()


def print_to_descriptors() -> None:
    """Give Python streams over descriptors 1 and 2 that hold nothing back.

    What is printed keeps its order, and is not lost with the process.
    """
    sys.stdout, sys.stderr = (
        open(n, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 (stay open)
        for n in (1, 2)
    )


def use_scratch(scratch: Path) -> None:
    """Have this process put its temporary files and caches there, and nowhere else.

    Without a cache of its own matplotlib complains, and has its fonts looked up each time.
    """
    tempfile.tempdir = str(scratch)
    os.environ.update(
        dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME"), str(scratch))
    )


def serve(channel: Channel, scratch: Path) -> None:
    """Answer requests until the judge hangs up."""
    worker = Worker(scratch)
    here = os.getpid()
    while True:
        request, unpacking = channel.receive_request()
        with _flushed():
            reply, packing = worker.answer(request, unpacking)
        if os.getpid() != here:
            # A process that the student forked came back here; it may not speak for its parent.
            os._exit(1)
        channel.send(reply, packing, timeout=None)
