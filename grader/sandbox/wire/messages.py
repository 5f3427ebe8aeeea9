"""Structs of messages: requests to a sandbox and replies, demands on the fork server and answers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.values import Value

# The file of a probe in tracebacks.
PROBE_FILE = "<probe>"

# --- requests, one reply each ---------------------------------------------------------------------


class Guard(msgspec.Struct, frozen=True):
    """Operators and names that calls of these entry points may not use, watched as they run."""

    entry_points: frozenset[str]
    operators: tuple[str, ...]
    names: tuple[str, ...]


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Run the student's file as the module `name`; its tracebacks show `file`.

    given: the course's own modules that it imports, by file.
    stand_ins: functions whose calls the judge answers, see `StandInCall`.
    traced: whether guarded calls also watch for torch's references of operators.
    watch_imports: whether to note imports from now on, for `ListImports`.
    default_modes: whether to undo its changes of global modes before tests.
    """

    name: str
    file: str
    source: bytes
    guards: tuple[Guard, ...]
    traced: bool = False
    watch_imports: bool = False
    default_modes: bool = False
    given: dict[str, bytes] = {}
    stand_ins: tuple[str, ...] = ()


class LoadProbe(msgspec.Struct, frozen=True, tag="load_probe"):
    """Keep the suite's probe functions under `name` for later calls.

    `code` is the module's code object, marshalled: the judge compiles a probe once for all of its sandboxes.
    Marshalled code is sent only to a sandbox, never to the judge.
    """

    name: str
    code: bytes


class Call(msgspec.Struct, frozen=True, tag="call"):
    """Call a function of the student's module, or of a probe module if `probe` names one.

    subject: the entry point whose forbidden names hold for the student's code that a probe calls.
    seed: a seed for the sandbox, None to go on.
    wants: the positions of tensors, in order of packing, for which the judge needs gradients.
    observe: a seed for the random states if the call's side effects are to be reported, see
    `inside/observation.py`.
    """

    function: str
    arguments: Any
    keywords: Any
    probe: str | None = None
    subject: str = ""
    seed: int | None = None
    wants: tuple[int, ...] = ()
    observe: int | None = None


class Build(msgspec.Struct, frozen=True, tag="build"):
    """Construct a module of the student's class and keep it under the next handle."""

    class_name: str
    arguments: Any
    keywords: Any
    seed: int | None = None


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """Call a built module with this state: parameters and buffers by name, and the training mode.

    An observed call also sets the parameters' `.grad`.
    """

    handle: int
    parameters: Any
    buffers: Any
    trainable: tuple[str, ...]
    training: bool
    arguments: Any
    keywords: Any
    seed: int | None = None
    wants: tuple[int, ...] = ()
    observe: int | None = None
    gradients: Any = None


class Backward(msgspec.Struct, frozen=True, tag="backward"):
    """Compute the vector-Jacobian product of the earlier call `graph` with these output gradients.

    With `differentiable`, the product is a new graph over the inputs of the call and the output gradients.
    """

    graph: int
    gradients: Any
    differentiable: bool
    seed: int | None = None


class ListImports(msgspec.Struct, frozen=True, tag="list_imports"):
    """List the imports since the module was loaded; only for the course's own solution."""


class StandInAnswer(msgspec.Struct, frozen=True, tag="stand_in_answer"):
    """The value that the solution's function returned, or the type and text of its exception.

    `graph` is the number of its graph for `StandInBackward`; `differentiable` has positions of tensors, as in
    `Returned`.
    """

    value: Any = None
    graph: int | None = None
    differentiable: tuple[int, ...] = ()
    raised: tuple[str, str] | None = None


Request = Load | LoadProbe | Call | Build | Forward | Backward | ListImports | StandInAnswer

# --- replies ------------------------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The first frame of a sandbox, with its walls, written before it gets any student's code."""

    walls: tuple[str, ...]


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The module or probe is loaded; `modes` are the global modes that the module's import changed."""

    modes: tuple[str, ...] = ()


class Imports(msgspec.Struct, frozen=True, tag="imports"):
    """The imports that were not part of another import, in order."""

    modules: tuple[str, ...]


