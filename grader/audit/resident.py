"""A harmless student module for `field`: the neighbor that attacks must not reach, and the next submission.

It runs in a sandbox like any submission, and imports nothing of the grader.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import os
import signal
import socket
import sys
import tempfile
import threading
import types
from pathlib import Path

import torch

_kept: list[str] = []
_SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 (looked at: nothing may have been left there)


def _watched() -> tuple[object, ...]:
    """Return functions that others rely on, looked up anew each time."""
    return (
        torch.isclose,
        torch.allclose,
        torch.equal,
        torch.testing.assert_close,
        torch.Tensor.__eq__,
        torch.Tensor.sum,
        builtins.len,
        builtins.isinstance,
        builtins.open,
        builtins.print,
        os.kill,
        sys.exit,
    )


def keep(secret: str, address: str) -> None:
    """Hold a secret: in memory, in a file of our own, in shared memory, and at an abstract address."""
    _kept.append(secret)
    Path(tempfile.gettempdir(), "kept.txt").write_text(secret)
    # Without some wall, some of these cannot be written.
    with contextlib.suppress(OSError):
        Path(_SHARED[-1], address).write_text(secret)
    with contextlib.suppress(OSError):
        _answer_at(address, secret)


def _answer_at(address: str, secret: str) -> None:
    """Serve the secret at an abstract address, as the neighbor's own service would."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind("\0" + address)
    server.listen()

    def serve() -> None:
        while True:
            connection, _ = server.accept()
            connection.sendall(secret.encode())
            connection.close()

    threading.Thread(target=serve, daemon=True).start()


def state() -> dict[str, str]:
    """Return facts that must be the same in every sandbox."""
    scratch = tempfile.gettempdir()
    rng = torch.get_rng_state().numpy().tobytes()
    facts = {
        "kept": _kept,
        "own folder": _listed(scratch),
        "left by others": [
            name for place in _SHARED for name in _listed(place) if "attack-" in name
        ],
        "default dtype": torch.get_default_dtype(),
        "threads of torch": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "random numbers": hashlib.sha256(rng).hexdigest(),
        "functions": [_identity(function) for function in _watched()],
        "builtins": sorted(vars(builtins)),
        "path": sys.path,
        "environment": sorted(
            f"{k}={v}" for k, v in os.environ.items() if scratch not in v and "canary:" not in v
        ),
        "signals": [str(signal.getsignal(number)) for number in range(1, 32)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), os.umask(0o022)],
        "traces": [sys.gettrace(), sys.getprofile(), threading.gettrace()],
        "a small integer": _sum(125, 126),
    }
    return {name: repr(value)[:1500] for name, value in facts.items()}


def _listed(folder: str) -> list[str]:
    try:
        return sorted(path.name for path in Path(folder).iterdir())
    except OSError:
        return []


def _sum(left: int, right: int) -> int:
    """Return a sum that is not computed beforehand."""
    return left + right


def _identity(function: object) -> str:
    body = ""
    if isinstance(function, types.FunctionType):
        body = hashlib.sha256(function.__code__.co_code).hexdigest()
    return f"{type(function).__name__} {getattr(function, '__qualname__', '')} {body}"


def folder() -> str:
    """Return our own scratch folder."""
    return tempfile.gettempdir()
