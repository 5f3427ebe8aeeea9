"""Results in other programs' formats, written only from entries.

`files` declares formats, reads entries and writes files. `disclosure` decides how much students read of hidden
tests. `verdicts` and `texts` phrase a result, safely for every format. `table` reads and writes CSV, and
`matching` finds people in the rows of a template. `formats` has the formats of `grade export`, `report` the
pages about a class, and `term` the files of a whole term. `personal` writes the data about one student,
`push` sends points and comments to a platform, and `mail` feedback to students.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.exports.files import ClassFormat, StudentFormat

__all__ = ["FORMATS"]

# The module of each format, whose `FORMATS` has it under the same name.
_MODULES = {
    "annotations": "github",
    "canvas": "canvas",
    "classroom": "classroom",
    "classroom50": "classroom",
    "csv": "tables",
    "feedback": "feedback",
    "feedback_zip": "feedback",
    "gradescope": "autograders",
    "jsonl": "tables",
    "junit": "junit",
    "mailmerge": "feedback",
    "markdown": "github",
    "moodle": "moodle",
    "nbgrader": "tables",
    "prairielearn": "autograders",
}


class _Formats(Mapping[str, "ClassFormat | StudentFormat"]):
    """The formats by name; raises KeyError for an unknown one.

        with Gradebook.open(results) as book, open_export(Path("grades.csv")) as out:
            notes = FORMATS["csv"].write(list(book.entries()), out, Options(out_of=100))

    A module is imported when one of its formats is used.
    """

    def __getitem__(self, name: str) -> ClassFormat | StudentFormat:
        module = importlib.import_module(f"grader.exports.formats.{_MODULES[name]}")
        chosen: ClassFormat | StudentFormat = module.FORMATS[name]
        return chosen

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


FORMATS = _Formats()
