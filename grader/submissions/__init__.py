"""Submissions: one folder or a class's download becomes the bytes of each exercise's file.

`find_class` finds every student's attempts in a download, only from names and tables of contents.
`read_attempt` then reads one attempt, bounded in time and memory. Nothing is extracted and no link is
followed. A file that cannot be read is one line in its student's result.

A class: `download`, of an item for each name (`contents`) that its platform (`platforms`, `gradescope`)
reads, with `roster` and `times`, both a `class_list` in a `sheet`; `owners` says which part of a name is a
person's, `ours` what `grade` wrote itself; then `attempt`, which knows the files of an exercise by their
`names`. One submission: `read`. Both read `folder` and `archive` (`zip`, `tar`) into a `submission`; `source`
reads the code without running it, and `odd_code` finds in it what a person should see.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grader.submissions.attempt import Attempt, read_attempt
from grader.submissions.folder import safe_name
from grader.submissions.read import file_of, read_submission
from grader.submissions.submission import ExerciseFile, State, Submission

if TYPE_CHECKING:
    from grader.submissions.download import ClassDownload, find_class, joined
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

# What a class needs, and the one submission of a student at home does not wait for.
_LATER = {
    "ClassDownload": "download",
    "find_class": "download",
    "joined": "download",
    "Roster": "roster",
    "read_roster": "roster",
    "Times": "times",
    "read_times": "times",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
