"""Errors on our side of the wall; an outcome of a submission is never one of these.

GraderError           a fault of the grader or the machine: exit code 3, costs no student a point
├── CourseError       the course has a mistake that its author must correct
├── UsageError        the caller's request is impossible: exit code 2
├── SubmissionError   there is nothing to grade at the given path: exit code 2
├── ServerError       (grader.student) no server can be reached, or it refuses: exit code 2 if it always would
├── ExportError       (grader.exports) an export cannot be written: exit code 2
├── PolicyError       (grader.gradebook) a policy has a mistake: exit code 2
├── CorrectionsError  (grader.gradebook) the file of corrections has a mistake: exit code 2
├── NoVerdict         (grader.exports) a format cannot express a missing score
├── SandboxError      no sandbox could be started, or the fork server has ended
├── IsolationError    a required wall is missing on this machine
└── JudgeError        the judge ended without a verdict, or its verdict is inconsistent
"""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """The exit codes of `grade`; `USAGE` is click's own."""

    FULL_MARKS = 0
    BELOW = 1
    USAGE = 2
    FAULT = 3
    INTERRUPTED = 130


class GraderError(Exception):
    """A fault of the grader or the machine; the text names the problem, the place, and a remedy."""

    exit_code = ExitCode.FAULT


class CourseError(GraderError):
    """The course has a mistake that its author must correct."""


class UsageError(GraderError):
    """The caller's request is impossible; the text has a remedy."""

    exit_code = ExitCode.USAGE


# Errors about a path that the caller chose; a full or broken disk is not the caller's choice.
_NAMED_WRONGLY = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


def not_written(path: object, error: OSError) -> GraderError:
    """Return the error for a file or a folder, named by the caller, that cannot be written."""
    kind = UsageError if isinstance(error, _NAMED_WRONGLY) else GraderError
    return kind(f"{path} cannot be written: {error.strerror}.")


class SubmissionError(GraderError):
    """There is nothing to grade at the caller's path."""

    exit_code = ExitCode.USAGE


class SandboxError(GraderError):
    """A sandbox could not be started, or the process that starts sandboxes has ended."""


class IsolationError(GraderError):
    """A wall that the caller requires is missing on this machine."""


class JudgeError(GraderError):
    """The judge ended without a verdict, or with an inconsistent one."""
