"""Who asks: a student of the roster or a member of staff, by a token, a cookie with it, or GitHub's word.

GitHub's word for a workflow is an OIDC token of Actions, checked against the keys of its issuer: the workflow
keeps no secret. It asks GitHub for a token for our address; the claim `repository` in it, which only GitHub can
sign, is tied to a student by the roster.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterable
from typing import Any, NamedTuple

import jwt
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from grader.errors import SubmissionError
from grader.gradebook import queue
from grader.gradebook.queue import Role
from grader.results import StudentInfo
from grader.serve.http import Refusal
from grader.serve.threads import BookThread
from grader.serve.views import Views

log = logging.getLogger("grader.serve")

COOKIE = "lab_bench_token"
_COOKIE_SECONDS = 180 * 86_400
_LONGEST_TOKEN = 8192
_SAFE = ("GET", "HEAD")
ISSUER = "https://token.actions.githubusercontent.com"
_KEYS = "/.well-known/jwks"
_FETCH_SECONDS = 10
_MOST_BYTES = 1 << 20
_FETCH = (
    "import sys, urllib.request as r;"
    "sys.stdout.buffer.write(r.urlopen(sys.argv[1], timeout=10).read(int(sys.argv[2])))"
)
# Between two questions to the issuer, and after one that it did not answer.
_PAUSE_SECONDS = 30.0
_AGAIN_SECONDS = 5.0
_CLAIMS = ("exp", "iat", "iss", "aud", "repository")


class Asker(NamedTuple):
    """Who asks; `student` is None for staff, of whom the `name` is that of the token."""

    role: Role
    student: StudentInfo | None = None
    name: str = ""


class Identity:
    """Knows who sent a request."""

    def __init__(
        self,
        views: BookThread[Views],
        students: Iterable[StudentInfo],
        github: GitHub | None = None,
    ) -> None:
        self._views, self._github = views, github
        self._students = {student.id: student for student in students}

    async def student(self, request: Request) -> StudentInfo:
        """The student who asks; raises Refusal for anyone else."""
        person = await self.person(request)
        if person.student is None:
            raise Refusal(403, "This is for students, and this token is one of staff.")
        return person.student

    async def staff(self, request: Request) -> Asker:
        """The member of staff who asks; raises Refusal for anyone else."""
        person = await self.person(request)
        if person.role is not Role.STAFF:
            raise Refusal(403, "This is for staff.")
        return person

    async def person(self, request: Request) -> Asker:
        """Who asks; raises Refusal for a request without a token that holds.

        Programs send the token as a Bearer, browsers in a cookie. A cookie comes with every request, also one
        that another page started, so that writing asks for the origin, too.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.holder(token.strip())
        if (token := request.cookies.get(COOKIE, "")) != "":
            # A page of someone else's cannot send it (SameSite=Strict); an old browser might.
            if request.method not in _SAFE:
                same_origin(request)
            return await self.holder(token)
        raise Refusal(401, "Sign in: send the token that you were given (`grade login ADDRESS`).")

    async def holder(self, token: str) -> Asker:
        """Who has a token; raises Refusal where it does not hold."""
        # With two dots it is a signed token of an issuer, and none of this server.
        is_signed = token.count(".") == 2 and len(token) <= _LONGEST_TOKEN
        if self._github is not None and is_signed:
            name = self._github.student(token)
            return Asker(Role.STUDENT, self._students[name])
        holder = await self._views.answer(lambda views: queue.holder_of(views.book, token))
        if holder is None:
            raise Refusal(
                401, "This token does not hold: it is mistyped, or was replaced by another."
            )
        if holder.role is Role.STAFF:
            return Asker(Role.STAFF, name=holder.name)
        if holder.name not in self._students:
            raise Refusal(403, "You are not in the class list of this server: ask your instructor.")
        return Asker(Role.STUDENT, self._students[holder.name])


def keep_signed_in(response: Response, request: Request, token: str) -> None:
    """Have the browser keep the token where no script reads it, and behind TLS send it over TLS alone.

    The browser says in `Origin` what it talks to: TLS ends at a proxy, often on another machine or
    outside the container.
    """
    response.set_cookie(
        COOKIE,
        token,
        max_age=_COOKIE_SECONDS,
        httponly=True,
        samesite="strict",
        secure=request.headers.get("origin", "").startswith("https:"),
    )


def same_origin(request: Request) -> None:
    """Refuse a form that another page sent."""
    elsewhere = Refusal(403, "This was sent from another page than ours.")
    try:
        origin = urllib.parse.urlsplit(request.headers.get("origin", ""))
    except ValueError as error:  # no address at all, such as `http://[`
        raise elsewhere from error
    if not origin.netloc == request.headers.get("host", "") != "":
        raise elsewhere


