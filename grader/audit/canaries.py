"""The targets of attacks: a folder, a process and a service with canaries in them, made for one audit."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from grader.sandbox.surroundings import remove_tree

_ANSWER_SECONDS = 5
# A variable of the grader's environment, which also gets a canary.
_VARIABLE = "GRADE_AUDIT_CANARY"
# Answers each line with everything that an attack could change about it; ends with the grader.
_PROCESS = """
import ctypes, os, resource, signal, sys
secret = ctypes.create_string_buffer(sys.stdin.readline().strip().encode())
held = open(sys.argv[1])
signals = []
for number in (signal.SIGURG, signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, frame: signals.append(number))
for line in sys.stdin:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    affinity = sorted(os.sched_getaffinity(0))
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    print(secret.value, limits, affinity, nice, signals, flush=True)
"""


class Canaries:
    """A context with the targets; `secrets` are texts that must never appear in a result."""

    def __init__(self) -> None:
        self.mark = "attack-" + secrets.token_hex(6)
        names = ("file", "deleted", "environ", "argument", "memory", "service", "neighbor")
        self.secrets = {name: f"canary:{name}:{secrets.token_hex(8)}" for name in names}
        self.trophy = f"done-{secrets.token_hex(8)}"

    def __enter__(self) -> Canaries:
        self.folder = Path(tempfile.mkdtemp(prefix="grade-audit-"))
        # Writable for everybody, since any user may be the attacker.
        self.folder.chmod(0o777)
        (self.folder / "secret.txt").write_text(self.secrets["file"])
        (self.folder / "secret.txt").chmod(0o666)
        (self.folder / "held.txt").write_text(self.secrets["deleted"])
        os.environ[_VARIABLE] = self.secrets["environ"]
        self._start_process()
        (self.folder / "held.txt").unlink()
        self._service = _Service(self.folder / "socket", self.mark, self.secrets["service"])
        self._before = self._look()
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.pop(_VARIABLE, None)
        self._service.close()
        self._process.kill()
        self._process.communicate()
        remove_tree(self.folder)

    def targets(self) -> dict[str, object]:
        """Return the places of all targets, which an attack finds in `target`."""
        return {
            "mark": self.mark,
            "trophy": self.trophy,
            "folder": str(self.folder),
            "file": str(self.folder / "secret.txt"),
            "socket": str(self.folder / "socket"),
            "abstract": self.mark,
            "port": self._service.port,
            "pid": self._process.pid,
            "key": int(self.mark[-6:], 16) + 1,
        }

    def files_changed(self) -> list[str]:
        """Return the changes to the folder."""
        now = self._look()
        return [
            name for name in now.keys() | self._before if now.get(name) != self._before.get(name)
        ]

    def process_harmed(self) -> list[str]:
        """Return the changes to the process."""
        now = self._ask()
        return [] if now == self._said else [f"the canary process says {now or 'nothing'}"]

    def _look(self) -> dict[str, object]:
        """Return the state of the folder and of each file in it: mode, owner, time, links, size and content."""
        states: dict[str, object] = {}
        for path in (self.folder, *self.folder.iterdir()):
            status = path.lstat()
            about = (
                status.st_mode,
                status.st_uid,
                status.st_mtime_ns,
                status.st_nlink,
                status.st_size,
            )
            states[path.name] = about, path.read_bytes() if path.is_file() else b""
        return states

    def _start_process(self) -> None:
        """Start the process to attack: its memory, arguments, environment and an open file hold secrets."""
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-c",
                _PROCESS,
                self.folder / "held.txt",
                self.secrets["argument"],
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={_VARIABLE: self.secrets["environ"]},
            start_new_session=True,
        )
        self._tell(self.secrets["memory"])
        self._said = self._ask()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _ask(self) -> str:
        self._tell("")
        assert self._process.stdout is not None
        # A stopped process does not answer.
        if select.select([self._process.stdout], [], [], _ANSWER_SECONDS)[0]:
            return os.read(self._process.stdout.fileno(), 4096).decode().strip()
        return ""


class _Service:
    """Tells its secret to every client, over TCP and both kinds of Unix addresses."""

    def __init__(self, path: Path, name: str, secret: str) -> None:
        self._secret = secret.encode()
        self._servers: list[socket.socket] = [socket.create_server(("127.0.0.1", 0))]
        for address in (str(path), "\0" + name):
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.bind(address)
            server.listen()
            self._servers.append(server)
        path.chmod(0o777)
        self.port: int = self._servers[0].getsockname()[1]
        self._ended, self._end = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        """Answer clients until `close` writes to the pipe."""
        while True:
            waiting: list[Any] = [*self._servers, self._ended]
            ready, _, _ = select.select(waiting, [], [])
            if self._ended in ready:
                return
            for server in set(self._servers) & set(ready):
                connection, _ = server.accept()
                with contextlib.suppress(OSError), connection:
                    connection.sendall(self._secret)

    def close(self) -> None:
        os.write(self._end, b"x")
        self._thread.join()
        for server in self._servers:
            server.close()
        os.close(self._ended)
        os.close(self._end)
