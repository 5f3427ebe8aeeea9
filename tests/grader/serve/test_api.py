"""The HTTP API: submissions and verdicts, the queue, rights, malformed requests, and rate limits."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grader.gradebook import Gradebook
from grader.gradebook.review import Reason
from grader.results import Result
from grader.serve.turns import MAX_REFUSED
from tests.grader.serve.conftest import (
    PATIENCE_SECONDS,
    PLAIN,
    SOLUTION,
    Served,
    in_json,
    marked,
    sql,
)

GREETING = {"text/greeting.py": SOLUTION}
COUNTING = (PLAIN / "solutions" / "text" / "word_count.py").read_bytes()
WRONG = (PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py").read_bytes()
STUB = (PLAIN / "exercises" / "text" / "greeting.py").read_bytes()


def test_a_file_is_accepted_and_judged(served: Served) -> None:
    answer = served.hand_in("ada", GREETING)
    assert answer.status == 202
    assert answer.headers["Location"] == f"/api/submissions/{answer.json['id']}"
    judged = served.judged("ada", answer.json["id"])
    import msgspec

    result = msgspec.convert(judged["result"], Result)
    assert [(e.name, e.score, e.status.value) for e in result.exercises] == [
        ("greeting", 2.5, "passed")
    ]
    assert (result.score, result.max_score) == (2.5, 2.5)
    standing = served.ask("GET", "/api/standing", "ada").json
    (row,) = (each for each in standing["exercises"] if each["name"] == "greeting")
    assert (row["score"], row["attempts"], row["open"]) == (2.5, 1, False)
    assert standing["submissions"][0]["id"] == answer.json["id"]
    # The server also writes the student's result file, as `grade batch` does, but after it answers.
    file, deadline = served.results / "results" / "ada.json", time.monotonic() + 60
    while json.loads(file.read_bytes())["score"] != 2.5:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_hidden_tests_show_students_only_the_mistake(served: Served) -> None:
    judged = served.judged("bob", served.hand_in("bob", {"word_count.py": WRONG}).json["id"])
    (exercise,) = judged["result"]["exercises"]
    hidden = [test for test in exercise["tests"] if test["visibility"] == "hidden"]
    failed = [test for test in hidden if test["outcome"] == "failed"]
    assert failed
    assert all(test["title"] and not test["printed"] for test in hidden)
    assert {test["duration_seconds"] for test in hidden} == {0.0}
    # The gradebook keeps the full message. The student reads only the mistake.
    from grader.gradebook import Gradebook

    with Gradebook.open_beside_writer(served.results) as book:
        (verdict,) = book.tables.verdicts_of("bob")["word_count"].values()
        kept = {test.name: test for test in verdict.result.tests}
    assert any(kept[test["name"]].message != test["message"] for test in failed)


def test_a_file_judged_before_gets_its_verdict_at_once(served: Served) -> None:
    first = served.hand_in("ada", {"greeting.py": marked(1)})
    served.judged("ada", first.json["id"])
    served.pause()
    try:
        again = served.hand_in("bob", {"greeting.py": marked(1)}).json
        stub = served.hand_in("bob", {"greeting.py": STUB}).json
        broken = served.hand_in("bob", {"greeting.py": b"def greeting(:\n"}).json
    finally:
        served.resume()
    assert again["state"] == stub["state"] == broken["state"] == "done"
    assert again["result"]["score"] == 2.5
    assert stub["result"]["exercises"][0]["status"] == "not_attempted"
    assert broken["result"]["exercises"][0]["status"] == "error"


def test_a_retry_with_the_same_key_is_one_submission(served: Served) -> None:
    key = "a-key-of-this-client"
    first = served.hand_in("ada", {"greeting.py": marked(2)}, key)
    second = served.hand_in("ada", {"greeting.py": marked(2)}, key)
    assert first.json["id"] == second.json["id"]
    assert served.hand_in("ada", {"greeting.py": marked(3)}, key).status == 422
    # Another student may use the same key.
    other = served.hand_in("bob", {"greeting.py": marked(2)}, key)
    assert other.status == 202 and other.json["id"] != first.json["id"]
    served.judged("ada", first.json["id"])


def test_a_newer_file_replaces_a_waiting_one(served: Served) -> None:
    served.pause()
    try:
        old = served.hand_in("eve", {"greeting.py": marked(4)}).json
        both = served.hand_in("eve", {"greeting.py": marked(5), "word_count.py": COUNTING}).json
        other = served.hand_in("bob", {"greeting.py": marked(6)}).json
        assert now(served, "eve", old["id"])["state"] == "replaced"
        places = [
            each["place"]
            for handed, who in ((both, "eve"), (other, "bob"))
            for each in now(served, who, handed["id"])["exercises"].values()
        ]
        queue = served.ask("GET", "/api/staff/queue", "staff").json
        assert (queue["waiting"], queue["paused"], queue["running"]) == (3, True, [])
        # Students take turns, so no two jobs share a place.
        assert sorted(places) == [1, 2, 3]
    finally:
        served.resume()
    assert served.judged("eve", both["id"])["result"]["score"] == 12.5
    served.judged("bob", other["id"])
    # The replaced file counts as an attempt, but was never judged.
    standing = served.ask("GET", "/api/standing", "eve").json
    assert {each["name"]: each["attempts"] for each in standing["exercises"]}["greeting"] == 2
    query = "SELECT count(*) FROM grades JOIN submissions USING (attempt) WHERE id = "
    (count,) = sql(served, f"{query}'{old['id']}'")
    assert count == (0,)


def now(served: Served, who: str, id_: str) -> Any:
    """Return a submission as it is now, judged or not."""
    return served.ask("GET", f"/api/submissions/{id_}", who).json


def test_an_archive_is_unpacked(served: Served) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("work/text/greeting.py", marked(7))
        archive.writestr("work/notes.txt", "hello")
    answer = served.hand_in("ada", {"mine.zip": packed.getvalue()})
    assert list(answer.json["exercises"]) == ["greeting"]
    assert served.judged("ada", answer.json["id"])["result"]["score"] == 2.5


def test_valid_files_are_accepted_beside_an_invalid_one(served: Served) -> None:
    answer = served.hand_in("ada", {"greeting.py": marked(8), "word_count.py": b"#" * 200_001})
    assert list(answer.json["exercises"]) == ["greeting"]
    assert "200,000 bytes" in answer.json["problems"]["word_count"]
    served.judged("ada", answer.json["id"])


def test_work_beside_a_stub_is_judged_and_reported(
    serving: Callable[..., Served],
) -> None:
    # A server of its own: the class page lists only a few entries per student.
    served = serving().start()
    told = "Judged: greeting (1).py, since greeting.py is still the stub."
    answer = served.hand_in("ada", {"greeting.py": STUB, "greeting (1).py": marked(91)})
    assert answer.json["problems"] == {"greeting": told}
    result = served.judged("ada", answer.json["id"])["result"]["exercises"][0]
    assert (result["score"], result["note"]) == (2.5, told)
    other = served.hand_in("bob", {"greeting.py": STUB, "hw3.py": marked(92)})
    assert "Also handed in: hw3.py" in other.json["problems"]["greeting"]
    served.judged("bob", other.json["id"])
    with Gradebook.open_beside_writer(served.results) as book:
        kinds = {(e.student, e.exercises): e.kind for e in book.attention()}
    assert kinds == {
        ("ada", ("greeting",)): Reason.OTHER_FILE,
        ("bob", ("greeting",)): Reason.MISNAMED,
    }
    page = served.ask("GET", "/class", "staff").body.decode()
    assert "To look at" in page and told in page and "hw3.py" in page
    assert '<li><a href="/class/students/ada"><bdi>ada</bdi></a> greeting' in page
    # A right answer clears the entry.
    again = served.hand_in("ada", {"greeting.py": marked(93)})
    served.judged("ada", again.json["id"])
    page = served.ask("GET", "/class", "staff").body.decode()
    assert told not in page and "hw3.py" in page


def test_progress_is_streamed_until_the_verdict(served: Served) -> None:
    served.pause()
    handed = served.hand_in("bob", {"word_count.py": COUNTING + b"# streamed\n"}).json
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=240)
    connection.request(
        "GET",
        f"/api/submissions/{handed['id']}/events",
        headers={"Authorization": f"Bearer {served.tokens['bob']}"},
    )
    answer = connection.getresponse()
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    stream = events(answer)
    name, data = next(stream)
    assert name == "state" and data["exercises"]["word_count"] == {"state": "waiting", "place": 1}
    served.resume()
    told = list(stream)
    connection.close()
    tests = [data for name, data in told if name == "test"]
    assert tests, "no test was reported as it ended"
    assert all(set(test) == {"exercise", "ended", "of"} for test in tests)
    last = told[-1]
    assert last[0] == "state" and last[1]["state"] == "done" and last[1]["result"]["score"] == 10


def events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Yield the events of a stream until it ends."""
    name = ""
    for line in answer:
        if line.startswith(b"event: "):
            name = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            yield name, json.loads(line[6:])


