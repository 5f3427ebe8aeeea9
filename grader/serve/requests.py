"""The routes for regrade requests: the form on a student's page, and the queue of staff."""

from __future__ import annotations

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response

from grader.course.manifest import Course
from grader.exports.report.render import Renderer
from grader.gradebook import Gradebook
from grader.gradebook.requests import open_requests
from grader.gradebook.work import KeptRequest
from grader.results import ExerciseResult
from grader.serve.desk import Desk
from grader.serve.hub import CHANGED, CLASS, Hub
from grader.serve.identity import Identity
from grader.serve.pages import OWN_TEMPLATES, form_of
from grader.serve.refusal import Refusal
from grader.serve.threads import BookThread
from grader.submissions.submission import MOST_CHARACTERS

# A character of a form takes up to twelve bytes.
_FORM_BYTES = 12 * MOST_CHARACTERS + 1024
# Of those that are answered, the newest are shown.
_MOST_ANSWERED = 100


class RequestRow(msgspec.Struct, frozen=True):
    """A request as staff reads it, beside what counts now."""

    request: KeptRequest
    name: str
    exercise: ExerciseResult | None


class RequestPages:
    """The form of students and the page of staff."""

    def __init__(
        self,
        course: Course,
        identity: Identity,
        desk: BookThread[Desk],
        books: BookThread[Gradebook],
        hub: Hub,
        timezone: str,
    ) -> None:
        self._course, self._identity, self._desk = course, identity, desk
        self._books, self._hub = books, hub
        self._renderer = Renderer(OWN_TEMPLATES)
        self._renderer.timezone = timezone

    async def ask(self, request: HttpRequest) -> Response:
        """Keep a student's request about one exercise."""
        student = await self._identity.student(request)
        form = await form_of(request, _FORM_BYTES)
        exercise = form.get("exercise", "")
        if all(each.id != exercise for each in self._course.exercises):
            raise Refusal(422, "There is no such exercise.")
        message = form.get("message", "")
        await self._desk.answer(lambda desk: desk.ask(student.id, exercise, message))
        self._hub.tell(CLASS, CHANGED)
        return RedirectResponse(f"/#ex-{exercise}", 303)

    async def queue(self, request: HttpRequest) -> Response:
        """The requests of the class, and the form that answers one."""
        author = (await self._identity.staff(request)).name
        if request.method == "POST":
            form = await form_of(request, _FORM_BYTES)
            number, text = form.get("number", ""), form.get("answer", "")
            if not (number.isascii() and number.isdecimal() and len(number) < 10):
                raise Refusal(422, "There is no such request.")
            await self._desk.answer(lambda desk: desk.answer(int(number), text, author))
            return RedirectResponse("/class/requests", 303)
        rows = await self._books.answer(_rows)
        text = self._renderer.text("requests.html", title=self._course.title, rows=rows)
        return HTMLResponse(text)


def _rows(book: Gradebook) -> list[RequestRow]:
    """The open requests, the oldest first, then the newest of those that are answered."""
    every, names = book.requests(), book.names()
    answered = [each for each in reversed(every) if not each.is_open][:_MOST_ANSWERED]
    rows = []
    for each in (*open_requests(every), *answered):
        entry = book.entry_of(each.student)
        exercises = entry.result.exercises if entry is not None else ()
        exercise = next((e for e in exercises if e.name == each.exercise), None)
        rows.append(RequestRow(each, names.get(each.student, ""), exercise))
    return rows
