"""Moodle's web services: read and write the grades and comments of one assignment.

A student has one comment: a new one replaces it, and saving a grade saves the comment, too. Moodle ignores a
grade for a locked item without an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from grader.errors import UsageError
from grader.exports.formats.feedback import html_feedback
from grader.exports.formats.moodle import moodle_keys, moodle_person
from grader.exports.matching import Key, name_key
from grader.exports.push.client import (
    Client,
    Points,
    PushError,
    Refused,
    parts_of,
    read_as,
    token_of,
)
from grader.exports.push.comparison import Change, There
from grader.results import Entry
from grader.text import number

T = TypeVar("T")

_PLACE = re.compile(r"/mod/assign/view\.php\?(?:[^#]*&)?id=(\d+)")
_EXAMPLE = "https://moodle.example.edu/mod/assign/view.php?id=56"
_TOKEN = "In Moodle: Preferences, Security keys."  # noqa: S105 (no token)
_SHOWN = re.compile(r'<div class="no-overflow">(.*)</div>', re.DOTALL)
_PAGE = 200
_HTML, _RELEASED = "1", "released"
_OF_TOKEN = ("invalidtoken", "accessexception", "servicenotavailable")
_COLUMNS = ("email", "username", "idnumber")


class _Module(msgspec.Struct):
    course: int
    instance: int
    modname: str


class _ModuleAnswer(msgspec.Struct):
    cm: _Module


class _Config(msgspec.Struct):
    plugin: str = ""
    subtype: str = ""
    name: str = ""
    value: str | None = None


class _Assignment(msgspec.Struct):
    id: int
    name: str = ""
    grade: Points = 0
    markingworkflow: int = 0
    gradepenalty: int = 0
    configs: list[_Config] = []


class _Course(msgspec.Struct):
    assignments: list[_Assignment] = []


class _Courses(msgspec.Struct):
    courses: list[_Course] = []


class _User(msgspec.Struct):
    id: int
    fullname: str = ""
    email: str | None = None
    username: str | None = None
    idnumber: str | None = None


class _Mapping(msgspec.Struct):
    id: int
    userid: int


class _Flags(msgspec.Struct):
    userid: int
    workflowstate: str | None = None


class _Grade(msgspec.Struct):
    userid: int
    grade: Points | None = None
    attemptnumber: int = 0

    @property
    def points(self) -> float | None:
        """The points; Moodle writes -1 for none."""
        return None if self.grade is None or self.grade < 0 else self.grade


class _OfAssignment(msgspec.Struct):
    grades: list[_Grade] = []
    mappings: list[_Mapping] = []
    userflags: list[_Flags] = []


class _OfAssignments(msgspec.Struct):
    """An answer that lists something by assignment."""

    assignments: list[_OfAssignment] = []


class _Field(msgspec.Struct):
    text: str | None = None


class _Plugin(msgspec.Struct):
    type: str = ""
    editorfields: list[_Field] = []


class _Feedback(msgspec.Struct):
    grade: _Grade | None = None
    plugins: list[_Plugin] = []


class _Status(msgspec.Struct):
    feedback: _Feedback | None = None


class Moodle:
    """An assignment in Moodle, by its address in a browser; the token is in MOODLE_TOKEN.

    Raises UsageError if the address is wrong or the assignment takes no points, PushError if Moodle refuses.
    """

    name = "Moodle"
    one_comment = True
    reads_comments = True
    keys: Sequence[Key] = moodle_keys(_COLUMNS)

    def __init__(self, address: str, environment: Mapping[str, str]) -> None:
        base, place = parts_of(address, _PLACE, _EXAMPLE)
        self._token = token_of("MOODLE_TOKEN", environment, _TOKEN)
        self.address = f"{base}/mod/assign/view.php?id={place[1]}"
        self._client = Client(self.name, base, self._token)
        answer = self._read("core_course_get_course_module", _ModuleAnswer, [("cmid", place[1])])
        if answer.cm.modname != "assign":
            raise UsageError(f"{self.address} is not an assignment in Moodle.")
        self._course, self._id = str(answer.cm.course), str(answer.cm.instance)
        assignment = self._assignment()
        if assignment.grade <= 0:
            raise UsageError("The assignment is graded by a scale, or not at all, in Moodle.")
        self.worth: float | None = assignment.grade
        self._takes_comments = any(
            (config.plugin, config.subtype, config.name, config.value)
            == ("comments", "assignfeedback", "enabled", "1")
            for config in assignment.configs
        )
        self._has_workflow = bool(assignment.markingworkflow)
        self._states: dict[str, str] = {}
        # The students for whom a teacher has saved something.
        self._graded: set[str] = set()
        seen = (
            "Students see points and comments once their state of the marking workflow is 'released'."
            if self._has_workflow
            else "Students see points and comments at once, and may get a message."
        )
        self.notes = [f"{self._client.clean(assignment.name)} in Moodle. {seen}"]
        if not self._takes_comments:
            self.notes.append(
                "No comments are sent: the feedback type 'Feedback comments' is off in Moodle."
            )
        if assignment.gradepenalty:
            self.notes.append(
                "Moodle takes off points for lateness by its own rules, but the points sent include the "
                "penalty of policy.toml."
            )

    def _assignment(self) -> _Assignment:
        fields = [("courseids[0]", self._course)]
        courses = self._read("mod_assign_get_assignments", _Courses, fields).courses
        for assignment in (each for course in courses for each in course.assignments):
            if str(assignment.id) == self._id:
                return assignment
        raise PushError(f"The token's owner may not see {self.address} in Moodle.")

    def person(self, entry: Entry) -> Mapping[str, str]:
        """Return the names and ids by which `grade export` matches, too."""
        return moodle_person(entry)

    def worded(self, entry: Entry, title: str) -> str:
        """Return the comment as HTML; empty if the assignment takes none."""
        return html_feedback(entry, title) if self._takes_comments else ""

    def students(self) -> list[There]:
        """Read everybody in the course, with the participant's number and the grade."""
        points = self.points()
        numbers = {
            str(each.userid): str(each.id)
            for found in self._of_assignment("mod_assign_get_user_mappings")
            for each in found.mappings
        }
        if self._has_workflow:
            self._states = {
                str(each.userid): each.workflowstate or ""
                for found in self._of_assignment("mod_assign_get_user_flags")
                for each in found.userflags
            }
        return [
            There(
                user=(id_ := str(user.id)),
                name=user.fullname,
                cells={
                    "identifier": numbers.get(id_, ""),
                    "email": (user.email or "").casefold(),
                    "username": (user.username or "").casefold(),
                    "idnumber": (user.idnumber or "").casefold(),
                    "name": name_key(user.fullname),
                },
                points=points.get(id_),
            )
            for user in {user.id: user for user in self._users()}.values()
        ]

    def student(self, there: There) -> There:
        """Read one student's grade and comment."""
        fields = [("assignid", self._id), ("userid", there.user)]
        found = self._read("mod_assign_get_submission_status", _Status, fields).feedback
        feedback = found or _Feedback()
        fields_of = (p.editorfields for p in feedback.plugins if p.type == "comments")
        texts = tuple(field.text or "" for each in fields_of for field in each)
        if feedback.grade is not None:
            points = feedback.grade.points
        elif there.comments is None:
            # The points were read with everybody's a moment ago.
            points = there.points
        else:
            # Moodle hides feedback until the marking workflow releases it.
            points = self.points().get(there.user)
        # Only a saved comment can be lost.
        is_released = (
            not self._takes_comments
            or not self._has_workflow
            or self._states.get(there.user) == _RELEASED
        )
        is_hidden = not is_released and feedback.grade is None and there.user in self._graded
        return msgspec.structs.replace(there, points=points, comments=texts, is_hidden=is_hidden)

    def points(self) -> Mapping[str, float | None]:
        """Read the points of each student's newest attempt."""
        grades = [g for found in self._of_assignment("mod_assign_get_grades") for g in found.grades]
        grades.sort(key=lambda grade: grade.attemptnumber)
        self._graded |= {str(grade.userid) for grade in grades}
        return {str(grade.userid): grade.points for grade in grades}

    def send(self, change: Change) -> None:
        """Save points and comment together; the state of the marking workflow stays."""
        user = change.there.user
        grade = {
            "userid": user,
            "grade": number(change.mine.points),
            "attemptnumber": "-1",
            "addattempt": "0",
            "workflowstate": self._states.get(user, ""),
        }
        if self._takes_comments:
            editor = "plugindata][assignfeedbackcomments_editor"
            # Saving without a comment would erase the one there.
            comment = change.mine.comment or "".join(map(_as_written, change.there.comments or ()))
            grade |= {f"{editor}][text": comment, f"{editor}][format": _HTML}
        fields = [("assignmentid", self._id), ("applytoall", "0")]
        fields += [(f"grades[0][{key}]", value) for key, value in grade.items()]
        self._checked(
            self._client.ask("POST", self._url, self._call("mod_assign_save_grades", fields))
        )

    def _users(self) -> Iterator[_User]:
        """Yield the users of the course, page by page."""
        start, known = 0, set[int]()
        while True:
            options = {
                "userfields": "id,fullname,email,username,idnumber",
                "limitfrom": str(start),
                "limitnumber": str(_PAGE),
            }
            fields = [("courseid", self._course)]
            for place, (name, value) in enumerate(options.items()):
                fields += [(f"options[{place}][name]", name), (f"options[{place}][value]", value)]
            page = self._read("core_enrol_get_enrolled_users", list[_User], fields)
            # A short page may not be the last: Moodle omits users whom the token's owner may not see.
            if known.issuperset(user.id for user in page):
                return
            known |= {user.id for user in page}
            yield from page
            start += _PAGE

    def _of_assignment(self, function: str) -> list[_OfAssignment]:
        fields = [("assignmentids[0]", self._id)]
        return self._read(function, _OfAssignments, fields).assignments

    @property
    def _url(self) -> str:
        return f"{self._client.address}/webservice/rest/server.php"

    def _call(self, function: str, fields: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        own = [("wstoken", self._token), ("wsfunction", function), ("moodlewsrestformat", "json")]
        return [*own, *fields]

    def _read(self, function: str, kind: type[T], fields: Sequence[tuple[str, str]]) -> T:
        """Call a function that changes nothing, and return its answer."""
        answer = self._client.read(self._url, self._call(function, fields))
        try:
            return read_as(self._checked(answer), kind, f"an answer of Moodle's {function}")
        except Refused as error:
            raise PushError(f"{function}: {error}") from error

    def _checked(self, answer: Any) -> Any:
        """Return the value of an answer; raises Refused or PushError if it is an exception of Moodle's."""
        value = answer.value
        if not isinstance(value, dict) or "exception" not in value:
            return value
        words = self._client.words_of(msgspec.json.encode(value))
        if value.get("errorcode") in _OF_TOKEN:
            raise PushError(
                f"Moodle refuses the token, or a function is not in its service: {words}"
            )
        raise Refused(f"Moodle refuses: {words}")


def _as_written(comment: str) -> str:
    """Return a comment without the element in which Moodle wraps it."""
    found = _SHOWN.fullmatch(comment)
    return found[1] if found else comment
