"""The messages, as structs: requests to a sandbox and replies, demands on the fork server and answers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.values import Value

# What a probe is called in tracebacks.
PROBE_FILE = "<probe>"

# --- requests, one reply each ---------------------------------------------------------------------


class Guard(msgspec.Struct, frozen=True):
    """What calls of these entry points may not use, watched as they run."""

    entry_points: frozenset[str]
    operators: tuple[str, ...]
    names: tuple[str, ...]


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Run the student's file as the module `name`; `file` is what its tracebacks show.

    `given` are the course's own modules that it imports, by file. Calls of the functions named in
    `stand_ins` are answered by the judge, see `StandInCall`.

    With `traced` guarded calls are looked at for torch's references of operators, too. With
    `watch_imports` what is imported from here on is noted, for `ListImports`. With `default_modes` the
    global modes that it changes are put back for the tests.
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

    `code` is the module's code object, marshalled: the judge compiles a probe once, for all of its
    sandboxes. Only the judge says this, and the sandbox believes it; never the other way round.
    """

    name: str
    code: bytes


class Call(msgspec.Struct, frozen=True, tag="call"):
    """Call a function of the student's module, or of a probe module if `probe` names one.

    `seed` seeds the sandbox first (None: go on). `wants` are the positions of tensors, in the order
    in which they were packed, for which the judge needs gradients. With `observe`, a seed for the
    random states, the call is reported raw: see `inside/observation.py`. What is forbidden to the entry point
    `subject` is forbidden to the student's code that a probe calls.
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
    """The vector-Jacobian product of an earlier call `graph` with these output gradients.

    With `differentiable` the product is a new graph of its own, over the inputs of the first
    and then the output gradients.
    """

    graph: int
    gradients: Any
    differentiable: bool
    seed: int | None = None


class ListImports(msgspec.Struct, frozen=True, tag="list_imports"):
    """Name what was imported since the module was loaded; asked where that is the course's own solution."""


class StandInAnswer(msgspec.Struct, frozen=True, tag="stand_in_answer"):
    """What the solution's function returned, or the type and the text of what it raised.

    `graph` is kept there for `StandInBackward`, and `differentiable` are the positions of tensors, as in
    `Returned`.
    """

    value: Any = None
    graph: int | None = None
    differentiable: tuple[int, ...] = ()
    raised: tuple[str, str] | None = None


Request = Load | LoadProbe | Call | Build | Forward | Backward | ListImports | StandInAnswer

# --- replies ------------------------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The first frame of a sandbox, written before it knows any student's code: its walls."""

    walls: tuple[str, ...]


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """The module, or the probe, is there; `modes` are the global ones that the module's import changed."""

    modes: tuple[str, ...] = ()


class Imports(msgspec.Struct, frozen=True, tag="imports"):
    """The imports that no other import asked for, in their order."""

    modules: tuple[str, ...]


class Built(msgspec.Struct, frozen=True, tag="built"):
    """A module was constructed: its parameters and buffers by name, and which of them it saves."""

    handle: int
    parameters: Value
    buffers: Value
    saved: tuple[str, ...]
    trainable: tuple[str, ...]
    training: bool


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """A call raised: the type, the names of its bases, and the lines of the student's own file.

    It is `in_probe` where the student's code was not in between. `probe` is the module and the line of a probe
    that come after the last line of the student's.
    """

    type_name: str
    ancestry: tuple[str, ...]
    text: str
    frames: tuple[tuple[int, str], ...]
    in_probe: bool = False
    probe: tuple[str, int] | None = None


class Returned(msgspec.Struct, frozen=True, tag="returned"):
    """A call returned.

    `graph` is kept for `Backward` if any output needs gradients, and `differentiable` are the
    positions of those among the packed tensors; `mutated` names the arguments changed in place. Of an
    observed call `left` is the report, and `raised` the exception where it raised one.
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
    """In the middle of a call: the student's code calls a function for which the solution's stands in.

    `wants` are the positions of tensors for which gradients are needed. Answered by `StandInAnswer`; the call
    then goes on.
    """

    function: str
    arguments: Value
    keywords: Value
    wants: tuple[int, ...] = ()


class StandInBackward(msgspec.Struct, frozen=True, tag="stand_in_backward"):
    """In the middle of a call: the gradients through an earlier `StandInCall`, given those of its outputs."""

    graph: int
    gradients: Value


StandInRequest = StandInCall | StandInBackward
Reply = Ready | Loaded | Imports | Built | Returned | Raised | ForbiddenReply | StandInRequest

# --- reports --------------------------------------------------------------------------------------

# A line of JSON in the pipe beside the channel (`inside.reports`), written at once.
MAX_REPORT = 512


class Report(msgspec.Struct, frozen=True, array_like=True):
    """An event in a sandbox before it took effect, the line that led to it, a library's function in between.

    The line is 0 where none of the student's did.
    """

    event: Annotated[str, msgspec.Meta(max_length=100)]
    line: Annotated[int, msgspec.Meta(ge=0, le=10**7)]
    by: Annotated[str, msgspec.Meta(max_length=MAX_REPORT)]


# Of a sandbox that tells nothing any more, or what is no report.
UNCLEAR = Report("", 0, "")


# --- demands on the fork server -------------------------------------------------------------------

# A demand is one message on a control socket, MessagePack; the three descriptors of a `Spawn` travel with it.
MAX_DEMAND = 65_536


class Start(msgspec.Struct, frozen=True):
    """The settings of the fork server, its one argument.

    `controls` are the descriptors of its ends of the judges' sockets; `preload` are the modules to
    import when there is nothing else to do; without `walls` it confines no process; `around` names the
    walls that already stand around it.
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
    """Kill a sandbox with all that it started; answered by `Killed`, before its end."""

    sandbox: int


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Kill a sandbox with all that it started; answered by `SandboxEnded`, after its end."""

    sandbox: int


class ShowStack(msgspec.Struct, frozen=True, tag="show_stack"):
    """Have a sandbox print its stack, and go on; answered by `StackAsked`."""

    sandbox: int


class Spawned(msgspec.Struct, frozen=True, tag="spawned"):
    """The sandbox's number."""

    sandbox: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """No sandbox: why not."""

    reason: str


class StackAsked(msgspec.Struct, frozen=True, tag="stack_asked"):
    """The sandbox was asked for its stack; what it does then is its own."""


class Killed(msgspec.Struct, frozen=True, tag="killed"):
    """The sandbox was killed; the fork server sees to its end."""


class SandboxEnded(msgspec.Struct, frozen=True, tag="stopped"):
    """How the sandbox had ended: its exit code, or the negative number of the signal that did it."""

    status: int


Demand = Spawn | Kill | Stop | ShowStack
Answer = Spawned | Failed | StackAsked | Killed | SandboxEnded
