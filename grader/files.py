"""Files that are written whole and synced, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def write_whole(path: Path, content: bytes, *, private: bool = False, synced: bool = True) -> None:
    """Replace the content of a file; if this raises OSError, the file is unchanged.

    Readers see either the old file or the new one, and if `synced` even after a power failure. A new file gets
    the usual permissions, or if `private` only its owner's; an existing file keeps its own.
    """
    with replacing(path, private=private, synced=synced) as out:
        out.write(content)


@contextlib.contextmanager
def replacing(path: Path, *, private: bool = False, synced: bool = True) -> Iterator[IO[bytes]]:
    """Open a stream whose bytes replace a file when the block ends, as `write_whole` does.

    The bytes go into a draft beside the file, which is then renamed.
    """
    target = path.resolve()
    # A unique name, since another process may write the same file.
    draft = target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}.part")
    mode = 0o600 if private else 0o666
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as out:
            yield out
            if synced:
                out.flush()
                os.fsync(out.fileno())
        if target.is_file() and not private:
            draft.chmod(target.stat().st_mode)
        draft.replace(target)
        if synced:
            sync_folder(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def remove_drafts(folder: Path, name: str = "") -> None:
    """Remove drafts that killed processes left in a folder: of all files, or of the file with this name.

    No other process may be writing them.
    """
    for draft in folder.glob(f".{name}*.part"):
        draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk, so that a renamed file survives a power failure."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
