"""The inside of a sandbox: load one student's module and answer the judge's calls. No process trusts it.

This code runs beside the student's code, in a process that the student controls. It has no expected values,
suites or secrets, and the judge checks all of its replies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from inspect import signature
from marshal import loads
from os import _exit, getpid
from os import name as system
from pathlib import Path
from socket import socket
from threading import get_ident
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from grader.sandbox.inside import observation
from grader.sandbox.inside.absent import unguarded
from grader.sandbox.inside.guard import GuardedCall, OperatorWatch, own_frames, raised
from grader.sandbox.inside.interpreter import ImportWatch, own_builtins, tell_endings
from grader.sandbox.inside.reports import Tell, reporter, tell_of_events
from grader.sandbox.inside.stand_in import Ask, stand_in
from grader.sandbox.private import OWN_NAMES, keep_builtins, keep_imports
from grader.sandbox.surroundings import become_program, keep_open
from grader.sandbox.wire.channel import Channel
from grader.sandbox.wire.messages import (
    PROBE_FILE,
    Backward,
    Build,
    Built,
    Call,
    ForbiddenReply,
    Forward,
    Imports,
    ListImports,
    Load,
    Loaded,
    LoadProbe,
    Reply,
    Request,
    Returned,
    StandInAnswer,
    StandInRequest,
)
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.unpacking import Unpacking
from grader.sandbox.wire.values import RETURNED, Made, Opaque, Record

if TYPE_CHECKING:
    import torch

keep_builtins(globals())


class Worker:
    """One student's module, and the objects that the judge built from it."""

    def __init__(self, scratch: Path, tell: Tell, ask: Ask) -> None:
        self._scratch, self._tell, self._ask = scratch, tell, ask
        self._file = ""
        self._student = ModuleType("student")
        self._probes: dict[str, ModuleType] = {}
        # The probes' own copies of modules that the course gives.
        self._given: dict[str, ModuleType] = {}
        # The classes of named tuples that the judge got, by name.
        self._classes: dict[str, type] = {}
        self._built: list[Any] = []
        self._built_by: list[str] = []
        self._graphs: list[Graph] = []
        self._watches: dict[str, list[OperatorWatch]] = {}
        self._guarded = partial(GuardedCall, traced=False)
        self._settings: dict[str, Any] = {}
        self._imports: ImportWatch | None = None
        self._trust: Callable[[dict[str, Any]], None]

    def answer(self, request: Request, unpacking: Unpacking) -> tuple[Reply, Packing]:
        """Carry out one request; an exception becomes a `Raised` or `ForbiddenReply`."""
        packing = Packing()
        watches = [watch for group in self._watches.values() for watch in group]
        for watch in watches:
            watch.seen = None
        try:
            reply = self._dispatch(request, unpacking, packing)
        except BaseException as error:  # noqa: BLE001 (the border to the student's code: sys.exit comes here too)
            reply = raised(error, self._file)
            packing = Packing()
        for watch in watches:
            if watch.seen is not None:
                frames = own_frames(watch.seen.stack, self._file)
                return ForbiddenReply(watch.seen.name, frames), Packing()
        self._classes.update(packing.classes)
        return reply, packing

    def _dispatch(self, request: Request, unpacking: Unpacking, packing: Packing) -> Reply:
        """Carry out one request; `answer` reports its exceptions."""
        match request:
            case Load():
                return self._load(request)
            case LoadProbe():
                return self._load_probe(request)
            case ListImports():
                return Imports(self._imports.names() if self._imports is not None else ())
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
            case StandInAnswer():
                raise RuntimeError("nothing was asked")  # the judge answers only questions

    # --- loading --------------------------------------------------------------------------------

    def _load(self, request: Load) -> Reply:
        """Put the guards up, change the interpreter, and run the student's file as a module."""
        self._file = request.file
        path = self._scratch / request.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(request.source)
        if request.watch_imports:
            self._imports = ImportWatch(self._scratch)
        for guard in request.guards:
            watch = OperatorWatch(guard, request.file)
            for name in guard.entry_points:
                self._watches.setdefault(name, []).append(watch)
        self._guarded = partial(GuardedCall, traced=request.traced)
        # Registered under its name before it runs, since dataclasses, NamedTuple and pickle look there.
        # Compiled under the relative name, so that tracebacks show the student's own path.
        self._student = ModuleType(request.name)
        self._student.__file__ = str(path)
        sys.modules[request.name] = self._student
        become_program(self._student, request.file)
        tell_endings(request.source)
        given = [vars(each) for pair in request.given.items() for each in self._load_given(*pair)]
        before = observation.settings()
        forbidden = {
            f for watches in self._watches.values() for each in watches for f in each.files
        }
        self._trust = tell_of_events(
            self._tell, self._student, (request.file, str(path)), forbidden, given
        )
        vars(self._student)["__builtins__"] = own_builtins(request.name)
        # Our modules stay loaded, but can no longer be found.
        for name in OWN_NAMES:
            sys.modules.pop(name, None)
        exec(compile(request.source, request.file, "exec"), self._student.__dict__)  # noqa: S102
        for name in request.stand_ins:
            setattr(self._student, name, stand_in(name, self._ask))
        self._settings = observation.settings()
        changed = observation.changed(before, self._settings)
        if request.default_modes:
            self._settings = before
        return Loaded(changed)

    def _load_given(self, file: str, source: bytes) -> tuple[ModuleType, ModuleType]:
        """Run a module of the course twice: for imports of the student's module, and for probes only."""
        path = self._scratch / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)
        code = compile(source, file, "exec")
        theirs, own = ModuleType(path.stem), ModuleType(path.stem)
        sys.modules[path.stem], self._given[path.stem] = theirs, own
        # The usual builtins, so that the module cannot pass on our private ones.
        vars(theirs)["__builtins__"] = vars(sys.modules["builtins"])
        keep_builtins(vars(own))
        for module in (theirs, own):
            module.__file__ = str(path)
            exec(code, vars(module))  # noqa: S102 (the course wrote it)
        return theirs, own

    def _load_probe(self, request: LoadProbe) -> Reply:
        """Run a probe as a module."""
        module = ModuleType(request.name)
        module.__file__ = PROBE_FILE
        keep_builtins(vars(module))
        keep_imports(vars(module), self._given)
        self._trust(vars(module))
        # A copy of the module is registered under its name: pickle finds the probe's definitions there, and
        # writing into it changes nothing.
        copy = sys.modules[request.name] = ModuleType(request.name)
        exec(loads(request.code), module.__dict__)  # noqa: S102, S302 (the judge wrote it)
        kinds = type, FunctionType
        vars(copy).update(
            {
                name: value
                for name, value in vars(module).items()
                if isinstance(value, kinds) and value.__module__ == request.name
            }
        )
        self._probes[request.name] = module
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
        # A new test begins: drop the last test's graphs, and reset modes that it left on.
        self._graphs.clear()
        observation.set_modes(self._settings)
        observation.seed_all(seed)

    # --- calls ----------------------------------------------------------------------------------

    def _call(self, request: Call, unpacking: Unpacking, packing: Packing) -> Reply:
        """Call a function of the student's module, or of a probe."""
        arguments, keywords = self._arguments(request, unpacking)
        function: Callable[..., Any]
        if request.probe is not None:
            probe = getattr(self._probes[request.probe], request.function)
            function = partial(probe, self._student)
            watches = self._watches.get(request.subject, [])
            if request.observe is None:
                with self._guarded(watches):
                    return Returned(packing.pack(function(*arguments, **keywords)))
        else:
            function = self._attribute(request.function)
            watches = self._watches.get(request.function, [])
        if request.observe is not None:
            return self._observed(function, arguments, keywords, request.observe, watches, packing)
        inputs = [unpacking.tensors[index].requires_grad_() for index in request.wants]
        return self._run(function, arguments, keywords, inputs, unpacking, watches, packing)

    def _arguments(
        self, request: Call | Build | Forward, unpacking: Unpacking
    ) -> tuple[list[Any], dict[str, Any]]:
        objects: dict[int, Any] = {}
        arguments = unpacking.unpack(request.arguments)
        keywords = unpacking.unpack(request.keywords)
        return self._live(arguments, objects), self._live(keywords, objects)

    def _live(self, value: Any, objects: dict[int, Any], depth: int = 0) -> Any:
        """Return the value with a live object instead of each `Made` or `Record`."""
        if isinstance(value, Record) and value.type_name == Made.__name__:
            made = Made(*value.fields.values())
            if made.number not in objects:
                arguments = self._live(made.arguments, objects)
                keywords = self._live(made.keywords, objects)
                if made.probe is None:
                    make = self._attribute(made.function)
                else:
                    make = getattr(self._probes[made.probe], made.function)
                    arguments = [self._student, *arguments]
                objects[made.number] = make(*arguments, **keywords)
            return objects[made.number]
        if isinstance(value, Record):
            items = [self._live(item, objects, depth + 1) for item in value.fields.values()]
            kind = self._classes.get(value.type_name.removeprefix(RETURNED), tuple)
            return tuple.__new__(kind, items)
        if isinstance(value, Opaque):
            raise TypeError(
                f"the test cannot hand your {value.type_name} back to your code: return tensors, numbers, "
                "strings, lists, tuples or dicts"
            )
        if depth > 4 or not isinstance(value, (list, tuple, dict)) or len(value) > 1000:
            return value
        if isinstance(value, dict):
            return {key: self._live(item, objects, depth + 1) for key, item in value.items()}
        return type(value)(self._live(item, objects, depth + 1) for item in value)

    def _observed(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        keywords: dict[str, Any],
        seed: int,
        watches: list[OperatorWatch],
        packing: Packing,
    ) -> Reply:
        """Call a function, and report raw facts about its arguments before and after the call."""
        observation.seed_all(seed)
        before = observation.facts_of_call(function, arguments, keywords)
        value, error = None, None
        with self._guarded(watches):
            try:
                value = function(*arguments, **keywords)
            except Exception as exception:  # noqa: BLE001 (the border to the student's code)
                error = raised(exception, self._file)
        report = {
            "draws": observation.draws(),
            "names": parameter_names(function, arguments),
            "before": before,
            "after": observation.facts_of_call(function, arguments, keywords),
            "value": observation.facts(value),
        }
        return Returned(
            packing.pack(value),
            left=packing.pack(report),
            raised=error,
        )

    def _run(
        self,
        function: Callable[..., Any],
        arguments: list[Any],
        keywords: dict[str, Any],
        inputs: list[torch.Tensor],
        unpacking: Unpacking,
        watches: list[OperatorWatch],
        packing: Packing,
    ) -> Reply:
        """Call a function, report arguments changed in place, and keep the graph if gradients are wanted."""
        before = [state_of(tensor) for tensor in unpacking.tensors]
        with self._guarded(watches):
            value = function(*arguments, **keywords)
        packed = packing.pack(value)
        changed = [
            tensor
            for tensor, old in zip(unpacking.tensors, before, strict=True)
            if state_of(tensor) != old
        ]
        mutated = names_of(function, arguments, keywords, changed) if changed else ()
        positions = tuple(i for i, t in enumerate(packing.tensors) if t.requires_grad)
        if not positions or not inputs:
            return Returned(packed, mutated=mutated)
        outputs = [packing.tensors[index] for index in positions]
        self._graphs.append(Graph(inputs, outputs, watches))
        graph = len(self._graphs) - 1
        return Returned(packed, graph, positions, mutated)

    def _build(self, request: Build, unpacking: Unpacking, packing: Packing) -> Reply:
        """Build a module of the student's class, and report its state."""
        arguments, keywords = self._arguments(request, unpacking)
        module = self._attribute(request.class_name)(*arguments, **keywords)
        torch = sys.modules["torch"]
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"{request.class_name} is not a torch.nn.Module")
        self._built.append(module)
        self._built_by.append(request.class_name)
        parameters = dict(module.named_parameters())
        return Built(
            handle=len(self._built) - 1,
            parameters=packing.pack(parameters),
            buffers=packing.pack(dict(module.named_buffers())),
            saved=tuple(module.state_dict()),
            trainable=tuple(
                name for name, parameter in parameters.items() if parameter.requires_grad
            ),
            training=bool(module.training),
        )

    def _forward(self, request: Forward, unpacking: Unpacking, packing: Packing) -> Reply:
        """Give a built module the state in the request, and call it."""
        module = self._built[request.handle]
        parameters = unpacking.unpack(request.parameters)
        buffers = unpacking.unpack(request.buffers)
        _set_state(module, parameters, buffers, frozenset(request.trainable), request.training)
        # From here on, only the arguments are checked for changes.
        unpacking.tensors.clear()
        arguments, keywords = self._arguments(request, unpacking)
        watches = self._watches.get(self._built_by[request.handle], [])
        if request.observe is not None:
            gradients = unpacking.unpack(request.gradients)
            for name, parameter in module.named_parameters():
                parameter.grad = gradients.get(name)
            return self._observed(module, arguments, keywords, request.observe, watches, packing)
        own = [parameter for parameter in module.parameters() if parameter.requires_grad]
        inputs = own + [unpacking.tensors[index].requires_grad_() for index in request.wants]
        before = {name: state_of(parameter) for name, parameter in module.named_parameters()}
        reply = self._run(module, arguments, keywords, inputs, unpacking, watches, packing)
        assert isinstance(reply, Returned)
        changed = [
            n for n, parameter in module.named_parameters() if state_of(parameter) != before.get(n)
        ]
        return replace(reply, mutated=(*reply.mutated, *changed))

    def _backward(self, request: Backward, unpacking: Unpacking, packing: Packing) -> Reply:
        """Compute gradients of a kept graph, and keep a new graph if they have to be differentiable."""
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
        with self._guarded(graph.watches):
            inputs = products(graph, gradients, request.differentiable)
        packed = packing.pack(inputs)
        positions = tuple(i for i, t in enumerate(packing.tensors) if t.requires_grad)
        if not request.differentiable or not positions:
            return Returned(packed)
        outputs = [packing.tensors[index] for index in positions]
        self._graphs.append(Graph([*graph.inputs, *gradients], outputs, graph.watches))
        return Returned(packed, len(self._graphs) - 1, positions)


