"""LTI Advantage: a column in the grade book of any LTI platform, and the names and roles of its course.

Assignment and Grade Services 2.0 take scores and return results; Names and Role Provisioning Services 2.0 lists
the students. Launches, which the platform signed, gave the addresses. A score is points and comment in one
request. A platform may not return comments, so we take a comment as arrived when the points have.
"""

from __future__ import annotations

import datetime
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from grader.errors import UsageError
from grader.exports.formats.feedback import plain_feedback
from grader.exports.matching import Key, name_key, person_of
from grader.exports.push.client import (
    Body,
    Client,
    NoJson,
    Points,
    PushError,
    Refused,
    TokenRefused,
    Unclear,
    read_as,
    with_query,
)
from grader.exports.push.comparison import Change, There
from grader.exports.texts import one_line, shortened
from grader.gradebook import Gradebook
from grader.gradebook.platforms import Link, Platform
from grader.gradebook.tool_key import ToolKey
from grader.results import Entry, StudentInfo
from grader.student.client import PAUSES_SECONDS
from grader.submissions.class_list import value_key
from grader.text import clean

T = TypeVar("T")

_AGS = "https://purl.imsglobal.org/spec/lti-ags/scope/"
LINE_ITEM, RESULT, SCORE = f"{_AGS}lineitem", f"{_AGS}result.readonly", f"{_AGS}score"
_LINE_ITEM_READ = f"{LINE_ITEM}.readonly"
MEMBERSHIPS = "https://purl.imsglobal.org/spec/lti-nrps/scope/contextmembership.readonly"

_OF_LINE_ITEM = "application/vnd.ims.lis.v2.lineitem+json"
_OF_LINE_ITEMS = "application/vnd.ims.lis.v2.lineitemcontainer+json"
_OF_RESULTS = "application/vnd.ims.lis.v2.resultcontainer+json"
_OF_SCORE = "application/vnd.ims.lis.v1.score+json"
_OF_MEMBERS = "application/vnd.ims.lti-nrps.v2.membershipcontainer+json"
# This tag and the id of the work identify a line item that we made.
TAG = "lab-bench"
_LONGER = "limit=100"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# A score is not a submission: Canvas would give it the time of the request.
_CANVAS_SUBMISSION = "https://canvas.instructure.com/lti/submission"
# A class of thousands fits; a server reads this in its own process.
_MAX_BYTES = 8 << 20
# Platforms keep comments in text columns; the smallest holds 64 KiB.
_LONGEST_COMMENT = 16_000
_TOKEN_SECONDS = 3600.0
# Replace a token this long before it expires.
_BEFORE_END_SECONDS = 60.0


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float = _TOKEN_SECONDS


class _LineItem(msgspec.Struct, rename="camel"):
    id: str
    label: str | None = None
    score_maximum: Points | None = None
    resource_id: str | None = None
    tag: str | None = None


class _Result(msgspec.Struct, rename="camel"):
    user_id: str | int
    result_score: Points | None = None
    result_maximum: Points | None = None
    comment: str | None = None


class _Members(msgspec.Struct):
    members: list[dict[str, Any]] = []


def work_of(book: Gradebook, assignment: str = "") -> str:
    """Return the id that our column has for the work of a gradebook, or for an assignment in it."""
    facts = book.facts
    return "/".join(filter(None, (facts.course.name, assignment or facts.assignment)))


