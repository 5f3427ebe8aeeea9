"""What a row of the gradebook holds of our structs, as it is written and as it is read."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from grader.results import Environment, ExerciseResult, Student

__all__ = [
    "read_environment",
    "read_result",
    "read_student",
    "written_environment",
    "written_result",
    "written_student",
]

_result_of = msgspec.json.Decoder(ExerciseResult).decode
_environment_of = msgspec.json.Decoder(Environment).decode
_ids_of = msgspec.json.Decoder(dict[str, str]).decode


def written_result(result: ExerciseResult) -> bytes:
    """A result as it stands in `grades.result` and `replaced.result`."""
    return zlib.compress(msgspec.json.encode(result))


def read_result(deflated: bytes) -> ExerciseResult:
    """The result that was written like this."""
    return _result_of(zlib.decompress(deflated))


def written_environment(environment: Environment) -> str:
    """An environment as it stands in `environments`."""
    return msgspec.json.encode(environment).decode()


def read_environment(text: str) -> Environment:
    """The environment that was written like this."""
    return _environment_of(text)


def written_student(student: Student) -> tuple[str, str, str, str]:
    """A row of `students`: id, name, email, ids."""
    return student.id, student.name, student.email, msgspec.json.encode(student.ids).decode()


def read_student(row: tuple[Any, ...]) -> Student:
    """The student of a row that begins like one of `students`."""
    return Student(id=row[0], name=row[1], email=row[2], ids=_ids_of(row[3]))
