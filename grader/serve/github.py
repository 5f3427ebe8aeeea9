"""GitHub's word for a workflow: an OIDC token of Actions, checked against the keys of its issuer.

The workflow keeps no secret. It asks GitHub for a token for our address; the claim `repository` in it, which
only GitHub can sign, is tied to a student by the roster.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable

import jwt

from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.serve.refusal import Refusal

ISSUER = "https://token.actions.githubusercontent.com"
_KEYS = "/.well-known/jwks"
_FETCH_SECONDS = 10
_MOST_BYTES = 1 << 20
# Tokens with made-up keys must not have us ask the issuer each time.
_PAUSE_SECONDS = 30.0
_CLAIMS = ("exp", "iat", "iss", "aud", "repository")


def looks_like_jwt(token: str) -> bool:
    """Whether it is a signed token of an issuer, and no token of this server."""
    return token.count(".") == 2


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
        with self._lock:
            if name not in self._keys and time.monotonic() - self._asked_at > _PAUSE_SECONDS:
                self._asked_at = time.monotonic()
                self._keys = self._fetched()
            if name not in self._keys:
                raise Refusal(401, "The token of the workflow is signed with no key of its issuer.")
            return self._keys[name]

    def _fetched(self) -> dict[str, jwt.PyJWK]:
        try:
            with urllib.request.urlopen(self._issuer + _KEYS, timeout=_FETCH_SECONDS) as answer:  # noqa: S310 (checked)
                keys = jwt.PyJWKSet.from_dict(json.loads(answer.read(_MOST_BYTES)))
        except (OSError, ValueError, jwt.PyJWTError) as error:
            self._asked_at = float("-inf")
            raise Refusal(
                503, "GitHub's keys cannot be read now: try again.", retry_after=10
            ) from error
        return {key.key_id: key for key in keys.keys if key.key_id is not None}
