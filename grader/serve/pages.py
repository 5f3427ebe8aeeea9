"""The routes for people: a page for a student, one for staff, and signing in; written on the server."""

from __future__ import annotations

import urllib.parse
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from grader.course.manifest import Course
from grader.exports.report.overview import bars
from grader.exports.report.render import TEMPLATES, Renderer
from grader.exports.report.tally import chapter_cells
from grader.gradebook import Gradebook
from grader.gradebook.queue import Role
from grader.judge.scoring import sum_of
from grader.results import Entry, Status
from grader.serve.api import Api, body_of
from grader.serve.class_summary import ClassSummaries
from grader.serve.hub import Hub
from grader.serve.identity import COOKIE, Identity, keep_signed_in, same_origin
from grader.serve.judging import Judging
from grader.serve.refusal import Refusal
from grader.serve.threads import BookThread
from grader.serve.views import HOUR, PIECE, Views

OWN_TEMPLATES = TEMPLATES.parents[2] / "serve" / "templates"
_STATIC = {
    "style.css": (TEMPLATES, "text/css"),
    "serve.css": (OWN_TEMPLATES, "text/css"),
    "serve.js": (OWN_TEMPLATES, "text/javascript"),
}
_FORM_BYTES = 4096


class Pages:
    """The routes for people."""

    def __init__(
        self,
        course: Course,
        identity: Identity,
        api: Api,
        books: BookThread[Gradebook],
        views: Views,
        hub: Hub,
        judging: Judging,
        summaries: ClassSummaries,
        most_bytes: int,
        timezone: str,
    ) -> None:
        self._course, self._identity, self._api = course, identity, api
        self._books, self._views, self._hub = books, views, hub
        self._judging, self._summaries, self._most_bytes = judging, summaries, most_bytes
        self._renderer = Renderer(OWN_TEMPLATES)
        self._renderer.timezone = timezone

    async def home(self, request: Request) -> Response:
        """A student's own page; staff is sent to the class, and a stranger to the door."""
        try:
            person = await self._identity.person(request)
        except Refusal as refusal:
            if COOKIE not in request.cookies:
                return self._door()
            return self._door(refusal.sentence, 401)
        if person.student is None:
            return RedirectResponse("/class", 303)
        student, places = person.student, self._hub.places
        standing, entry = await self._books.answer(
            lambda book: (
                self._views.standing(book, student, places),
                self._views.entry(book, student),
            )
        )
        if entry is None:
            raise Refusal(503, "The course has no exercise that is judged here.")
        waiting = {each.name for each in standing.exercises if each.open}
        shown = _without(entry, waiting)
        return self._page(
            "home.html",
            entry=shown,
            standing=standing,
            statuses={each.name: each.status for each in entry.result.exercises},
            unjudged=sum(e.status is Status.UNJUDGED for e in shown.result.exercises),
            chapters=chapter_cells(shown.result.exercises),
            most_bytes=self._most_bytes * 3 // 4,
        )

    async def the_class(self, request: Request) -> Response:
        """The class as it comes in, for staff."""
        try:
            await self._identity.staff(request)
        except Refusal as refusal:
            if refusal.status == 401:
                return self._door(refusal.sentence if COOKIE in request.cookies else "", 401)
            raise
        if request.method == "POST":
            form = await form_of(request)
            route = {"pause": self._api.pause, "resume": self._api.resume}.get(form.get("do", ""))
            if route is None:
                raise Refusal(400, "There is no such button.")
            await route(request)
            return RedirectResponse("/class", 303)
        summary = await self._summaries.current()
        judging, views = self._judging, self._views
        queue, newest, pieces = await self._books.answer(
            lambda book: (
                views.queue(book, judging.alive, judging.fault),
                views.newest(book),
                views.last_hour(book),
            )
        )
        ago = [f"−{(HOUR - number * PIECE) / 60:.0f} min" for number in range(len(pieces))]  # noqa: RUF001 (a minus)
        return self._page(
            "class.html", summary=summary, queue=queue, newest=newest, chart=bars(pieces, ago)
        )

    async def sign_in(self, request: Request) -> Response:
        """Have the browser keep a token that holds."""
        same_origin(request)
        token = (await form_of(request)).get("token", "").strip()
        try:
            person = await self._identity.holder(token)
        except Refusal as refusal:
            return self._door(refusal.sentence, refusal.status)
        response = RedirectResponse("/class" if person.role is Role.STAFF else "/", 303)
        keep_signed_in(response, request, token)
        return response

    async def sign_out(self, request: Request) -> Response:
        """Have the browser forget the token."""
        same_origin(request)
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE)
        return response

    async def static(self, request: Request) -> Response:
        """The style and the script of the pages."""
        name = request.path_params["name"]
        if name not in _STATIC:
            raise Refusal(404, "There is no such page.")
        folder, kind = _STATIC[name]
        return Response((folder / name).read_bytes(), media_type=kind)

    def said(self, refusal: Refusal) -> Response:
        """A page for what cannot be met."""
        heading = "Not here" if refusal.status == 404 else "That did not work"
        return self._page("said.html", refusal.status, heading=heading, said=refusal.sentence)

    def _door(self, said: str = "", status: int = 200) -> Response:
        heading = "Hand in, and see your verdict"
        return self._page("signed_out.html", status, heading=heading, said=said)

    def _page(self, template: str, status: int = 200, /, **values: Any) -> Response:
        text = self._renderer.text(template, title=self._course.title, **values)
        return HTMLResponse(text, status)


def _without(entry: Entry, waiting: set[str]) -> Entry:
    """The entry without exercises that wait for a verdict, which are shown as a queue."""
    exercises = tuple(e for e in entry.result.exercises if e.name not in waiting)
    score, max_score = sum_of(exercises)
    result = msgspec.structs.replace(
        entry.result, exercises=exercises, score=score, max_score=max_score
    )
    return msgspec.structs.replace(entry, result=result)


async def form_of(request: Request, most: int = _FORM_BYTES) -> dict[str, str]:
    """The fields of a form; raises Refusal for one that is too long, or comes too slowly."""
    body = await body_of(request, most)
    return dict(urllib.parse.parse_qsl(body.decode("utf-8", "replace")))
