"""What a module imports late: while it runs, and not when this process was forked.

Watched only in a sandbox with the course's own solution: a fork server that knows it imports the same once,
and no sandbox has to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class ImportWatch:
    """A finder that finds nothing, and notes each import that no other import asked for.

    The notes are lines of a file, to which processes that are forked here write, too.
    """

    def __init__(self, scratch: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._notes = os.open(scratch / ".imports", flags, 0o600)
        self._outer = ""
        sys.meta_path.insert(0, self)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 (as every finder is called)
        target: ModuleType | None = None,  # noqa: ARG002 (as every finder is called)
    ) -> None:
        """Note the name, unless the module that was noted last is still being imported."""
        spec = getattr(sys.modules.get(self._outer), "__spec__", None)
        if not getattr(spec, "_initializing", False):
            self._outer = name
            os.write(self._notes, f"{name}\n".encode())

    def names(self) -> tuple[str, ...]:
        """The imports so far, in their order."""
        size = os.fstat(self._notes).st_size
        lines = os.pread(self._notes, size, 0).decode().splitlines()
        return tuple(dict.fromkeys(lines))
