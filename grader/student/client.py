"""The client of a course's server: the address, the token, and the answers.

Needs only Python's own library, so a student's machine need not install a server.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grader.errors import ExitCode, GraderError, SubmissionError
from grader.files import write_whole
from grader.results import Result
from grader.text import clean, counted

T = TypeVar("T")

# Shared with the client that sends grades to platforms.
TIMEOUT_SECONDS = 60
PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)
MAX_BYTES = 64 << 20
# Errors of the submission, which `grade run` would report as usage errors.
_OF_THE_FILES = (400, 413, 422)
AGAIN = (500, 502, 503, 504)
# Refusals that may not hold later: the state was another, or there were too many requests.
_LATER = (408, 409, 425, 429)


class ServerError(GraderError):
    """The server cannot be reached, or refuses; nothing is lost."""


class RefusedError(ServerError):
    """The server refuses this request, and would refuse it again."""

    exit_code = ExitCode.USAGE


class ForbiddenError(RefusedError):
    """The token's holder may not do this: another role is needed, or another time or place."""


class ChangedError(ServerError):
    """Nothing was changed, because somebody else changed it since the state that was seen."""


class Server(msgspec.Struct, frozen=True):
    """The address of a server, without a final slash, and the user's token."""

    address: str
    token: str


class ServerAnswer(msgspec.Struct, frozen=True):
    """A submission in the server's answer; see docs/openapi.json."""

    id: str
    state: str
    exercises: dict[str, dict[str, Any]]
    problems: dict[str, str] = {}
    about: dict[str, str] = {}
    result: Result | None = None

    @property
    def is_open(self) -> bool:
        """Whether a verdict is still to come."""
        return self.state in ("waiting", "running")


def checked_address(text: str) -> str:
    """Return an address in the form in which it is kept; raises SubmissionError if it is not valid."""
    text = text if "://" in text else f"https://{text}"
    url = urllib.parse.urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise SubmissionError(f"{clean(text)} is not an address: write https://grade.example.org.")
    return f"{url.scheme}://{url.netloc}{url.path}".rstrip("/")


def is_unprotected(address: str) -> bool:
    """Return whether others on the way could read the token."""
    url = urllib.parse.urlsplit(address)
    return url.scheme == "http" and url.hostname not in ("127.0.0.1", "::1", "localhost")


# --- the token ------------------------------------------------------------------------------------


def token_file() -> Path:
    """Return the file of this user's token."""
    if os.name == "nt":
        folder = os.environ.get("APPDATA") or Path.home()
    else:
        folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder, "lab-bench", "server.json")


def keep_server(server: Server) -> Path:
    """Keep the token in a file that only this user can read, and return it; raises GraderError."""
    file = token_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, msgspec.json.encode(server) + b"\n", private=True)
    except OSError as error:
        raise GraderError(f"The token cannot be kept in {file}: {error.strerror}.") from error
    return file


def kept_server() -> Server | None:
    """Return the server of the user's last `grade login`, None if there is none; raises GraderError."""
    try:
        return msgspec.json.decode(token_file().read_bytes(), type=Server)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise GraderError(
            f"{token_file()} cannot be read ({error}): `grade login ADDRESS` writes it anew."
        ) from error


