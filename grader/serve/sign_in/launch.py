"""Launches from LTI 1.3 platforms, such as Canvas and Moodle: the person, the course and the link.

A launch is a sign-in by OpenID Connect that the platform begins. The platform asks this server to begin
(`login_request`), the server asks back for an ID token, and the platform posts one with the claims of LTI.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oidc.core import ImplicitIDToken

from grader.errors import SubmissionError
from grader.gradebook.platforms import Link, Platform, is_safe
from grader.gradebook.tokens import Role
from grader.results import StudentInfo
from grader.serve.fetching import IssuerKeys
from grader.serve.http import Refusal
from grader.serve.sign_in.handshakes import Handshake
from grader.serve.sign_in.id_token import FAULTS, checked_claims, faulty
from grader.serve.sign_in.sign_in_file import People, Person
from grader.submissions.class_list import value_key
from grader.text import clean

# Platforms post launches to LAUNCH. A launch with the target SELECT chooses a page for a link.
LOGIN, LAUNCH, SELECT = "/lti/login", "/lti/launch", "/lti/select"
# The length of a session.
HOURS = 12
LTI = "https://purl.imsglobal.org/spec/lti/claim/"
_GRADES = "https://purl.imsglobal.org/spec/lti-ags/claim/endpoint"
_NAMES = "https://purl.imsglobal.org/spec/lti-nrps/claim/namesroleservice"
DEEP_LINKING = "https://purl.imsglobal.org/spec/lti-dl/claim/"
VERSION = "1.3.0"
OPENS, SELECTS = "LtiResourceLinkRequest", "LtiDeepLinkingRequest"
# Roles in the course: an instructor of the institution may be a student here.
_MEMBERSHIP = "http://purl.imsglobal.org/vocab/lis/v2/membership#"
_INSTRUCTOR = _MEMBERSHIP + "Instructor"
# Canvas gives teaching assistants the role of an instructor, too, and writes this one in lower case.
_ASSISTANT = "http://purl.imsglobal.org/vocab/lis/v2/membership/instructor#teachingassistant"
_SELECTING = {_INSTRUCTOR, _MEMBERSHIP + "ContentDeveloper", _MEMBERSHIP + "Administrator"}
_LONGEST = 1000


class _Place(msgspec.Struct):
    id: str
    title: str = ""


class _Grades(msgspec.Struct):
    scope: tuple[str, ...] = ()
    lineitem: str = ""
    lineitems: str = ""


class _Names(msgspec.Struct):
    context_memberships_url: str = ""


class _Settings(msgspec.Struct):
    deep_link_return_url: str
    accept_types: tuple[str, ...]
    data: Any = None


class _Claims(msgspec.Struct):
    """The claims of a launch, with the types of the specification."""

    sub: str
    version: str = msgspec.field(name=LTI + "version")
    message_type: str = msgspec.field(name=LTI + "message_type")
    deployment: str = msgspec.field(name=LTI + "deployment_id")
    resource: _Place = msgspec.field(name=LTI + "resource_link", default_factory=lambda: _Place(""))
    selection: _Settings | None = msgspec.field(
        name=DEEP_LINKING + "deep_linking_settings", default=None
    )
    roles: tuple[str, ...] = msgspec.field(name=LTI + "roles", default=())
    context: _Place = msgspec.field(name=LTI + "context", default_factory=lambda: _Place(""))
    target: str = msgspec.field(name=LTI + "target_link_uri", default="")
    grades: _Grades = msgspec.field(name=_GRADES, default_factory=_Grades)
    names: _Names = msgspec.field(name=_NAMES, default_factory=_Names)


class Selection(NamedTuple):
    """A launch that chooses a page for a link: the address for the answer, and data to send back with it."""

    return_to: str
    data: Any


class Launch(NamedTuple):
    """A valid launch by a `link` to the address `target`.

    `user` is the platform's id of the person, and `value` the claim that identifies people here. During a
    `selection`, the link has a course but no id yet.
    """

    platform: Platform
    link: Link
    user: str
    value: str
    is_instructor: bool
    target: str
    selection: Selection | None


class LaunchReader:
    """Reads launches at the server's `address`, and keeps the platforms' keys."""

    def __init__(self, address: str) -> None:
        self._launch = address + LAUNCH
        self._lock = threading.Lock()
        self._keys: dict[str, IssuerKeys] = {}

    def authorization(
        self, platform: Platform, handshake: Handshake, asked: Mapping[str, str]
    ) -> str:
        """Return the address to send the browser to for an ID token; `asked` is the request to begin."""
        hints = {name: asked[name] for name in ("login_hint", "lti_message_hint") if name in asked}
        return str(
            prepare_grant_uri(
                platform.authorization,
                client_id=platform.client_id,
                response_type="id_token",
                redirect_uri=self._launch,
                scope="openid",
                state=handshake.state,
                nonce=handshake.nonce,
                response_mode="form_post",
                prompt="none",
                **hints,
            )
        )

    def launch(
        self, platforms: Sequence[Platform], handshake: Handshake, posted: Mapping[str, str]
    ) -> Launch:
        """Return the launch that a platform posted. It may wait for keys: do not call it in the event loop.

        Raises Refusal if the launch is invalid, or comes from another platform than the one asked.
        """
        platform, deployment = asked_platform(platforms, note=handshake.note)
        if "error" in posted or not posted.get("id_token"):
            said = clean(posted.get("error", "no ID token"), 100)
            raise Refusal(
                403, f"{platform.title} did not sign you in ({said}). Open the link again."
            )
        try:
            claims, whole = self._checked(platform, handshake, posted["id_token"])
            if deployment and claims.deployment != deployment:
                raise ValueError("the launch is of another deployment than its beginning")
            return _read(platform, claims, whole)
        except Refusal as refusal:
            # A token signed with an unknown key is the platform's fault.
            raise faulty(refusal.detail) if refusal.status_code == 401 else refusal from None
        except FAULTS as error:
            raise faulty(f"{type(error).__name__}: {error}") from error

    def _checked(
        self, platform: Platform, handshake: Handshake, token: str
    ) -> tuple[_Claims, dict[str, Any]]:
        """Check an ID token, and return its claims: as a struct of LTI's, and all of them."""
        claims = checked_claims(
            token,
            self._keys_of(platform),
            ImplicitIDToken,
            issuer=platform.issuer,
            client_id=platform.client_id,
            nonce=handshake.nonce,
        )
        of_lti = msgspec.convert(claims, _Claims)
        if of_lti.version != VERSION or of_lti.message_type not in (OPENS, SELECTS):
            raise ValueError(f"LTI {of_lti.version} {of_lti.message_type}"[:100])
        if of_lti.deployment not in platform.deployments:
            raise ValueError(f"the deployment {of_lti.deployment[:100]} is not registered")
        return of_lti, claims

    def _keys_of(self, platform: Platform) -> IssuerKeys:
        with self._lock:
            if platform.keys not in self._keys:
                self._keys[platform.keys] = IssuerKeys(platform.keys, "The platform's")
            return self._keys[platform.keys]