def test_equal_files_of_two_students_both_get_the_verdict(served: Served) -> None:
    """The second file needs no judge by then, but its stream must end as well."""
    served.pause()
    same = {"greeting.py": marked(94)}
    ids = {who: served.hand_in(who, same).json["id"] for who in ("ada", "eve")}
    with contextlib.ExitStack() as stack:
        stack.callback(served.resume)
        answers = {}
        for who, id_ in ids.items():
            connection = http.client.HTTPConnection(
                "127.0.0.1", served.port, timeout=PATIENCE_SECONDS
            )
            stack.enter_context(contextlib.closing(connection))
            headers = {"Authorization": f"Bearer {served.tokens[who]}"}
            connection.request("GET", f"/api/submissions/{id_}/events", headers=headers)
            answers[who] = connection.getresponse()
        served.resume()
        for answer in answers.values():
            *_, (name, last) = events(answer)
            assert name == "state" and last["state"] == "done"


# --- rights ---------------------------------------------------------------------------------------

OWN = ("/api/submissions/{id}", "/api/submissions/{id}/events")
STAFF = (
    ("GET", "/api/staff/queue"),
    ("GET", "/api/staff/submissions"),
    ("GET", "/api/staff/students"),
    ("GET", "/api/staff/events"),
    ("POST", "/api/staff/pause"),
    ("POST", "/api/staff/resume"),
    ("POST", "/api/staff/regrade"),
    ("GET", "/metrics"),
)
WRITING = (
    ("GET", "/api/exercises/greeting/draft"),
    ("PUT", "/api/exercises/greeting/draft"),
    ("GET", "/api/exercises/greeting/versions/1"),
    ("POST", "/api/exercises/greeting/practice"),
    ("POST", "/api/exercises/greeting/plot"),
)
OF_STUDENTS = (
    *WRITING,
    ("POST", "/api/submissions"),
    ("GET", "/api/standing"),
    *(("GET", each) for each in OWN),
)