class Built(msgspec.Struct, frozen=True, tag="built"):
    """A module was constructed: its parameters and buffers by name, and the names in its state dict."""

    handle: int
    parameters: Value
    buffers: Value
    saved: tuple[str, ...]
    trainable: tuple[str, ...]
    training: bool


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """A call raised: the type, the names of its bases, and the lines of the student's own file.

    `in_probe` is true if a probe raised it, without the student's code in between. `probe` is the module and
    line of a probe that ran after the student's last line.
    """

    type_name: str
    ancestry: tuple[str, ...]
    text: str
    frames: tuple[tuple[int, str], ...]
    in_probe: bool = False
    probe: tuple[str, int] | None = None


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """A call returned.

    graph: the number of its graph for `Backward`, if any output needs gradients.
    differentiable: the positions of these outputs among the packed tensors.
    mutated: the names of arguments that were changed in place.
    left, raised: for an observed call, the report, and its exception if it raised one.
    """

    value: Value
    graph: int | None = None
    differentiable: tuple[int, ...] = ()
    mutated: tuple[str, ...] = ()
    left: Value = None
    raised: Raised | None = None


class ForbiddenReply(msgspec.Struct, frozen=True, tag="forbidden"):
    """A call reached an operator or a name that a guard watches."""

    name: str
    frames: tuple[tuple[int, str], ...]


class StandInCall(msgspec.Struct, frozen=True, tag="stand_in_call"):
    """Within a call, the student's code calls a function that the solution replaces.

    `wants` has the positions of tensors for which gradients are needed. After a `StandInAnswer`, the call goes
    on.
    """

    function: str
    arguments: Value
    keywords: Value
    wants: tuple[int, ...] = ()


class StandInBackward(msgspec.Struct, frozen=True, tag="stand_in_backward"):
    """Within a call, the gradients through an earlier `StandInCall` are needed, for these output gradients."""

    graph: int
    gradients: Value


StandInRequest = StandInCall | StandInBackward
Reply = Ready | Loaded | Imports | Built | Returned | Raised | ForbiddenReply | StandInRequest

# --- reports --------------------------------------------------------------------------------------

# The length of a report: a line of JSON on a socket beside the channel (`inside.reports`), written at once.
MAX_REPORT = 512


class Report(msgspec.Struct, frozen=True, array_like=True):
    """An event in a sandbox, reported before it took effect.

    `line` is the student's line that led to it, 0 if none did; `by` is a library's function in between.
    """

    event: Annotated[str, msgspec.Meta(max_length=100)]
    line: Annotated[int, msgspec.Meta(ge=0, le=10**7)]
    by: Annotated[str, msgspec.Meta(max_length=MAX_REPORT)]


# For a sandbox that can no longer report, or an unreadable report.
UNCLEAR = Report("", 0, "")


# --- demands on the fork server -------------------------------------------------------------------

# A demand is one MessagePack message on a control socket; the three descriptors of a `Spawn` travel with it.
MAX_DEMAND = 65_536


class Start(msgspec.Struct, frozen=True):
    """The settings of the fork server, its only argument.

    controls: the descriptors of its ends of the judges' sockets.
    preload: modules to import when there is nothing else to do.
    walls: whether to confine sandboxes.
    around: the walls that are already around the fork server.
    """

    controls: tuple[int, ...]
    preload: tuple[str, ...]
    walls: bool
    around: tuple[str, ...]


class Spawn(msgspec.Struct, frozen=True, tag="spawn"):
    """Fork a sandbox with these modules and limits; answered by `Spawned` or `Failed`."""

    modules: tuple[str, ...]
    limits: Limits


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """Kill a sandbox and its descendants; answered by `Killed` before its end."""

    sandbox: int


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Kill a sandbox and its descendants; answered by `SandboxEnded` after its end."""

    sandbox: int


class ShowStack(msgspec.Struct, frozen=True, tag="show_stack"):
    """Have a sandbox print its stack and continue; answered by `StackAsked`."""

    sandbox: int


class Spawned(msgspec.Struct, frozen=True, tag="spawned"):
    """The sandbox's number."""

    sandbox: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """No sandbox could be started, for this reason."""

    reason: str


class StackAsked(msgspec.Struct, frozen=True, tag="stack_asked"):
    """The sandbox was asked for its stack; it may not print one."""


class Killed(msgspec.Struct, frozen=True, tag="killed"):
    """The sandbox was killed; the fork server reaps it later."""


class SandboxEnded(msgspec.Struct, frozen=True, tag="stopped"):
    """The sandbox's exit code, or the negative number of the signal that ended it."""

    status: int


Demand = Spawn | Kill | Stop | ShowStack
Answer = Spawned | Failed | StackAsked | Killed | SandboxEnded