def server_of_workflow(address: str) -> Server | None:
    """Return the server with a token for this address, in a GitHub workflow with `id-token: write`.

    None elsewhere. Raises ServerError if GitHub gives no token.
    """
    url = os.environ.get("ACTIONS_ID_TOKEN_REQUEST_URL", "")
    secret = os.environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "")
    if not url or not secret:
        return None
    sign = "&" if "?" in url else "?"
    request = urllib.request.Request(  # noqa: S310 (GitHub's own, of the runner's environment)
        f"{url}{sign}{urllib.parse.urlencode({'audience': address})}",
        headers={"Authorization": f"Bearer {secret}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            return Server(address, str(json.loads(answer.read(MAX_BYTES))["value"]))
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        raise ServerError(f"GitHub gave this workflow no token: {error}.") from error


# --- requests -------------------------------------------------------------------------------------


def standing(server: Server) -> dict[str, Any]:
    """Return the student's own standing; raises ServerError."""
    answer = asked(server, "GET", "/api/standing")
    return msgspec.json.decode(answer, type=dict[str, Any])


def holder(server: Server) -> tuple[str, str]:
    """Return the name of the token's holder, and the title of the course; raises ServerError."""
    try:
        own = standing(server)
    except ForbiddenError:
        # The token may be one of staff.
        answer = asked(server, "GET", "/api/staff/me")
        staff = msgspec.json.decode(answer, type=dict[str, Any])
        return f"{staff['name']}, {staff['role']}", str(staff["title"])
    return str(own["name"] or own["student"]), str(own["title"])


def decoded_as(answer: bytes, kind: type[T]) -> T:
    """Decode an answer as this struct; raises ServerError."""
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError as error:
        raise ServerError(f"The server's answer cannot be read: {error}.") from error


def hand_in(
    server: Server, files: Mapping[str, bytes], tell: Callable[[str], None] = lambda _: None
) -> ServerAnswer:
    """Hand files in; if an answer is lost, `tell` so once, and try again as the same submission.

    Raises SubmissionError for problems of the files, ServerError for anything else.
    """
    body = json.dumps(
        {"files": {name: base64.b64encode(data).decode() for name, data in files.items()}}
    )
    key = secrets.token_hex(16)
    answer = asked(server, "POST", "/api/submissions", body.encode(), key, tell)
    return decoded_as(answer, ServerAnswer)


def wait_for(server: Server, handed: ServerAnswer, tell: Callable[[str, str], None]) -> Result:
    """Return the result of a submission once it is judged; `tell` gets each event's name and its place in
    words.

    Raises ServerError, and SubmissionError if it will not be judged.
    """
    failures, states = 0, dict[str, str]()
    while handed.is_open:
        try:
            for name, data in _events(server, handed.id):
                failures = 0
                tell(name, _whereabouts(states, name, data))
                if name == "state":
                    handed = msgspec.convert(data, ServerAnswer)
        except (OSError, http.client.HTTPException, ValueError) as error:
            failures += 1
            if failures > len(PAUSES_SECONDS):
                raise ServerError(
                    f"{server.address} is out of reach ({reason_of(error)}). Your files are handed in and "
                    "will be judged: see `grade submit --status`, or the server's page."
                ) from error
            time.sleep(PAUSES_SECONDS[failures - 1])
    if handed.result is None:
        raise SubmissionError(
            "A newer file replaced this one before it was judged: `grade submit --status`."
        )
    return handed.result


def _whereabouts(states: dict[str, str], name: str, data: Mapping[str, Any]) -> str:
    """Record an event; return the place of each exercise in words: `glu: place 3 in the queue`."""
    if name == "state":
        for exercise, state in data["exercises"].items():
            place = state.get("place")
            states[exercise] = f"place {place} in the queue" if place else state["state"]
    elif name == "place":
        states[data["exercise"]] = f"place {data['place']} in the queue"
    elif name == "test":
        states[data["exercise"]] = f"{data['ended']} of {data['of']} tests"
    return ", ".join(f"{exercise}: {state}" for exercise, state in states.items())


def submission(server: Server, id_: str) -> ServerAnswer:
    """Return the current state of a submission; raises ServerError."""
    return decoded_as(asked(server, "GET", f"/api/submissions/{id_}"), ServerAnswer)


def _events(server: Server, id_: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the server's events about a submission, by name and data, for as long as it sends them."""
    with _opened(server, "GET", f"/api/submissions/{id_}/events") as answer:
        name = ""
        for line in answer:
            text = line.decode("utf-8", "replace").rstrip("\n")
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                yield name, msgspec.json.decode(text.removeprefix("data: "), type=dict[str, Any])


def asked(
    server: Server,
    method: str,
    path: str,
    body: bytes | None = None,
    retry_key: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> bytes:
    """Return the body of an answer; temporary problems, such as a restarting server, are retried."""
    is_told = False
    for pause in (*PAUSES_SECONDS, None):
        try:
            with _opened(server, method, path, body, retry_key) as answer:
                return bytes(answer.read(MAX_BYTES))
        except urllib.error.HTTPError as error:
            if error.code not in AGAIN or pause is None:
                raise _refused(server, error) from error
        except (OSError, http.client.HTTPException) as error:
            if pause is None:
                raise ServerError(
                    f"{server.address} cannot be reached: {reason_of(error)}. Nothing is lost: check the "
                    "address, or try again when there is a network."
                ) from error
        if not is_told:
            is_told = True
            tell(f"{server.address} does not answer yet; trying again for half a minute.")
        time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def _opened(
    server: Server, method: str, path: str, body: bytes | None = None, retry_key: str = ""
) -> Any:
    """Return the server's answer as a context; raises OSError and HTTPException."""
    headers = {"Authorization": f"Bearer {server.token}"}
    headers |= {"Content-Type": "application/json"} if body is not None else {}
    headers |= {"Idempotency-Key": retry_key} if retry_key else {}
    request = urllib.request.Request(server.address + path, body, headers, method=method)  # noqa: S310 (checked)
    return opener.open(request, timeout=TIMEOUT_SECONDS)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, since the token would go with it."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


opener = urllib.request.build_opener(_NoRedirect)


def _refused(server: Server, error: urllib.error.HTTPError) -> GraderError:
    """Return the error for an answer of the server, with the server's own sentence.

    Its exit code is 2 if the same request would be refused again, else 3.
    """
    try:
        sentence = str(json.loads(error.read(MAX_BYTES))["error"])
    except (OSError, ValueError, LookupError, TypeError):
        sentence = (
            f"{server.address} answers {error.code}, which is not an answer of `grade serve`. Copy the "
            "address from the mail: it begins with https and names no page."
        )
    sentence = clean(sentence, 1000)
    if error.code in _OF_THE_FILES:
        return SubmissionError(sentence)
    if error.code == 403:
        return ForbiddenError(sentence)
    if error.code == 409:
        return ChangedError(sentence)
    if error.code == 401:
        return RefusedError(f"{sentence} `grade login {server.address}` accepts a new token.")
    wait = error.headers.get("Retry-After", "")
    if error.code == 429 and wait.isdecimal():
        return ServerError(f"{sentence} Nothing was handed in. Try again in {_words(int(wait))}.")
    is_final = 400 <= error.code < 500 and error.code not in _LATER
    return RefusedError(sentence) if is_final else ServerError(sentence)


def _words(seconds: int) -> str:
    for unit, length in (("hour", 3600), ("minute", 60)):
        if seconds >= 2 * length:
            return counted(-(-seconds // length), unit)
    return counted(seconds, "second")


def reason_of(error: Exception) -> str:
    """Return why a request failed, in a few harmless words."""
    reason = getattr(error, "reason", error)
    return clean(getattr(reason, "strerror", "") or str(reason) or type(reason).__name__, 200)
