"""The OpenAPI document agrees with the server's routes and answers, and no random request breaks the server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

import grader
from grader.serve.api import Api, DraftRequest, PracticeRequest, RegradeRequest
from grader.serve.app import routes
from grader.serve.hand_in import Body
from grader.serve.messages import (
    AnswerRequest,
    ClassCorrectionRequest,
    ClassState,
    CorrectionRequest,
    ExtensionRequest,
    ExtensionsState,
    Marking,
    MarkRequest,
    MarkSaved,
    PointsState,
    StaffInfo,
    StaffRequest,
)
from grader.serve.pages import Pages
from grader.serve.sign_in.door import Door
from grader.serve.staff_api import StaffApi
from grader.serve.staff_pages import StaffPages
from grader.serve.summary import StudentRow
from grader.serve.views import (
    ClassSubmission,
    DraftAnswer,
    DraftSaved,
    OwnStanding,
    PracticeAnswer,
    QueueAnswer,
    SubmissionAnswer,
    VersionAnswer,
)
from tests.grader.serve.conftest import SOLUTION, Answer, Served, in_json

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docs" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(FILE.read_bytes())
# The bodies of requests and answers. msgspec gives their schemas.
STRUCTS = (
    Body,
    SubmissionAnswer,
    OwnStanding,
    QueueAnswer,
    ClassSubmission,
    StudentRow,
    RegradeRequest,
    DraftRequest,
    DraftAnswer,
    DraftSaved,
    VersionAnswer,
    PracticeRequest,
    PracticeAnswer,
    StaffInfo,
    PointsState,
    CorrectionRequest,
    ClassState,
    ClassCorrectionRequest,
    ExtensionsState,
    ExtensionRequest,
    StaffRequest,
    AnswerRequest,
    Marking,
    MarkRequest,
    MarkSaved,
)
OPERATIONS = [
    (path, method, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


TEXT = json.dumps(SOLUTION.decode()).encode()
BODIES = {
    "submissions": in_json({"greeting.py": SOLUTION}),
    "draft": b'{"source": %s, "revision": 0}' % TEXT,
    "practice": b'{"source": %s}' % TEXT,
}


def generated() -> dict[str, Any]:
    """The document with the current version and schemas. Its paths are written by hand."""
    _, schemas = msgspec.json.schema_components(STRUCTS, ref_template="#/components/schemas/{name}")
    schemas["Error"] = DOCUMENT["components"]["schemas"]["Error"]
    components = {**DOCUMENT["components"], "schemas": schemas}
    info = {**DOCUMENT["info"], "version": grader.__version__}
    written = msgspec.json.encode({**DOCUMENT, "info": info, "components": components})
    return msgspec.json.decode(written, type=dict[str, Any])


def test_the_schemas_are_up_to_date() -> None:
    """To update them, run `python -m tests.grader.serve.test_openapi`."""
    assert generated() == DOCUMENT


def test_the_document_has_exactly_the_routes_under_api() -> None:
    there: set[tuple[str, str]] = set()
    kinds = (Api, Pages, StaffPages, Door, StaffApi)
    for route in routes(*(kind.__new__(kind) for kind in kinds)):  # type: ignore[arg-type]
        assert isinstance(route, Route)
        if route.path.startswith("/api/"):
            there |= {(route.path, m.lower()) for m in route.methods or () if m != "HEAD"}
    assert there == {(path, method) for path, method, _ in OPERATIONS}


def check(path: str, method: str, answer: Answer) -> None:
    """Check that the document has this status and content type for the route, and that the body is valid."""
    responses = DOCUMENT["paths"][path][method]["responses"]
    assert str(answer.status) in responses, (path, method, answer)
    content = responses[str(answer.status)]["content"]
    kind = (answer.headers["Content-Type"] or "").partition(";")[0]
    assert kind in content, (path, method, answer)
    if kind == "application/json":
        schema = {**content[kind]["schema"], "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json)


def test_answers_match_the_document(served: Served) -> None:
    handed = served.hand_in("ada", {"greeting.py": SOLUTION})
    check("/api/submissions", "post", handed)
    served.judged("ada", handed.json["id"])
    points = "student=ada&exercise=greeting"
    for path, method, _ in OPERATIONS:
        if path == "/api/staff/events":
            continue  # this stream does not end
        if path.endswith("/plot"):
            continue  # this course has no plots: see test_drawing.py
        who = "staff" if "staff" in path else "ada"
        address = path.replace("{id}", handed.json["id"]).replace("{exercise}", "greeting")
        body = BODIES.get(path.rpartition("/")[2], b"{}") if method != "get" else None
        address = address.replace("{number}", "0")
        if path == "/api/staff/corrections" and method == "get":
            address += f"?{points}"
        elif path == "/api/staff/corrections":
            state = served.ask("GET", f"{path}?{points}", "staff").json
            sent = {"student": "ada", "exercise": "greeting", "seen": state["seen"]}
            body = json.dumps({**sent, "comment": "Well done."}).encode()
        elif path == "/api/staff/corrections/class" and method == "get":
            address += "?exercise=greeting"
        elif path == "/api/staff/corrections/class":
            state = served.ask("GET", f"{path}?exercise=greeting", "staff").json
            sent = {"exercise": "greeting", "seen": state["seen"]}
            body = json.dumps({**sent, "comment": "Well done."}).encode()
        elif path == "/api/staff/extensions":
            address += "?student=ada" if method == "get" else ""
        answer = served.ask(method.upper(), address, who, body)
        if path == "/api/staff/extensions" and method == "post":
            # Nothing is due in this course: see test_extensions.py.
            assert answer.status in (400, 422), (path, answer)
            check(path, method, answer)
            continue
        if path == "/api/staff/requests" and method == "post":
            # There are no requests here: see test_on_server.py.
            assert answer.status in (400, 404), (path, answer)
            check(path, method, answer)
            continue
        if path.startswith("/api/staff/marks/") and method == "post":
            listed = served.ask("GET", address, who).json
            sent = {"file": listed["file"]["file"], "seen": listed["file"]["seen"], "do": "stop"}
            answer = served.ask("POST", address, who, json.dumps(sent).encode())
        assert answer.status < 300, (path, answer)
        check(path, method, answer)
    served.resume()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4)
    ),
    max_leaves=12,
)
names = st.text(max_size=40) | st.sampled_from(
    ["greeting.py", "text/word_count.py", "a.zip", "../x.py", "greeting.ipynb", "GREETING.PY"]
)
contents = st.binary(max_size=200).map(lambda data: in_json({"x": data})[16:-3].decode())
bodies = st.one_of(
    st.binary(max_size=200),
    anything.map(lambda value: json.dumps(value).encode()),
    st.builds(
        lambda files, more: json.dumps({"files": files, **more}).encode(),
        st.dictionaries(names, contents | st.text(max_size=20), max_size=4),
        st.just({}) | st.dictionaries(st.text(max_size=8), anything, max_size=1),
    ),
    st.builds(
        lambda source, revision, more: json.dumps(
            {"source": source, "revision": revision, **more}
        ).encode(),
        st.text(max_size=200) | st.just("\ud800") | anything,
        st.integers(-2, 5) | anything,
        st.just({}) | st.just({"keep": True}),
    ),
    st.builds(lambda source: json.dumps({"source": source}).encode(), st.text(max_size=200)),
    st.builds(
        lambda value: json.dumps({"exercises": value}).encode(),
        st.lists(st.sampled_from(["greeting", "word_count"]) | st.text(max_size=9)) | anything,
    ),
)
visible = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=120)


@pytest.mark.thorough
@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    operation=st.sampled_from(
        [(path, method) for path, method, _ in OPERATIONS if path != "/api/staff/events"]
    ),
    who=st.sampled_from(["ada", "bob", "staff", ""]) | visible,
    id_=visible.filter(lambda text: not set(text) & set("/?#%"))
    | st.sampled_from(["0" * 32, "greeting", "word_count"]),
    body=bodies,
    key=st.just("") | visible,
)
def test_no_request_breaks_the_server(
    served: Served, operation: tuple[str, str], who: str, id_: str, body: bytes, key: str
) -> None:
    path, method = operation
    address = re.sub(r"{\w+}", lambda _: id_ or "0", path)
    headers = {"Idempotency-Key": key} if key else {}
    answer = served.ask(method.upper(), address, who, body if method != "get" else None, headers)
    if path.endswith("/pause"):
        # The stream of a practice run would wait for its verdict.
        served.resume()
    if id_ in (".", ".."):
        return  # they resolve to another address
    assert answer.status < 500, (address, body, answer)
    check(path, method, answer)


if __name__ == "__main__":
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(generated()), indent=2) + b"\n")
