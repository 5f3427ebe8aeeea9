"""The client of a platform: which requests it repeats, and which host gets the token."""

from __future__ import annotations

import email.message
import io
import re
import ssl
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from grader.errors import UsageError
from grader.exports.push import client
from grader.exports.push.client import (
    LONGEST_WAIT_SECONDS,
    Body,
    Client,
    NoJson,
    Points,
    PushError,
    Refused,
    TokenRefused,
    Unclear,
    form,
    parts_of,
    read_as,
    token_of,
    with_query,
)
from grader.student.client import PAUSES_SECONDS

HOST = "https://canvas.example.edu"
TOKEN = "s3cret-token"
PLACE = re.compile(r"/courses/(\d+)/assignments/(\d+)")
EXAMPLE = "https://canvas.example.edu/courses/12/assignments/34"


class Reply(io.BytesIO):
    """An answer with these Link headers."""

    def __init__(self, body: bytes, *links: str) -> None:
        super().__init__(body)
        self.headers = email.message.Message()
        for link in links:
            self.headers["Link"] = link


def failure(code: int, body: bytes = b"", **headers: str) -> urllib.error.HTTPError:
    message = email.message.Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError(HOST, code, "", message, io.BytesIO(body))


class Platform:
    """Give the answers in order, each a body, an exception or a Reply. Record requests and pauses."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.requests: list[urllib.request.Request] = []
        self.pauses: list[float] = []

    def open(self, request: urllib.request.Request, timeout: float) -> Reply:
        assert timeout > 0
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer)


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    made = Platform()
    monkeypatch.setattr(client, "opener", made)
    monkeypatch.setattr(time, "sleep", made.pauses.append)
    return made


@pytest.fixture
def canvas(platform: Platform) -> Client:
    return Client("Canvas", HOST, TOKEN, {"Authorization": f"Bearer {TOKEN}"}, most_bytes=1000)


# --- one request ----------------------------------------------------------------------------------


def test_a_request_has_the_token_the_fields_and_the_accept_header(
    platform: Platform, canvas: Client
) -> None:
    platform.answers = [b"1", b"2", b""]
    assert canvas.ask("PUT", HOST + "/a", [("x", "a b"), ("y", "ü")], accept="text/x").value == 1
    assert canvas.ask("POST", HOST + "/b", Body(b"{}", "application/json")).value == 2
    assert canvas.ask("DELETE", HOST + "/c", answers=False).value is None
    first, second, third = platform.requests
    assert (first.get_method(), first.data) == ("PUT", b"x=a+b&y=%C3%BC")
    assert first.get_header("Authorization") == f"Bearer {TOKEN}"
    assert first.get_header("Content-type") == form([]).kind
    assert first.get_header("Accept") == "text/x"
    assert (second.data, second.get_header("Content-type")) == (b"{}", "application/json")
    assert (third.data, third.get_header("Content-type")) == (None, None)


@pytest.mark.parametrize(
    "url",
    ["https://evil.example/x", "http://canvas.example.edu/x", HOST + ":444/x", "https://[", "/x"],
)
def test_no_other_host_gets_the_token(platform: Platform, canvas: Client, url: str) -> None:
    with pytest.raises(PushError, match="another host: the token is not sent there"):
        canvas.read(url)
    assert platform.requests == []


def test_a_change_without_an_answer_is_not_sent_again(platform: Platform, canvas: Client) -> None:
    for lost in (TimeoutError("timed out"), failure(502, b"busy")):
        platform.answers = [lost]
        with pytest.raises(Unclear):
            canvas.ask("PUT", HOST, [])
    assert (len(platform.requests), platform.pauses) == (2, [])


def test_a_request_that_changes_nothing_is_sent_again(platform: Platform, canvas: Client) -> None:
    platform.answers = [TimeoutError("timed out"), failure(503), b"[1]"]
    assert canvas.read(HOST).value == [1]
    assert platform.pauses == list(PAUSES_SECONDS[:2])
    platform.answers = [failure(503, b"busy") for _ in range(len(PAUSES_SECONDS) + 1)]
    with pytest.raises(Unclear, match="Canvas answers 503: busy"):
        canvas.read(HOST)
    assert platform.answers == []
    assert [request.get_method() for request in platform.requests] == ["GET"] * len(
        platform.requests
    )
    platform.answers = [b"2"]
    canvas.read(HOST, [("a", "b")])
    assert platform.requests[-1].get_method() == "POST"


def test_a_change_also_waits_for_a_rate_limit(platform: Platform, canvas: Client) -> None:
    limited = [
        failure(429, Retry_After="7"),
        failure(403, b"403 Rate Limit Exceeded"),
        failure(429),
    ]
    platform.answers = [*limited, b"3"]
    assert canvas.ask("PUT", HOST, []).value == 3
    assert platform.pauses == [
        7,
        PAUSES_SECONDS[1],
        PAUSES_SECONDS[min(3, len(PAUSES_SECONDS)) - 1],
    ]


def test_a_longer_wait_ends_the_push(platform: Platform, canvas: Client) -> None:
    platform.answers = [failure(429, Retry_After=str(LONGEST_WAIT_SECONDS)), b"1"]
    canvas.ask("PUT", HOST, [])
    platform.answers = [failure(429, Retry_After=str(LONGEST_WAIT_SECONDS + 1))]
    with pytest.raises(PushError, match="asks to wait 121 seconds"):
        canvas.ask("PUT", HOST, [])
    platform.answers = [failure(429, Retry_After="0") for _ in range(21)]
    with pytest.raises(PushError, match="limits requests"):
        canvas.ask("PUT", HOST, [])
    assert platform.answers == []


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (
            failure(401, b'{"errors": [{"message": "Invalid"}]}'),
            TokenRefused,
            "refuses the token: Invalid",
        ),
        (failure(403, b"no"), Refused, "Canvas answers 403: no"),
        (failure(404), Refused, "Canvas answers 404: without a word"),
        (
            failure(302, Location="/login"),
            PushError,
            "redirects to /login, where the token is not sent",
        ),
        (urllib.error.URLError("no route"), Unclear, "cannot be reached"),
        (
            urllib.error.URLError(ssl.SSLCertVerificationError("bad")),
            PushError,
            "cannot be reached",
        ),
    ],
)
def test_failures_have_kinds_and_messages(
    platform: Platform, canvas: Client, error: Exception, kind: type[PushError], told: str
) -> None:
    platform.answers = [error]
    with pytest.raises(PushError, match=re.escape(told)) as raised:
        canvas.ask("PUT", HOST, [])
    assert type(raised.value) is kind


def test_a_page_instead_of_json_is_not_requested_again(platform: Platform, canvas: Client) -> None:
    platform.answers = [b"<html>Sign in, please", b"\xff"]
    with pytest.raises(NoJson, match="an answer that is not Canvas's: <html>Sign in, please"):
        canvas.read(HOST)
    with pytest.raises(NoJson):
        canvas.read(HOST)
    assert platform.pauses == []


def test_the_size_of_an_answer_is_limited(platform: Platform, canvas: Client) -> None:
    platform.answers = [b'"' + b"x" * 998 + b'"', b'"' + b"x" * 999 + b'"']
    assert canvas.read(HOST).length == 1000
    with pytest.raises(PushError, match="larger than 1,000 bytes"):
        canvas.read(HOST)


# --- lists ----------------------------------------------------------------------------------------


def next_page(path: str) -> str:
    return f'<{HOST}/first>; rel="first", <{HOST}{path}>; rel="next"'


def test_a_list_is_read_while_it_names_a_next_page(platform: Platform, canvas: Client) -> None:
    platform.answers = [Reply(b"1", next_page("/2")), Reply(b"2", next_page("/3")), Reply(b"3")]
    assert list(canvas.pages(HOST + "/1", accept="text/x")) == [1, 2, 3]
    assert [r.full_url for r in platform.requests] == [f"{HOST}/{page}" for page in (1, 2, 3)]
    assert {r.get_header("Accept") for r in platform.requests} == {"text/x"}


def test_longer_pages_are_requested_only_if_there_are_several(
    platform: Platform, canvas: Client
) -> None:
    platform.answers = [
        Reply(b"1"),
        Reply(b"2", next_page("/2")),
        Reply(b"4", next_page("/3")),
        b"5",
    ]
    assert list(canvas.pages(HOST + "/1", longer="limit=9")) == [1]
    assert list(canvas.pages(HOST + "/1", longer="limit=9")) == [4, 5]
    assert [r.full_url for r in platform.requests[1:]] == [
        HOST + "/1",
        HOST + "/1?limit=9",
        HOST + "/3",
    ]


def test_a_circular_or_too_long_list_ends(platform: Platform, canvas: Client) -> None:
    platform.answers = [Reply(b"1", next_page("/2")), Reply(b"2", next_page("/1"))]
    assert list(canvas.pages(HOST + "/1")) == [1, 2]
    long = b'"' + b"x" * 600 + b'"'
    platform.answers = [Reply(long, next_page("/2")), Reply(long)]
    with pytest.raises(PushError, match="too many or too long pages"):
        list(canvas.pages(HOST + "/1"))


# --- texts and addresses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message": "No."}', "No."),
        (b'{"error": {"code": 3, "message": "Deep."}}', "Deep."),
        (b'{"errors": [{}, {"message": "Listed."}]}', "Listed."),
        (b'{"error_description": "Why", "error": "what"}', "Why"),
        (b'{"status": "odd"}', '{"status": "odd"}'),
        (b"a\x1b[2J\n b " + TOKEN.encode(), "a\\x1b[2J b …"),
        (b"", "without a word"),
        (b"x" * 400, "x" * 299 + "…"),
    ],
)
def test_the_words_of_a_refusal_are_one_harmless_line(
    canvas: Client, body: bytes, words: str
) -> None:
    assert canvas.words_of(body) == words


def test_an_error_about_odd_values_names_the_answer() -> None:
    assert read_as({"a": "1.5"}, dict[str, Points], "a grade") == {"a": 1.5}
    with pytest.raises(PushError, match=r"^This is not a grade: Expected "):
        read_as({"a": "1e300"}, dict[str, Points], "a grade")


def test_a_query_is_appended_to_an_existing_one() -> None:
    assert with_query(HOST + "/a", "x=1") == HOST + "/a?x=1"
    assert with_query(HOST + "/a?y=2#z", "x=1") == HOST + "/a?y=2&x=1#z"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", "Put the token into the environment variable T"),
        ("a b", "T is not a token"),
        ("ü", "T is not"),
    ],
)
def test_a_token_is_one_word_in_the_environment(value: str, told: str) -> None:
    assert token_of("T", {"T": f" {TOKEN}\n"}, "Look there.") == TOKEN
    with pytest.raises(UsageError, match=told):
        token_of("T", {"T": value}, "Look there.")
    with pytest.raises(UsageError, match="Look there"):
        token_of("T", {}, "Look there.")


def test_the_address_of_an_assignment_is_split() -> None:
    base, place = parts_of(f" {HOST}/lms/courses/1/assignments/2?module=3 ", PLACE, EXAMPLE)
    assert (base, place.groups()) == (HOST + "/lms", ("1", "2"))
    assert parts_of("http://127.0.0.1:80/courses/1/assignments/2", PLACE, EXAMPLE)[1][1] == "1"


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (
            HOST + "/courses/1",
            "is not the address of an assignment: copy it from your browser, as https",
        ),
        ("ftp://canvas.example.edu/courses/1/assignments/2", "is not the address"),
        ("https://me@canvas.example.edu/courses/1/assignments/2", "is not the address"),
        ("https:///courses/1/assignments/2", "is not the address"),
        ("http://canvas.example.edu/courses/1/assignments/2", "is not https: others"),
    ],
)
def test_another_address_is_refused(address: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parts_of(address, PLACE, EXAMPLE)
