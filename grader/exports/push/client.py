"""An HTTP client for a platform's interface: sends its token to one host only, and bounds retries.

If a request that changes something gets no answer, it may have been done, so it is not sent again. `Unclear`
leaves that to the caller, who can check.
"""

from __future__ import annotations

import http.client
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from grader.errors import GraderError, UsageError
from grader.student.client import (
    AGAIN,
    MAX_BYTES,
    PAUSES_SECONDS,
    TIMEOUT_SECONDS,
    is_unprotected,
    opener,
    reason_of,
)
from grader.text import clean

T = TypeVar("T")

# Bounds for points on a platform.
Points = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]

# Give up if a platform asks for a longer wait.
LONGEST_WAIT_SECONDS = 120
_MAX_LIMITED = 20
_LONGEST_WORDS = 300
# No course has so many pages; a platform may link them in a circle.
_MAX_PAGES = 1000
_NEXT_PAGE = re.compile(r'<([^<>]*)>\s*;[^,<]*\brel="?next"?', re.IGNORECASE)


class PushError(GraderError):
    """The platform cannot be reached, or refuses everything."""


class Refused(PushError):
    """The platform refused one request; the message quotes it."""


class TokenRefused(PushError):
    """The platform does not accept the token, or no longer does."""


class Unclear(PushError):
    """No answer came from the platform, so the request may have been done."""


class NoJson(Unclear):
    """The answer is not JSON, but for example a sign-in page: trying again does not help."""


class Answer(msgspec.Struct, frozen=True):
    """The JSON of an answer, its length in bytes, and the address of the next page, empty if it is the last."""

    value: Any
    next_page: str = ""
    length: int = 0


class Body(NamedTuple):
    """The body of a request, and its media type."""

    content: bytes
    kind: str


def form(fields: Sequence[tuple[str, str]]) -> Body:
    """Return the body that sends the fields of a form."""
    return Body(urllib.parse.urlencode(fields).encode(), "application/x-www-form-urlencoded")