class Lti:
    """The column of a link in a platform's grade book; without one, find the column of `work` or make it.

    `users` maps the platform's ids to students, from launches. A column that we make has the id `work` and the
    `title`.

    Raises UsageError if the link cannot take points, PushError if the platform refuses.
    """

    one_comment = True
    reads_comments = False

    def __init__(
        self,
        platform: Platform,
        link: Link,
        key: ToolKey,
        users: Mapping[str, str],
        work: str,
        title: str,
    ) -> None:
        self.name = clean(one_line(platform.title), 100)
        self._link, self._users, self._work, self._title = link, users, work, one_line(title)
        self._platform = platform
        self._sent: dict[str, Change] = {}
        self._refuse_missing()
        self._services = _Services(self.name, platform, link, key)
        self._column = link.lineitem
        self.address = self.address_of(link, work)
        item = self._read_item() if link.lineitem else self._found()
        self.worth: float | None = None if item is None else item.score_maximum
        if self.worth == 0:
            raise UsageError(
                f"The column in {self.name} is worth 0 points there: change that first."
            )
        self.notes = [self._about(item)]
        self.keys: Sequence[Key] = (
            Key("student", "id"),
            Key("claim", "column"),
            Key("email", "email", alias=True),
            Key("name", "name", alias=True),
        )

    @staticmethod
    def address_of(link: Link, work: str) -> str:
        """Return an id of the column of a link, which is the same before the column is made."""
        place = link.lineitem or f"{link.lineitems}#{work}"
        return f"{link.issuer} {link.client_id} {place}"

    def _refuse_missing(self) -> None:
        """Raise UsageError if the platform gave no address for grades, or too few permissions."""
        link = self._link
        if not (link.lineitem or link.lineitems):
            raise UsageError(
                f"{self.name} gave no address for grades in its last launch of {_called(link)}: allow the tool "
                "Assignment and Grade Services there, and launch it once more."
            )
        if missing := {SCORE, RESULT} - {*link.scopes}:
            words = ", ".join(sorted(scope.removeprefix(_AGS) for scope in missing))
            raise UsageError(
                f"{self.name} does not allow this tool {words}, which it needs to send scores and read "
                "results: allow that, and launch it once more."
            )

    def _about(self, item: _LineItem | None) -> str:
        where = _called(self._link)
        if item is None and not self._column:
            return (
                f"{where} in {self.name} has no column for this yet: the first score creates one."
            )
        label = clean(one_line(item.label or ""), 200) if item is not None else ""
        return f"{label or where} in {self.name}, whose settings decide when students see points and comments."

    # --- the column -----------------------------------------------------------------------------

    @property
    def _may_read_items(self) -> bool:
        return bool({LINE_ITEM, _LINE_ITEM_READ} & {*self._link.scopes})

    def _read_item(self) -> _LineItem | None:
        """Read the column of the link; None if the platform does not permit it."""
        if not self._may_read_items:
            return None
        answer = self._services.read(self._column, _OF_LINE_ITEM)
        return read_as(answer, _LineItem, "a line item")

    def _found(self) -> _LineItem | None:
        """Find the column that we or Deep Linking made earlier."""
        if not self._may_read_items:
            raise UsageError(
                f"{self.name} gave no column for {_called(self._link)}, and does not allow this tool to list "
                "columns: allow that, or set the link to be graded there, and launch it once more."
            )
        asked = with_query(
            self._link.lineitems, urllib.parse.urlencode({"resource_id": self._work, "tag": TAG})
        )
        items = self._services.listed(
            asked, list[_LineItem], _OF_LINE_ITEMS, "a list of line items"
        )
        mine = [
            item
            for page in items
            for item in page
            if item.resource_id == self._work and item.tag == TAG
        ]
        if len(mine) > 1:
            raise UsageError(
                f"{self.name} has {len(mine)} columns for {self._work} in {_called(self._link)}: remove all "
                "but one there."
            )
        if mine:
            self._column = mine[0].id
            return mine[0]
        if LINE_ITEM not in self._link.scopes:
            raise UsageError(
                f"{self.name} has no column for {_called(self._link)}, and does not allow this tool to make "
                "one: allow that, or set the link to be graded there, and launch it once more."
            )
        return None

    def _made(self) -> None:
        """Make the column; if no answer comes, check whether it was made before trying again."""
        item = {
            "scoreMaximum": self.worth,
            "label": self._title or self._work,
            "resourceId": self._work,
            "tag": TAG,
        }
        body = Body(msgspec.json.encode(item), _OF_LINE_ITEM)
        for pause in (*PAUSES_SECONDS, None):
            try:
                answer = self._services.ask("POST", self._link.lineitems, body, _OF_LINE_ITEM)
            except Unclear:
                if pause is None:
                    raise
            else:
                self._column = read_as(answer, _LineItem, "a line item").id
                return
            time.sleep(pause)
            if self._found() is not None:
                return
        raise AssertionError("the last try returns or raises")

    # --- the protocol `Platform` ----------------------------------------------------------------

    def person(self, entry: Entry) -> Mapping[str, str]:
        """Return the names and ids to match a student by."""
        student = entry.student
        return {
            **person_of(student),
            "column": value_key(student.cell(self._platform.column)),
            "email": value_key(student.email),
        }

    def worded(self, entry: Entry, title: str) -> str:
        """Return the comment as plain text, which the service requires."""
        return shortened(plain_feedback(entry, title).rstrip("\n"), _LONGEST_COMMENT)

    def students(self) -> list[There]:
        """Read the students of the platform's course, and their results.

        If the platform lists no names and roles, return the students who launched.
        """
        results = self._results()
        if not self._link.memberships:
            return [self._there(user, {}, results) for user in self._users]
        found: dict[str, There] = {}
        for member in _students(self._services, self._link):
            user = _text(member, "user_id")
            found[user] = self._there(user, member, results)
        return list(found.values())

    def student(self, there: There) -> There:
        """Read one student's result again."""
        results = self._results(there.user)
        points, comments = results.get(there.user, (None, ()))
        return msgspec.structs.replace(there, points=points, comments=comments)

    def points(self) -> Mapping[str, float | None]:
        """Read the points of all students."""
        return {user: points for user, (points, _) in self._results().items()}

    def send(self, change: Change) -> None:
        """Send points, and the comment if it is new, in one request."""
        if not self._column:
            self._made()
        mine = change.mine
        score: dict[str, Any] = {
            "userId": change.there.user,
            "scoreGiven": round(mine.points, 2),
            "scoreMaximum": self.worth,
            # Write milliseconds: a platform refuses a score that is not newer than the last one.
            "timestamp": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "activityProgress": "Initialized" if mine.absent else "Completed",
            "gradingProgress": "FullyGraded",
            _CANVAS_SUBMISSION: {"new_submission": False},
        }
        if change.new_comment:
            score["comment"] = mine.comment
        self._sent[change.there.user] = change
        body = Body(msgspec.json.encode(score), _OF_SCORE)
        self._services.ask("POST", _below(self._column, "scores"), body, answers=False)

    def _results(self, user: str = "") -> dict[str, tuple[float | None, tuple[str, ...]]]:
        """Read the points and comment of each user with a result, or of one user."""
        if not self._column:
            return {}
        address = _below(self._column, "results")
        if user:
            address = with_query(address, urllib.parse.urlencode({"user_id": user}))
        pages = self._services.listed(address, list[_Result], _OF_RESULTS, "a list of results")
        return {
            str(result.user_id): (
                self._points_of(result),
                (result.comment,) if result.comment else (),
            )
            for page in pages
            for result in page
        }

    def _points_of(self, result: _Result) -> float | None:
        """Return the points of a result, scaled to the column."""
        points, out_of = result.result_score, result.result_maximum
        if points is None:
            # Some platforms return no points after a 0.
            sent = self._sent.get(str(result.user_id))
            return 0.0 if sent is not None and sent.mine.points == 0 else None
        return points * self.worth / out_of if out_of and self.worth else points

    def _there(
        self,
        user: str,
        member: Mapping[str, Any],
        results: Mapping[str, tuple[float | None, tuple[str, ...]]],
    ) -> There:
        points, comments = results.get(user, (None, ()))
        name = _name(member)
        cells = {
            "student": self._users.get(user, ""),
            "claim": value_key(_text(member, self._platform.claim)),
            "email": value_key(_text(member, "email")),
            "name": name_key(name),
        }
        shown = name or self._users.get(user, "")
        return There(user=user, name=shown, cells=cells, points=points, comments=comments)


