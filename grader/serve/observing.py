"""Observation for operators: metrics in Prometheus' format, and a line of JSON in the log for each request.

Neither contains tokens, names, ids of students, or code: a request is identified by the name of its route.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grader.text import utc

log = logging.getLogger("grader.serve")

_HEADERS = {
    b"content-security-policy": b"default-src 'none'; style-src 'self'; script-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cache-control": b"no-store",
}
# The attributes of every log record; all others are from `extra`.
_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "lab_bench_requests", "Requests.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "lab_bench_request_seconds",
            "Seconds until a request is answered; for a stream, until it ends.",
            ["route"],
            registry=self.registry,
        )
        self.judging = Histogram(
            "lab_bench_judging_seconds",
            "Seconds from a job's start to its verdict.",
            ["exercise"],
            buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300),
            registry=self.registry,
        )
        self.jobs = Gauge("lab_bench_jobs", "Jobs now.", ["state"], registry=self.registry)
        self.streams = Gauge("lab_bench_streams", "Open streams.", registry=self.registry)
        self.judges = Gauge("lab_bench_judges", "Threads that judge.", registry=self.registry)
        self.healthy = Gauge(
            "lab_bench_healthy", "1, or 0 if nothing can be judged.", registry=self.registry
        )

    def judged(self, exercise: str, seconds: float) -> None:
        """Record the time of a judgment."""
        self.judging.labels(exercise).observe(seconds)


class Observed:
    """Wraps the application: adds metrics, a log line for each request, and headers that restrict browsers."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                own = {name for name, _ in headers}
                headers += [header for header in _HEADERS.items() if header[0] not in own]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            route = getattr(scope.get("endpoint"), "__name__", "none")
            seconds = time.monotonic() - began
            # A client that hung up before the answer has no status.
            self._metrics.requests.labels(route, status or "none").inc()
            self._metrics.seconds.labels(route).observe(seconds)
            log.info(
                "request",
                extra={
                    "method": scope["method"] if scope["method"].isalpha() else "?",
                    "route": route,
                    "status": status,
                    "ms": round(1000 * seconds, 1),
                },
            )


class JsonLines(logging.Formatter):
    """A formatter that writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record."""
        line: dict[str, Any] = {
            "time": utc(record.created),
            "level": record.levelname.lower(),
            "said": record.getMessage(),
        }
        line |= {k: v for k, v in vars(record).items() if k not in _OF_EVERY_RECORD}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
