"""The application: every route with its endpoint, the answers to errors, and serving until a signal."""

from __future__ import annotations

import contextlib
import errno
import logging
import signal
import socket
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from grader.errors import GraderError, SubmissionError
from grader.gradebook.corrections_file import CorrectionsError
from grader.serve.api import Api
from grader.serve.http import Refusal, answered, busy
from grader.serve.marks import Marks
from grader.serve.observing import JsonLines, Observed
from grader.serve.pages import Pages, PageWriter
from grader.serve.server import OpenServer, Settings, opened
from grader.serve.sign_in.door import CALLBACK, Door
from grader.serve.staff_api import StaffApi
from grader.serve.staff_pages import StaffPages

log = logging.getLogger("grader.serve")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Errors while other programs use up the machine's processes, memory or open files.
_SHORT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS)
_SHORT_IN_SQLITE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM)
# Each listening client is an open file; many systems allow 1,024 by default.
_OPEN_FILES = 65_536
# Connections that still send this long after the end of their stream are cut off.
_LAST_SECONDS = 1


def routes(
    api: Api, pages: Pages, staff: StaffPages, door: Door, programs: StaffApi
) -> list[Route]:
    """Return every route of the server."""
    return [
        Route("/api/submissions", api.hand_in, methods=["POST"]),
        Route("/api/submissions/{id}", api.submission),
        Route("/api/submissions/{id}/events", api.events),
        Route("/api/standing", api.standing),
        Route("/api/exercises/{exercise}/draft", api.draft),
        Route("/api/exercises/{exercise}/draft", api.save_draft, methods=["PUT"]),
        Route("/api/exercises/{exercise}/versions/{number}", api.version),
        Route("/api/exercises/{exercise}/practice", api.practice, methods=["POST"]),
        Route("/api/exercises/{exercise}/plot", api.plot, methods=["POST"]),
        Route("/api/staff/queue", api.queue),
        Route("/api/staff/submissions", api.newest),
        Route("/api/staff/students", api.students),
        Route("/api/staff/events", api.class_events),
        Route("/api/staff/pause", api.pause, methods=["POST"]),
        Route("/api/staff/resume", api.resume, methods=["POST"]),
        Route("/api/staff/regrade", api.regrade, methods=["POST"]),
        Route("/api/staff/me", api.me),
        Route("/api/staff/corrections", api.points),
        Route("/api/staff/corrections", api.correct, methods=["POST"]),
        Route("/api/staff/corrections/class", programs.class_points),
        Route("/api/staff/corrections/class", programs.correct_class, methods=["POST"]),
        Route("/api/staff/extensions", programs.extensions),
        Route("/api/staff/extensions", programs.extend, methods=["POST"]),
        Route("/api/staff/requests", programs.requests),
        Route("/api/staff/requests", programs.answer, methods=["POST"]),
        Route("/api/staff/marks/{exercise}", programs.to_mark),
        Route("/api/staff/marks/{exercise}", programs.mark, methods=["POST"]),
        Route("/healthz", api.health),
        Route("/metrics", api.metrics),
        Route("/", pages.home),
        Route("/exercise/{exercise}", pages.exercise),
        Route("/exercise/{exercise}/file", pages.file),
        Route("/assignment/{assignment}", pages.assignment),
        Route("/release", pages.release),
        Route("/class", pages.the_class, methods=["GET", "POST"]),
        Route("/class/requests", pages.queue, methods=["GET", "POST"]),
        Route("/class/students/{student:path}", staff.student, methods=["GET", "POST"]),
        Route("/class/mark/{exercise}", staff.mark, methods=["GET", "POST"]),
        Route("/class/regrade", staff.regrade, methods=["GET", "POST"]),
        Route("/class/export", staff.export, methods=["GET", "POST"]),
        Route("/class/export/{id}", staff.exported),
        Route("/class/platforms", pages.platforms, methods=["GET", "POST"]),
        Route("/requests", pages.ask, methods=["POST"]),
        Route("/sign-in", door.sign_in, methods=["POST"]),
        Route("/sign-in/university", door.university),
        Route(CALLBACK, door.came_back),
        Route("/sign-out", door.sign_out, methods=["POST"]),
        Route("/lti/login", door.begin_launch, methods=["GET", "POST"]),
        Route("/lti/launch", door.launch, methods=["GET", "POST"]),
        Route("/lti/register/{secret}", door.register),
        Route("/lti/keys", pages.tool_keys),
        Route("/static/{name}", pages.static),
    ]