def class_list(
    platform: Platform, link: Link, key: ToolKey, id_claim: str = "email"
) -> tuple[list[StudentInfo], list[str]]:
    """Return the students of a link's course, by Names and Roles, and the names of students without an id.

    A student's id is the member's `id_claim`. Launches find the student by the platform's claim and column.

    Raises PushError if the platform refuses.
    """
    services = _Services(clean(one_line(platform.title), 100), platform, link, key)
    found: dict[str, StudentInfo] = {}
    without: list[str] = []
    for member in _students(services, link):
        email, claim = _text(member, "email").strip(), _text(member, platform.claim).strip()
        id_ = _text(member, id_claim).strip()
        if not id_ or id_ in found:
            without.append(_name(member) or email or _text(member, "user_id"))
            continue
        ids = {platform.column: claim} if platform.column not in ("id", "name", "email") else {}
        found[id_] = StudentInfo(id=id_, name=_name(member), email=email, ids=ids)
    return [found[id_] for id_ in sorted(found)], without


class _Services:
    """Requests to a platform's services; gets an access token when one is needed."""

    def __init__(self, name: str, platform: Platform, link: Link, key: ToolKey) -> None:
        self._name, self._platform, self._key = name, platform, key
        addresses = (link.lineitem, link.lineitems, link.memberships)
        self._origins = {_origin(address) for address in addresses if address}
        wanted = [LINE_ITEM, _LINE_ITEM_READ, RESULT, SCORE]
        scopes = [scope for scope in wanted if scope in link.scopes]
        self._scopes = " ".join(scopes + [MEMBERSHIPS] * bool(link.memberships))
        self._token, self._ends_at = "", 0.0

    def read(self, url: str, accept: str) -> Any:
        """Return the JSON at an address; retry after temporary failures."""
        return self._with_token(url, lambda client: client.read(url, accept=accept).value)

    def listed(self, url: str, kind: type[T], accept: str, what: str) -> list[T]:
        """Return the pages of a list."""
        pages = self._with_token(
            url, lambda client: list(client.pages(url, accept=accept, longer=_LONGER))
        )
        return [read_as(page, kind, what) for page in pages]

    def ask(
        self, method: str, url: str, body: Body, accept: str = "", *, answers: bool = True
    ) -> Any:
        """Send a request once."""
        return self._with_token(
            url, lambda client: client.ask(method, url, body, accept=accept, answers=answers).value
        )

    def _with_token(self, url: str, asked: Any) -> Any:
        """Ask with the present token; if it expired early, get another and ask once more."""
        try:
            return asked(self._client(url))
        except TokenRefused:
            self._ends_at = 0.0
            return asked(self._client(url))

    def _client(self, url: str) -> Client:
        """Return a client for an address; raise PushError if no launch named its host."""
        origin = _origin(url)
        if origin not in self._origins:
            raise PushError(
                f"{self._name} refers to {clean(url, 200)}, another host: the token is not sent there."
            )
        if time.monotonic() >= self._ends_at:
            self._sign_in()
        headers = {"Authorization": f"Bearer {self._token}"}
        return Client(self._name, origin, self._token, headers, most_bytes=_MAX_BYTES)

    def _sign_in(self) -> None:
        """Get an access token; each try needs a new assertion, since one is valid only once."""
        platform = self._platform
        for pause in (*PAUSES_SECONDS, None):
            assertion = self._key.signed(
                {
                    "iss": platform.client_id,
                    "sub": platform.client_id,
                    "aud": platform.audience or platform.token,
                }
            )
            fields = [
                ("grant_type", "client_credentials"),
                ("client_assertion_type", _ASSERTION),
                ("client_assertion", assertion),
                ("scope", self._scopes),
            ]
            try:
                origin = _origin(platform.token)
                client = Client(self._name, origin, assertion, most_bytes=_MAX_BYTES)
                answer = client.ask("POST", platform.token, fields, accept="application/json")
            except Unclear as error:
                if pause is None or isinstance(error, NoJson):
                    raise
            except (Refused, TokenRefused) as error:
                raise PushError(
                    f"{self._name} gives this server no access token: {error} Check that it knows the keys at "
                    "/lti/keys, and the client id."
                ) from error
            else:
                break
            time.sleep(pause)
        token = read_as(answer.value, _Token, "an access token")
        is_plain = token.access_token.isascii() and token.access_token.isprintable()
        if not token.access_token or not is_plain:
            raise PushError(f"{self._name} sent an invalid access token.")
        self._token = token.access_token
        self._ends_at = time.monotonic() + token.expires_in - _BEFORE_END_SECONDS


