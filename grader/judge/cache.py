"""What judges learned, kept for this user from one run to the next: it saves time and decides nothing.

A file has its name from a digest of all that its contents depend on, so that nothing in it ever grows old.
Where the folder cannot be written, everything is learned again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import sys
from pathlib import Path

from grader.files import write_whole

_PACKAGE = Path(__file__).parents[1]


def file_of(kind: str, *depends_on: str) -> Path:
    """The file of this kind for what depends on these texts, on Python and on torch."""
    parts = (*depends_on, sys.version, sys.prefix, _installed_torch())
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "lab-bench", kind, f"{digest}.json")


def keep(path: Path, content: bytes) -> None:
    """Write a file whole, or not at all."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, private=True)


@functools.cache
def judging_code() -> str:
    """The digest of the code of judges and sandboxes."""
    digest = hashlib.sha256()
    for part in ("judge", "sandbox"):
        for file in sorted((_PACKAGE / part).rglob("*.py")):
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


@functools.cache
def _installed_torch() -> str:
    """Another text after another installation. Not its metadata, which take 20 ms to look through."""
    spec = importlib.util.find_spec("torch")
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).stat().st_mtime_ns)