def _application(server: OpenServer) -> Starlette:
    """Return the application, with an answer for each kind of error: JSON for programs, a page for people."""
    writer = PageWriter(server.course.title, server.timezone)
    api = Api(server, writer.findings)
    door = Door(server, writer.page)
    pages = Pages(server, api, writer, door)
    marks = Marks(server)
    staff = StaffPages(server, writer, marks)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        server.hub.open()
        yield

    async def refused(request: Request, error: Exception) -> Response:
        refusal = _refusal(error)
        if refusal.status_code in (503, 507):
            # Log one line without a traceback: every hand-in causes it, and the log is on the same disk.
            said = "no room left" if refusal.status_code == 507 else "out of reach"
            said = "corrections" if isinstance(error, CorrectionsError) else said
            fault = f"{type(error).__name__}: {error}"[:500]
            log.error(said, extra={"status": refusal.status_code, "fault": fault})
        elif refusal.status_code >= 500:
            log.error("a fault", extra={"status": refusal.status_code}, exc_info=error)
        if request.url.path.startswith(("/api/", "/healthz", "/metrics")):
            response = answered({"error": refusal.detail}, refusal.status_code)
        else:
            response = pages.refused(request, refusal)
        response.headers.update(refusal.headers or {})
        return response

    known = (HTTPException, ClientDisconnect, sqlite3.Error, OSError, MemoryError, GraderError)
    errors = (*known, Exception)
    return Starlette(
        routes=routes(api, pages, staff, door, StaffApi(server, marks)),
        lifespan=lifespan,
        exception_handlers=dict.fromkeys(errors, refused),
    )


def _refusal(error: Exception) -> HTTPException:
    """Return the answer to an error; it gives no details of the server's own faults."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        sentences = {404: "There is nothing at this address.", 405: "Not with this method."}
        sentence = sentences.get(error.status_code, str(error.detail))
        return HTTPException(error.status_code, sentence, error.headers)
    if isinstance(error, ClientDisconnect):
        return Refusal(400, "The body ended too early.")
    if _is_full(error) or _is_full(error.__cause__):
        sentence = "The server has no room left. Nothing of this was taken; try again later."
        return Refusal(507, sentence, retry_after=60)
    if _is_short(error) or _is_short(error.__cause__):
        return busy()
    if isinstance(error, CorrectionsError):
        sentence = (
            "The file of corrections has a mistake, so no points are shown until a person has corrected it. "
            "Hand-ins are accepted. Staff find the place in the server's log, and with `grade show RESULTS`."
        )
        return Refusal(503, sentence)
    return Refusal(500, "This is a fault of the server, and costs you nothing. Try again later.")


def _is_full(error: BaseException | None) -> bool:
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return isinstance(error, OSError) and error.errno in _FULL


def _is_short(error: BaseException | None) -> bool:
    """Return whether the machine or the gradebook is too busy at the moment."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SHORT_IN_SQLITE
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORT)


# --- serving until a signal: uvicorn with the application, one process, and a log on stderr -----------


class _Uvicorn(uvicorn.Server):
    """A server that ends its streams first, instead of waiting for them."""

    def __init__(self, config: uvicorn.Config, server: OpenServer) -> None:
        super().__init__(config)
        self._server = server

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, then the server."""
        self._server.hub.close()
        super().handle_exit(sig, frame)


def serve(settings: Settings, host: str, port: int, ready: Callable[[str, int], None]) -> None:
    """Serve until SIGTERM or SIGINT; once it listens, `ready` gets the address and the number of waiting jobs.

    Raises GraderError if the gradebook cannot be written, and SubmissionError if the address is taken.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # uvicorn's messages at the start are for programmers.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    _allow_open_files()
    asked_to_end = threading.Event()
    # Do not raise an exception: before uvicorn has its handlers, it can get lost, for instance in an import.
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    with _listening(host, port) as listener, opened(settings) as server:
        address = listener.getsockname()
        name = f"[{address[0]}]" if ":" in address[0] else address[0]
        config = uvicorn.Config(
            Observed(_application(server), server.metrics),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        serving = _Uvicorn(config, server)
        signal.signal(signal.SIGTERM, serving.handle_exit)
        if asked_to_end.is_set():
            serving.should_exit = True
        ready(f"http://{name}:{address[1]}/", server.waits_again)
        with contextlib.suppress(KeyboardInterrupt):
            serving.run(sockets=[listener])


def _allow_open_files() -> None:
    """Raise the limit of open files as far as the system allows; Windows has none."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address; raises SubmissionError if it cannot."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise SubmissionError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Take another --port or --host."
        ) from error
