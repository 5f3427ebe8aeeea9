"""A sandbox that is a Python process of its own: where nothing can be forked, and nothing is warm."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path

import msgspec

from grader.sandbox.inside.warmup import warm_up
from grader.sandbox.inside.worker import serve
from grader.sandbox.surroundings import pretend_modes, use_scratch
from grader.sandbox.walls import confinement
from grader.sandbox.walls.bubblewrap import python_environment
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import Channel, ChannelClosed
from grader.sandbox.wire.messages import Ready
from grader.sandbox.wire.packing import Packing


class SpawnedStart(msgspec.Struct, frozen=True):
    """What such a process reads from its standard input: where to call, and as whom."""

    port: int
    token: bytes
    modules: tuple[str, ...]
    limits: Limits
    walls: bool
    scratch: str


def _call(start: SpawnedStart) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", start.port))
    connection.sendall(start.token)
    return connection


def main() -> None:
    """Call the judge back, import, confine, serve."""
    start = msgspec.json.decode(sys.stdin.buffer.read(), type=SpawnedStart)
    channel, output = _call(start), _call(start)
    confinement.SYSTEM.print_to(output)
    sys.dont_write_bytecode = True
    scratch = Path(start.scratch)
    os.chdir(scratch)
    use_scratch(scratch)
    pretend_modes(scratch)
    for module in start.modules:
        warm_up(module)
    walls: list[str] = []
    if start.walls:
        plan = confinement.prepare(python_environment())
        walls = confinement.confine(plan, start.limits, scratch)
    connection = Channel(channel)
    connection.send(Ready(tuple(walls)), Packing(), timeout=None)
    with contextlib.suppress(ChannelClosed):
        serve(connection, scratch)


if __name__ == "__main__":
    main()