def test_another_students_submission_is_not_found(served: Served) -> None:
    id_ = served.hand_in("ada", GREETING).json["id"]
    served.judged("ada", id_)
    for path in OWN:
        own, other = (served.ask("GET", path.format(id=id_), who) for who in ("ada", "bob"))
        nothing = served.ask("GET", path.format(id="0" * 32), "bob")
        assert own.status == 200
        assert (other.status, other.body) == (nothing.status, nothing.body)
        assert other.status == 404
    page = served.ask("GET", "/", "bob").body.decode()
    assert id_ not in page and "Ada Test" not in page


@pytest.mark.parametrize(("method", "path"), [*STAFF, *OF_STUDENTS])
def test_a_valid_token_is_required(served: Served, method: str, path: str) -> None:
    path = path.format(id="0" * 32)
    for token in ("", "0" * 32, "x", "a.b.c", "é".encode().decode("latin-1"), "0" * 5000):
        answer = served.ask(method, path, token, b"{}" if method != "GET" else None)
        assert answer.status == 401, (token, answer)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert set(answer.json) == {"error"}


@pytest.mark.parametrize(
    "path", ["/class", "/class/students/ada", "/class/export", "/exercise/greeting"]
)
def test_a_page_lets_people_sign_in_whose_session_ended(served: Served, path: str) -> None:
    answer = served.ask("GET", path, "", None, {"Cookie": "lab_bench_token=old"})
    page = answer.body.decode()
    assert answer.status == 401 and 'action="/sign-in"' in page
    assert "This token is not valid" in page


@pytest.mark.parametrize(("method", "path"), [*STAFF, ("GET", "/class"), ("POST", "/class")])
def test_students_cannot_use_routes_of_staff(served: Served, method: str, path: str) -> None:
    assert served.ask(method, path, "ada").status == 403
    assert not served.ask("GET", "/api/staff/queue", "staff").json["paused"]


