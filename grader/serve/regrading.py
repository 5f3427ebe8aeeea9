"""A regrade while the server runs: count the files, and queue them behind everything that students hand in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from grader.course.manifest import Exercise
from grader.serve.desk import Desk
from grader.serve.server import OpenServer
from grader.serve.threads import CHANGED, CLASS


class Waiting(NamedTuple):
    """The numbers of files to judge again, and of their students."""

    files: int
    students: int


async def count(server: OpenServer, exercises: Sequence[Exercise]) -> Waiting:
    """Count the files that a regrade of these exercises would judge."""
    files = students = 0
    # One student after the other, so that hand-ins come in between.
    for name in await server.desk.answer(Desk.students_with_work):
        found = await server.desk.answer(
            lambda desk, name=name: len(desk.to_regrade(name, exercises))  # type: ignore[misc]
        )
        files, students = files + found, students + bool(found)
    return Waiting(files, students)


async def regrade(server: OpenServer, exercises: Sequence[Exercise]) -> int:
    """Queue the files of these exercises to judge again; return their number."""
    queued = 0
    for name in await server.desk.answer(Desk.begin_regrade):
        queued += await server.desk.answer(
            lambda desk, name=name: desk.regrade(name, exercises)  # type: ignore[misc]
        )
    server.judging.wake()
    server.hub.tell(CLASS, CHANGED)
    return queued
