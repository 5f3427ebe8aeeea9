"""The pages on which staff change points while the server runs: of a student, and for marking files."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from grader.course.manifest import Exercise
from grader.exports.report.render import code_lines
from grader.gradebook.facts import Remarks
from grader.gradebook.marking import Rubric
from grader.gradebook.term import TermRow
from grader.gradebook.tokens import Role
from grader.serve import exporting, regrading
from grader.serve.extensions import time_of
from grader.serve.http import NO_STUDENT, Refusal, answered, form_of, upload_of
from grader.serve.marks import (
    LONGEST_COMMENT,
    MAX_COMMENTS,
    Marks,
    exercise_of,
    rubric_for,
)
from grader.serve.pages import PageWriter
from grader.serve.roles import Asker, Right
from grader.serve.server import OpenServer
from grader.serve.staff import ListedFile, MarkView, StudentView, mark_view, student_view
from grader.serve.threads import CHANGED, CLASS
from grader.serve.views import Views
from grader.submissions.requests import MAX_CHARACTERS
from grader.submissions.roster import is_in_group
from grader.text import clean

log = logging.getLogger("grader.serve")
# A character of a form takes up to twelve bytes; a form has up to two texts by a person.
_FORM_BYTES = 24 * MAX_CHARACTERS + 4096
_MARK_BYTES = 12 * MAX_COMMENTS * LONGEST_COMMENT
# After these refusals, the page shows the reason with the text that the person typed.
_TOLD_IN_PAGE = (409, 422)


class StaffPages:
    """The routes for staff who change points."""

    def __init__(self, server: OpenServer, writer: PageWriter, marks: Marks) -> None:
        self._server, self._writer, self._marks = server, writer, marks

    async def student(self, request: Request) -> Response:
        """The page of a student: attempts, the points that count and why, and forms to change them."""
        right = Right.MARK if request.method == "POST" else Right.READ
        asker = await self._server.identity.staff(request, right)
        student = request.path_params["student"]
        if request.method != "POST":
            return await self._student(asker, student)
        form = await form_of(request, _FORM_BYTES)
        try:
            await self._change(asker, student, form)
        except Refusal as refusal:
            if refusal.status_code not in _TOLD_IN_PAGE:
                raise
            return await self._student(asker, student, form, refusal)
        self._server.hub.tell(CLASS, CHANGED)
        part = f"ex-{form['exercise']}" if "exercise" in form else "extensions"
        return RedirectResponse(f"/class/students/{quote(student, safe='')}#{part}", 303)

    async def _student(
        self,
        asker: Asker,
        student: str,
        typed: Mapping[str, str] = {},
        refusal: Refusal | None = None,
    ) -> Response:
        """Return the page of a student; after a refusal, with the text that the person typed."""

        def read(views: Views) -> tuple[StudentView, TermRow | None] | None:
            view = student_view(views.book, asker, student)
            return None if view is None else (view, views.term(view.entry.student))

        if (found := await self._server.views.answer(read)) is None:
            raise Refusal(404, NO_STUDENT)
        view, term = found
        return self._page(
            "class_student.html",
            200 if refusal is None else refusal.status_code,
            view=view,
            term=term,
            typed={name: " ".join(text.split()) for name, text in typed.items()},
            said=_said(refusal),
            may_mark=asker.may(Right.MARK),
        )

    async def _change(self, asker: Asker, student: str, form: Mapping[str, str]) -> None:
        """Change points as a form says; raises Refusal."""
        exercise, seen, what = (form.get(name, "") for name in ("exercise", "seen", "do"))
        if what in ("extend", "take-extension-back"):
            await self._extend(asker, student, form)
            return
        if what == "undo":
            number = _number_of(form)
            await self._server.desk.answer(
                lambda desk: desk.staff.take_back(asker, student, exercise, seen, number)
            )
            return
        changes: dict[str, Any] = {"release": True} if what == "release" else {}
        if what == "adjust":
            changes = _points(form.get("how", ""), form.get("points", ""))
        elif what != "release":
            raise Refusal(400, "There is no such button.")
        texts = {name: form.get(name, "") for name in ("reason", "comment")}
        await self._server.desk.answer(
            lambda desk: desk.staff.adjust(asker, student, exercise, seen, **changes, **texts)
        )

    async def _extend(self, asker: Asker, student: str, form: Mapping[str, str]) -> None:
        """Give more time, or take an extension back, as a form says; raises Refusal."""
        name, seen, reason = (form.get(key, "") for key in ("name", "seen", "reason"))
        if form["do"] == "extend":
            until = time_of(form.get("until", ""))
            await self._server.desk.answer(
                lambda desk: desk.staff.extend(
                    asker, student, name, seen, until=until, reason=reason
                )
            )
        else:
            number = _number_of(form)
            await self._server.desk.answer(
                lambda desk: desk.staff.take_extension_back(asker, student, seen, number)
            )
        # A file that counts now may have been replaced before it was judged.
        self._server.judging.wake()

    # --- a regrade ----------------------------------------------------------------------------------

    async def regrade(self, request: Request) -> Response:
        """The page that counts the files that a regrade would judge, with the button that begins it."""
        await self._server.identity.staff(request, Right.RUN)
        is_sent = request.method == "POST"
        form = await form_of(request) if is_sent else request.query_params
        chosen, course = form.get("exercise", ""), self._server.course
        exercises = [exercise_of(course, chosen)] if chosen else course.select(())
        if is_sent:
            await regrading.regrade(self._server, exercises)
            return RedirectResponse("/class#queue", 303)
        waiting = await regrading.count(self._server, exercises)
        return self._page(
            "class_regrade.html",
            200,
            chosen=chosen,
            exercises=course.exercises,
            waiting=waiting,
        )

    # --- exports ------------------------------------------------------------------------------------

    async def export(self, request: Request) -> Response:
        """The page with the formats of `grade export` and their options; its form makes a file."""
        asker = await self._server.identity.staff(request, Right.MARK)
        if request.method != "POST":
            return await self._export_page(asker, request.query_params.get("format", "csv"))
        form, files = await upload_of(request, exporting.MAX_TEMPLATE_BYTES)
        name, template = form.get("format", ""), files.get("template")
        # Leave out empty sections: `grade export` refuses them, and its message lists the other ones.
        students = await self._server.views.answer(lambda views: views.book.students())
        there = [
            section
            for section in asker.sections
            if any(is_in_group(student.section, section) for student in students)
        ]
        reached = asker._replace(sections=tuple(there))
        try:
            made = await self._server.exports.make(reached, name, form, template)
        except Refusal as refusal:
            if refusal.status_code not in _TOLD_IN_PAGE:
                raise
            return await self._export_page(asker, name, form, refusal=refusal)
        # Only the role: names do not belong in the log.
        log.info("exported", extra={"format": name, "role": asker.role.word})
        return await self._export_page(asker, name, form, made=made)

    async def _export_page(
        self,
        asker: Asker,
        name: str,
        typed: Mapping[str, str] = {},
        *,
        made: exporting.Made | None = None,
        refusal: Refusal | None = None,
    ) -> Response:
        formats = exporting.formats()
        if name not in formats:
            raise refusal or Refusal(404, "There is no such format.")
        parts = await self._server.views.answer(lambda views: views.book.facts.parts)
        return self._page(
            "class_export.html",
            200 if refusal is None else refusal.status_code,
            asker=asker,
            format=name,
            formats=formats,
            has_template=exporting.reads_template(name),
            options=exporting.OPTIONS,
            offered=exporting.options_of(name),
            assignments={id_: part.title for id_, part in parts.items()},
            typed=typed,
            made=made,
            minutes=round(exporting.KEPT_SECONDS / 60),
            said=_said(refusal),
        )

    async def exported(self, request: Request) -> Response:
        """The file of an export, for the person who made it."""
        asker = await self._server.identity.staff(request, Right.MARK)
        made = self._server.exports.of(asker, request.path_params["id"])
        if made is None:
            raise Refusal(404, "There is no such export any more. Export again.")
        return FileResponse(made.path, filename=made.name, media_type="application/octet-stream")

    # --- marking by a rubric ----------------------------------------------------------------------

    async def mark(self, request: Request) -> Response:
        """The next file of an exercise to mark, with the rubric; and the remarks sent from its form."""
        asker = await self._server.identity.staff(request, Right.MARK)
        exercise = exercise_of(self._server.course, request.path_params["exercise"])
        if request.method == "POST":
            return await self._marked(request, asker, exercise)
        options = options_of(request)
        files = await self._marks.files(asker, exercise, options)
        name = self._marks.next(asker, exercise.id, files, options)
        return await self._mark_page(asker, exercise, name, options, files)

    async def _mark_page(
        self,
        asker: Asker,
        exercise: Exercise,
        name: str,
        options: Mapping[str, str],
        files: Sequence[ListedFile] = (),
        *,
        remarks: Remarks | None = None,
        typed: Mapping[str, str] = {},
        refusal: Refusal | None = None,
    ) -> Response:
        """Return the page of a file, or of none; after a refusal, with the person's own remarks."""
        rubric, view, of_teams = await self._server.summaries.books.answer(
            lambda book: (
                rubric_for(self._server.course, exercise),
                mark_view(book, asker, exercise.id, name) if name else None,
                exercise.id in book.of_teams,
            )
        )
        if name and view is None:
            raise refusal or Refusal(404, NO_STUDENT)
        shown = remarks if remarks is not None else view.remarks if view is not None else Remarks()
        return self._page(
            "class_mark.html",
            200 if refusal is None else refusal.status_code,
            exercise=exercise,
            rubric=rubric,
            view=view,
            remarks=shown,
            typed=typed,
            said=_said(refusal),
            hidden="anonymous" in options,
            again="again" in options,
            counts=(sum(file.waiting for file in files), len(files)) if files else None,
            others=self._marks.others(asker, exercise),
            leaves_teams=of_teams and asker.role is Role.ASSISTANT,
        )

    async def _marked(self, request: Request, asker: Asker, exercise: Exercise) -> Response:
        """Answer a button of the form, or its key; raises Refusal."""
        form, options = await form_of(request, _MARK_BYTES), options_of(request)
        name, seen, what = (form.get(key, "") for key in ("file", "seen", "do"))
        rubric = await self._server.summaries.books.answer(
            lambda _: rubric_for(self._server.course, exercise)
        )
        remarks, where = _remarks_of(form, rubric), f"/class/mark/{exercise.id}"
        onward = {key: value for key, value in options.items() if key != "after"}
        try:
            view = await self._marks.view(asker, exercise, name)
            sent = _with_comment(remarks, form, view)
            sent = sent if what == "next" else _without(sent, what)
            seen = await self._marks.do(asker, exercise, rubric, name, seen, what, sent)
        except Refusal as refusal:
            if what == "draft":
                return answered({"error": refusal.detail}, refusal.status_code)
            if refusal.status_code not in _TOLD_IN_PAGE:
                raise
            return await self._mark_page(
                asker,
                exercise,
                name,
                options,
                remarks=remarks,
                typed=form,
                refusal=refusal,
            )
        if what == "draft":
            return answered({"seen": seen})
        if what in ("next", "skip", "stop"):
            onward["after"] = name
        if what == "stop":
            return RedirectResponse("/class", 303)
        return RedirectResponse(f"{where}?{urlencode(onward)}" if onward else where, 303)

    def _page(self, template: str, status: int, /, **values: Any) -> Response:
        return HTMLResponse(self._writer.page(template, **values), status)


