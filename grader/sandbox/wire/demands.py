"""The settings of the fork server, what the judges may demand of it, and its answers.

A demand is one message on a control socket, MessagePack; the two descriptors of a `Spawn` travel with it.
"""

from __future__ import annotations

import msgspec

from grader.sandbox.walls.wall import Limits

MAX_MESSAGE = 65_536


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


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Kill a sandbox with all that it started; answered by `SandboxEnded`."""

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


class SandboxEnded(msgspec.Struct, frozen=True, tag="stopped"):
    """How the sandbox had ended: its exit code, or the negative number of the signal that did it."""

    status: int


Demand = Spawn | Stop | ShowStack
Answer = Spawned | Failed | StackAsked | SandboxEnded
