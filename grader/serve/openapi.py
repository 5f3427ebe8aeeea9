"""The interface for programs as an OpenAPI document, which is kept in docs/openapi.json.

`python -m grader.serve.openapi > docs/openapi.json` writes it; a test compares it with the file, and what a
server answers with it.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

import grader
from grader.serve.api import RegradeRequest
from grader.serve.class_summary import StudentRow
from grader.serve.hand_in import Body
from grader.serve.views import ClassSubmission, OwnStanding, QueueAnswer, SubmissionAnswer

_STRUCTS = (
    Body,
    SubmissionAnswer,
    OwnStanding,
    QueueAnswer,
    ClassSubmission,
    StudentRow,
    RegradeRequest,
)
# What every route may answer besides: each with one sentence.
_REFUSALS = {
    "400": "The request cannot be read.",
    "401": "There is no token, or it does not hold.",
    "403": "It is for others.",
    "500": "A fault of the server.",
    "503": "Something that the server needs is out of reach.",
}
_OF_HAND_IN = {
    "408": "The body came too slowly.",
    "413": "The body is too large.",
    "422": "No file in it can be taken.",
    "429": "Too many, or too soon: Retry-After says when again.",
    "507": "The disk is full; nothing was taken.",
}


def document() -> dict[str, Any]:
    """The document."""
    _, components = msgspec.json.schema_components(
        (*_STRUCTS,), ref_template="#/components/schemas/{name}"
    )
    schemas = msgspec.json.decode(msgspec.json.encode(components))
    schemas["Error"] = {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string", "description": "One sentence."}},
        "additionalProperties": False,
    }
    own = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
    ]
    retry = [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "A client that tries again sends the same key, and has handed in once.",
            "schema": {"type": "string", "pattern": "^[!-~]{8,100}$"},
        }
    ]
    missing = {"404": "There is no such submission of yours."}
    paused = {"200": _json("Whether it is paused now.", _object(paused={"type": "boolean"}))}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lab Bench",
            "version": grader.__version__,
            "description": "Hand in exercises of a course and read the verdict; see docs/serve.md.",
        },
        "security": [{"token": []}],
        "paths": {
            "/api/submissions": {
                "post": _route(
                    "Hand in files. The answer is sent when they are on the disk.",
                    {"202": _json("It is taken.", _of("SubmissionAnswer"))},
                    _OF_HAND_IN,
                    body=_of("Body"),
                    parameters=retry,
                )
            },
            "/api/submissions/{id}": {
                "get": _route(
                    "A submission: its place in the queue, or its result.",
                    {"200": _json("As it is now.", _of("SubmissionAnswer"))},
                    missing,
                    parameters=own,
                )
            },
            "/api/submissions/{id}/events": {
                "get": _route(
                    "The same as events, until it is judged: `state` with a SubmissionAnswer, `place` with "
                    "an exercise and its place, `test` with how many tests of an exercise ended.",
                    {"200": _stream("Server-sent events.")},
                    missing,
                    parameters=own,
                )
            },
            "/api/standing": {
                "get": _route(
                    "One's own standing: what counts, due times, attempts.",
                    {"200": _json("As it is now.", _of("OwnStanding"))},
                )
            },
            "/api/staff/queue": {
                "get": _route(
                    "The queue and the judges.",
                    {"200": _json("As they are now.", _of("QueueAnswer"))},
                )
            },
            "/api/staff/submissions": {
                "get": _route(
                    "What came in last, of all students.",
                    {"200": _json("The newest first.", _list("ClassSubmission"))},
                )
            },
            "/api/staff/students": {
                "get": _route(
                    "Every student with the points that count.",
                    {"200": _json("As of some seconds ago.", _list("StudentRow"))},
                )
            },
            "/api/staff/events": {
                "get": _route(
                    "An event `state` when something came in or was judged, at most one a second.",
                    {"200": _stream("Server-sent events.")},
                )
            },
            "/api/staff/pause": {"post": _route("Give no more to judges.", paused)},
            "/api/staff/resume": {"post": _route("Go on judging.", paused)},
            "/api/staff/regrade": {
                "post": _route(
                    "Queue what a changed suite may judge otherwise, behind what students wait for.",
                    {
                        "202": _json(
                            "How many are queued.",
                            _object(queued={"type": "integer", "minimum": 0}),
                        )
                    },
                    {"413": "The body is too large.", "422": "There is no such exercise."},
                    body=_of("RegradeRequest"),
                )
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `grade tokens`, or one of GitHub Actions.",
                }
            },
        },
    }


def _route(
    summary: str,
    answers: dict[str, Any],
    refusals: dict[str, str] | None = None,
    *,
    body: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    refused = sorted((_REFUSALS | (refusals or {})).items())
    route: dict[str, Any] = {"summary": summary}
    if parameters:
        route["parameters"] = parameters
    if body is not None:
        route["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    route["responses"] = answers | {status: _json(text, _of("Error")) for status, text in refused}
    return route


def _json(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _stream(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"text/event-stream": {"schema": {"type": "string"}}}}


def _of(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": _of(name)}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


if __name__ == "__main__":
    encoded = msgspec.json.format(msgspec.json.encode(document()), indent=2)
    sys.stdout.buffer.write(encoded + b"\n")
