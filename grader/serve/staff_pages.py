"""The pages on which staff changes points while the server runs: a student's, and the one to mark files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from grader.serve.http import NO_STUDENT, Refusal, form_of
from grader.serve.pages import PageWriter
from grader.serve.roles import Asker, Right
from grader.serve.server import OpenServer
from grader.serve.staff import student_view
from grader.serve.threads import CHANGED, CLASS
from grader.submissions.submission import MOST_CHARACTERS

# Of a character of a form twelve bytes, of the texts that a person writes two.
_FORM_BYTES = 24 * MOST_CHARACTERS + 4096
# What a person typed is shown again beside the reason why it was not taken.
_TOLD_IN_PAGE = (409, 422)


class StaffPages:
    """The routes for staff who change points."""

    def __init__(self, server: OpenServer, writer: PageWriter) -> None:
        self._server, self._writer = server, writer

    async def student(self, request: Request) -> Response:
        """A student: attempts, what counts and why; and the forms that change points."""
        right = Right.READ if request.method == "GET" else Right.MARK
        asker = await self._server.identity.staff(request, right)
        student = request.path_params["student"]
        if request.method == "GET":
            return await self._student(asker, student)
        form = await form_of(request, _FORM_BYTES)
        try:
            await self._change(asker, student, form)
        except Refusal as refusal:
            if refusal.status_code not in _TOLD_IN_PAGE:
                raise
            return await self._student(asker, student, form, refusal)
        self._server.hub.tell(CLASS, CHANGED)
        part = form.get("exercise", "")
        return RedirectResponse(f"/class/students/{quote(student, safe='')}#ex-{part}", 303)

    async def _student(
        self,
        asker: Asker,
        student: str,
        typed: Mapping[str, str] = {},
        refusal: Refusal | None = None,
    ) -> Response:
        """The page of a student; where something was not taken, with what the person typed."""
        view = await self._server.views.answer(
            lambda views: student_view(views.book, asker, student)
        )
        if view is None:
            raise Refusal(404, NO_STUDENT)
        return self._page(
            "class_student.html",
            200 if refusal is None else refusal.status_code,
            view=view,
            typed={name: " ".join(text.split()) for name, text in typed.items()},
            said="" if refusal is None else refusal.detail,
            may_mark=asker.may(Right.MARK),
        )

    async def _change(self, asker: Asker, student: str, form: Mapping[str, str]) -> None:
        """Change points as a form says; raises Refusal."""
        exercise, seen, what = (form.get(name, "") for name in ("exercise", "seen", "do"))
        if what == "undo":
            place = form.get("place", "")
            if not (place.isascii() and place.isdecimal() and len(place) < 10):
                raise Refusal(422, "There is no such change of points.")
            await self._server.desk.answer(
                lambda desk: desk.take_back(asker, student, exercise, seen, int(place))
            )
            return
        changes: dict[str, Any] = {"release": True} if what == "release" else {}
        if what == "adjust":
            changes = _points(form.get("how", ""), form.get("points", ""))
        elif what != "release":
            raise Refusal(400, "There is no such button.")
        texts = {name: form.get(name, "") for name in ("reason", "comment")}
        await self._server.desk.answer(
            lambda desk: desk.adjust(asker, student, exercise, seen, **changes, **texts)
        )

    def _page(self, template: str, status: int, /, **values: Any) -> Response:
        return HTMLResponse(self._writer.page(template, **values), status)


def _points(how: str, text: str) -> dict[str, float]:
    """Return points that a person typed, to add or to set; none where nothing was typed.

    Raises Refusal.
    """
    if not (text := text.strip().replace(",", ".").replace("\N{MINUS SIGN}", "-")):
        return {}
    try:
        points = float(text)
    except ValueError:
        points = math.nan
    if not math.isfinite(points) or len(text) > 20:
        raise Refusal(422, "Points are a number, such as 2 or -0.5.")
    if how not in ("add", "points"):
        raise Refusal(422, "Say whether the points are added or set.")
    return {how: points}
