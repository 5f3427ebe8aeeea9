"""Who asks: a student of the roster or a member of staff, by a token, a cookie with it, or GitHub's word.

GitHub's word for a workflow is an OIDC token of Actions, checked against the keys of its issuer: the workflow
keeps no secret. It asks GitHub for a token for our address; the claim `repository` in it, which only GitHub can
sign, is tied to a student by the roster.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable
from typing import NamedTuple

import jwt
from starlette.requests import Request
from starlette.responses import Response

from grader.errors import SubmissionError
from grader.gradebook import queue
from grader.gradebook.queue import Role
from grader.results import StudentInfo
from grader.serve.http import Refusal
from grader.serve.threads import BookThread
from grader.serve.views import Views

COOKIE = "lab_bench_token"
_COOKIE_SECONDS = 180 * 86_400
_LONGEST_TOKEN = 8192
_SAFE = ("GET", "HEAD")
ISSUER = "https://token.actions.githubusercontent.com"
_KEYS = "/.well-known/jwks"
_FETCH_SECONDS = 10
_MOST_BYTES = 1 << 20
# Tokens with made-up keys must not have us ask the issuer each time.
_PAUSE_SECONDS = 30.0
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
            name = await asyncio.to_thread(self._github.student, token)
            return Asker(Role.STUDENT, self._students[name])
        holder = await self._views.answer(lambda views: queue.holder_of(views.store, token))
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
    origin = urllib.parse.urlsplit(request.headers.get("origin", ""))
    if not origin.netloc == request.headers.get("host", "") != "":
        raise Refusal(403, "This was sent from another page than ours.")


# --- GitHub's word for a workflow ------------------------------------------------------------------


class GitHub:
    """Who of the roster a workflow is of; any thread may ask."""

    def __init__(
        self, audience: str, students: Iterable[StudentInfo], issuer: str = ISSUER
    ) -> None:
        """`audience` is the address that workflows name; keys are read from the issuer when they are needed.

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
            for name in student.ids.get("repository", "").casefold().split():
                if self._students.setdefault(name, student.id) != student.id:
                    raise SubmissionError(f"The roster has the repository {name} twice.")
        self._lock = threading.Lock()
        self._keys: dict[str, jwt.PyJWK] = {}
        self._asked_at = float("-inf")

    def student(self, token: str) -> str:
        """The id of the student whose repository the workflow runs in; raises Refusal."""
        try:
            key = self._key(str(jwt.get_unverified_header(token).get("kid", "")))
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self._audience,
                issuer=self._issuer,
                leeway=30,
                options={"require": list(_CLAIMS)},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise Refusal(401, f"The token of the workflow does not hold: {error}.") from error
        repository = str(claims["repository"])
        student = self._students.get(repository.casefold())
        if student is None:
            raise Refusal(
                403, "The class list ties this repository to no student: ask your instructor."
            )
        return student

    def _key(self, name: str) -> jwt.PyJWK:
        """The key of this name; the issuer is asked at most twice a minute. Raises Refusal."""
        with self._lock:
            if name not in self._keys and time.monotonic() - self._asked_at > _PAUSE_SECONDS:
                self._asked_at = time.monotonic()
                self._keys = self._fetched()
            if name not in self._keys:
                raise Refusal(401, "The token of the workflow is signed with no key of its issuer.")
            return self._keys[name]

    def _fetched(self) -> dict[str, jwt.PyJWK]:
        """The keys of the issuer now; raises Refusal with a time to try again."""
        try:
            with urllib.request.urlopen(self._issuer + _KEYS, timeout=_FETCH_SECONDS) as answer:  # noqa: S310 (checked)
                keys = jwt.PyJWKSet.from_dict(json.loads(answer.read(_MOST_BYTES)))
        except (OSError, ValueError, jwt.PyJWTError) as error:
            self._asked_at = float("-inf")
            raise Refusal(
                503, "GitHub's keys cannot be read now: try again.", retry_after=10
            ) from error
        return {key.key_id: key for key in keys.keys if key.key_id is not None}