def _set_state(
    module: Any,
    parameters: dict[str, Any],
    buffers: dict[str, Any],
    trainable: frozenset[str],
    training: bool,
) -> None:
    """Give the student's module the state of the judge's copy."""
    torch = sys.modules["torch"]
    for own, given in ((module.named_parameters(), parameters), (module.named_buffers(), buffers)):
        for name, tensor in own:
            new = given.get(name)
            # Replaced only if it differs, since graphs of earlier calls refer to the tensor.
            same = new is None or (tensor.dtype == new.dtype and torch.equal(tensor, new))
            if not same:
                tensor.data = new
    for name, tensor in module.named_parameters():
        if tensor.requires_grad != (name in trainable):
            tensor.requires_grad_(name in trainable)
    if module.training != training:
        module.train(training)


@contextmanager
def _flushed() -> Iterator[None]:
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the student's code may have closed or replaced it
                stream.flush()


def serve(channel: Channel, reports: socket, scratch: Path) -> None:
    """Answer requests until the judge hangs up; `reports` carries events to the judge."""
    tell, told = reporter(reports)
    here = getpid()

    def ask(request: StandInRequest, packing: Packing) -> tuple[StandInAnswer, Unpacking]:
        """Ask the judge while it waits for a reply."""
        if getpid() != here or get_ident() != main:
            raise RuntimeError("call this function only in the process and thread of the test")
        channel.send(request, packing, timeout=None, told=told())
        answer, unpacking = channel.receive_request()
        assert isinstance(answer, StandInAnswer)
        return answer, unpacking

    main = get_ident()
    worker = Worker(scratch, tell, ask)
    if system == "posix":
        keep_open(channel.fileno(), reports.fileno())
    while True:
        request, unpacking = channel.receive_request()
        with _flushed():
            reply, packing = worker.answer(request, unpacking)
        if getpid() != here:
            # A process that the student's code forked returned here; it must not answer for its parent.
            _exit(1)
        channel.send(reply, packing, timeout=None, told=told())


class Graph:
    """A call whose autograd graph is kept for later backward requests."""

    def __init__(
        self, inputs: list[torch.Tensor], outputs: list[torch.Tensor], watches: list[OperatorWatch]
    ) -> None:
        self.inputs, self.outputs, self.watches = inputs, outputs, watches


def products(graph: Graph, gradients: list[torch.Tensor], differentiable: bool) -> list[Any]:
    """Return the vector-Jacobian products of a graph, one for each input (None if it is not reached).

    The gradients are factors of a sum instead of `grad_outputs`, for which torch would import its symbolic
    shapes and sympy (0.3 s in every cold start).
    """
    total = sum((o * g).sum() for o, g in zip(graph.outputs, gradients, strict=True))
    grad = unguarded(sys.modules["torch"].autograd.grad)
    gradients_of_inputs = grad(
        total, graph.inputs, create_graph=differentiable, retain_graph=True, allow_unused=True
    )
    return list(gradients_of_inputs)


def state_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return the state of a tensor that a call must not change; its version counter is not reliable."""
    values = tensor.detach()
    if values.dtype.itemsize == 2 and values.is_floating_point():
        values = values.float()  # NumPy has no bfloat16
    return values.numpy().tobytes(), values.shape, tensor.requires_grad, tensor.grad is None


def names_of(
    function: Callable[..., Any],
    arguments: list[Any],
    keywords: dict[str, Any],
    changed: list[torch.Tensor],
) -> tuple[str, ...]:
    """Return the names of parameters whose arguments contain the changed tensors."""
    try:
        bound = signature(_called(function)).bind(*arguments, **keywords).arguments
    except (TypeError, ValueError):
        bound = {f"args[{i}]": argument for i, argument in enumerate(arguments)} | keywords
    return tuple(
        name for name, value in bound.items() if any(_holds(value, tensor) for tensor in changed)
    )


def parameter_names(function: Callable[..., Any], arguments: list[Any]) -> list[str]:
    """Return the names of parameters for the positional arguments, if they are known."""
    try:
        names = list(signature(_called(function)).parameters)
    except (TypeError, ValueError):
        return []
    return names[: len(arguments)]


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable with the signature: the `forward` of a module, else the function or class itself."""
    return function if isinstance(function, type) else getattr(function, "forward", function)


def _holds(value: Any, tensor: torch.Tensor) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds(item, tensor) for item in value)
    if isinstance(value, dict):
        return any(_holds(item, tensor) for item in value.values())
    return value is tensor
