"""HTTP for every route: bounded bodies, JSON, streams of events, and refusals."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

T = TypeVar("T")

# The longest time to receive a body.
_BODY_SECONDS = 60
_FORM_BYTES = 4096
# Splitting a body into tens of thousands of fields would block the event loop.
_MAX_FIELDS = 500
# A form with files, as browsers write it: the boundary of its parts, and the head of a part.
_BOUNDARY = re.compile(r"""boundary="?([\w'()+,./:=?-]{1,70})""", re.ASCII)
_PART = re.compile(
    r'content-disposition: *form-data; *name="(?P<name>[^"]*)"(?:; *filename="(?P<file>[^"]*)")?',
    re.IGNORECASE,
)
_HEAD_BYTES = 2048
# The same answer for a missing submission and for another student's, so that they look alike.
NO_SUBMISSION = "There is no such submission of yours."
# Also the answers if the request or the student exists, but the assistant has no access.
NO_REQUEST = "There is no such request."
NO_STUDENT = "There is no such student. Assistants see only students of their sections."


class Refusal(HTTPException):
    """An answer that refuses a request, with a status and one sentence.

    `retry_after` is in whole seconds; 0 for none.
    """

    def __init__(self, status: int, sentence: str, *, retry_after: int = 0) -> None:
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if retry_after:
            headers["Retry-After"] = str(retry_after)
        super().__init__(status, sentence, headers)


class Upload(NamedTuple):
    """A file that a form sent: its name on the person's machine, and its bytes."""

    name: str
    content: bytes


def busy() -> Refusal:
    """Return the answer to a request while the machine is too busy."""
    return Refusal(
        503, "The server is too busy. Nothing is lost: try again in a moment.", retry_after=5
    )


def client_address(
    request: Request,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address of a client, from the proxy if one runs on this machine; None if unknown."""
    host = "" if request.client is None else request.client.host
    # Some proxies append to the header, others add another line.
    lines = ",".join(request.headers.getlist("x-forwarded-for"))
    forwarded = lines.rpartition(",")[2].strip()
    try:
        address = _unmapped(host)
        # Only the last address is from the proxy; the client may have written the others.
        return _unmapped(forwarded) if address.is_loopback and lines else address
    except ValueError:
        return None


def network_of(request: Request) -> str:
    """Return the network of a client: the address, or for IPv6 its first 64 bits, which a household shares."""
    address = client_address(request)
    if isinstance(address, ipaddress.IPv6Address):
        return address.exploded[:19]
    return str(address)


def _unmapped(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request; raises Refusal if it has more than `most` bytes, or arrives too slowly.

    Bytes are counted as they arrive, since clients may announce no length or a wrong one.
    """
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
        raise Refusal(408, f"The body did not arrive within {_BODY_SECONDS} seconds.") from error
    return bytes(body)


async def form_of(request: Request, most: int = _FORM_BYTES) -> dict[str, str]:
    """Return the fields of a form; raises Refusal if it is too long, too slow, or has too many fields."""
    body = await body_of(request, most)
    try:
        fields = urllib.parse.parse_qsl(body.decode("utf-8", "replace"), max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise Refusal(413, f"The form has more than {_MAX_FIELDS} fields.") from error
    return dict(fields)


async def upload_of(request: Request, most: int) -> tuple[dict[str, str], dict[str, Upload]]:
    """Return the fields and the files of a form with files; raises Refusal, as `form_of` does.

    A form without files may come in either encoding.
    """
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        return await form_of(request, most), {}
    body = await body_of(request, most)
    fields, files = dict[str, str](), dict[str, Upload]()
    if (named := _BOUNDARY.search(kind)) is None:
        return fields, files
    # Do not use the library `email`, whose time grows with the square of a header's length.
    pieces = (b"\r\n" + body).split(b"\r\n--" + named[1].encode(), _MAX_FIELDS + 1)
    for piece in pieces[1 : _MAX_FIELDS + 1]:
        head, _, content = piece.partition(b"\r\n\r\n")
        part = _PART.search(head[:_HEAD_BYTES].decode("utf-8", "replace"))
        if part is not None and part["file"] is not None:
            files[part["name"]] = Upload(part["file"], content)
        elif part is not None:
            fields[part["name"]] = content.decode("utf-8", "replace")
    return fields, files


def decoded(body: bytes, kind: type[T], advice: str = "") -> T:
    """Decode a JSON body as a struct; raises Refusal, which ends with `advice`, if it is not valid."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"The body cannot be read: {error}.{advice}") from error


def answered(value: Any, status: int = 200, **headers: str) -> Response:
    """Return a JSON response."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )


def event(name: str, data: Any) -> bytes:
    """Return a server-sent event with JSON data."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def stream(events: AsyncIterator[bytes]) -> Response:
    """Return a stream of events that proxies do not buffer."""
    return StreamingResponse(
        events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )
