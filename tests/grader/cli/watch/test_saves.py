"""Saves by editors: each is reported once, however it is written to the disk."""

from __future__ import annotations

import os
import queue
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.cli.watch.inputs import Saves
from grader.course.manifest import load_course

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
RIGHT = b"def greeting(name):\n    return f'Hello, {name}!'\n"


class Told:
    """The saves that were reported."""

    def __init__(self) -> None:
        self._ids: queue.SimpleQueue[tuple[str, ...] | Exception] = queue.SimpleQueue()
        self.put = self._ids.put

    def next(self, seconds: float = 60) -> tuple[str, ...]:
        """Return the next save."""
        ids = self._ids.get(timeout=seconds)
        assert not isinstance(ids, Exception), ids
        return ids

    def nothing(self) -> bool:
        """Return whether half a second passes without another save."""
        time.sleep(0.5)
        return self._ids.empty()

    def once_after(self, save: Callable[[int], None]) -> None:
        """Assert that a save of the greeting is reported once.

        A busy machine may stretch it longer than an editor does. Then it is repeated with the next number.
        """
        for number in range(1, 20):
            begin = time.monotonic()
            save(number)
            quick = time.monotonic() - begin < 0.05
            assert self.next() == ("greeting",)
            silent = self.nothing()
            if quick:
                break
            while not self._ids.empty():
                self.next()
        assert silent or not quick


Watched = tuple[Path, Told]


@pytest.fixture(params=[False, True], ids=["events", "polling"])
def watched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    """The student's greeting in a course that is watched by events or by polling."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    told = Told()
    watching = Saves(load_course(tmp_path), told.put, told.put, poll=request.param)
    file = tmp_path / "exercises" / "text" / "greeting.py"
    # The first save may come before the system watches. It is still found.
    file.write_bytes(RIGHT)
    assert told.next() == ("greeting",)
    time.sleep(0.3)
    yield file, told
    watching.close()


def in_place(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def in_two_writes(file: Path, content: bytes) -> None:
    with file.open("wb") as stream:
        stream.flush()
        time.sleep(0.02)
        stream.write(content)


def renamed_over(file: Path, content: bytes) -> None:
    beside = file.with_name(".greeting.py.swp.tmp")
    beside.write_bytes(content)
    beside.replace(file)


def moved_away_and_written_anew(file: Path, content: bytes) -> None:
    backup = file.with_name("greeting.py~")
    file.replace(backup)
    time.sleep(0.02)
    file.write_bytes(content)
    backup.unlink()


@pytest.mark.parametrize(
    "save", [in_place, in_two_writes, renamed_over, moved_away_and_written_anew]
)
def test_a_save_is_reported_once(watched: Watched, save: Callable[[Path, bytes], None]) -> None:
    file, told = watched
    told.once_after(lambda number: save(file, RIGHT + b"# more\n" * number))


def test_other_files_are_ignored(watched: Watched) -> None:
    file, told = watched
    file.with_name("greeting.py.swp").write_bytes(b"x")
    file.with_name("notes.txt").write_bytes(b"x")
    (file.parent / "__pycache__").mkdir()
    (file.parent / "__pycache__" / "greeting.pyc").write_bytes(b"x")
    assert told.nothing()


def test_several_saves_at_once_name_the_newest_last(watched: Watched) -> None:
    file, told = watched
    other = file.with_name("word_count.py")
    other.write_bytes(b"x = 1\n")
    file.write_bytes(RIGHT * 2)
    os.utime(other, ns=(time.time_ns() + 10**9,) * 2)
    ids = told.next()
    while set(ids) != {"greeting", "word_count"} and ids[-1] != "word_count":
        ids = told.next()
    assert ids[-1] == "word_count"


def test_a_half_written_file_gets_a_moment(watched: Watched) -> None:
    file, told = watched

    def write(number: int) -> None:
        file.write_bytes(b"def greeting(na")
        time.sleep(0.02)
        file.write_bytes(RIGHT + b"# whole\n" * number)

    told.once_after(write)


def test_a_write_just_before_the_file_is_read_belongs_to_the_save(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, told = watched
    is_whole, writes = Saves._is_whole, iter([RIGHT + b"# late\n"])

    def write_and_look(self: Saves, name: str) -> bool:
        for content in writes:
            file.write_bytes(content)
        return is_whole(self, name)

    monkeypatch.setattr(Saves, "_is_whole", write_and_look)
    file.write_bytes(RIGHT + b"# early\n")
    assert told.next() == ("greeting",)
    assert told.nothing()


def test_a_lasting_syntax_error_is_reported(watched: Watched) -> None:
    file, told = watched
    file.write_bytes(b"def greeting(:\n")
    assert told.next() == ("greeting",)


def test_a_deleted_file_is_reported(watched: Watched) -> None:
    file, told = watched
    file.unlink()
    assert told.next() == ("greeting",)


def test_saves_are_found_even_without_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(PLAIN, tmp_path / "course")
    silent = tmp_path / "silent"
    silent.mkdir()
    course = load_course(tmp_path / "course")
    told = Told()
    import watchfiles

    real = watchfiles.watch
    # Watch another folder: like a drive that sends no events.
    monkeypatch.setattr(watchfiles, "watch", lambda _, **options: real(silent, **options))
    watching = Saves(course, told.put, told.put)
    try:
        for number in range(3):
            time.sleep(0.1)
            file = course.folder / "text" / "greeting.py"
            file.write_bytes(RIGHT + b"#\n" * (number + 1))
            assert told.next() == ("greeting",)
    finally:
        watching.close()
