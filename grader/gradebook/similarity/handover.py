"""The files of a class as Dolos and JPlag read them, for `grade similar --files`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from grader.errors import GraderError
from grader.results import Entry
from grader.submissions import safe_name


def write_files(
    folder: Path,
    entries: Iterable[Entry],
    sources: Callable[[Entry], Mapping[str, bytes]],
    stubs: Mapping[str, bytes],
) -> int:
    """Write the counted attempts of a class into a new folder, and return how many files they are.

    For each exercise: `submissions/<student>/<exercise>.py`, where JPlag looks for submissions; the stub in
    `stub/`, its base code; and `info.csv`, the table from which Dolos reads paths and names.

    Raises GraderError if the folder is not empty or cannot be written.
    """
    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise GraderError(f"{folder} is not empty: name a new folder.")
        for exercise, stub in stubs.items():
            (folder / exercise / "stub").mkdir(parents=True)
            (folder / exercise / "stub" / f"{exercise}.py").write_bytes(stub)
            _begin_table(folder / exercise / "info.csv")
        for entry in entries:
            for exercise, source in sources(entry).items():
                if exercise in stubs:
                    _add(folder / exercise, entry, exercise, source)
                    count += 1
    except OSError as error:
        raise GraderError(f"{folder} cannot be written: {error.strerror}.") from error
    return count


def _begin_table(table: Path) -> None:
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(["filename", "full_name"])


def _add(folder: Path, entry: Entry, exercise: str, source: bytes) -> None:
    path = folder / "submissions" / safe_name(entry.student.id) / f"{exercise}.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(source)
    with (folder / "info.csv").open("a", encoding="utf-8", newline="") as file:
        name = entry.student.name or entry.student.id
        csv.writer(file).writerow([path.relative_to(folder).as_posix(), name])
