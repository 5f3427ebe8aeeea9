"""The person behind a request: a student of the roster or staff, by a token, a session, or GitHub.

A workflow of GitHub Actions needs no secret. It asks GitHub for an OIDC token for our address, and we check the
token with the issuer's keys. Only GitHub can sign its claim `repository`, which the roster maps to a student.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Collection, Iterable

import jwt
from starlette.requests import Request
from starlette.responses import Response

from grader.errors import SubmissionError
from grader.gradebook import Gradebook, sessions, tokens
from grader.gradebook.platforms import platforms
from grader.gradebook.tokens import STAFF, Role
from grader.results import StudentInfo
from grader.serve.fetching import IssuerKeys, safe_issuer
from grader.serve.http import Refusal
from grader.serve.roles import RIGHTS, Asker, Right
from grader.serve.threads import BookThread
from grader.serve.views import Views

COOKIE = "lab_bench_token"
_COOKIE_SECONDS = 180 * 86_400
_LONGEST_TOKEN = 8192
_SAFE = ("GET", "HEAD")
ISSUER = "https://token.actions.githubusercontent.com"
_KEYS = "/.well-known/jwks"
# The prefix of ids for staff who try an exercise. No student has such an id, and nothing is kept for one.
TRIAL = "\0"
_CLAIMS = ("exp", "iat", "iss", "aud", "repository")


class Identity:
    """Finds the person behind a request."""

    def __init__(
        self,
        views: BookThread[Views],
        students: Iterable[StudentInfo],
        github: GitHub | None = None,
        origins: Collection[str] = (),
    ) -> None:
        """Accept these students, and sessions from one of the `origins` or a platform."""
        self._views, self._github, self._origins = views, github, origins
        self._students = {student.id: student for student in students}

    async def student(self, request: Request) -> StudentInfo:
        """Return the student who sent a request; raises Refusal for anyone else."""
        person = await self.person(request)
        if person.student is None:
            raise Refusal(403, "This is for students, but your token is for staff.")
        return person.student

    async def writer(self, request: Request) -> StudentInfo:
        """Return the student who sent a request; for staff who try an exercise, a made-up student."""
        person = await self.person(request)
        if person.student is None and not person.may(Right.MARK):
            raise _not_for(person, Right.MARK)
        return person.student or StudentInfo(id=TRIAL + person.name, name=person.name)

    async def staff(self, request: Request, right: Right) -> Asker:
        """Return the member of staff who sent a request.

        Raises Refusal for students, and for staff without this right (`roles.RIGHTS`).
        """
        person = await self.person(request)
        if person.student is not None:
            raise Refusal(403, "This is for staff, but your token is for a student.")
        if not person.may(right):
            raise _not_for(person, right)
        return person

    async def person(self, request: Request) -> Asker:
        """Return the person who sent a request; raises Refusal without a valid token.

        Programs send the token as a Bearer, browsers as a cookie. Old browsers send cookies even from another
        site's page, so a request that writes must also have our origin.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.holder(token.strip())
        if (token := request.cookies.get(COOKIE, "")) != "":
            if request.method not in _SAFE:
                same_origin(request)
            return await self.holder(token)
        raise Refusal(401, "Sign in with the token that you were given (`grade login ADDRESS`).")

    async def holder(self, token: str) -> Asker:
        """Return the holder of a token; raises Refusal if it is not valid."""
        # A signed token of an issuer has two dots; tokens of this server have none.
        is_signed = token.count(".") == 2 and len(token) <= _LONGEST_TOKEN
        if self._github is not None and is_signed:
            name = self._github.student(token)
            return Asker(Role.STUDENT, self._students[name])
        if sessions.is_session(token):
            now = time.time()
            holder = await self._views.answer(lambda views: self._session(views.book, token, now))
            unknown = "Your sign-in has ended. Sign in again."
        else:
            holder = await self._views.answer(lambda views: tokens.holder_of(views.book, token))
            unknown = "This token is not valid: it is mistyped, or was replaced by another."
        if holder is None:
            raise Refusal(401, unknown)
        if holder.role is not Role.STUDENT:
            return Asker(holder.role, name=holder.name, sections=holder.sections)
        if holder.name not in self._students:
            raise Refusal(403, "You are not in the class list of this server: ask your instructor.")
        return Asker(Role.STUDENT, self._students[holder.name])

    def _session(self, book: Gradebook, token: str, now: float) -> tokens.Holder | None:
        """Return the holder of a session from the university or a registered platform; None if not valid."""
        of_platforms = [origin for p in platforms(book) for origin in p.origins.values()]
        return sessions.holder_of(book, token, {*self._origins, *of_platforms}, now)


def _not_for(person: Asker, right: Right) -> Refusal:
    """Return the answer for staff without the right that a route needs."""
    needed = " or ".join(role.word for role in STAFF if right in RIGHTS[role])
    return Refusal(
        403, f"This needs the role {needed}, but your token is for an {person.role.word}."
    )


def keep_signed_in(
    response: Response,
    request: Request,
    token: str,
    seconds: int = _COOKIE_SECONDS,
    *,
    secure: bool | None = None,
) -> None:
    """Have the browser keep a token in a cookie that scripts cannot read.

    A `secure` cookie is sent only over TLS. By default, the browser's `Origin` decides: TLS may end at a proxy,
    so the server does not know.
    """
    if secure is None:
        secure = request.headers.get("origin", "").startswith("https:")
    response.set_cookie(
        COOKIE,
        token,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=secure,
    )


def same_origin(request: Request) -> None:
    """Raise Refusal unless one of our own pages sent this form."""
    elsewhere = Refusal(403, "This was sent from another site's page.")
    try:
        origin = urllib.parse.urlsplit(request.headers.get("origin", ""))
    except ValueError as error:  # not an address, such as `http://[`
        raise elsewhere from error
    if not origin.netloc == request.headers.get("host", "") != "":
        raise elsewhere


# --- workflows of GitHub ---------------------------------------------------------------------------


class GitHub:
    """Finds the student behind a workflow, in any thread."""

    def __init__(
        self, audience: str, students: Iterable[StudentInfo], issuer: str = ISSUER
    ) -> None:
        """Prepare the students' repositories; `audience` is our address in workflows.

        Raises SubmissionError if two students have the same repository, or the issuer's address is not https.
        """
        self._audience, self._issuer = audience, safe_issuer(issuer).rstrip("/")
        self._students: dict[str, str] = {}
        for student in students:
            for name in map(_lower, student.ids.get("repository", "").split()):
                if self._students.setdefault(name, student.id) != student.id:
                    raise SubmissionError(f"The roster has the repository {name} twice.")
        self._keys = IssuerKeys(self._issuer + _KEYS, "GitHub's")

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
        # RecursionError: the header may be nested thousands of times.
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise Refusal(401, f"The token of the workflow is not valid: {error}.") from error
        student = self._students.get(_lower(str(claims["repository"])))
        if student is None:
            raise Refusal(
                403, "The class list has no student with this repository: ask your instructor."
            )
        return student


def _lower(name: str) -> str:
    """Return a repository's name in lower case, as GitHub compares names: only A to Z change."""
    return name.lower() if name.isascii() else name