# --- GitHub's word for a workflow ------------------------------------------------------------------


class GitHub:
    """Who of the roster a workflow is of; any thread may ask."""

    def __init__(
        self, audience: str, students: Iterable[StudentInfo], issuer: str = ISSUER
    ) -> None:
        """`audience` is the address that workflows name.

        Raises SubmissionError where two students have one repository, or the issuer's keys would travel
        unprotected.
        """
        url = urllib.parse.urlsplit(issuer)
        is_here = url.hostname in ("127.0.0.1", "::1", "localhost")
        if url.scheme != "https" and not (url.scheme == "http" and is_here):
            raise SubmissionError(f"The issuer {issuer} is no https address.")
        self._audience, self._issuer = audience, issuer.rstrip("/")
        self._students: dict[str, str] = {}
        for student in students:
            for name in map(_lower, student.ids.get("repository", "").split()):
                if self._students.setdefault(name, student.id) != student.id:
                    raise SubmissionError(f"The roster has the repository {name} twice.")
        self._keys = IssuerKeys(self._issuer + _KEYS)

    @property
    def is_reading(self) -> bool:
        """Whether the issuer's keys are being read."""
        return self._keys.is_reading

    def student(self, token: str) -> str:
        """Return the id of the student whose repository the workflow runs in; raises Refusal."""
        try:
            key = self._keys.named(str(jwt.get_unverified_header(token).get("kid", "")))
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self._audience,
                issuer=self._issuer,
                leeway=30,
                options={"require": list(_CLAIMS)},
            )
        # A header that is nested thousands of times.
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise Refusal(401, f"The token of the workflow does not hold: {error}.") from error
        student = self._students.get(_lower(str(claims["repository"])))
        if student is None:
            raise Refusal(
                403, "The class list ties this repository to no student: ask your instructor."
            )
        return student


def _lower(name: str) -> str:
    """Return a repository's name as GitHub compares names: only A to Z have small letters."""
    return name.lower() if name.isascii() else name


class IssuerKeys:
    """The keys of an issuer, read from its address by a thread of their own: no request waits for them.

    Any thread may ask. Keys are read at the start and then for a name that is not known, at most twice
    a minute: tokens with made-up names must not have us ask the issuer each time.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._known: dict[str, jwt.PyJWK] = {}
        self._asked_at = float("-inf")
        self.is_reading = self._is_answered = False
        self._read_if_due()

    def named(self, name: str) -> jwt.PyJWK:
        """Return the key of this name; raises Refusal, with a time to try again while keys are read."""
        if (key := self._known.get(name)) is not None:
            return key
        self._read_if_due()
        if self.is_reading or not self._is_answered:
            raise Refusal(503, "GitHub's keys are not here yet: try again.", retry_after=5)
        if (key := self._known.get(name)) is not None:
            return key
        raise Refusal(401, "The token of the workflow is signed with no key of its issuer.")

    def _read_if_due(self) -> None:
        """Have the keys read, unless they are being read or were a moment ago."""
        with self._lock:
            if self.is_reading or time.monotonic() - self._asked_at < _PAUSE_SECONDS:
                return
            self.is_reading, self._asked_at = True, time.monotonic()
        threading.Thread(target=self._read, name="keys", daemon=True).start()

    def _read(self) -> None:
        """Take the keys that the issuer has now; where it gives none, those from before still hold."""
        try:
            keys = jwt.PyJWKSet.from_dict(_fetched(self._address)).keys
        except Exception as error:  # noqa: BLE001  # whatever the issuer sent: the server goes on
            log.warning("the issuer's keys cannot be read", extra={"fault": str(error)[:200]})
            self._is_answered = False
            # Sooner than where it answered: workflows wait.
            self._asked_at = time.monotonic() - _PAUSE_SECONDS + _AGAIN_SECONDS
        else:
            self._known = {key.key_id: key for key in keys if key.key_id is not None}
            self._is_answered = True
        finally:
            self.is_reading = False


def _fetched(address: str) -> dict[str, Any]:
    """Return the JSON object at an address.

    A process of its own reads it, since only a process can be ended at any moment: no time-out of a
    socket bounds an answer that comes byte by byte, or a name that is not resolved.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", _FETCH, address, str(_MOST_BYTES)],
        capture_output=True,
        timeout=_FETCH_SECONDS,
        check=False,
    )
    if done.returncode:
        raise OSError(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])
    return msgspec.json.decode(done.stdout, type=dict[str, Any])
