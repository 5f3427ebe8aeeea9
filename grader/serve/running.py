"""Serving until a signal: uvicorn with the application, one process, and a log on stderr."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn

from grader.errors import SubmissionError
from grader.serve.app import OpenServer, Settings, opened
from grader.serve.observing import JsonLines

# Each client that listens is an open file, of which many systems allow 1,024 unless asked.
_OPEN_FILES = 65_536
# What still sends after its stream was ended is cut off then.
_LAST_SECONDS = 1


class _Uvicorn(uvicorn.Server):
    """A server that ends its streams first, for which it would wait otherwise."""

    def __init__(self, config: uvicorn.Config, server: OpenServer) -> None:
        super().__init__(config)
        self._server = server

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end."""
        self._server.hub.close()
        super().handle_exit(sig, frame)


def serve(settings: Settings, host: str, port: int, ready: Callable[[str, int], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` gets the address once it listens, and how many jobs wait again.

    Raises GraderError where the gradebook cannot be written, SubmissionError where the address is taken.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # What it tells at its start is for those who write servers.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    _allow_open_files()
    # A signal before uvicorn has its handlers ends the process as an error would.
    signal.signal(signal.SIGTERM, _interrupt)
    with _listening(host, port) as listener, opened(settings) as server:
        address = listener.getsockname()
        name = f"[{address[0]}]" if ":" in address[0] else address[0]
        config = uvicorn.Config(
            server.app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        ready(f"http://{name}:{address[1]}/", server.waits_again)
        with contextlib.suppress(KeyboardInterrupt):
            _Uvicorn(config, server).run(sockets=[listener])


def _allow_open_files() -> None:
    """Allow as many as the system does; Windows counts none."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise SubmissionError(
            f"{host}:{port} cannot be listened at: {error.strerror}. Take another --port or --host."
        ) from error


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt
