"""The routes for people: the pages of students and of staff, rendered on the server.

The pages use templates of the report and some of their own. They can be read without JavaScript; with it, they
follow the events of the server (`templates/serve.js`). Forms are accepted only from pages of this server.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from grader.course.manifest import EVERY_EXERCISE
from grader.exports.report.overview import bars
from grader.exports.report.render import TEMPLATES, Renderer
from grader.gradebook import invitations, platforms, work
from grader.gradebook.marking import rubric_of
from grader.gradebook.requests import open_requests
from grader.gradebook.retention import passed_words
from grader.gradebook.times import span_words
from grader.gradebook.tool_key import jwks
from grader.judge.scoring import extra_words
from grader.results import ExerciseResult, Outcome, Status
from grader.serve.api import Api
from grader.serve.exercise import checked_in, marked, rules_of, task_of
from grader.serve.gate import OWN_NETWORK
from grader.serve.http import NO_REQUEST, Refusal, answered, form_of
from grader.serve.identity import COOKIE, TRIAL
from grader.serve.mailing import mail_view
from grader.serve.passback import MAX_LINES, id_of, link_rows
from grader.serve.roles import Asker, Right
from grader.serve.server import OpenServer
from grader.serve.sign_in.door import Door
from grader.serve.threads import CHANGED, CLASS
from grader.serve.views import (
    HOUR,
    PIECE,
    AssignmentStanding,
    ExerciseStanding,
    OwnStanding,
    Views,
    with_exercises,
)
from grader.student.blocks import FIRST_FINDINGS, Printed, remarks, summarized
from grader.submissions import safe_name
from grader.submissions.requests import MAX_CHARACTERS

_OWN_TEMPLATES = TEMPLATES.parents[2] / "serve" / "templates"
_STATIC = {
    "style.css": (TEMPLATES, "text/css"),
    "serve.css": (_OWN_TEMPLATES, "text/css"),
    "serve.js": (_OWN_TEMPLATES, "text/javascript"),
    "close.js": (_OWN_TEMPLATES, "text/javascript"),
    "changes.js": (_OWN_TEMPLATES, "text/javascript"),
    "exercise.js": (_OWN_TEMPLATES, "text/javascript"),
    "mark.js": (_OWN_TEMPLATES, "text/javascript"),
    "editor.js": (_OWN_TEMPLATES, "text/javascript"),
}
# The editor is large: a browser keeps it until its version changes.
_EDITOR_VERSION = hashlib.sha256((_OWN_TEMPLATES / "editor.js").read_bytes()).hexdigest()[:16]
_KEPT = {"Cache-Control": "private, max-age=31536000, immutable"}
# A character of a form takes up to twelve bytes.
_REQUEST_BYTES = 12 * MAX_CHARACTERS + 1024
# The page of the class shows at most this many students in need of attention.
_MAX_STUDENTS = 200
# The page of requests shows at most this many answered ones, the newest.
_MAX_ANSWERED = 100


class PageWriter:
    """Writes pages, and pieces of them, with the templates of the report and of the server."""

    def __init__(self, title: str, timezone: str) -> None:
        self._title, self._renderer = title, Renderer(_OWN_TEMPLATES)
        self._renderer.timezone = timezone

    def page(self, template: str, /, **values: Any) -> str:
        """Render a page of this course."""
        return self._renderer.text(template, title=self._title, **values)

    def findings(self, exercise: ExerciseResult) -> str:
        """Render the findings that `grade run` shows of an exercise, as a piece of a page."""
        printed = any(test.printed for test in exercise.tests) and not exercise.message
        summary = summarized(exercise, FIRST_FINDINGS, printed=True)
        blocks = (block for section in summary.sections for block in section.blocks)
        shown = {block.text for block in blocks if isinstance(block, Printed)}
        return self._renderer.text(
            "findings.html",
            exercise=exercise,
            passed=sum(test.outcome is Outcome.PASSED for test in exercise.tests),
            summary=summary,
            output="" if printed else exercise.output.strip(),
            is_printed=bool(shown),
            other_tests=[
                test for test in exercise.tests if test.printed and test.printed not in shown
            ],
        )


class Pages:
    """The routes for people."""

    def __init__(self, server: OpenServer, api: Api, writer: PageWriter, door: Door) -> None:
        self._server, self._api, self._writer, self._door = server, api, writer, door

    async def home(self, request: Request) -> Response:
        """A student's own page; staff are redirected to the class, strangers to the sign-in."""
        try:
            person = await self._server.identity.person(request)
        except Refusal as refusal:
            if COOKIE in request.cookies:
                return self._door.page(request, refusal, 401)
            return self._door.page(request)
        if person.student is None:
            return RedirectResponse("/class", 303)
        student, places, gate = person.student, self._server.hub.places, self._server.gate
        standing, entry = await self._server.views.answer(lambda views: views.home(student, places))
        if entry is None:
            raise Refusal(503, "The course has no exercise that is judged here.")
        waiting = {exercise.name for exercise in standing.exercises if exercise.open}
        whole = with_exercises(entry, [e for e in entry.result.exercises if e.name not in waiting])
        # The table has a line for each exercise; one without a file needs no section below it.
        without_file = {e.name for e in standing.exercises if not e.file and not e.open}
        untouched = {
            e.name
            for e in entry.result.exercises
            if e.name in without_file and e.status is Status.NOT_ATTEMPTED and not remarks(e)
        }
        sections = [each for each in whole.result.exercises if each.name not in untouched]
        return self._page(
            "home.html",
            entry=whole,
            sections=sections,
            standing=standing,
            untouched=untouched,
            statuses={exercise.name: exercise.status for exercise in entry.result.exercises},
            is_term=gate.is_term,
            groups=_groups(standing, entry.result.exercises),
            # An exam that a student cannot write from here says so before its exercises are opened.
            outside=[a.id for a in standing.assignments if gate.is_outside(request, a.id)],
            own_network=OWN_NETWORK,
            has_release=self._has_release(),
            is_exam=bool(standing.exercises)
            and all(gate.is_exam(exercise.name) for exercise in standing.exercises),
            most_bytes=self._server.reader.most_bytes * 3 // 4,
        )

    async def the_class(self, request: Request) -> Response:
        """The class page, for staff: newest submissions, queue and points."""
        asker = await self._server.identity.staff(request, Right.READ)
        if request.method == "POST":
            form = await form_of(request)
            route = {"pause": self._api.pause, "resume": self._api.resume}.get(form.get("do", ""))
            if route is None:
                raise Refusal(400, "There is no such button.")
            await route(request)
            return RedirectResponse(_class_page(form.get("assignment", "")), 303)
        summary = await self._server.summaries.current(asker)
        chosen = request.query_params.get("assignment", "")
        if chosen and chosen not in summary.parts:
            raise Refusal(404, "There is no such assignment.")
        exercises = self._server.course.exercises
        if chosen:
            chosen_names = {view.name for view in summary.parts[chosen].exercises}
            exercises = tuple(exercise for exercise in exercises if exercise.id in chosen_names)
        names = {exercise.id for exercise in exercises}
        alive, fault = self._server.judging.alive, self._server.judging.fault
        now = datetime.datetime.now(datetime.UTC)
        (
            queue,
            newest,
            pieces,
            attention,
            reach,
            unfinished,
            retention,
            mail,
        ) = await self._server.views.answer(
            lambda views: (
                views.queue(asker, alive, fault),
                views.newest(asker),
                views.last_hour(),
                views.attention(asker, names if chosen else None),
                asker.reach(views.book.students()),
                views.book.unfinished,
                passed_words(views.book, now),
                mail_view(views.book, asker, self._server.mailing),
            )
        )
        ago = [f"−{(HOUR - number * PIECE) / 60:.0f} min" for number in range(len(pieces))]  # noqa: RUF001 (a minus)
        jumps = [
            f"{span_words(datetime.timedelta(seconds=abs(change.seconds)))} "
            + ("back" if change.seconds < 0 else "ahead")
            for change in queue.clock
        ]
        return self._page(
            "class.html",
            asker=asker,
            may_run=asker.may(Right.RUN),
            may_mark=asker.may(Right.MARK),
            rubrics=self._rubrics() if asker.may(Right.MARK) else [],
            summary=summary,
            chosen=chosen,
            part=summary.parts.get(chosen),
            queue=queue,
            newest=[each for each in newest if not chosen or names & each.exercises.keys()],
            stuck=self._server.practice.stuck.rows(exercises, reach),
            chart=bars(pieces, ago),
            jumps=list(zip(jumps, queue.clock, strict=True)),
            backups=self._server.backups,
            unfinished=unfinished,
            retention=retention,
            mail=mail,
            attention=attention[:_MAX_STUDENTS],
            more=len(attention[_MAX_STUDENTS:]),
        )

    def _rubrics(self) -> list[str]:
        """Return the exercises that a person marks by a rubric."""
        course = self._server.course
        return [each.id for each in course.exercises if rubric_of(course, each).is_file()]

    # --- the page to write in ---------------------------------------------------------------------

    async def exercise(self, request: Request) -> Response:
        """The page of an exercise: its task, and an editor with the student's file."""
        writer, exercise = await self._api.writer_at(request)
        course, gate = self._server.course, self._server.gate
        assignment, (mate, at) = await self._server.views.answer(
            lambda views: (
                views.assignment(writer, exercise.id),
                views.by_mate(writer, exercise.id),
            )
        )
        stub = course.stub(exercise).source
        return self._page(
            "exercise.html",
            exercise=exercise,
            assignment=assignment,
            is_extra=exercise.id in course.extra_credit,
            handed_in_by=mate,
            handed_in_at=at,
            has_release=self._has_release(),
            has_hints=gate.has_hints(exercise.id),
            has_downloads=gate.has_downloads(exercise.id),
            has_plot=self._server.drawing.has_plot(exercise),
            is_trial=writer.id.startswith(TRIAL),
            task=task_of(stub),
            rules=rules_of(course),
            rules_page=EVERY_EXERCISE,
            marked=marked,
            stub=stub,
            forbidden=list(dict.fromkeys(rule.sentence for rule in exercise.forbidden)),
            checked=checked_in(course, exercise),
            editor_version=_EDITOR_VERSION,
        )

    async def file(self, request: Request) -> Response:
        """A student's own file, as a download."""
        student, exercise = await self._api.writer_at(request)
        self._server.gate.download(exercise.id)
        draft = await self._server.views.answer(lambda views: views.draft(student, exercise))
        headers = {"Content-Disposition": f'attachment; filename="{draft.file}"'}
        return Response(draft.source.encode(), headers=headers, media_type="text/x-python")

    def _has_release(self) -> bool:
        """Whether students may have the release now, if there is one."""
        handout = self._server.handout
        return handout is not None and self._server.gate.has_release(handout.exercises)

    async def assignment(self, request: Request) -> Response:
        """Go to an assignment on the first page; links in a platform have this address."""
        id_ = request.path_params["assignment"]
        if id_ not in {each.id for each in self._server.course.assignments}:
            raise Refusal(404, "There is no assignment at this address: ask your instructor.")
        return RedirectResponse(f"/#assignment-{quote(id_)}", 303)

    async def release(self, request: Request) -> Response:
        """The course as a zip, to work at home."""
        writer = await self._server.identity.writer(request)
        handout, gate = self._server.handout, self._server.gate
        if not writer.id.startswith(TRIAL):
            # The release contains the tasks, so the rules of exams apply to it.
            whole = [exercise.id for exercise in gate.exercises()]
            gate.release(request, whole if handout is None else sorted(handout.exercises))
        if handout is None:
            raise Refusal(404, "This server offers no copy of the course.")
        name = safe_name(self._server.course.info().name)
        headers = {"Content-Disposition": f'attachment; filename="{name}.zip"'}
        return Response(handout.archive, headers=headers, media_type="application/zip")

    # --- regrade requests: the form on a student's page, and the queue of staff -------------------

    async def ask(self, request: Request) -> Response:
        """Keep a student's request about one exercise."""
        student = await self._server.identity.student(request)
        form = await form_of(request, _REQUEST_BYTES)
        exercise, message = form.get("exercise", ""), form.get("message", "")
        if all(there.id != exercise for there in self._server.gate.exercises()):
            raise Refusal(422, "There is no such exercise.")
        await self._server.desk.answer(lambda desk: desk.ask(student.id, exercise, message))
        self._server.hub.tell(CLASS, CHANGED)
        return RedirectResponse(f"/#ex-{exercise}", 303)

    async def queue(self, request: Request) -> Response:
        """The requests of the class, and the form that answers one."""
        right = Right.MARK if request.method == "POST" else Right.READ
        asker = await self._server.identity.staff(request, right)
        if request.method == "POST":
            form = await form_of(request, _REQUEST_BYTES)
            number, text = form.get("number", ""), form.get("answer", "")
            if not (number.isascii() and number.isdecimal() and len(number) < 10):
                raise Refusal(404, NO_REQUEST)
            await self._server.desk.answer(lambda desk: desk.staff.answer(int(number), text, asker))
            return RedirectResponse("/class/requests", 303)
        rows = await self._server.views.answer(lambda views: _request_rows(views, asker))
        return self._page("requests.html", rows=rows, may_answer=asker.may(Right.MARK))

    # --- pass-back to platforms --------------------------------------------------------------------

    async def platforms(self, request: Request) -> Response:
        """The links of platforms with their state, and buttons to compare points and to turn pass-back on."""
        author = (await self._server.identity.staff(request, Right.RUN)).name
        if request.method == "POST":
            form = await form_of(request)
            await self._pass_back(author, form)
            return RedirectResponse(f"/class/platforms#{form.get('link', '')}", 303)
        passback = self._server.passback
        (known, rows), waiting = await self._server.views.answer(
            lambda views: (
                link_rows(views.book, passback.rounds, passback.plans),
                invitations.waiting(views.book),
            )
        )
        return self._page("platforms.html", known=known, rows=rows, waiting=waiting, most=MAX_LINES)

    async def _pass_back(self, author: str, form: dict[str, str]) -> None:
        """Turn pass-back on or off, or compare, as the button of the form says."""
        passback, desk = self._server.passback, self._server.desk
        linked = await self._server.views.answer(lambda views: platforms.linked(views.book))
        found = [each for each in linked if id_of(each[1]) == form.get("link", "")]
        if not found:
            raise Refusal(422, "There is no such link any more.")
        platform, link = found[0]
        match form.get("do", ""):
            case "plan":
                await asyncio.wrap_future(passback.plan(platform, link))
            case "on":
                plan = passback.plans.get(link.key)
                if plan is None or plan.error or plan.made_at != form.get("plan", ""):
                    raise Refusal(409, "Look at what would be sent first, and then turn it on.")
                await desk.answer(lambda desk: desk.pass_back(link.key, author, on=True))
                passback.wake(link.key)
            case "off":
                await desk.answer(lambda desk: desk.pass_back(link.key, author, on=False))
                passback.turned_off(link.key)
            case "again":
                passback.wake(link.key)
            case _:
                raise Refusal(400, "There is no such button.")

    # --- files of all pages, and errors ----------------------------------------------------------------------

    async def tool_keys(self, _: Request) -> Response:
        """The public key of this server, with which LTI platforms check its signatures."""
        return answered(await self._server.views.answer(lambda views: jwks(views.book.folder)))

    async def static(self, request: Request) -> Response:
        """The style and the script of the pages."""
        name = request.path_params["name"]
        if name not in _STATIC:
            raise Refusal(404, "There is no such page.")
        folder, kind = _STATIC[name]
        is_kept = name == "editor.js" and request.url.query == _EDITOR_VERSION
        source = (folder / name).read_bytes()
        return Response(source, headers=_KEPT if is_kept else None, media_type=kind)

    def refused(self, request: Request, refusal: HTTPException) -> Response:
        """Return the page of a refusal; strangers, and people whose session ended, can sign in on it."""
        if isinstance(refusal, Refusal) and refusal.status_code == 401:
            return self._door.page(request, refusal if COOKIE in request.cookies else None, 401)
        heading = "Not here" if refusal.status_code == 404 else "That did not work"
        return self._page("said.html", refusal.status_code, heading=heading, said=refusal.detail)

    def _page(self, template: str, status: int = 200, /, **values: Any) -> Response:
        return HTMLResponse(self._writer.page(template, **values), status)


