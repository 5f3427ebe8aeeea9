"""Who asks: a student of the roster or a member of staff, by a token, a cookie with it, or GitHub's word."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Iterable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from grader.gradebook import Gradebook, queue
from grader.gradebook.queue import Role
from grader.results import StudentInfo
from grader.serve.github import GitHub, looks_like_jwt
from grader.serve.refusal import Refusal
from grader.serve.threads import BookThread

COOKIE = "lab_bench_token"
_COOKIE_SECONDS = 180 * 86_400
_LONGEST_TOKEN = 8192
_SAFE = ("GET", "HEAD")


class Asker(NamedTuple):
    """Who asks; `student` is None for staff, of whom the `name` is that of the token."""

    role: Role
    student: StudentInfo | None = None
    name: str = ""


class Identity:
    """Knows who sent a request."""

    def __init__(
        self,
        books: BookThread[Gradebook],
        students: Iterable[StudentInfo],
        github: GitHub | None = None,
    ) -> None:
        self._books, self._github = books, github
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
        """Who asks; raises Refusal for a request without a token that holds."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.holder(token.strip())
        if (token := request.cookies.get(COOKIE, "")) != "":
            # A page of someone else's cannot send it (SameSite=Strict); an old browser might.
            if request.method not in _SAFE and not _is_same_origin(request):
                raise Refusal(403, "This was sent from another page than ours.")
            return await self.holder(token)
        raise Refusal(401, "Sign in: send the token that you were given (`grade login ADDRESS`).")

    async def holder(self, token: str) -> Asker:
        """Who has a token; raises Refusal where it does not hold."""
        if self._github is not None and looks_like_jwt(token) and len(token) <= _LONGEST_TOKEN:
            name = await asyncio.to_thread(self._github.student, token)
            return Asker(Role.STUDENT, self._students[name])
        found = await self._books.answer(lambda book: queue.holder_of(book.store, token))
        if found is None:
            raise Refusal(
                401, "This token does not hold: it is mistyped, or was replaced by another."
            )
        if found.role is Role.STAFF:
            return Asker(Role.STAFF, name=found.name)
        if found.name not in self._students:
            raise Refusal(403, "You are not in the class list of this server: ask your instructor.")
        return Asker(Role.STUDENT, self._students[found.name])


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


def _is_same_origin(request: Request) -> bool:
    origin = urllib.parse.urlsplit(request.headers.get("origin", ""))
    return origin.netloc == request.headers.get("host", "") != ""


def same_origin(request: Request) -> None:
    """Refuse a form that another page sent."""
    if not _is_same_origin(request):
        raise Refusal(403, "This was sent from another page than ours.")