def test_staff_can_try_an_exercise_without_saving(served: Served) -> None:
    body = b'{"source": "x = 1", "revision": 0}'
    assert served.ask("PUT", "/api/exercises/greeting/draft", "staff", body).status == 403
    shown = served.ask("GET", "/api/exercises/greeting/draft", "staff").json
    assert (shown["source"], shown["revision"]) == (shown["stub"], 0)
    assert served.ask("GET", "/api/exercises/greeting/versions/0", "staff").status == 404
    assert served.ask("GET", "/exercise/greeting/file", "staff").body == shown["stub"].encode()
    page = served.ask("GET", "/exercise/greeting", "staff").body.decode()
    assert "as staff" in page and 'id="hand-in"' not in page
    assert 'id="hand-in"' in served.ask("GET", "/exercise/greeting", "ada").body.decode()


def test_staff_cannot_submit(served: Served) -> None:
    assert served.hand_in("staff", GREETING).status == 403


def test_a_cookie_signs_in_but_other_origins_cannot_use_it(
    served: Served,
) -> None:
    here = f"http://127.0.0.1:{served.port}"
    form = f"token={served.tokens['ada']}".encode()
    answer = served.ask("POST", "/sign-in", body=form, headers={"Origin": here})
    assert answer.status == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
    cookie = cookie.partition(";")[0]
    assert "Ada Test" in served.ask("GET", "/", headers={"Cookie": cookie}).body.decode()
    behind_tls = here.replace("http:", "https:")
    secure = served.ask("POST", "/sign-in", body=form, headers={"Origin": behind_tls})
    assert "Secure" in secure.headers["set-cookie"]
    for origin in ("http://evil.example", "null", "", "http://["):
        headers = {"Cookie": cookie, "Origin": origin}
        assert served.ask("POST", "/api/submissions", "", in_json(GREETING), headers).status == 403
        assert served.ask("POST", "/sign-in", body=form, headers={"Origin": origin}).status == 403
        assert served.ask("POST", "/sign-out", headers=headers).status == 403
    headers = {"Cookie": cookie, "Origin": here}
    assert served.ask("POST", "/api/submissions", "", in_json(GREETING), headers).status == 202


# --- malformed requests ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "cannot be read"),
        (b"{", 400, "cannot be read"),
        (b"[]", 400, "cannot be read"),
        (b"\xff\xfe{}", 400, "cannot be read"),
        (b"[" * 100_000, 400, "cannot be read"),
        (b'{"files": {"greeting.py": 7}}', 400, "cannot be read"),
        (b'{"files": {"greeting.py": "not base64!"}}', 400, "cannot be read"),
        (b'{"files": {"greeting.py": "eA=="}, "student": "bob"}', 400, "student"),
        (b'{"files": {}}', 400, "No files"),
        (in_json({"../greeting.py": b"x"}), 400, "not a file name here"),
        (in_json({"/etc/greeting.py": b"x"}), 400, "not a file name here"),
        (in_json({"a\\greeting.py": b"x"}), 400, "not a file name here"),
        (in_json({"gree\x00ting.py": b"x"}), 400, "not a file name here"),
        (in_json({"é" * 150 + ".py": b"x"}), 400, "not a file name here"),
        (in_json({"other.py": b"x = 1\n"}), 422, "other.py"),
        (in_json({"greeting.py": b"#" * 200_001}), 422, "200,000 bytes"),
        (in_json({"mine.zip": b"PK\x03\x04 no archive"}), 422, "mine.zip"),
        (in_json({f"a{n}.py": b"" for n in range(501)}), 413, "501 files"),
        (in_json({"greeting.py": b"#" * 3_000_000}), 413, "larger than"),
    ],
    ids=range(19),
)
def test_a_malformed_body_is_refused_with_a_reason(
    served: Served, body: bytes, status: int, said: str
) -> None:
    before = sql(served, "SELECT count(*) FROM attempts")
    answer = served.ask("POST", "/api/submissions", "ada", body)
    assert (answer.status, said in answer.json["error"]) == (status, True), answer
    assert sql(served, "SELECT count(*) FROM attempts") == before
    assert served.ask("GET", "/healthz").status == 200


def test_an_unknown_file_name_is_answered_with_the_valid_names(served: Served) -> None:
    said = served.hand_in("ada", {"other.py": b"x = 1\n"}).json["error"]
    assert "No file has the name of an exercise. Handed in instead: other.py. The names are" in said
    for stub in (PLAIN / "exercises").glob("*/*.py"):
        assert stub.name in said, said


def test_every_invalid_file_is_named(served: Served) -> None:
    large = b"#" * 200_001
    said = served.hand_in("ada", {"greeting.py": large, "word_count.py": large}).json["error"]
    assert "greeting.py is larger" in said and "word_count.py is larger" in said


