"""What all routes share: clients' addresses, bounded bodies, forms, answers and events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from email import _header_value_parser
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from grader.serve import http
from grader.serve.http import (
    Refusal,
    Upload,
    answered,
    body_of,
    busy,
    client_address,
    decoded,
    event,
    form_of,
    network_of,
    upload_of,
)


def request(
    *chunks: bytes, host: str | None = "192.0.2.7", headers: Iterable[tuple[str, str]] = ()
) -> Request:
    """A request whose body arrives in these chunks."""
    waiting = [*chunks]

    async def receive() -> dict[str, Any]:
        chunk = waiting.pop(0) if waiting else b""
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "client": None if host is None else (host, 1234),
    }
    return Request(scope, receive)


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "forwarded", "address"),
    [
        ("192.0.2.7", [], "192.0.2.7"),
        ("::ffff:192.0.2.7", [], "192.0.2.7"),
        ("192.0.2.7", ["198.51.100.1"], "192.0.2.7"),  # the client wrote it itself
        ("127.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::1", ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", ["203.0.113.9, 198.51.100.1 "], "198.51.100.1"),
        ("127.0.0.1", ["203.0.113.9", "198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["unknown"], None),
        ("testclient", [], None),
        (None, [], None),
    ],
)
def test_the_clients_address_is_the_last_one_from_the_proxy(
    host: str | None, forwarded: list[str], address: str | None
) -> None:
    made = request(host=host, headers=[("X-Forwarded-For", line) for line in forwarded])
    assert str(client_address(made)) == str(address)


def test_a_household_is_one_network() -> None:
    one, other = (f"2001:db8:1:2:{rest}" for rest in ("3::4", "ffff::5"))
    assert network_of(request(host=one)) == network_of(request(host=other)) == "2001:0db8:0001:0002"
    assert network_of(request(host="2001:db8:1:3::4")) != network_of(request(host=one))
    assert network_of(request(host="192.0.2.7")) == "192.0.2.7"
    assert network_of(request(host=None)) == "None"


# --- bodies ---------------------------------------------------------------------------------------


def body(made: Request, most: int = 10) -> bytes:
    return asyncio.run(body_of(made, most))


def refused(call: Any, *arguments: Any) -> Refusal:
    with pytest.raises(Refusal) as raised:
        asyncio.run(call(*arguments))
    return raised.value


def test_a_body_up_to_the_limit_is_read() -> None:
    assert body(request(b"12345", b"67890")) == b"1234567890"
    assert body(request()) == b""
    assert body(request(b"123", headers=[("Content-Length", "10")])) == b"123"


def test_a_longer_body_is_refused_despite_its_content_length() -> None:
    for made in (
        request(b"12345", b"678901"),
        request(b"12345678901", headers=[("Content-Length", "1")]),
        request(b"12345678901", headers=[("Content-Length", "-1")]),
        request(headers=[("Content-Length", "11")]),
    ):
        refusal = refused(body_of, made, 10)
        assert (refusal.status_code, refusal.detail) == (413, "The body is larger than 10 bytes.")


def test_a_body_that_does_not_arrive_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_BODY_SECONDS", 0)

    async def never() -> dict[str, Any]:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    slow = Request({"type": "http", "headers": [], "client": None}, never)
    assert refused(body_of, slow, 10).status_code == 408


def test_json_is_decoded_or_refused_with_advice() -> None:
    assert decoded(b'{"a": 1}', dict[str, int]) == {"a": 1}
    for wrong in (b"{", b'{"a": "x"}', b'"\xff"', b"[" * 100_000):
        with pytest.raises(Refusal) as raised:
            decoded(wrong, dict[str, int], " Send numbers.")
        assert raised.value.status_code == 400
        assert raised.value.detail.endswith(". Send numbers.")


# --- forms ----------------------------------------------------------------------------------------

MULTIPART = "multipart/form-data; boundary=XYZ"


def part(head: str, content: bytes = b"1") -> bytes:
    return (
        b"--XYZ\r\nContent-Disposition: form-data; "
        + head.encode()
        + b"\r\n\r\n"
        + content
        + b"\r\n"
    )


def test_a_form_is_decoded() -> None:
    made = request(b"a=1&b=%C3%BC+x&c=&a=2&d=%FF")
    assert asyncio.run(form_of(made)) == {"a": "2", "b": "ü x", "d": "\ufffd"}
    assert asyncio.run(upload_of(request(b"a=1"), 10)) == ({"a": "1"}, {})


def test_a_form_is_bounded() -> None:
    assert refused(form_of, request(b"x" * 4097)).status_code == 413
    assert refused(form_of, request(b"a=1&" * 501)).status_code == 413


def test_a_form_with_files_is_read_up_to_500_parts() -> None:
    many = b"".join(part(f'name="f{number}"') for number in range(600)) + b"--XYZ--\r\n"
    fields, _ = asyncio.run(
        upload_of(request(many, headers=[("Content-Type", MULTIPART)]), 100_000)
    )
    assert list(fields) == [f"f{number}" for number in range(500)]
    assert (
        refused(upload_of, request(many, headers=[("Content-Type", MULTIPART)]), 99).status_code
        == 413
    )


def test_a_form_with_files_is_not_parsed_as_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mail parser would take seconds for a part's head of 24 KB, and hours for one of 2 MB."""

    def parsed(*_: Any, **__: Any) -> Any:
        raise AssertionError("slow")

    for name in ("parse_content_disposition_header", "parse_content_type_header"):
        monkeypatch.setattr(_header_value_parser, name, parsed)
    sent = (
        part('name="a" ' + "(x)" * 1000, b"1")
        + part(f'name="{"x" * 3000}"', b"too long")
        + part('name="b"; filename="\u00fc.toml"', b"2")
        + b"--XYZ--\r\n"
    )
    kind = MULTIPART + "; (a)" * 1000
    made = request(sent, headers=[("Content-Type", kind)])
    assert asyncio.run(upload_of(made, 10_000)) == ({"a": "1"}, {"b": Upload("\u00fc.toml", b"2")})