def _class_page(assignment: str) -> str:
    """Return the address of the page of the class, in an assignment if one is named."""
    return f"/class?{urlencode({'assignment': assignment})}" if assignment else "/class"


class Group(NamedTuple):
    """The exercises of an assignment, or of none, with its state and its extra credit in words."""

    assignment: AssignmentStanding | None
    state: str
    exercises: list[ExerciseStanding]
    extra: str


def _groups(standing: OwnStanding, results: Sequence[ExerciseResult]) -> list[Group]:
    """A student's exercises by assignment: open ones, the next one due first, then past ones, then practice."""
    open_ones = [assignment for assignment in standing.assignments if assignment.state == "open"]
    open_ones.sort(key=lambda assignment: (not assignment.until, assignment.until))
    past = [assignment for assignment in standing.assignments if assignment.state == "past"]
    groups = []
    for assignment in (*open_ones, *reversed(past), None):
        id_ = "" if assignment is None else assignment.id
        exercises = [each for each in standing.exercises if each.assignment == id_]
        is_judged = all(
            each.status != Status.UNJUDGED.value and not each.open for each in exercises
        )
        # An exam takes nothing after its end; other assignments still take late files.
        past_state = "closed" if assignment is not None and assignment.exam else "past due"
        state = "open" if assignment in open_ones else past_state
        if assignment in past:
            state += ", graded" if is_judged else ", not all judged yet"
        if exercises:
            names = {each.name for each in exercises}
            extra = extra_words(result for result in results if result.name in names)
            groups.append(Group(assignment, state, exercises, extra))
    return groups


class RequestRow(msgspec.Struct, frozen=True):
    """A regrade request with the verdict that counts now, for staff."""

    request: work.Request
    name: str
    exercise: ExerciseResult | None


def _request_rows(views: Views, asker: Asker) -> list[RequestRow]:
    """Return the requests of the asker's students: open ones, oldest first, then the newest answered ones."""
    book = views.book
    reach, names = asker.reach(book.students()), book.names()
    requests = [r for r in book.requests() if reach is None or r.student in reach]
    answered = [request for request in reversed(requests) if not request.is_open]
    rows = []
    for request in (*open_requests(requests), *answered[:_MAX_ANSWERED]):
        entry = book.entry_of(request.student)
        exercises = entry.result.exercises if entry is not None else ()
        exercise = next((e for e in exercises if e.name == request.exercise), None)
        rows.append(RequestRow(request, names.get(request.student, ""), exercise))
    return rows