def login_request(platforms: Sequence[Platform], asked: Mapping[str, str]) -> tuple[Platform, str]:
    """Return the platform that asks to begin a launch, and the note for its handshake.

    Raises Refusal if the platform is not registered, or the request is incomplete.
    """
    issuer, client_id = asked.get("iss", ""), asked.get("client_id", "")
    deployment = asked.get("lti_deployment_id", "")
    found = [p for p in platforms if p.issuer == issuer and client_id in ("", p.client_id)]
    if len(found) != 1:
        unknown = f"The platform {clean(issuer, 200)} (client {clean(client_id, 100)}) is not registered here"
        several = "The platform does not name its client id, and has several here"
        raise Refusal(403, f"{several if found else unknown}: ask your instructor.")
    if deployment and deployment not in found[0].deployments:
        raise Refusal(
            403,
            f"The deployment {clean(deployment, 100)} of {found[0].title} is not registered here: ask your "
            "instructor.",
        )
    if not asked.get("login_hint"):
        raise Refusal(400, "The platform's request does not say who signs in (`login_hint`).")
    note = msgspec.json.encode((found[0].issuer, found[0].client_id, deployment)).decode()
    return found[0], note


def asked_platform(platforms: Sequence[Platform], note: str) -> tuple[Platform, str]:
    """Return the platform in a handshake's note, and the deployment if the platform named one.

    Raises Refusal if the platform has been removed.
    """
    issuer, client_id, deployment = msgspec.json.decode(note, type=tuple[str, str, str])
    for platform in platforms:
        if (platform.issuer, platform.client_id) == (issuer, client_id):
            return platform, deployment
    raise Refusal(403, "This platform is not registered here any more: ask your instructor.")


