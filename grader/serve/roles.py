"""The roles of staff: their rights, and the students to whom they have access.

Every route for staff passes the right that it needs to `Identity.staff`. An assistant has rights only for the
students of some sections: others answer 404 and are missing from every list.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from grader.gradebook.tokens import Role
from grader.results import StudentInfo
from grader.submissions.roster import is_in_group


class Right(enum.Enum):
    """A right of staff: read the class; change a student's points and answer requests; or run the server and
    change points of the whole class.
    """

    READ = "read"
    MARK = "mark"
    RUN = "run"


RIGHTS = {
    Role.OWNER: frozenset(Right),
    Role.INSTRUCTOR: frozenset(Right),
    Role.ASSISTANT: frozenset([Right.READ, Right.MARK]),
    Role.OBSERVER: frozenset([Right.READ]),
    Role.STUDENT: frozenset[Right](),
}


class Asker(NamedTuple):
    """The person behind a request: a `student`, or staff with the `name` of the token.

    Only assistants have `sections`.
    """

    role: Role
    student: StudentInfo | None = None
    name: str = ""
    sections: tuple[str, ...] = ()

    def may(self, right: Right) -> bool:
        """Whether the person has this right."""
        return right in RIGHTS[self.role]

    def sees(self, student: StudentInfo) -> bool:
        """Whether a member of staff has access to a student."""
        if self.role is not Role.ASSISTANT:
            return self.role is not Role.STUDENT
        return any(is_in_group(student.section, name) for name in self.sections)

    def reach(self, students: Iterable[StudentInfo]) -> frozenset[str] | None:
        """Return the ids of the students to whom a member of staff has access; None for the whole class."""
        if self.role is not Role.ASSISTANT:
            return None
        return frozenset(student.id for student in students if self.sees(student))
