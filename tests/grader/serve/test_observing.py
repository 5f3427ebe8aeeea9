"""Metrics and log lines of requests, without personal data."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from grader.serve.observing import JsonLines, Metrics, Observed

App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def glu(scope: Scope, receive: Receive, send: Send) -> None:
    """A route that answers with two headers of its own."""
    scope["endpoint"] = glu
    headers = [(b"cache-control", b"max-age=60"), (b"x-own", b"1")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def hung_up(scope: Scope, receive: Receive, send: Send) -> None:
    raise ConnectionError


def served(app: App, metrics: Metrics, **scope: Any) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    given = {"type": "http", "method": "GET", "path": "/students/ada", **scope}
    asyncio.run(Observed(app, metrics)(given, receive, send))
    return sent


def count(metrics: Metrics, route: str, status: str) -> float | None:
    labels = {"route": route, "status": status}
    return metrics.registry.get_sample_value("lab_bench_requests_total", labels)


def test_every_answer_gets_security_headers_and_keeps_its_own() -> None:
    start, body = served(glu, Metrics())
    headers = dict(start["headers"])
    assert len(headers) == len(start["headers"]) == 5
    assert (headers[b"cache-control"], headers[b"x-own"]) == (b"max-age=60", b"1")
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert b"default-src 'none'" in headers[b"content-security-policy"]
    assert body == {"type": "http.response.body", "body": b"ok"}


def test_a_request_is_counted_and_logged_by_its_route(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    with caplog.at_level(logging.INFO, "grader.serve"):
        served(glu, metrics)
        served(glu, metrics, method="G\nT")
    assert count(metrics, "glu", "201") == 2
    seconds = "lab_bench_request_seconds_count"
    assert metrics.registry.get_sample_value(seconds, {"route": "glu"}) == 2
    first, odd = (json.loads(JsonLines().format(record)) for record in caplog.records)
    assert (first["said"], first["method"], first["route"], first["status"]) == (
        "request",
        "GET",
        "glu",
        201,
    )
    assert odd["method"] == "?"
    assert first["ms"] >= 0
    assert "ada" not in caplog.text + json.dumps(first)


def test_a_client_that_hung_up_is_counted_without_a_status() -> None:
    metrics = Metrics()
    with pytest.raises(ConnectionError):
        served(hung_up, metrics)
    assert count(metrics, "none", "none") == 1


def test_other_scopes_are_not_counted() -> None:
    metrics = Metrics()
    started: list[str] = []

    async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        started.append(scope["type"])

    served(lifespan, metrics, type="lifespan")
    assert started == ["lifespan"]
    assert count(metrics, "none", "none") is None


def test_judging_times_are_kept_by_exercise() -> None:
    metrics = Metrics()
    metrics.judged("glu", 0.3)
    metrics.judged("glu", 3)
    value = metrics.registry.get_sample_value
    assert value("lab_bench_judging_seconds_sum", {"exercise": "glu"}) == 3.3
    assert value("lab_bench_judging_seconds_bucket", {"exercise": "glu", "le": "0.5"}) == 1


def test_a_record_is_one_line_of_json() -> None:
    record = logging.makeLogRecord(
        {"msg": "hello %s", "args": ("you\nthere",), "levelname": "WARNING", "created": 0}
    )
    assert json.loads(JsonLines().format(record)) == {
        "time": "1970-01-01T00:00:00Z",
        "level": "warning",
        "said": "hello you\nthere",
    }
    try:
        raise KeyError("x")
    except KeyError:
        record.exc_info = sys.exc_info()
    record.fault = {1}
    line = JsonLines().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert told["fault"] == "{1}" and told["trace"].endswith("KeyError: 'x'")
