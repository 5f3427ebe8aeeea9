"""The identity behind a request: a student of the roster or staff, by a token, a cookie, or GitHub.

A workflow of GitHub Actions needs no secret. It asks GitHub for an OIDC token for our address, which is checked
against the keys of its issuer. The roster maps its claim `repository`, which only GitHub can sign, to a
student.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterable
from typing import Any

import jwt
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from grader.errors import SubmissionError
from grader.gradebook import queue
from grader.gradebook.queue import Role
from grader.results import StudentInfo
from grader.serve.http import Refusal
from grader.serve.roles import Asker, Right
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
# The pause between two requests to the issuer, and after one without an answer.
_PAUSE_SECONDS = 30.0
_AGAIN_SECONDS = 5.0
# Begins the id of staff who tries an exercise: that of no student in any roster, and nothing is kept under it.
TRIAL = "\0"
_CLAIMS = ("exp", "iat", "iss", "aud", "repository")


class Identity:
    """The identification of the person behind a request."""

    def __init__(
        self,
        views: BookThread[Views],
        students: Iterable[StudentInfo],
        github: GitHub | None = None,
    ) -> None:
        self._views, self._github = views, github
        self._students = {student.id: student for student in students}

    async def student(self, request: Request) -> StudentInfo:
        """Return the student who sent a request; raises Refusal for anyone else."""
        person = await self.person(request)
        if person.student is None:
            raise Refusal(403, "This is for students, but your token is for staff.")
        return person.student

    async def writer(self, request: Request) -> StudentInfo:
        """Return the student who sent a request, or for staff a student of no class, who tries an exercise."""
        person = await self.person(request)
        if person.student is None and not person.may(Right.MARK):
            raise not_for(person)
        return person.student or StudentInfo(id=TRIAL + person.name, name=person.name)

    async def staff(self, request: Request, right: Right) -> Asker:
        """Return the member of staff who sent a request; raises Refusal for anyone else.

        It also raises Refusal for staff without this right (`roles.RIGHTS`).
        """
        person = await self.person(request)
        if person.student is not None:
            raise Refusal(403, "This is for staff.")
        if not person.may(right):
            raise not_for(person)
        return person

    async def person(self, request: Request) -> Asker:
        """Return the person who sent a request; raises Refusal for a request without a valid token.

        Programs send the token as a Bearer, browsers in a cookie. Browsers send a cookie with every request,
        even from another site's page, so requests that write must have our origin, too.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.holder(token.strip())
        if (token := request.cookies.get(COOKIE, "")) != "":
            # Another site's page cannot send the cookie (SameSite=Strict), except in an old browser.
            if request.method not in _SAFE:
                same_origin(request)
            return await self.holder(token)
        raise Refusal(401, "Sign in with the token that you were given (`grade login ADDRESS`).")

    async def holder(self, token: str) -> Asker:
        """Return the person who has a token; raises Refusal if the token is not valid."""
        # A signed token of an issuer has two dots; tokens of this server have none.
        is_signed = token.count(".") == 2 and len(token) <= _LONGEST_TOKEN
        if self._github is not None and is_signed:
            name = self._github.student(token)
            return Asker(Role.STUDENT, self._students[name])
        holder = await self._views.answer(lambda views: queue.holder_of(views.book, token))
        if holder is None:
            raise Refusal(
                401, "This token is not valid: it is mistyped, or was replaced by another."
            )
        if holder.role is not Role.STUDENT:
            return Asker(holder.role, name=holder.name, sections=holder.sections)
        if holder.name not in self._students:
            raise Refusal(403, "You are not in the class list of this server: ask your instructor.")
        return Asker(Role.STUDENT, self._students[holder.name])


def not_for(person: Asker) -> Refusal:
    """Return the answer for staff without the right that a route needs."""
    return Refusal(403, f"This is not for the role of your token, {person.role.word}.")


def keep_signed_in(response: Response, request: Request, token: str) -> None:
    """Have the browser keep the token in a cookie that scripts cannot read, and with TLS is sent only over TLS.

    The browser's `Origin` shows whether it uses TLS, which ends at a proxy, often on another machine or outside
    the container.
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
    """Raise Refusal for a form that another site's page sent."""
    elsewhere = Refusal(403, "This was sent from another site's page.")
    try:
        origin = urllib.parse.urlsplit(request.headers.get("origin", ""))
    except ValueError as error:  # not an address, such as `http://[`
        raise elsewhere from error
    if not origin.netloc == request.headers.get("host", "") != "":
        raise elsewhere


# --- workflows of GitHub ---------------------------------------------------------------------------


class GitHub:
    """The roster's students behind workflows; any thread may ask."""

    def __init__(
        self, audience: str, students: Iterable[StudentInfo], issuer: str = ISSUER
    ) -> None:
        """Prepare the repositories of the students; `audience` is the address that workflows name.

        Raises SubmissionError if two students have the same repository, or if the issuer has no https address.
        """
        url = urllib.parse.urlsplit(issuer)
        is_here = url.hostname in ("127.0.0.1", "::1", "localhost")
        if url.scheme != "https" and not (url.scheme == "http" and is_here):
            raise SubmissionError(f"The issuer {issuer} is not an https address.")
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
        """Return the id of the student in whose repository the workflow runs; raises Refusal."""
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
        # RecursionError: a header that is nested thousands of times.
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise Refusal(401, f"The token of the workflow is not valid: {error}.") from error
        student = self._students.get(_lower(str(claims["repository"])))
        if student is None:
            raise Refusal(
                403, "The class list has no student with this repository: ask your instructor."
            )
        return student


def _lower(name: str) -> str:
    """Return a repository's name in small letters, as GitHub compares names: only A to Z change."""
    return name.lower() if name.isascii() else name


class IssuerKeys:
    """The keys of an issuer, read from its address in a separate thread, so no request waits for them.

    Any thread may ask. Keys are read at the start, and then for unknown names, at most twice a minute: tokens
    with made-up names must not cause a request to the issuer each time.
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
            raise Refusal(503, "GitHub's keys have not arrived yet: try again.", retry_after=5)
        if (key := self._known.get(name)) is not None:
            return key
        raise Refusal(401, "The token of the workflow is not signed with a key of its issuer.")

    def _read_if_due(self) -> None:
        """Start to read the keys, unless that is going on or happened a moment ago."""
        with self._lock:
            if self.is_reading or time.monotonic() - self._asked_at < _PAUSE_SECONDS:
                return
            self.is_reading, self._asked_at = True, time.monotonic()
        threading.Thread(target=self._read, name="keys", daemon=True).start()

    def _read(self) -> None:
        """Read the issuer's keys; if it does not answer, keep the earlier ones."""
        try:
            keys = jwt.PyJWKSet.from_dict(_fetched(self._address)).keys
        except Exception as error:  # noqa: BLE001  # the server goes on after any answer of the issuer
            log.warning("the issuer's keys cannot be read", extra={"fault": str(error)[:200]})
            self._is_answered = False
            # Try sooner than after an answer, since workflows wait.
            self._asked_at = time.monotonic() - _PAUSE_SECONDS + _AGAIN_SECONDS
        else:
            self._known = {key.key_id: key for key in keys if key.key_id is not None}
            self._is_answered = True
        finally:
            self.is_reading = False


def _fetched(address: str) -> dict[str, Any]:
    """Return the JSON object at an address.

    A separate process reads it, since only a process can be ended at any moment: a socket's timeout does not
    bound an answer that comes byte by byte, or the resolution of a name.
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