class Client:
    """Requests to one platform.

    `platform` is its name in messages, and every address must begin with `address`. Texts of answers show an
    ellipsis instead of the `token`. An answer, or all pages of a list, may have at most `most_bytes`.
    """

    def __init__(
        self,
        platform: str,
        address: str,
        token: str,
        headers: Mapping[str, str] | None = None,
        *,
        most_bytes: int = MAX_BYTES,
    ) -> None:
        self.platform, self.address, self._most = platform, address, most_bytes
        self._token, self._headers = token, dict(headers or {})

    def read(
        self, url: str, fields: Sequence[tuple[str, str]] | None = None, *, accept: str = ""
    ) -> Answer:
        """Send a request that changes nothing; retry after temporary failures.

        Raises Refused, or PushError.
        """
        for pause in (*PAUSES_SECONDS, None):
            try:
                return self.ask("GET" if fields is None else "POST", url, fields, accept=accept)
            except Unclear as error:
                if pause is None or isinstance(error, NoJson):
                    raise
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def pages(self, url: str, *, accept: str = "", longer: str = "") -> Iterator[Any]:
        """Yield the JSON of each page of a list, following the platform's links.

        If the list has several pages, ask for longer ones with the query `longer`. Raises Refused, or
        PushError, also for a list without an end.
        """
        read, length = set[str](), 0
        while url and url not in read:
            read.add(url)
            answer = self.read(url, accept=accept)
            if answer.next_page and longer and len(read) == 1:
                answer = self.read(with_query(url, longer), accept=accept)
            length += answer.length
            if len(read) > _MAX_PAGES or length > self._most:
                raise PushError(f"{self.platform} gives a list with too many or too long pages.")
            yield answer.value
            url = answer.next_page

    def ask(
        self,
        method: str,
        url: str,
        fields: Sequence[tuple[str, str]] | Body | None = None,
        *,
        accept: str = "",
        answers: bool = True,
    ) -> Answer:
        """Send a request once. After a rate limit, wait and send it again: nothing was done.

        Without `answers`, a success need not be JSON. Raises Unclear, Refused, or PushError.
        """
        limited = 0
        body = fields if fields is None or isinstance(fields, Body) else form(fields)
        while True:
            try:
                return self._sent(method, url, body, accept, answers=answers)
            except urllib.error.HTTPError as error:
                said = self._body_of(error)
                if not _is_rate_limit(error.code, said):
                    raise self._failure(error, said) from error
                limited += 1
                wait = self._wait(error, limited)
            except (OSError, http.client.HTTPException) as error:
                raise self._no_answer(error) from error
            time.sleep(wait)

    def _sent(
        self, method: str, url: str, body: Body | None, accept: str, *, answers: bool
    ) -> Answer:
        """Send a request; raises the errors of `urllib`, and NoJson."""
        self._refuse_other_host(url)
        headers = dict(self._headers)
        headers |= {"Content-Type": body.kind} if body is not None else {}
        headers |= {"Accept": accept} if accept else {}
        content = None if body is None else body.content
        request = urllib.request.Request(url, content, headers, method=method)  # noqa: S310 (checked)
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            found = _NEXT_PAGE.search(", ".join(answer.headers.get_all("Link") or ()))
            text = answer.read(self._most + 1)
        if len(text) > self._most:
            raise PushError(f"{self.address} gives an answer larger than {self._most:,} bytes.")
        if not answers:
            return Answer(None)
        try:
            return Answer(msgspec.json.decode(text), found[1] if found else "", len(text))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NoJson(
                f"{self.address} gives an answer that is not {self.platform}'s: {self.clean(text)}"
            ) from error

    def _refuse_other_host(self, url: str) -> None:
        """Raise PushError for another host, such as in the link to a next page: it must not get the token."""
        here = urllib.parse.urlsplit(self.address)
        try:
            there = urllib.parse.urlsplit(url)
        except ValueError:
            there = urllib.parse.urlsplit("")
        if (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise PushError(
                f"{self.address} refers to {self.clean(url)}, another host: the token is not sent there."
            )

    def _body_of(self, error: urllib.error.HTTPError) -> bytes:
        try:
            return bytes(error.read(self._most))
        except (OSError, http.client.HTTPException):
            return b""
        finally:
            error.close()

    def _wait(self, error: urllib.error.HTTPError, limited: int) -> float:
        """Return the wait in seconds that a rate limit asks for; raises PushError if it is too long."""
        asked = (error.headers.get("Retry-After") or "").strip()
        wait = (
            float(asked)
            if asked.isdecimal()
            else PAUSES_SECONDS[min(limited, len(PAUSES_SECONDS)) - 1]
        )
        if wait > LONGEST_WAIT_SECONDS or limited > _MAX_LIMITED:
            raise PushError(
                f"{self.platform} limits requests, and asks to wait {wait:.0f} seconds. Run the command again "
                "later: it continues there."
            ) from error
        return wait

    def _failure(self, error: urllib.error.HTTPError, body: bytes) -> PushError:
        """Return the exception for an unsuccessful answer."""
        if error.code in AGAIN:
            return Unclear(f"{self.platform} answers {error.code}: {self.words_of(body)}")
        if 300 <= error.code < 400:
            place = self.clean(error.headers.get("Location") or "nowhere")
            return PushError(
                f"{self.address} redirects to {place}, where the token is not sent: give the address that your "
                "browser shows."
            )
        if error.code == 401:
            return TokenRefused(f"{self.platform} refuses the token: {self.words_of(body)}")
        return Refused(f"{self.platform} answers {error.code}: {self.words_of(body)}")

    def _no_answer(self, error: Exception) -> PushError:
        why = f"{self.address} cannot be reached: {reason_of(error)}."
        is_tls = isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError)
        # The token was not sent, and trying again does not make a certificate valid.
        return PushError(why) if is_tls else Unclear(why)

    def words_of(self, body: bytes) -> str:
        """Return the platform's message in the body of a refusal, as one harmless line."""
        try:
            found = _message(msgspec.json.decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = ""
        return self.clean(found or body)

    def clean(self, text: str | bytes) -> str:
        """Return a text from the platform as one harmless line, without the token."""
        plain = text[: 100 * _LONGEST_WORDS]
        if isinstance(plain, bytes):
            plain = plain.decode("utf-8", "replace")
        if self._token:
            plain = plain.replace(self._token, "…")
        plain = " ".join(plain.split())
        return clean(plain, _LONGEST_WORDS) or "without a word"


def read_as(value: Any, kind: type[T], what: str) -> T:
    """Convert a platform's JSON to this type; raises PushError with its name `what`."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise PushError(f"This is not {what}: {clean(str(error), _LONGEST_WORDS)}.") from error


def with_query(url: str, query: str) -> str:
    """Add a query to an address, after the query that it has."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(
        parts._replace(query="&".join(filter(None, (parts.query, query))))
    )


def token_of(variable: str, environment: Mapping[str, str], where: str) -> str:
    """Return the token in an environment variable; raises UsageError if there is none."""
    token = environment.get(variable, "").strip()
    if not token:
        raise UsageError(
            f"Put the token into the environment variable {variable}, not on the command line, where other "
            f"users see it. {where}"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{variable} is not a token: copy all of it, and nothing else.")
    return token


def parts_of(address: str, pattern: re.Pattern[str], example: str) -> tuple[str, re.Match[str]]:
    """Split an assignment's address: return the part before the platform's `pattern`, and the match.

    Raises UsageError if the pattern is not found, or others could read the token on the way.
    """
    url = urllib.parse.urlsplit(address.strip())
    found = pattern.search(f"{url.path}?{url.query}")
    if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc or not found:
        raise UsageError(
            f"{clean(address)} is not the address of an assignment: copy it from your browser, as {example}."
        )
    base = f"{url.scheme}://{url.netloc}"
    if is_unprotected(base):
        raise UsageError(
            f"{base} is not https: others on the way could read the token and the grades."
        )
    return base + url.path[: found.start()], found


def _is_rate_limit(code: int, body: bytes) -> bool:
    # Canvas documents 429, but answered 403 with these words for years.
    return code == 429 or (code == 403 and b"Rate Limit Exceeded" in body)


def _message(value: Any) -> str:
    """Return the first message in the JSON of a refusal, at any depth."""
    if isinstance(value, dict):
        for key in ("message", "error_description", "error", "errors", "error_report_id"):
            if isinstance(said := value.get(key), str):
                return said
        return next(filter(None, map(_message, value.values())), "")
    if isinstance(value, list):
        return next(filter(None, map(_message, value)), "")
    return ""
