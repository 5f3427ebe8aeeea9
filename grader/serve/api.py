"""The routes for programs: JSON over HTTP, as docs/openapi.json describes it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from grader.course.manifest import Course
from grader.gradebook import Gradebook
from grader.gradebook.queue import Handed, JobState
from grader.results import StudentInfo
from grader.serve.class_summary import ClassSummaries
from grader.serve.desk import Desk
from grader.serve.hand_in import HandIn, HandInReader
from grader.serve.hub import CHANGED, CLASS, CLOSED, Hub
from grader.serve.identity import Identity
from grader.serve.judging import Judging
from grader.serve.refusal import NO_SUBMISSION, Refusal
from grader.serve.threads import BookThread
from grader.serve.views import SubmissionAnswer, Views

# So long a client may take to send a body, and a stream is silent.
_BODY_SECONDS = 60
_SILENT_SECONDS = 15
_MOST_AT_ONCE = 2
_RETRY_KEY = re.compile(r"[\x21-\x7e]{8,100}")
_OPEN = (JobState.WAITING, JobState.RUNNING)


class RegradeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to regrade; every exercise where none is named."""

    exercises: tuple[str, ...] = ()


class Api:
    """The routes for programs."""

    def __init__(
        self,
        course: Course,
        identity: Identity,
        reader: HandInReader,
        desk: BookThread[Desk],
        books: BookThread[Gradebook],
        views: Views,
        hub: Hub,
        judging: Judging,
        summaries: ClassSummaries,
    ) -> None:
        self._course, self._identity, self._reader = course, identity, reader
        self._desk, self._books, self._views = desk, books, views
        self._hub, self._judging, self._summaries = hub, judging, summaries
        self._busy: Counter[str] = Counter()

    # --- students -------------------------------------------------------------------------------

    async def hand_in(self, request: Request) -> Response:
        """Take files in; the answer is sent when they and the attempt are on the disk."""
        student = await self._identity.student(request)
        key = request.headers.get("idempotency-key") or secrets.token_hex(16)
        if not _RETRY_KEY.fullmatch(key):
            raise Refusal(400, "An Idempotency-Key has 8 to 100 visible characters.")
        with self._one_of_few(student):
            body = await body_of(request, self._reader.most_bytes)
            read = await asyncio.to_thread(self._reader.read, student, body)
        # Once it is asked for it is done, also where the client hangs up in the middle.
        handed = await asyncio.shield(self._accept(student, read, key))
        answer = await self._submission(handed)
        answer = msgspec.structs.replace(answer, problems=read.problems)
        return answered(answer, 202, Location=f"/api/submissions/{handed.id}")

    async def _accept(self, student: StudentInfo, read: HandIn, key: str) -> Handed:
        handed, places = await self._desk.answer(
            lambda desk: (desk.accept(student, read.files, key), desk.places())
        )
        self._hub.tell_places(places)
        self._hub.tell(CLASS, CHANGED)
        self._judging.wake()
        return handed

    @contextlib.contextmanager
    def _one_of_few(self, student: StudentInfo) -> Any:
        """Bodies are held in memory: of one student at most so many."""
        if self._busy[student.id] >= _MOST_AT_ONCE:
            raise Refusal(429, "Another submission of yours is on its way.", retry_after=1)
        self._busy[student.id] += 1
        try:
            yield
        finally:
            self._busy[student.id] -= 1
            if not self._busy[student.id]:
                del self._busy[student.id]

    async def submission(self, request: Request) -> Response:
        """A submission of one's own."""
        return answered(await self._submission(await self._own(request)))

    async def events(self, request: Request) -> Response:
        """The same as a stream of server-sent events, until it is judged."""
        return stream(self._events(await self._own(request)))

    async def standing(self, request: Request) -> Response:
        """One's own standing."""
        student, places = await self._identity.student(request), self._hub.places
        return answered(
            await self._books.answer(lambda book: self._views.standing(book, student, places))
        )

    async def _own(self, request: Request) -> Handed:
        student, id_ = await self._identity.student(request), request.path_params["id"]
        handed = await self._books.answer(lambda book: self._views.own(book, student, id_))
        if handed is None:
            raise Refusal(404, NO_SUBMISSION)
        return handed

    async def _submission(self, handed: Handed) -> SubmissionAnswer:
        places = self._hub.places
        return await self._books.answer(lambda book: self._views.submission(book, handed, places))

    async def _events(self, handed: Handed) -> AsyncIterator[bytes]:
        with self._hub.listening(handed.attempt) as events:
            answer = await self._submission(handed)
            yield event("state", answer)
            while answer.state in _OPEN:
                try:
                    told = await asyncio.wait_for(events.get(), _SILENT_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if told is CLOSED:
                    return
                if told is CHANGED:
                    answer = await self._submission(handed)
                    yield event("state", answer)
                else:
                    yield event(told.name, told.data)

    # --- staff ----------------------------------------------------------------------------------

    async def queue(self, request: Request) -> Response:
        """The queue and the judges."""
        await self._identity.staff(request)
        judging = self._judging
        return answered(
            await self._books.answer(
                lambda book: self._views.queue(book, judging.alive, judging.fault)
            )
        )

    async def newest(self, request: Request) -> Response:
        """What came in last, of all students."""
        await self._identity.staff(request)
        return answered(await self._books.answer(self._views.newest))

    async def students(self, request: Request) -> Response:
        """Every student with the points that count."""
        await self._identity.staff(request)
        return answered((await self._summaries.current()).students)

    async def class_events(self, request: Request) -> Response:
        """An event whenever something came in or was judged, at most one a second."""
        await self._identity.staff(request)
        return stream(self._class_events())

    async def _class_events(self) -> AsyncIterator[bytes]:
        with self._hub.listening(CLASS) as events:
            yield event("state", {})
            while True:
                try:
                    told = await asyncio.wait_for(events.get(), _SILENT_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if told is CLOSED:
                    return
                await asyncio.sleep(1)
                while not events.empty():
                    if events.get_nowait() is CLOSED:
                        return
                yield event("state", {})

    async def pause(self, request: Request) -> Response:
        """Give no more to judges; what is handed in is taken all the same."""
        return await self._paused(request, paused=True)

    async def resume(self, request: Request) -> Response:
        """Go on with what waits."""
        return await self._paused(request, paused=False)

    async def _paused(self, request: Request, *, paused: bool) -> Response:
        await self._identity.staff(request)
        await self._desk.answer(lambda desk: desk.pause(paused=paused))
        self._judging.wake()
        self._hub.tell(CLASS, CHANGED)
        return answered({"paused": paused})

    async def regrade(self, request: Request) -> Response:
        """Queue, behind what students wait for, what a changed suite may judge otherwise."""
        await self._identity.staff(request)
        body = await body_of(request, 64 << 10)
        try:
            wanted = msgspec.json.decode(body or b"{}", type=RegradeRequest).exercises
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refusal(400, f"The body cannot be read: {error}.") from error
        known = {each.id for each in self._course.exercises}
        if unknown := [name for name in wanted if name not in known]:
            raise Refusal(422, f"There is no exercise {unknown[0]!r}.")
        exercises = self._course.select(wanted)
        queued = 0
        # One student after the other, so that who hands in meanwhile is not kept waiting.
        for name in await self._desk.answer(Desk.begin_regrade):
            queued += await self._desk.answer(
                lambda desk, name=name: desk.regrade(name, exercises)  # type: ignore[misc]
            )
        self._judging.wake()
        return answered({"queued": queued}, 202)


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request; raises Refusal for one that is too long, or comes too slowly."""
    too_long = Refusal(413, f"The body is larger than {most:,} bytes.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_long
    except TimeoutError as error:
        raise Refusal(408, f"The body did not come within {_BODY_SECONDS} seconds.") from error
    return bytes(body)


def answered(value: Any, status: int = 200, **headers: str) -> Response:
    """A value as JSON."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )


def event(name: str, data: Any) -> bytes:
    """A server-sent event; JSON has no line breaks of its own."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def stream(events: AsyncIterator[bytes]) -> Response:
    """A stream of events that no proxy holds back."""
    return StreamingResponse(
        events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )
