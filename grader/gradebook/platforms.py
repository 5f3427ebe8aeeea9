"""LTI platforms, such as Canvas and Moodle, and their launches: users, links, and addresses of services.

`grade platform` registers platforms. A launch gives the platform's id of a student, its course and link, and
the addresses of its grades and names. Earlier graders ignore these tables. Only this module has their SQL. Call
functions that write within `Gradebook.transaction`.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import socket
import urllib.parse
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.work import DamagedValueError
from grader.text import clean

T = TypeVar("T")

_TABLES = """
CREATE TABLE IF NOT EXISTS platforms (
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    platform TEXT NOT NULL,             -- the struct Platform as JSON
    PRIMARY KEY (issuer, client_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS platform_users (
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    user TEXT NOT NULL,                 -- the platform's id of a person (`sub`)
    student TEXT NOT NULL,
    PRIMARY KEY (issuer, client_id, user)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS platform_links (
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    deployment TEXT NOT NULL,
    context TEXT NOT NULL,              -- the platform's id of its course
    resource TEXT NOT NULL,             -- the platform's id of the link there
    link TEXT NOT NULL,                 -- the struct Link as JSON
    PRIMARY KEY (issuer, client_id, deployment, context, resource)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS platform_passback (
    issuer TEXT NOT NULL,
    client_id TEXT NOT NULL,
    deployment TEXT NOT NULL,
    context TEXT NOT NULL,
    resource TEXT NOT NULL,
    turned_on TEXT NOT NULL,            -- the struct TurnedOn as JSON
    PRIMARY KEY (issuer, client_id, deployment, context, resource)
) WITHOUT ROWID;
"""
_LONGEST = 2000
_HERE = ("127.0.0.1", "::1", "localhost")
_NAMES_HERE = ("localhost", "ip6-localhost", "ip6-loopback")
# A host without a name or a password, and without signs that have a meaning in the policy of a page.
_HOST = re.compile(r"[A-Za-z0-9.:\[\]-]*[A-Za-z0-9\]]")


class Platform(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A registered platform: its `issuer`, our `client_id` there, and its deployments of this tool.

    `authorization`, `token` and `keys` are the addresses for OIDC authorization, access tokens and the JWKS.
    `name` is shown to staff. A user is the student whose `column` in the class list equals the platform's
    `claim`. `audience` is for requests for access tokens, by default the address `token`. Instructors of
    the platform's courses `staff_courses`, given by id, are staff here.
    """

    issuer: str
    client_id: str
    deployments: tuple[str, ...]
    authorization: str
    token: str
    keys: str
    name: str = ""
    claim: str = "email"
    column: str = "email"
    audience: str = ""
    staff_courses: tuple[str, ...] = ()

    @property
    def origins(self) -> dict[str, str]:
        """Map each deployment to the origin of its sessions (`sessions`).

        An origin changes with the rules to find people, which ends the sessions that began under the old ones.
        """
        rules = self.issuer, self.client_id, self.keys, self.claim, self.column, self.staff_courses
        digest = hashlib.sha256(msgspec.json.encode(rules)).hexdigest()
        return {each: f"lti:{digest}:{each}" for each in self.deployments}

    @property
    def title(self) -> str:
        """The name, or the issuer if the platform has no name."""
        return self.name or self.issuer


class Link(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A link to this server in a platform's course, as of its last launch.

    `lineitem`, `lineitems` and `memberships` are the addresses of its column in the platform's grade book, of
    the list of columns, and of names and roles; each is empty if the platform offers none. `scopes` are the
    permissions that the platform gives.
    """

    issuer: str
    client_id: str
    deployment: str
    context: str = ""
    resource: str = ""
    context_title: str = ""
    resource_title: str = ""
    lineitem: str = ""
    lineitems: str = ""
    scopes: tuple[str, ...] = ()
    memberships: str = ""
    # The assignment that the link opens, in the gradebook of a whole course.
    assignment: str = ""

    @property
    def key(self) -> LinkKey:
        """The ids that identify this link."""
        return self.issuer, self.client_id, self.deployment, self.context, self.resource


LinkKey = tuple[str, str, str, str, str]


class TurnedOn(msgspec.Struct, frozen=True):
    """The record that pass-back of a link is on: the person who turned it on, and the time."""

    by: str
    time: str


def prepare(book: Gradebook) -> None:
    """Make the tables if there are none."""
    book.tables.connection.executescript(_TABLES)


def changing_platforms(folder: Path) -> AbstractContextManager[Gradebook]:
    """Open the gradebook in a folder to change platforms, as `Gradebook.open_to_change` does."""
    return Gradebook.open_to_change(folder, prepare)


# --- platforms --------------------------------------------------------------------------------------


def platforms(book: Gradebook) -> list[Platform]:
    """Return the registered platforms, sorted by issuer and client id."""
    query = "SELECT platform FROM platforms ORDER BY issuer, client_id"
    return [_decoded(text, Platform) for (text,) in _rows(book, query)]


def add_platform(book: Gradebook, platform: Platform) -> bool:
    """Keep a platform, replacing one with the same issuer and client id; return whether there was one.

    Raises SubmissionError if an address is not `is_safe`.
    """
    for field in ("authorization", "token", "keys"):
        refuse_unsafe(getattr(platform, field), f"the address --{field}")
    if not platform.issuer or not platform.client_id:
        raise SubmissionError("A platform has an issuer and a client id.")
    key = platform.issuer, platform.client_id
    was_there = key in {(each.issuer, each.client_id) for each in platforms(book)}
    book.tables.connection.execute(
        "INSERT OR REPLACE INTO platforms VALUES (?, ?, ?)", (*key, _encoded(platform))
    )
    return was_there


def remove_platform(book: Gradebook, issuer: str, client_id: str) -> bool:
    """Remove a platform, its links and its users; return whether there was one."""
    found = False
    for table in ("platform_users", "platform_links", "platform_passback", "platforms"):
        found = bool(
            book.tables.connection.execute(
                f"DELETE FROM {table} WHERE issuer = ? AND client_id = ?",  # noqa: S608
                (issuer, client_id),
            ).rowcount
        )
    return found


def is_safe(address: str) -> bool:
    """Return whether nobody on the way can read or change messages: https, or http on this machine.

    >>> is_safe("https://canvas.example.edu/x"), is_safe("http://canvas.example.edu/x")
    (True, False)
    """
    try:
        url = urllib.parse.urlsplit(address)
        host, _ = url.hostname, url.port
    except ValueError:
        return False
    is_protected = url.scheme == "https" or (url.scheme == "http" and host in _HERE)
    is_plain = address.isascii() and address.isprintable() and " " not in address
    return is_protected and is_plain and _HOST.fullmatch(url.netloc) is not None


def refuse_unsafe(address: str, what: str) -> None:
    """Raise SubmissionError for an address that is not `is_safe` or too long; `what` names it."""
    if not is_safe(address) or len(address) > _LONGEST:
        raise SubmissionError(f"{clean(address) or 'Nothing'} is not {what}: write https://....")


def safe_address(address: str, *, may_be_here: bool) -> str:
    """Return an address that a platform sent; empty if unsafe, or on this machine without `may_be_here`."""
    try:
        refuse_unsafe(address, "")
    except SubmissionError:
        return ""
    return address if may_be_here or not _is_here(address) else ""


def _is_here(address: str) -> bool:
    """Return whether an address is on this machine, in any spelling; other names are not looked up."""
    host = (urllib.parse.urlsplit(address).hostname or "").rstrip(".")
    if host.rpartition(".")[2] in _NAMES_HERE:
        return True
    try:
        # Not only 127.0.0.1: also 127.1 and 2130706433.
        number = ipaddress.ip_address(host if ":" in host else socket.inet_aton(host))
    except (ValueError, OSError):
        return False
    number = getattr(number, "ipv4_mapped", None) or number
    # The unspecified address, 0.0.0.0, leads here, too.
    return number.is_loopback or number.is_unspecified


# --- launches ------------------------------------------------------------------------------


def keep_launch(book: Gradebook, link: Link, user: str = "", student: str = "") -> None:
    """Keep the link of a valid launch, and the student behind the platform's `user`.

    Without a `student`, as for staff, only the link is kept. If a known link opens another assignment now, its
    pass-back is turned off, since its column has the points of the former one. Unsafe addresses are dropped. So
    are addresses on this machine if the platform runs elsewhere, so that it cannot make the server call local
    services.
    """
    known = [p for p in platforms(book) if (p.issuer, p.client_id) == (link.issuer, link.client_id)]
    is_here = any(_is_here(each.token) for each in known)
    link = msgspec.structs.replace(
        link,
        lineitem=safe_address(link.lineitem, may_be_here=is_here),
        lineitems=safe_address(link.lineitems, may_be_here=is_here),
        memberships=safe_address(link.memberships, may_be_here=is_here),
    )
    platform = link.issuer, link.client_id
    before = next((each for each in links(book) if each.key == link.key), link)
    if before.assignment != link.assignment:
        turn_off(book, link.key)
    book.tables.connection.execute(
        "INSERT OR REPLACE INTO platform_links VALUES (?, ?, ?, ?, ?, ?)",
        (*link.key, _encoded(link)),
    )
    if user and student:
        book.tables.connection.execute(
            "INSERT OR REPLACE INTO platform_users VALUES (?, ?, ?, ?)", (*platform, user, student)
        )


def links(book: Gradebook) -> list[Link]:
    """Return the links that launched this server, sorted by platform, course and link."""
    query = (
        "SELECT link FROM platform_links ORDER BY issuer, client_id, deployment, context, resource"
    )
    return [_decoded(text, Link) for (text,) in _rows(book, query)]


def chosen_link(book: Gradebook, words: str = "", assignment: str = "") -> tuple[Platform, Link]:
    """Return the link to send points to, and its platform.

    `words` occur in the names or ids of the platform, course or link. Without words, the link opens this
    assignment, or the whole course if it is empty. Raises SubmissionError unless exactly one link fits.
    """
    if not platforms(book):
        raise SubmissionError(
            "No LTI platform is registered: `grade platform add` does that, as docs/serve.md explains."
        )
    found = linked(book)
    if not found:
        raise SubmissionError(
            "Points cannot be sent yet, because no launch gave an address for grades. Allow the tool "
            "Assignment and Grade Services on the platform, and open the tool there once. Then run this "
            "command again."
        )
    if not words:
        found = [each for each in found if each[1].assignment == assignment] or found
    return _chosen(found, words, "Name one link with --link")


def chosen_course(book: Gradebook, words: str = "") -> tuple[Platform, Link]:
    """Return a link of a course that gives access to its names and roles, and its platform.

    `words` are as in `chosen_link`. Raises SubmissionError unless exactly one course has them all.
    """
    known = {(platform.issuer, platform.client_id): platform for platform in platforms(book)}
    courses = {
        link.memberships: (known[link.issuer, link.client_id], link)
        for link in links(book)
        if link.memberships and (link.issuer, link.client_id) in known
    }
    if not courses:
        raise SubmissionError(
            "The students of a course are not known yet, because no launch gave access to its names and "
            "roles. Register the platform with `grade platform add`, allow the tool Names and Role "
            "Provisioning there, and open the tool in the course once. Then run this command again."
        )
    return _chosen(list(courses.values()), words, "Name one course")


def _chosen(
    found: Sequence[tuple[Platform, Link]], words: str, several: str
) -> tuple[Platform, Link]:
    """Return the only link with all these words; raises SubmissionError if there is none, or `several`."""
    wanted = words.casefold().split()
    fitting = [
        each for each in found if all(word in " ".join(_names(*each)).casefold() for word in wanted)
    ]
    exact = [each for each in found if words and words in _names(*each)]
    if len(exact) == 1:
        return exact[0]
    if len(fitting) == 1:
        return fitting[0]
    lines = "".join(f"\n  {described(*each)}" for each in fitting or found)
    problem = f"No link has {clean(words)!r}" if not fitting else several
    raise SubmissionError(f"{problem}, by words of its platform, course or title:{lines}")


def described(platform: Platform, link: Link) -> str:
    """Return a line that describes a link to people."""
    course = clean(link.context_title or link.context) or "a course without a name"
    title = clean(link.resource_title or link.resource) or "no link yet"
    part = f" ({clean(link.assignment)})" if link.assignment else ""
    return f"{clean(platform.title)}: {course}: {title}{part}"


def _names(platform: Platform, link: Link) -> tuple[str, ...]:
    return (
        platform.name,
        platform.issuer,
        platform.client_id,
        link.deployment,
        link.context,
        link.context_title,
        link.resource,
        link.resource_title,
        link.assignment,
    )


def users(book: Gradebook, issuer: str, client_id: str) -> dict[str, str]:
    """Map a platform's users to the students behind them, as far as they have launched."""
    query = "SELECT user, student FROM platform_users WHERE issuer = ? AND client_id = ?"
    return dict(_rows(book, query, issuer, client_id))


# --- pass-back --------------------------------------------------------------------------------------


def turn_on(book: Gradebook, key: LinkKey, turned_on: TurnedOn) -> None:
    """Turn on pass-back of a link: the server sends its changed points from now on."""
    book.tables.connection.execute(
        "INSERT OR REPLACE INTO platform_passback VALUES (?, ?, ?, ?, ?, ?)",
        (*key, _encoded(turned_on)),
    )


def turn_off(book: Gradebook, key: LinkKey) -> None:
    """Turn off pass-back of a link."""
    book.tables.connection.execute(
        "DELETE FROM platform_passback WHERE issuer = ? AND client_id = ? AND deployment = ?"
        " AND context = ? AND resource = ?",
        key,
    )


def turned_on(book: Gradebook) -> dict[LinkKey, TurnedOn]:
    """Return the links with pass-back on."""
    query = (
        "SELECT issuer, client_id, deployment, context, resource, turned_on FROM platform_passback"
    )
    return {tuple(row[:5]): _decoded(row[5], TurnedOn) for row in _rows(book, query)}


def linked(book: Gradebook) -> list[tuple[Platform, Link]]:
    """Return the links that can take points, each with its platform.

    Links without a column, such as a link to one exercise, share the column that is made for their course. So
    of these, return only the first, and none if another link of the course has a column. A link with pass-back
    on is always returned.
    """
    known = {(each.issuer, each.client_id): each for each in platforms(book)}
    on = turned_on(book)
    found = [link for link in links(book) if link.lineitem or link.lineitems]
    # Links with a column come first; links from Deep Linking, which have no resource, come after other ones.
    found.sort(key=lambda link: (not link.lineitem, not link.resource))
    courses, kept = set[tuple[str, str, str, str]](), set[LinkKey]()
    for link in found:
        course = link.issuer, link.client_id, link.context, link.assignment
        if link.lineitem or course not in courses or link.key in on:
            kept.add(link.key)
        courses.add(course)
    return [
        (known[link.issuer, link.client_id], link)
        for link in links(book)
        if link.key in kept and (link.issuer, link.client_id) in known
    ]


def _rows(book: Gradebook, query: str, *values: str) -> list[Any]:
    """Return the rows of a query; none if the gradebook lacks the tables."""
    connection = book.tables.connection
    find = "SELECT 1 FROM sqlite_master WHERE name = 'platform_passback'"
    if connection.execute(find).fetchone() is None:
        return []
    return connection.execute(query, values).fetchall()


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(text: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise DamagedValueError(str(error)) from error
