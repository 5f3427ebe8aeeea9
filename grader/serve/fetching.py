"""Requests to other servers: GitHub, the issuer of a university, an LTI platform.

Each request has its own process, which can be ended at any moment. A socket's timeout would not bound an answer
that comes byte by byte, or the lookup of a name. The process reads the request from its standard input, since
other users of the machine can read command lines. Redirects are never followed.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import jwt
import msgspec

from grader.errors import SubmissionError
from grader.gradebook.platforms import is_safe
from grader.serve.http import Refusal

log = logging.getLogger("grader.serve")
T = TypeVar("T")

_FETCH_SECONDS = 10
_MAX_BYTES = 1 << 20
_PROGRAM = """
import json, sys
from urllib import request
asked = json.load(sys.stdin)
opener = request.OpenerDirector()
for handler in (request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler):
    opener.add_handler(handler())
body = None if asked["body"] is None else asked["body"].encode()
with opener.open(request.Request(asked["address"], body, asked["headers"]), timeout=10) as answer:
    sys.stdout.buffer.write(b"%d\\n" % answer.status + answer.read(asked["most"]))
"""
_HEADERS = {"Accept": "application/json", "User-Agent": "lab-bench"}
# The least pause between two requests for a document, and after a request without an answer.
_PAUSE_SECONDS = 30.0
_AGAIN_SECONDS = 5.0


class Fetched(NamedTuple):
    """The answer of another server."""

    status: int
    body: bytes

    @property
    def table(self) -> dict[str, Any]:
        """The JSON object in the body; raises OSError if it is anything else."""
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise OSError(f"status {self.status}, no JSON object: {error}") from error


def fetch(
    address: str, *, body: str | None = None, headers: Mapping[str, str] | None = None
) -> Fetched:
    """Return the answer from an address within ten seconds; with a `body`, the request is a POST.

    Raises OSError if there is no answer, or the address is not `is_safe`.
    """
    if not is_safe(address):
        raise OSError(f"{address[:200]!r} is not an https address")
    asked = {"address": address, "body": body, "headers": {**_HEADERS, **(headers or {})}}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _PROGRAM],
            input=json.dumps({**asked, "most": _MAX_BYTES}).encode(),
            capture_output=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"no answer within {_FETCH_SECONDS} seconds") from error
    if done.returncode:
        raise OSError(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])
    status, _, answer = done.stdout.partition(b"\n")
    return Fetched(int(status), answer)


def safe_issuer(issuer: str) -> str:
    """Return an issuer's address; raises SubmissionError if it has no https address."""
    if not is_safe(issuer):
        raise SubmissionError(f"The issuer {issuer} is not an https address.")
    return issuer


class Document(Generic[T]):
    """A JSON object of another server, read in a separate thread; for any thread.

    It is read at the start and after `refresh`, at most twice a minute, so that strangers cannot cause many
    requests to the other server. If that server does not answer, the earlier `value` stays.
    """

    def __init__(self, address: str, read: Callable[[dict[str, Any]], T]) -> None:
        self.address, self._decode = address, read
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._thread: threading.Thread | None = None
        self.value: T | None = None
        self.is_reading = self.is_answered = False
        self.refresh()

    def refresh(self) -> None:
        """Start to read the document, unless it is being read or was read a moment ago."""
        with self._lock:
            if self.is_reading or time.monotonic() - self._asked_at < _PAUSE_SECONDS:
                return
            self.is_reading, self._asked_at = True, time.monotonic()
            self._thread = threading.Thread(target=self._read, name="document", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until the document is read, if it is being read; do not call this in the event loop."""
        if (thread := self._thread) is not None:
            thread.join(2 * _FETCH_SECONDS)

    def _read(self) -> None:
        try:
            fetched = fetch(self.address)
            if fetched.status != 200:
                raise OSError(f"status {fetched.status}")
            self.value = self._decode(fetched.table)
        except Exception as error:  # noqa: BLE001  # no answer must end the server
            log.warning(
                "a document cannot be read",
                extra={"address": self.address[:200], "fault": str(error)[:200]},
            )
            self.is_answered = False
            # Try again soon, since people wait.
            self._asked_at = time.monotonic() - _PAUSE_SECONDS + _AGAIN_SECONDS
        else:
            self.is_answered = True
        finally:
            self.is_reading = False


class IssuerKeys:
    """The keys of an issuer, read from its address, for any thread; `whose` is as in "GitHub's"."""

    def __init__(self, address: str, whose: str) -> None:
        self._document = Document(address, _keys)
        self._whose = whose

    @property
    def address(self) -> str:
        """The address of the keys."""
        return self._document.address

    @property
    def is_reading(self) -> bool:
        """Whether the keys are being read."""
        return self._document.is_reading

    def named(self, name: str, *, wait: bool = False) -> jwt.PyJWK:
        """Return the key with this name; an empty name means the issuer's only key.

        Raises Refusal if there is none, with a time to try again while keys are read. With `wait`, wait for
        them first.
        """
        document = self._document
        if (key := (document.value or {}).get(name)) is not None:
            return key
        document.refresh()
        if wait:
            document.wait()
        if document.is_reading or not document.is_answered:
            raise Refusal(
                503, f"{self._whose} keys have not arrived yet: try again.", retry_after=5
            )
        if (key := (document.value or {}).get(name)) is not None:
            return key
        raise Refusal(401, "The token is not signed with a key of its issuer.")


def _keys(document: dict[str, Any]) -> dict[str, jwt.PyJWK]:
    """Map names to keys for signatures; a single key is also under the empty name.

    Symmetric keys are left out: they would be public.
    """
    keys = jwt.PyJWKSet.from_dict(document).keys
    signing = [k for k in keys if k.key_type != "oct" and k.public_key_use in (None, "sig")]
    named = {key.key_id: key for key in signing if key.key_id}
    return {"": signing[0], **named} if len(signing) == 1 else named
