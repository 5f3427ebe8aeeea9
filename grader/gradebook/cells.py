"""How values stand in the cells of a gradebook: results deflated, the rest as JSON.

A cell that cannot be read is an error of the database, as `tables.connected` tells it.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from grader.gradebook.corrections import Correction
from grader.gradebook.review import Attention
from grader.results import CourseInfo, Environment, ExerciseResult, Result, StudentInfo

T = TypeVar("T")

_course_of = msgspec.json.Decoder(CourseInfo).decode
_attention_of = msgspec.json.Decoder(tuple[Attention, ...]).decode
_blank_of = msgspec.json.Decoder(Result).decode
_stubs_of = msgspec.json.Decoder(dict[str, str]).decode
_result_of = msgspec.json.Decoder(ExerciseResult).decode
_environment_of = msgspec.json.Decoder(Environment).decode
_totals_of = msgspec.json.Decoder(dict[str, float]).decode
_ids_of = msgspec.json.Decoder(dict[str, str]).decode


def written_result(result: ExerciseResult) -> bytes:
    """A result as it stands in `grades.result` and `replaced.result`."""
    return zlib.compress(msgspec.json.encode(result))


def read_result(deflated: bytes) -> ExerciseResult:
    """The result that was written like this."""
    return _decoded(_result_of, _decoded(zlib.decompress, deflated))


def written_source(source: bytes) -> bytes:
    """A file as it stands in `sources`."""
    return zlib.compress(source)


def read_source(deflated: bytes) -> bytes:
    """The file that was written like this."""
    return _decoded(zlib.decompress, deflated)


def written_environment(environment: Environment) -> str:
    """An environment as it stands in `environments`."""
    return msgspec.json.encode(environment).decode()


def read_environment(text: str) -> Environment:
    """The environment that was written like this."""
    return _decoded(_environment_of, text)


def written_student(student: StudentInfo) -> tuple[str, str, str, str]:
    """A row of `students`: id, name, email, ids."""
    return student.id, student.name, student.email, msgspec.json.encode(student.ids).decode()


def read_student(row: tuple[Any, ...]) -> StudentInfo:
    """The student of a row that begins like one of `students`."""
    return StudentInfo(id=row[0], name=row[1], email=row[2], ids=_decoded(_ids_of, row[3]))


def read_course(text: str) -> CourseInfo:
    """The course in the fact of that name."""
    return _decoded(_course_of, text)


def read_attention(text: str) -> tuple[Attention, ...]:
    """The entries in the fact of that name."""
    return _decoded(_attention_of, text)


def read_stubs(text: str) -> dict[str, str]:
    """The digests of stubs in the fact of that name, by exercise."""
    return _decoded(_stubs_of, text)


def read_blank(text: str) -> Result:
    """The result in the fact of that name."""
    return _decoded(_blank_of, text)


def read_totals(text: str) -> dict[str, float]:
    """The points by student in a fact."""
    return _decoded(_totals_of, text)


def read_correction(row: tuple[Any, ...]) -> Correction:
    """The correction of a row of `corrections`, whose columns are its fields."""
    fields = dict(zip(Correction.__struct_fields__, row, strict=True))
    return _decoded(lambda cells: msgspec.convert(cells, Correction), fields)


def _decoded(decode: Callable[[Any], T], cell: Any) -> T:
    try:
        return decode(cell)
    except (zlib.error, msgspec.DecodeError, UnicodeError, TypeError) as error:
        raise sqlite3.DatabaseError(f"a value in it cannot be read ({error})") from error
