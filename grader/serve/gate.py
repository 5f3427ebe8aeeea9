"""The gate decides what students may see, write and hand in now.

In a course with assignments, an exercise does not exist for students before its assignment opens, by this
machine's clock. Exercises without an assignment are always open. An exam also limits where and how students may
write and hand in. The desk enforces its end when it keeps a submission. docs/serve.md says what all this cannot
prevent.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable, Collection

from starlette.requests import Request

from grader.course.assignments import CourseAssignment, Exam
from grader.course.manifest import Course, Exercise
from grader.gradebook.standing import hide_hints
from grader.gradebook.times import moment
from grader.results import ExerciseResult
from grader.serve.http import Refusal, client_address
from grader.text import utc

OWN_NETWORK = "This exam can only be written from its own network."


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Gate:
    """Answers about the exercises of a course; `now` is the clock."""

    def __init__(self, course: Course, now: Callable[[], datetime.datetime] = _now) -> None:
        self._course, self._now = course, now
        # A server for one assignment opens it when it starts, unless it is an exam.
        self.is_term = course.assignment is None and bool(course.assignments)
        self._of, self._without_hints = course.assignment_of, course.without_hints
        self._networks = {
            a.id: tuple(map(ipaddress.ip_network, a.exam.networks))
            for a in course.assignments
            if a.exam is not None
        }

    def assignment(self, exercise: str) -> CourseAssignment | None:
        """Return the assignment of an exercise, None for one that is always open."""
        return self._of.get(exercise)

    def is_exam(self, exercise: str) -> bool:
        """Whether the exercise is in an exam."""
        return self._exam(exercise) is not None

    def is_open(self, assignment: CourseAssignment) -> bool:
        """Whether students have an assignment."""
        is_kept_closed = self.is_term or assignment.exam is not None
        return not is_kept_closed or self._now() >= assignment.opens_at

    def exists(self, exercise: str) -> bool:
        """Whether the exercise exists for students now."""
        assignment = self._of.get(exercise)
        return not self.is_term or assignment is None or self.is_open(assignment)

    def exercises(self) -> list[Exercise]:
        """Return the exercises that exist for students now, in the order of the course."""
        return [exercise for exercise in self._course.exercises if self.exists(exercise.id)]

    def enter(self, request: Request, exercise: str) -> None:
        """Raise Refusal if a student may not open the page of an exercise now, or from this address."""
        assignment = self._of.get(exercise)
        if assignment is None:
            return
        if not self.is_open(assignment):
            # In a term, a closed exam does not exist; on a server of its own, students see it listed.
            raise Refusal(404 if self.is_term else 403, self._opens(assignment))
        if self.is_outside(request, assignment.id):
            raise Refusal(403, OWN_NETWORK)

    def is_outside(self, request: Request, assignment: str) -> bool:
        """Whether an assignment may only be written from its networks, and the request is from elsewhere."""
        networks, address = self._networks.get(assignment, ()), client_address(request)
        inside = (address in network for network in networks if address is not None)
        return bool(networks) and not any(inside)

    def hand_in(self, request: Request, exercise: str) -> None:
        """Raise Refusal if the student may not enter, or hands in an exam without its page."""
        self.enter(request, exercise)
        if self.is_exam(exercise) and "authorization" in request.headers:
            title = self._of[exercise].title
            raise Refusal(403, f"{title} is an exam: hand in on the page of the exercise.")

    def why_closed(self, exercise: str) -> str:
        """Say when the assignment of an exercise opens; empty if the exercise exists now."""
        return "" if self.exists(exercise) else self._opens(self._of[exercise])

    def has_hints(self, exercise: str) -> bool:
        """Whether the page of an exercise has its hints."""
        return exercise not in self._without_hints

    def hide_hints(self, result: ExerciseResult) -> ExerciseResult:
        """Return the result, without the hints of its tests if the page of the exercise has no hints."""
        return hide_hints(result, self._without_hints)

    def download(self, exercise: str) -> None:
        """Raise Refusal if the student's file of an exercise may not be downloaded."""
        if not self.has_downloads(exercise):
            raise Refusal(403, "Files cannot be downloaded in this exam.")

    def has_downloads(self, exercise: str) -> bool:
        """Whether a student's file of an exercise may be downloaded."""
        return (self._exam(exercise) or Exam()).downloads

    def has_release(self, exercises: Collection[str]) -> bool:
        """Whether students may download a release of these exercises now, with its tasks and hints."""
        return all(
            self.exists(name) and self.has_downloads(name) and self.has_hints(name)
            for name in exercises
        )

    def release(self, request: Request, exercises: Collection[str]) -> None:
        """Raise Refusal if a student may not download a release of these now, or from this address."""
        for name in exercises:
            if not self.exists(name):
                raise Refusal(404, "The course can be downloaded once all of it has opened.")
            self.enter(request, name)
            self.download(name)
            if not self.has_hints(name):
                raise Refusal(
                    403, "The course cannot be downloaded in this exam, since it has the hints."
                )

    def _exam(self, exercise: str) -> Exam | None:
        assignment = self._of.get(exercise)
        return None if assignment is None else assignment.exam

    @staticmethod
    def _opens(assignment: CourseAssignment) -> str:
        when = moment(utc(assignment.opens_at), assignment.timezone)
        return f"{assignment.title} opens at {when}, by the server's clock."
