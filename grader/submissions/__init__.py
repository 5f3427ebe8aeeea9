"""Submissions: one folder or a class's download becomes the bytes of each exercise's file.

`find_class` finds every student's attempts in a download, only from names and tables of contents.
`read_attempt` then reads one attempt, bounded in time and memory. Nothing is extracted and no link is
followed. A file that cannot be read is one line in its student's result.

For a class, `download` finds the attempts. `contents` lists an item for each name in the download, and a
platform (`platforms`, `gradescope`) reads these names. `roster` and `times` are read as a `class_list` from a
`sheet`, and `people` matches the download with the roster. `owners` finds the part of a name that is a
person's, and `ours` recognizes output of `grade` itself. `attempt` finds the files of exercises, by their
`names`.

`read` reads one submission. Both read a `folder` or the `member`s of an `archive` (`zip`, `tar`) into a
`submission`, with its `requests`. `source` reads code without running it, `not_python` explains a file that is
not code, `odd_code` finds code that a person should see, and `unwritten` finds code that earns nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grader.submissions.submission import ExerciseFile, State, Submission

if TYPE_CHECKING:
    from grader.submissions.attempt import Attempt, read_attempt
    from grader.submissions.download import ClassDownload, find_class, joined
    from grader.submissions.folder import safe_name
    from grader.submissions.read import file_of, read_submission
    from grader.submissions.roster import Roster, read_roster
    from grader.submissions.times import Times, read_times

__all__ = [
    "Attempt",
    "ClassDownload",
    "ExerciseFile",
    "Roster",
    "State",
    "Submission",
    "Times",
    "file_of",
    "find_class",
    "joined",
    "read_attempt",
    "read_roster",
    "read_submission",
    "read_times",
    "safe_name",
]

# A judge needs none of these, and a student's `grade` not those of a class: neither waits for their import.
_LATER = {
    "Attempt": "attempt",
    "read_attempt": "attempt",
    "ClassDownload": "download",
    "find_class": "download",
    "joined": "download",
    "safe_name": "folder",
    "file_of": "read",
    "read_submission": "read",
    "Roster": "roster",
    "read_roster": "roster",
    "Times": "times",
    "read_times": "times",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