def test_a_form_with_files_has_fields_and_files() -> None:
    content = b"x = 1\r\n\x00\xff\r\n"
    sent = (
        part('name="exercise"', "glü".encode())
        + part('name="file"; filename="glu.py"', content)
        + part('name="empty"; filename=""', b"")
        + part("", b"nameless")
        + b"--XYZ--\r\n"
    )
    made = request(sent, headers=[("Content-Type", "Multipart/Form-Data; boundary=XYZ")])
    fields, files = asyncio.run(upload_of(made, 10_000))
    assert fields == {"exercise": "glü"}
    assert files == {"file": Upload("glu.py", content), "empty": Upload("", b"")}


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=ABC"])
def test_a_form_without_its_boundary_is_empty(kind: str) -> None:
    made = request(part('name="a"'), headers=[("Content-Type", kind)])
    assert asyncio.run(upload_of(made, 1000)) == ({}, {})


# --- answers --------------------------------------------------------------------------------------


def test_a_refusal_has_the_headers_of_its_status() -> None:
    assert Refusal(401, "Sign in.").headers == {"WWW-Authenticate": "Bearer"}
    assert Refusal(403, "No.").headers == {}
    assert Refusal(429, "Wait.", retry_after=7).headers == {"Retry-After": "7"}
    assert (busy().status_code, busy().headers) == (503, {"Retry-After": "5"})


def test_answers_are_json_and_events_one_line_of_json() -> None:
    answer = answered({"a": "ü\n"}, 201, Location="/x")
    assert (answer.status_code, json.loads(bytes(answer.body))) == (201, {"a": "ü\n"})
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["location"] == "/x"
    sent = event("verdict", {"a": "b\n\nc"})
    head, data, end = sent.split(b"\n", 2)
    assert (head, end) == (b"event: verdict", b"\n")
    assert msgspec.json.decode(data.removeprefix(b"data: ")) == {"a": "b\n\nc"}