def _read(platform: Platform, claims: _Claims, whole: Mapping[str, Any]) -> Launch:
    selection = _selection(platform, claims) if claims.message_type == SELECTS else None
    resource = claims.resource if selection is None else _Place("")
    ids = (claims.sub, claims.context.id, resource.id, claims.deployment)
    if not claims.sub or not (resource.id or selection) or max(map(len, ids)) > _LONGEST:
        raise ValueError("an id (sub, resource_link) is empty or too long")
    link = Link(
        issuer=platform.issuer,
        client_id=platform.client_id,
        deployment=claims.deployment,
        context=claims.context.id,
        resource=resource.id,
        context_title=claims.context.title[:_LONGEST],
        resource_title=resource.title[:_LONGEST],
        lineitem=claims.grades.lineitem,
        lineitems=claims.grades.lineitems,
        scopes=claims.grades.scope,
        memberships=claims.names.context_memberships_url,
    )
    value = _claim(whole, platform.claim)
    is_assistant = any(role.lower().startswith(_ASSISTANT) for role in claims.roles)
    is_instructor = _INSTRUCTOR in claims.roles and not is_assistant
    target = claims.target[:_LONGEST]
    return Launch(platform, link, claims.sub, value, is_instructor, target, selection)


def _selection(platform: Platform, claims: _Claims) -> Selection:
    """Return a launch's request to choose; raises Refusal if the person may not, or no link is accepted."""
    settings = claims.selection
    if settings is None or not is_safe(settings.deep_link_return_url):
        raise ValueError("deep_linking_settings without an https address to return to")
    if not _SELECTING & {*claims.roles}:
        raise Refusal(
            403, f"Only teachers of the course at {platform.title} can choose the page for a link."
        )
    if "ltiResourceLink" not in settings.accept_types:
        raise Refusal(403, f"{platform.title} does not accept a link to a tool here.")
    return Selection(settings.deep_link_return_url, settings.data)


def _claim(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim by its own name, or by its name in Names and Roles; empty if there is none."""
    if name.startswith("lis_person_"):
        lis = claims.get(LTI + "lis")
        value = lis.get(name.removeprefix("lis_")) if isinstance(lis, dict) else None
    else:
        value = claims.get(name)
    return value.strip() if isinstance(value, str) and len(value) <= _LONGEST else ""


def person_of(launch: Launch, students: Sequence[StudentInfo]) -> Person:
    """Return the person who launched; raises Refusal if the class has none.

    Instructors are staff only if the platform's registration lists their course: the teachers of every course
    on the platform can make a link to this server.
    """
    platform, link = launch.platform, launch.link
    if launch.is_instructor and link.context and link.context in platform.staff_courses:
        return Person(Role.INSTRUCTOR, value_key(launch.value) or clean(launch.user, 100))
    if not launch.value and not launch.is_instructor:
        raise Refusal(
            403,
            f"{platform.title} does not send your `{platform.claim}`, which identifies people here: ask your "
            "instructor.",
        )
    try:
        people = People(students, platform.column)
    except SubmissionError as error:
        raise Refusal(403, str(error)) from error
    if (student := people.student(launch.value)) is not None:
        return Person(Role.STUDENT, student)
    if launch.is_instructor:
        raise Refusal(
            403,
            "The launch works, and its link is known here now. Teaching this course there does not make you "
            "staff here: sign in with a staff token. To make all teachers of the course staff, "
            f"register the platform again with --staff-course {clean(link.context, 100)}.",
        )
    raise Refusal(
        403,
        f"{platform.title} signed you in as {clean(launch.value, 100)}. Nobody in the class list has this "
        f"`{platform.column}`: ask your instructor.",
    )


def page_of(target: str, address: str) -> str:
    """Return the path of our page at the address `target`; the first page for any other address."""
    begin, path = target[: len(address)], target[len(address) :].partition("?")[0].partition("#")[0]
    is_page = begin == address and path.startswith("/") and not path.startswith("/lti/")
    return path if is_page else "/"
