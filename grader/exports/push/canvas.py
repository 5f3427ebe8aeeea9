"""Canvas's REST API: read and write the grades and comments of one assignment.

Canvas keeps every comment: sending one adds another. Points are compared with `entered_score`, the points
before Canvas's own penalty for lateness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from grader.errors import UsageError
from grader.exports.formats.canvas import KEYS
from grader.exports.formats.feedback import plain_feedback
from grader.exports.matching import Key, person_of
from grader.exports.push.client import Client, Points, PushError, parts_of, read_as, token_of
from grader.exports.push.comparison import Change, There
from grader.exports.texts import shortened
from grader.results import Entry, StudentInfo
from grader.text import clean, number

T = TypeVar("T")

_PLACE = re.compile(r"/courses/(\d+)/assignments/(\d+)(?=[/?])")
_EXAMPLE = "https://canvas.example.edu/courses/12/assignments/34"
_TOKEN = "In Canvas: Account, Settings, New Access Token."  # noqa: S105 (no token)
# Canvas refuses comments over 64 KiB; a character may take four bytes.
_LONGEST_COMMENT = 16_000
# Types of grading that accept points.
_OF_POINTS = ("points", "percent", "letter_grade", "gpa_scale")


class _Assignment(msgspec.Struct):
    id: int
    name: str = ""
    points_possible: Points | None = None
    grading_type: str = "points"
    post_manually: bool | None = None
    group_category_id: int | None = None
    grade_group_students_individually: bool | None = None


class _User(msgspec.Struct):
    id: int
    name: str | None = None
    sortable_name: str | None = None
    sis_user_id: str | None = None
    login_id: str | None = None


class _Comment(msgspec.Struct):
    comment: str | None = None
    created_at: str | None = None


class _Submission(msgspec.Struct):
    user_id: int | None = None
    score: Points | None = None
    entered_score: Points | None = None
    points_deducted: float | None = None
    excused: bool | None = None
    submission_comments: list[_Comment] | None = None

    @property
    def points(self) -> float | None:
        """The points that were entered."""
        return self.score if self.entered_score is None else self.entered_score

    @property
    def comments(self) -> tuple[str, ...]:
        """The texts of the comments, oldest first."""
        made = sorted(self.submission_comments or (), key=lambda each: each.created_at or "")
        return tuple(each.comment or "" for each in made)


class Canvas:
    """An assignment in Canvas, by its address in a browser; the token is in CANVAS_TOKEN.

    Raises UsageError if the address is wrong or the assignment takes no points, PushError if Canvas refuses.
    """

    name = "Canvas"
    one_comment = False
    reads_comments = True
    keys: Sequence[Key] = KEYS

    def __init__(self, address: str, environment: Mapping[str, str]) -> None:
        base, place = parts_of(address, _PLACE, _EXAMPLE)
        token = token_of("CANVAS_TOKEN", environment, _TOKEN)
        self.address = base + place[0]
        self._course = f"{base}/api/v1/courses/{place[1]}"
        self._url = f"{self._course}/assignments/{place[2]}"
        self._client = Client(self.name, base, token, {"Authorization": f"Bearer {token}"})
        assignment = read_as(
            self._client.read(self._url).value, _Assignment, "an assignment of Canvas's"
        )
        self._refuse(assignment)
        self.worth: float | None = assignment.points_possible or 0.0
        seen = (
            "Students see nothing until you post the grades in Canvas."
            if assignment.post_manually
            else "Students see points and comments at once."
        )
        self.notes = [f"{self._client.clean(assignment.name)} in Canvas. {seen}"]

    def _refuse(self, assignment: _Assignment) -> None:
        """Raise UsageError for an assignment that takes no points for single students."""
        if assignment.grading_type not in _OF_POINTS:
            raise UsageError(
                f"The assignment is graded as {clean(assignment.grading_type)} in Canvas, and takes no points."
            )
        if (
            assignment.group_category_id is not None
            and not assignment.grade_group_students_individually
        ):
            raise UsageError(
                "Canvas gives each grade of this assignment to the whole group: check 'Assign grades to each "
                "student individually' in the assignment."
            )

    def person(self, entry: Entry) -> Mapping[str, str]:
        """Return the names and ids to match a student by, as `grade export` does."""
        return person_of(entry.student)

    def worded(self, entry: Entry, title: str) -> str:
        """Return the comment as plain text."""
        return shortened(plain_feedback(entry, title).rstrip("\n"), _LONGEST_COMMENT)

    def students(self) -> list[There]:
        """Read the students of the course, and their submissions with the comments."""
        users = self._pages(f"{self._course}/users?enrollment_type[]=student&per_page=100", _User)
        submissions = {
            submission.user_id: submission
            for submission in self._pages(
                f"{self._url}/submissions?include[]=submission_comments&per_page=100", _Submission
            )
        }
        if None in submissions:
            raise PushError(
                "Canvas does not say whose submissions these are: the assignment is graded anonymously. "
                "Show the names there first."
            )
        deducted = sum(bool(each.points_deducted) for each in submissions.values())
        if deducted:
            self.notes.append(
                f"Canvas takes off points for lateness by its own policy, until now from {deducted}, but the "
                "points sent already include the penalty of policy.toml."
            )
        # A student may be on two pages, if the list changes while it is read.
        return [
            self._there(user, submissions.get(user.id))
            for user in {u.id: u for u in users}.values()
        ]

    def student(self, there: There) -> There:
        """Read one student's submission again."""
        answer = self._client.read(
            f"{self._url}/submissions/{there.user}?include[]=submission_comments"
        )
        submission = read_as(answer.value, _Submission, "a submission of Canvas's")
        return msgspec.structs.replace(
            there, points=submission.points, comments=submission.comments
        )

    def points(self) -> Mapping[str, float | None]:
        """Read the points of all students."""
        found = self._pages(f"{self._url}/submissions?per_page=100", _Submission)
        return {str(submission.user_id): submission.points for submission in found}

    def send(self, change: Change) -> None:
        """Send the new points, the new comment, or both in one request."""
        fields = []
        if change.new_points:
            fields += [("submission[posted_grade]", number(change.mine.points))]
            # Otherwise, Canvas may read the points as a grade of the grading scheme.
            fields += [("prefer_points_over_scheme", "true")]
        if change.new_comment:
            fields += [("comment[text_comment]", change.mine.comment)]
        self._client.ask("PUT", f"{self._url}/submissions/{change.there.user}", fields)

    def _there(self, user: _User, submission: _Submission | None) -> There:
        name = user.sortable_name or user.name or ""
        ids = {
            "canvas_id": str(user.id),
            "sis_user_id": user.sis_user_id or "",
            "sis_login_id": user.login_id or "",
        }
        stays = "does not have the assignment in Canvas." if submission is None else ""
        found = submission or _Submission()
        return There(
            user=str(user.id),
            name=name,
            cells=person_of(StudentInfo(id=str(user.id), name=name, ids=ids)),
            points=found.points,
            comments=found.comments,
            stays="is excused in Canvas, which stays." if found.excused else stays,
        )

    def _pages(self, url: str, kind: type[T]) -> Iterator[T]:
        """Yield the items of a list, page by page."""
        for page in self._client.pages(url):
            yield from read_as(page, list[kind], "a list of Canvas's")  # type: ignore[valid-type]
