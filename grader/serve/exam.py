"""An assignment that is an exam: from when, from where, and how students may write and hand in.

The desk enforces the end of the exam when it keeps a submission. docs/serve.md lists the limits of all this.
"""

from __future__ import annotations

import datetime
import ipaddress

from starlette.requests import Request

from grader.course.assignments import Exam
from grader.course.manifest import Course
from grader.gradebook.times import moment
from grader.serve.http import Refusal, client_address
from grader.text import utc


class ExamDoor:
    """Checks of an exam for the routes; without an exam, everything is allowed."""

    def __init__(self, course: Course) -> None:
        assignment = course.assignment
        self._assignment = assignment
        exam = None if assignment is None else assignment.exam
        self.is_exam = exam is not None
        rules = exam or Exam()
        self.has_hints, self.has_downloads = rules.hints, rules.downloads
        # A release has the hints.
        self.has_release = rules.downloads and rules.hints
        self._networks = tuple(map(ipaddress.ip_network, rules.networks))

    def enter(self, request: Request) -> None:
        """Raise Refusal for a student before the exam opens, or outside of its networks."""
        if not self.is_exam:
            return
        assert self._assignment is not None
        opens = self._assignment.opens_at
        if datetime.datetime.now(datetime.UTC) < opens:
            when = moment(utc(opens), self._assignment.timezone)
            raise Refusal(403, f"The exam opens at {when}, by the clock of the server.")
        if self._networks and not self._is_inside(request):
            raise Refusal(403, "The exam can be written only in its own network.")

    def hand_in(self, request: Request) -> None:
        """Raise Refusal as `enter` does, and for a hand-in of an exam that does not come from the page."""
        self.enter(request)
        if self.is_exam and "authorization" in request.headers:
            raise Refusal(403, "This is an exam: hand in on the page of the exercise.")

    def download(self) -> None:
        """Raise Refusal if nothing may be downloaded."""
        if not self.has_downloads:
            raise Refusal(403, "In this exam nothing is downloaded.")

    def release(self) -> None:
        """Raise Refusal if the release may not be downloaded."""
        self.download()
        if not self.has_release:
            raise Refusal(403, "In this exam the course is not downloaded, since it has the hints.")

    def _is_inside(self, request: Request) -> bool:
        address = client_address(request)
        return address is not None and any(address in network for network in self._networks)