def test_unknown_addresses_and_methods_are_refused(served: Served) -> None:
    assert served.ask("GET", "/api/nothing", "ada").status == 404
    assert served.ask("GET", "/nothing", "ada").status == 404
    assert served.ask("DELETE", "/api/standing", "ada").status == 405
    assert served.ask("GET", "/static/..%2fbase.html").status == 404
    assert (
        served.ask("POST", "/api/submissions", "ada", b"{}", {"Idempotency-Key": "x"}).status == 400
    )
    answer = served.ask("POST", "/api/staff/regrade", "staff", b'{"exercises": ["nothing"]}')
    assert answer.status == 422


def test_an_incomplete_request_leaves_no_attempt(served: Served) -> None:
    before = sql(served, "SELECT count(*) FROM attempts")
    body = in_json({"greeting.py": marked(9)})
    head = (
        f"POST /api/submissions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.tokens['ada']}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    for part in (b"", body[: len(body) // 2]):
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(head.encode() + part)
    for nonsense in (b"\x16\x03\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nHost"):
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(nonsense)
    assert served.ask("GET", "/healthz").status == 200
    assert sql(served, "SELECT count(*) FROM attempts") == before


# --- rate limits ----------------------------------------------------------------------------------


def test_the_cool_down_says_when_to_retry(serving: Callable[..., Served]) -> None:
    served = serving(policy='most_submissions = 2\ncool_down = "1 hour"\n').start()
    assert served.hand_in("ada", {"greeting.py": marked(1)}).status == 202
    soon = served.hand_in("ada", {"greeting.py": marked(2)})
    assert soon.status == 429 and 3000 < int(soon.headers["Retry-After"]) <= 3600
    # Another exercise and another student are not affected.
    assert served.hand_in("ada", {"word_count.py": COUNTING}).status == 202
    assert served.hand_in("bob", {"greeting.py": marked(2)}).status == 202
    # The other file of a submission is accepted, and a retry is the same submission.
    both = {"greeting.py": marked(3), "word_count.py": COUNTING}
    part, again = (served.hand_in("bob", both, key="two-files") for _ in range(2))
    assert part.status == again.status == 202 and part.json["id"] == again.json["id"]
    assert list(part.json["exercises"]) == ["word_count"]
    told = part.json["problems"]["greeting"]
    assert told.startswith("greeting was not accepted: greeting was handed in a moment ago")
    assert again.json["problems"].keys() == {"greeting"}
    standing = served.ask("GET", "/api/standing", "ada").json
    assert (standing["most_submissions"], standing["cool_down_seconds"]) == (2, 3600.0)


def test_the_daily_limit_says_when_to_retry(serving: Callable[..., Served]) -> None:
    served = serving(policy="most_submissions = 1\n").start()
    assert served.hand_in("ada", {"greeting.py": marked(1)}).status == 202
    many = served.hand_in("ada", {"greeting.py": marked(2)})
    assert many.status == 429 and 80_000 < int(many.headers["Retry-After"]) <= 86_400
    assert "was handed in 1 time within 24 hours, the limit." in many.json["error"], many.json


def test_no_waiting_file_is_replaced_if_the_best_counts(
    serving: Callable[..., Served],
) -> None:
    served = serving(policy='attempts = "best"\n').start()
    served.pause()
    handed = [served.hand_in("ada", {"greeting.py": marked(n)}).json["id"] for n in range(3)]
    served.resume()
    for id_ in handed:
        assert served.judged("ada", id_)["result"]["score"] == 2.5


def test_repeated_invalid_submissions_are_rate_limited(serving: Callable[..., Served]) -> None:
    served = serving().start()
    statuses = [served.hand_in("eve", {"essay.txt": b"?"}).status for _ in range(MAX_REFUSED)]
    assert set(statuses) == {422}
    too_many = served.hand_in("eve", {"essay.txt": b"?"})
    assert too_many.status == 429 and int(too_many.headers["Retry-After"]) > 0
    assert served.hand_in("ada", GREETING).status == 202, "the limit is only eve's"


def test_a_stub_submitted_after_work_is_shown_to_staff(serving: Callable[..., Served]) -> None:
    served = serving().start()
    served.judged("ada", served.hand_in("ada", {"greeting.py": SOLUTION}).json["id"])
    stub = (PLAIN / "exercises" / "text" / "greeting.py").read_bytes()
    assert served.hand_in("ada", {"greeting.py": stub}).status == 202
    page = served.ask("GET", "/class", "staff").body.decode()
    assert "The newest file has no work" in page
