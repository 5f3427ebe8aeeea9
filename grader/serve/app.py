"""The application: every route with its endpoint, what becomes of errors, and all that is open for it."""

from __future__ import annotations

import contextlib
import errno
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from grader.course.manifest import Course
from grader.errors import GraderError
from grader.gradebook import Gradebook, Keeper, queue
from grader.judge.assignment import GradingOptions
from grader.judge.pool import TaskJudges
from grader.results import StudentInfo
from grader.serve.api import Api, answered
from grader.serve.class_summary import ClassSummaries
from grader.serve.desk import Desk
from grader.serve.github import GitHub
from grader.serve.hand_in import HandInReader
from grader.serve.hub import Hub
from grader.serve.identity import Identity
from grader.serve.judging import Judging, TaskCompleter
from grader.serve.observing import Metrics, Observed
from grader.serve.pages import Pages
from grader.serve.refusal import Refusal
from grader.serve.requests import RequestPages
from grader.serve.threads import BookThread
from grader.serve.views import Views

log = logging.getLogger("grader.serve")
# systemd and Docker wait longer than this before they kill.
STOP_SECONDS = 8.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server serves: a course and the class that hands in, by so many judges at a time.

    They are of this machine, or of the Dask cluster at the address `scheduler`.
    """

    course: Course
    results: Path
    students: tuple[StudentInfo, ...]
    options: GradingOptions
    judges: int
    scheduler: str = ""
    github: GitHub | None = None


class OpenServer(msgspec.Struct, frozen=True):
    """A server that is open: the application, and what has to be told when it ends."""

    app: ASGIApp
    hub: Hub
    judging: Judging
    waits_again: int


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[OpenServer]:
    """Everything that a server needs, until it ends; what is being judged then ends or waits again.

    Raises GraderError where another grading writes to the gradebook, or it is that of another course.
    """
    results, metrics, hub = settings.results, Metrics(), Hub()
    with contextlib.ExitStack() as stack:
        desk = stack.enter_context(BookThread("desk", lambda: _desk(settings)))
        again = desk.ask(Desk.open).result()
        books = stack.enter_context(BookThread("reader", lambda: queue.reading(results)))
        of_class = stack.enter_context(BookThread("class", lambda: queue.reading(results)))
        timezone = books.ask(lambda book: book.policy.rules.timezone).result()
        judging = Judging(
            settings.course, settings.options, _judges(settings, desk), settings.judges, desk, hub,
            metrics.judged,
        )  # fmt: skip
        identity = Identity(books, settings.students, settings.github)
        reader = HandInReader(settings.course, settings.options)
        views, summaries = Views(settings.course), ClassSummaries(of_class)
        api = Api(
            settings.course, identity, reader, desk, books, views, hub, judging, summaries
        )  # fmt: skip
        pages = Pages(
            settings.course, identity, api, books, views, hub, judging, summaries,
            reader.most_bytes, timezone,
        )  # fmt: skip
        requests = RequestPages(settings.course, identity, desk, books, hub, timezone)
        operation = Operation(identity, books, judging, hub, metrics)
        judging.start()
        stack.callback(judging.close, STOP_SECONDS)
        app = _application(routes(api, pages, operation, requests), pages, hub)
        yield OpenServer(Observed(app, metrics), hub, judging, again)


@contextlib.contextmanager
def _desk(settings: Settings) -> Iterator[Desk]:
    with Keeper.open(settings.results) as keeper:
        yield Desk(keeper, settings.course, settings.options, settings.students)


def _judges(settings: Settings, desk: BookThread[Desk]) -> TaskCompleter:
    if not settings.scheduler:
        known = desk.ask(Desk.observations).result()
        return TaskJudges(settings.course, settings.judges, settings.options, known)
    # Dask is an extra of its own.
    from grader.gradebook.cluster import ClusterJudges

    return ClusterJudges(settings.course, settings.scheduler, settings.options)


class Operation:
    """The routes for those who run the server."""

    def __init__(
        self,
        identity: Identity,
        books: BookThread[Gradebook],
        judging: Judging,
        hub: Hub,
        metrics: Metrics,
    ) -> None:
        self._identity, self._books, self._judging = identity, books, judging
        self._hub, self._metrics = hub, metrics

    async def health(self, _: Request) -> Response:
        """Whether the gradebook answers and something can be judged."""
        await self._books.answer(lambda book: queue.counts(book.store))
        is_well = not self._judging.fault
        # What is at fault is for staff.
        return answered(
            {"status": "ok" if is_well else "nothing can be judged"}, 200 if is_well else 503
        )

    async def metrics(self, request: Request) -> Response:
        """The metrics, for staff: Prometheus sends a token, too."""
        await self._identity.staff(request)
        counts = await self._books.answer(lambda book: queue.counts(book.store))
        for state, count in zip(("waiting", "regrade", "running"), counts, strict=True):
            self._metrics.jobs.labels(state).set(count)
        self._metrics.streams.set(self._hub.streams)
        self._metrics.judges.set(self._judging.alive)
        self._metrics.healthy.set(not self._judging.fault)
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)


def routes(api: Api, pages: Pages, operation: Operation, requests: RequestPages) -> list[Route]:
    """Every route of the server."""
    return [
        Route("/api/submissions", api.hand_in, methods=["POST"]),
        Route("/api/submissions/{id}", api.submission),
        Route("/api/submissions/{id}/events", api.events),
        Route("/api/standing", api.standing),
        Route("/api/staff/queue", api.queue),
        Route("/api/staff/submissions", api.newest),
        Route("/api/staff/students", api.students),
        Route("/api/staff/events", api.class_events),
        Route("/api/staff/pause", api.pause, methods=["POST"]),
        Route("/api/staff/resume", api.resume, methods=["POST"]),
        Route("/api/staff/regrade", api.regrade, methods=["POST"]),
        Route("/healthz", operation.health),
        Route("/metrics", operation.metrics),
        Route("/", pages.home),
        Route("/class", pages.the_class, methods=["GET", "POST"]),
        Route("/class/requests", requests.queue, methods=["GET", "POST"]),
        Route("/requests", requests.ask, methods=["POST"]),
        Route("/sign-in", pages.sign_in, methods=["POST"]),
        Route("/sign-out", pages.sign_out, methods=["POST"]),
        Route("/static/{name}", pages.static),
    ]


def _application(every: list[Route], pages: Pages, hub: Hub) -> Starlette:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        hub.open()
        yield

    async def said(request: Request, error: Exception) -> Response:
        refusal = _refusal(error)
        if refusal.status >= 500:
            log.error("a fault", extra={"status": refusal.status}, exc_info=error)
        if request.url.path.startswith(("/api/", "/healthz", "/metrics")):
            response = answered({"error": refusal.sentence}, refusal.status)
        else:
            response = pages.said(refusal)
        if refusal.retry_after:
            response.headers["Retry-After"] = str(refusal.retry_after)
        if refusal.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        if isinstance(error, HTTPException) and error.headers:
            response.headers.update(error.headers)
        return response

    kinds = (
        Refusal,
        HTTPException,
        ClientDisconnect,
        sqlite3.Error,
        OSError,
        GraderError,
        Exception,
    )
    return Starlette(
        routes=every,
        lifespan=lifespan,
        exception_handlers=dict.fromkeys(kinds, said),
    )


def _refusal(error: Exception) -> Refusal:
    """What a client is told of an error; of a fault of the server no more than that it is one."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        sentences = {404: "There is nothing at this address.", 405: "Not with this method."}
        return Refusal(error.status_code, sentences.get(error.status_code, str(error.detail)))
    if isinstance(error, ClientDisconnect):
        return Refusal(400, "The body ended before its end.")
    if _is_full(error):
        return Refusal(
            507,
            "The server has no room left. Nothing of this was taken; try again later.",
            retry_after=60,
        )
    return Refusal(500, "This is a fault of the server, and costs you nothing. Try again later.")


def _is_full(error: Exception) -> bool:
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return isinstance(error, OSError) and error.errno in _FULL
