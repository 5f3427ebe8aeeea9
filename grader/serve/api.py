"""The routes for programs: JSON over HTTP, as docs/openapi.json describes it.

A route asks `identity` who sends the request, reads through `views` or writes through `desk`, each in the
thread of its gradebook, and answers with a struct as JSON. `app.py` turns a Refusal into the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from grader.course.manifest import Exercise
from grader.gradebook import queue
from grader.gradebook.queue import JobState
from grader.gradebook.times import moment
from grader.results import ExerciseResult, StudentInfo
from grader.serve import regrading
from grader.serve.desk import Accepted
from grader.serve.hand_in import NotNow, Submission, not_accepted
from grader.serve.http import (
    NO_SUBMISSION,
    Refusal,
    answered,
    body_of,
    busy,
    decoded,
    event,
    stream,
)
from grader.serve.identity import TRIAL
from grader.serve.messages import CorrectionRequest, StaffInfo
from grader.serve.practice import ENDED, Run
from grader.serve.roles import Asker, Right
from grader.serve.server import OpenServer
from grader.serve.staff import points_state
from grader.serve.threads import CHANGED, CLASS, CLOSED, Event
from grader.serve.turns import Rate, RefusedHandIns, Turns
from grader.serve.views import DraftSaved, PracticeAnswer, SubmissionAnswer
from grader.submissions.submission import MAX_FILE_BYTES
from grader.text import utc

# A silent stream sends a comment this often.
_SILENT_SECONDS = 15
_STILL_HERE = b": still here\n\n"
_MAX_AT_ONCE = 2
# Even a machine with fewer processors reads this many archives at a time.
_FEWEST_READ = 2
_RETRY_KEY = re.compile(r"[\x21-\x7e]{8,100}")
_NUMBER = re.compile(r"[0-9]{1,15}")
# A character of JSON takes up to twelve bytes, but the characters of code rarely do.
_MAX_TEXT = 2 * MAX_FILE_BYTES + 1024
# A tab saves every few seconds.
_MAX_SAVES, _MINUTE_SECONDS = 120, 60.0
_OPEN = (JobState.WAITING, JobState.RUNNING)


class RegradeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The exercises to regrade; all of them if none is named."""

    exercises: tuple[str, ...] = ()


class DraftRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A draft based on this `revision`; with `keep`, that revision becomes a version."""

    source: str
    revision: int
    keep: bool = False


class PracticeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text of a file to judge by the public tests."""

    source: str


class Api:
    """The routes for programs; `shown` renders the findings for a page."""

    def __init__(self, server: OpenServer, shown: Callable[[ExerciseResult], str]) -> None:
        self._server, self._shown = server, shown
        self._saves = Rate(_MAX_SAVES, _MINUTE_SECONDS)
        self._busy: Counter[str] = Counter()
        self._refused = RefusedHandIns()
        self._turns = Turns(max(os.cpu_count() or 0, _FEWEST_READ))

    # --- students -------------------------------------------------------------------------------

    async def hand_in(self, request: Request) -> Response:
        """Accept files; the answer is sent when the attempt is on the disk."""
        student = await self._server.identity.student(request)
        key = request.headers.get("idempotency-key") or secrets.token_hex(16)
        if not _RETRY_KEY.fullmatch(key):
            raise Refusal(400, "An Idempotency-Key has 8 to 100 visible characters.")
        with self._one_of_few(student):
            self._refused.check(student.id)
            body = await body_of(request, self._server.reader.most_bytes)
            async with self._turns.turn(student.id):
                loop, reader = asyncio.get_running_loop(), self._server.reader
                try:
                    reading = loop.run_in_executor(None, reader.read, student, body)
                except RuntimeError as error:  # no thread can be started
                    raise busy() from error
                try:
                    read = await reading
                except Refusal:
                    self._refused.add(student.id)
                    raise
        read = self._allowed(request, read)
        # Finish even if the client hangs up.
        accepted = await asyncio.shield(self._accept(student, read, key))
        answer = await self._submission(accepted.submission)
        problems = read.problems | not_accepted(accepted.refused)
        about = await self._server.views.answer(
            lambda views: views.about(student, answer.exercises)
        )
        answer = msgspec.structs.replace(answer, problems=problems, about=about)
        return answered(answer, 202, Location=f"/api/submissions/{answer.id}")

    def _allowed(self, request: Request, read: Submission) -> Submission:
        """Return the part of a submission that may come in this request; raises Refusal if there is none."""
        refused: dict[str, NotNow] = {}
        for question in read.questions:
            try:
                self._server.gate.hand_in(request, question.exercise.id)
            except Refusal as refusal:
                refused[question.exercise.id] = NotNow(refusal.detail)
        return read.without(refused)

    async def _accept(self, student: StudentInfo, read: Submission, key: str) -> Accepted:
        """Keep a submission, then notify the queue, the class and the judges."""
        accepted, places, urgent = await self._server.desk.answer(
            lambda desk: (desk.accept(student, read, key), desk.places(), desk.urgent())
        )
        self._server.hub.tell_places(places)
        self._server.hub.tell(CLASS, CHANGED)
        self._server.judging.make_room(urgent)
        return accepted

    @contextlib.contextmanager
    def _one_of_few(self, student: StudentInfo) -> Any:
        """Limit the requests of one student at a time, since their bodies are held in memory."""
        if self._busy[student.id] >= _MAX_AT_ONCE:
            raise Refusal(429, "Another submission of yours is being received.", retry_after=1)
        self._busy[student.id] += 1
        try:
            yield
        finally:
            self._busy[student.id] -= 1
            if not self._busy[student.id]:
                del self._busy[student.id]

    async def submission(self, request: Request) -> Response:
        """A submission of the student."""
        return answered(await self._submission(await self._own(request)))

    async def events(self, request: Request) -> Response:
        """The same as a stream of server-sent events, until it is judged."""
        return stream(self._events(await self._own(request)))

    async def standing(self, request: Request) -> Response:
        """The student's standing."""
        student, places = await self._server.identity.student(request), self._server.hub.places
        standing = await self._server.views.answer(lambda views: views.standing(student, places))
        return answered(standing)

    async def _own(self, request: Request) -> queue.Submission:
        student, id_ = await self._server.identity.student(request), request.path_params["id"]
        handed = await self._server.views.answer(lambda views: views.own(student, id_))
        if handed is None:
            raise Refusal(404, NO_SUBMISSION)
        return handed

    async def _submission(self, handed: queue.Submission) -> SubmissionAnswer:
        places = self._server.hub.places
        return await self._server.views.answer(lambda views: views.submission(handed, places))

    async def _events(self, handed: queue.Submission) -> AsyncIterator[bytes]:
        """Yield the state of a submission, then its changes, until it is judged or the server ends."""
        with self._server.hub.listening(handed.attempt) as events:
            answer = await self._submission(handed)
            yield event("state", answer)
            while answer.state in _OPEN:
                match await _next_of(events):
                    case None:
                        yield _STILL_HERE
                    case told if told is CLOSED:
                        return
                    case told if told is CHANGED:
                        answer = await self._submission(handed)
                        yield event("state", answer)
                    case told:
                        yield event(told.name, told.data)

    # --- the page to write in -------------------------------------------------------------------

    async def draft(self, request: Request) -> Response:
        """The student's file for an exercise, as the page shows it."""
        student, exercise = await self.writer_at(request)
        return answered(
            await self._server.views.answer(lambda views: views.draft(student, exercise))
        )

    async def save_draft(self, request: Request) -> Response:
        """Keep a draft; the answer is sent when it is on the disk."""
        await self._server.identity.student(request)
        student, exercise = await self.writer_at(request)
        if wait := self._saves.wait(student.id):
            raise Refusal(429, "You saved too often; wait a moment.", retry_after=wait)
        self._saves.add(student.id)
        sent = decoded(await body_of(request, _MAX_TEXT), DraftRequest)
        source = _bytes_of(sent.source)
        saved = await self._server.desk.answer(
            lambda desk: desk.save_draft(
                student.id, exercise.id, source, sent.revision, keep=sent.keep
            )
        )
        at = utc(saved.saved_at)
        return answered(DraftSaved(saved.revision, at, moment(at, self._server.timezone)))

    async def version(self, request: Request) -> Response:
        """A version of the student's draft."""
        student, exercise = await self.writer_at(request)
        text = request.path_params["number"]
        version = None
        if _NUMBER.fullmatch(text):
            version = await self._server.views.answer(
                lambda views: views.version(student, exercise, int(text))
            )
        if version is None:
            raise Refusal(404, "There is no such version of yours.")
        return answered(version)

    async def practice(self, request: Request) -> Response:
        """Judge a file by the public tests; a stream of events until it is judged."""
        student, exercise = await self.writer_at(request)
        practice = self._server.practice
        # Check this before reading the body, which takes memory.
        practice.admit(student.id, exercise)
        source = _bytes_of(decoded(await body_of(request, _MAX_TEXT), PracticeRequest).source)
        async with self._turns.turn(student.id):
            if await request.is_disconnected():
                raise ClientDisconnect
            loop = asyncio.get_running_loop()
            try:
                run = await loop.run_in_executor(
                    None, practice.run_of, student.id, exercise, source
                )
            except RuntimeError as error:  # no thread can be started
                raise busy() from error
        return stream(self._practice_events(run))

    async def _practice_events(self, run: Run) -> AsyncIterator[bytes]:
        """Yield a run's place in the queue, then the number of finished tests, then its end."""
        practice = self._server.practice
        if run.result is None:
            with self._server.hub.listening(run.topic) as events:
                practice.add(run)
                self._server.judging.wake()
                try:
                    while not run.is_over:
                        told = await _next_of(events)
                        if told is CLOSED:
                            return
                        # CHANGED replaces events, even the end, when there are too many for a stream.
                        if told not in (CHANGED, ENDED):
                            yield _STILL_HERE if told is None else event(told.name, told.data)
                finally:
                    practice.leave(run)
        if run.result is not None:
            if not run.student.startswith(TRIAL):
                practice.stuck.add(run.student, run.result)
            result = self._server.gate.hide_hints(run.result)
            yield event("judged", PracticeAnswer(result, self._shown(result)))
        else:
            sentence = (
                "A newer run replaced this one."
                if run.replaced
                else "This is a fault of the grader, and costs you nothing. Try again."
            )
            yield event("error", {"error": sentence})

    async def plot(self, request: Request) -> Response:
        """Draw a file at work, as `grade plot` does: a PNG."""
        writer, exercise = await self.writer_at(request)
        with self._one_of_few(writer):
            body = await body_of(request, _MAX_TEXT)
        source = _bytes_of(decoded(body, PracticeRequest).source)
        urgent = await self._server.desk.answer(lambda desk: desk.urgent())
        picture = await self._server.drawing.draw(writer.id, exercise, source, urgent)
        return Response(picture, media_type="image/png")

    async def writer_at(self, request: Request) -> tuple[StudentInfo, Exercise]:
        """Return who asks, a student or staff, and the exercise of the address; raises Refusal."""
        writer = await self._server.identity.writer(request)
        name = request.path_params["exercise"]
        if not writer.id.startswith(TRIAL):
            self._server.gate.enter(request, name)
        for exercise in self._server.course.exercises:
            if exercise.id == name:
                return writer, exercise
        raise Refusal(404, "There is no such exercise.")

    # --- staff ----------------------------------------------------------------------------------

    async def queue(self, request: Request) -> Response:
        """The queue and the judges."""
        asker = await self._server.identity.staff(request, Right.READ)
        alive, fault = self._server.judging.alive, self._server.judging.fault
        return answered(
            await self._server.views.answer(lambda views: views.queue(asker, alive, fault))
        )

    async def newest(self, request: Request) -> Response:
        """The newest submissions of the class."""
        asker = await self._server.identity.staff(request, Right.READ)
        return answered(await self._server.views.answer(lambda views: views.newest(asker)))

    async def students(self, request: Request) -> Response:
        """Every student with the points that count."""
        asker = await self._server.identity.staff(request, Right.READ)
        return answered((await self._server.summaries.current(asker)).students)

    async def class_events(self, request: Request) -> Response:
        """A stream with an event for each hand-in and verdict, at most one a second."""
        await self._server.identity.staff(request, Right.READ)
        return stream(self._class_events())

    async def _class_events(self) -> AsyncIterator[bytes]:
        """Yield an event at once, then at most one a second."""
        with self._server.hub.listening(CLASS) as events:
            yield event("state", {})
            while (news := await _next_of(events)) is not CLOSED:
                if news is None:
                    yield _STILL_HERE
                    continue
                await asyncio.sleep(1)
                while not events.empty():
                    if events.get_nowait() is CLOSED:
                        return
                yield event("state", {})

    async def pause(self, request: Request) -> Response:
        """Stop giving files to judges; hand-ins are still accepted."""
        return await self._paused(request, paused=True)

    async def resume(self, request: Request) -> Response:
        """Resume judging."""
        return await self._paused(request, paused=False)

    async def _paused(self, request: Request, *, paused: bool) -> Response:
        await self._server.identity.staff(request, Right.RUN)
        await self._server.desk.answer(lambda desk: desk.pause(paused=paused))
        self._server.judging.wake()
        self._server.hub.tell(CLASS, CHANGED)
        return answered({"paused": paused})

    async def regrade(self, request: Request) -> Response:
        """Queue the files to judge again, after all hand-ins."""
        await self._server.identity.staff(request, Right.RUN)
        body = await body_of(request, 64 << 10)
        wanted, course = decoded(body or b"{}", RegradeRequest).exercises, self._server.course
        ids = {exercise.id for exercise in course.exercises}
        if unknown := [name for name in wanted if name not in ids]:
            raise Refusal(422, f"There is no exercise {unknown[0]!r}.")
        queued = await regrading.regrade(self._server, course.select(wanted))
        return answered({"queued": queued}, 202)

    async def me(self, request: Request) -> Response:
        """The holder of the token, for `grade login`."""
        asker = await self._server.identity.staff(request, Right.READ)
        title = self._server.course.title
        return answered(StaffInfo(asker.name, asker.role.word, asker.sections, title))

    async def points(self, request: Request) -> Response:
        """The points of a student for an exercise."""
        asker = await self._server.identity.staff(request, Right.READ)
        query = request.query_params
        return await self._points(asker, query.get("student", ""), query.get("exercise", ""))

    async def correct(self, request: Request) -> Response:
        """Change the points of a student; the answer is sent when the change is on the disk."""
        asker = await self._server.identity.staff(request, Right.MARK)
        sent = decoded(await body_of(request, 64 << 10), CorrectionRequest)
        change = msgspec.structs.asdict(sent)
        mates = await self._server.desk.answer(lambda desk: desk.staff.adjust(asker, **change))
        self._server.hub.tell(CLASS, CHANGED)
        return await self._points(asker, sent.student, sent.exercise, mates)

    async def _points(
        self, asker: Asker, student: str, exercise: str, mates: Sequence[str] = ()
    ) -> Response:
        state = await self._server.views.answer(
            lambda views: points_state(views.book, asker, student, exercise, mates)
        )
        if state is None:
            raise Refusal(404, "There is no such student, or no such exercise.")
        return answered(state)

    # --- operation ------------------------------------------------------------------------------

    async def health(self, _: Request) -> Response:
        """The health of the server: 200 if the gradebook answers and files can be judged."""
        await self._server.views.answer(lambda views: queue.counts(views.book))
        # Only staff may read the reason.
        if self._server.judging.fault:
            return answered({"status": "nothing can be judged"}, 503)
        return answered({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """The metrics, for staff: Prometheus sends a token, too."""
        await self._server.identity.staff(request, Right.READ)
        counts = await self._server.views.answer(lambda views: queue.counts(views.book))
        metrics, judging = self._server.metrics, self._server.judging
        practice = self._server.practice.waiting
        states = ("waiting", "regrade", "running", "practice")
        for state, count in zip(states, (*counts, practice), strict=True):
            metrics.jobs.labels(state).set(count)
        metrics.streams.set(self._server.hub.streams)
        metrics.judges.set(judging.alive)
        metrics.healthy.set(not judging.fault)
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _bytes_of(text: str) -> bytes:
    """Return the text of a file as UTF-8; raises Refusal if it is too long or not text."""
    try:
        source = text.encode()
    except UnicodeEncodeError as error:
        raise Refusal(400, "The source holds half a character.") from error
    if len(source) > MAX_FILE_BYTES:
        raise Refusal(413, f"The file is larger than {MAX_FILE_BYTES:,} bytes.")
    return source


async def _next_of(events: asyncio.Queue[Event]) -> Event | None:
    """Return the next event of a stream; None after a silence, so that the stream can send a sign of life."""
    try:
        return await asyncio.wait_for(events.get(), _SILENT_SECONDS)
    except TimeoutError:
        return None
