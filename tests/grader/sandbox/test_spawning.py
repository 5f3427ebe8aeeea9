"""A sandbox that calls back is the one that was started; one that never does is our fault."""

from __future__ import annotations

import socket
import sys

import pytest

from grader.errors import SandboxError
from grader.sandbox import spawning
from grader.sandbox.walls.wall import Limits


def test_a_stranger_at_the_port_is_turned_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stranger = socket.create_connection(server.getsockname())
        stranger.sendall(b"not the token...")
        ours = socket.create_connection(server.getsockname())
        ours.sendall(b"0123456789abcdef")
        with spawning._accept(server, b"0123456789abcdef") as accepted:
            assert accepted.getpeername() == ours.getsockname()
        stranger.close()
        ours.close()


def test_a_process_that_does_not_start_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawning, "START_SECONDS", 0.5)
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(SandboxError, match="did not start"):
        spawning.SpawnedSandboxes(walls=False).begin((), Limits())()