def _said(refusal: Refusal | None) -> str:
    """Return the sentence of a refusal for a page that shows what was typed, empty for none."""
    if refusal is None:
        return ""
    below = " Below is how it is now, with what you typed." if refusal.status_code == 409 else ""
    return f"{refusal.detail}{below}"


def _number_of(form: Mapping[str, str]) -> int:
    """Return the number of the change that a button takes back; raises Refusal."""
    number = form.get("number", "")
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise Refusal(422, "There is no such change.")
    return int(number)


def _points(how: str, text: str) -> dict[str, float]:
    """Return the typed points, to add or to set; empty if nothing was typed.

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


def options_of(request: Request) -> dict[str, str]:
    """Return the options of the list of files: hidden names, marked files too, and the last file."""
    query = request.query_params
    return {key: query[key][:100] for key in ("anonymous", "again", "after") if key in query}


def _remarks_of(form: Mapping[str, str], rubric: Rubric) -> Remarks:
    """Return the items and comments of a form."""
    keys = tuple(item.key for item in rubric.item if f"item-{item.key}" in form)
    comments = (form.get(f"comment-{number}", "") for number in range(MAX_COMMENTS))
    return Remarks(keys, tuple(clean(text, LONGEST_COMMENT) for text in comments if text))


def _with_comment(remarks: Remarks, form: Mapping[str, str], view: MarkView) -> Remarks:
    """Add the typed comment, about a line or the whole file; raises Refusal for a wrong line."""
    line, text = form.get("line", "").strip(), " ".join(form.get("text", "").split())
    if not text:
        return remarks
    lines = len(code_lines(view.file.source))
    if line and not (line.isascii() and line.isdecimal() and 1 <= int(line[:9]) <= lines):
        raise Refusal(422, f"The file has lines 1 to {lines}; leave the line empty for none.")
    if len(remarks.comments) >= MAX_COMMENTS:
        raise Refusal(422, f"Send at most {MAX_COMMENTS} comments.")
    said = clean(text, LONGEST_COMMENT)
    return Remarks(remarks.keys, (*remarks.comments, f"Line {int(line)}: {said}" if line else said))


def _without(remarks: Remarks, what: str) -> Remarks:
    """Return the remarks without the comment that a button removes."""
    number = what.removeprefix("remove-")
    if number == what or not (number.isascii() and number.isdecimal() and len(number) < 4):
        if what not in ("draft", "add", "skip", "stop"):
            raise Refusal(400, "There is no such button.")
        return remarks
    comments = [text for place, text in enumerate(remarks.comments) if place != int(number)]
    return Remarks(remarks.keys, tuple(comments))