# --- values -------------------------------------------------------------------------------------------


def _called(link: Link) -> str:
    """Return a name of a link to show."""
    title = link.resource_title or link.context_title or link.resource or link.context
    return clean(one_line(title), 200) or "the link"


def _below(column: str, name: str) -> str:
    """Return the address of a column's results or scores: add `name` to the path, before the query."""
    parts = urllib.parse.urlsplit(column)
    return urllib.parse.urlunsplit(parts._replace(path=f"{parts.path}/{name}"))


def _origin(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}"


def _students(services: _Services, link: Link) -> Iterator[dict[str, Any]]:
    """Yield the active learners of a link's course, each with its claims."""
    what = "a list of members"
    for page in services.listed(link.memberships, _Members, _OF_MEMBERS, what):
        for member in page.members:
            if _text(member, "user_id") and _is_student(member):
                yield member


def _name(member: Mapping[str, Any]) -> str:
    """Return a member's name for people; empty if the platform does not tell it."""
    parts = (_text(member, "given_name"), _text(member, "family_name"))
    return _text(member, "name") or " ".join(filter(None, parts))


def _text(member: Mapping[str, Any], name: str) -> str:
    """Return a claim of a member as text; empty if there is none."""
    value = member.get(name)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _is_student(member: Mapping[str, Any]) -> bool:
    """Return whether a member is an active learner and not a test user."""
    named = member.get("roles")
    roles = [role for role in named if isinstance(role, str)] if isinstance(named, list) else []
    if member.get("status", "Active") not in ("Active", None):
        return False
    if any(role.endswith("#TestUser") for role in roles):
        return False
    return any(
        role == "Learner" or role.endswith("membership#Learner") or "membership/Learner#" in role
        for role in roles
    )
