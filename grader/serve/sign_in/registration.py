"""Dynamic registration of LTI: a platform and this server tell each other their addresses.

An administrator pastes our one-time address into the platform, which opens it with the address of its own
configuration. The server reads the configuration, registers itself as a tool, and gets a client id. Nobody can
launch from the platform before a person confirms it here.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from grader.exports.push.lti import LINE_ITEM, MEMBERSHIPS, RESULT, SCORE
from grader.gradebook.platforms import Platform, safe_address
from grader.serve.fetching import Fetched, fetch
from grader.serve.http import Refusal
from grader.serve.sign_in.launch import LAUNCH, LOGIN, OPENS, SELECT, SELECTS
from grader.text import clean

T = TypeVar("T")

_KEYS = "/lti/keys"
_LTI_TOOL = "https://purl.imsglobal.org/spec/lti-tool-configuration"
_LTI_PLATFORM = "https://purl.imsglobal.org/spec/lti-platform-configuration"
_SCOPES = (LINE_ITEM, RESULT, SCORE, MEMBERSHIPS)
_CLAIMS = ("iss", "sub", "name", "given_name", "family_name", "email")
_LONGEST, _LONGEST_TOKEN, _LONGEST_NAME = 1000, 8192, 100


class Invited(NamedTuple):
    """What the platform sends with the administrator: the address of its configuration, perhaps a token."""

    configuration: str
    token: str


class _Product(msgspec.Struct):
    product_family_code: str = ""


class _Configuration(msgspec.Struct):
    """The platform's configuration, as far as the server needs it."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    registration_endpoint: str
    authorization_server: str = ""
    product: _Product = msgspec.field(name=_LTI_PLATFORM, default_factory=_Product)


class _Deployment(msgspec.Struct):
    deployment_id: str = ""


class _Registered(msgspec.Struct):
    """The platform's answer to a registration."""

    client_id: str
    tool: _Deployment = msgspec.field(name=_LTI_TOOL, default_factory=_Deployment)


def invited(asked: Mapping[str, str], address: str) -> Invited:
    """Return the parameters of a request by a platform to the server at `address`; raises Refusal."""
    configuration = asked.get("openid_configuration", "")
    if not configuration:
        raise Refusal(
            400,
            "This address is for a learning platform. Paste it there, where it asks for the address of a tool "
            "or for a registration URL.",
        )
    if not safe_address(configuration, may_be_here=_is_here(address)):
        raise Refusal(
            400, f"The platform's configuration {_shown(configuration)} has no https address."
        )
    token = asked.get("registration_token", "")
    if len(token) > _LONGEST_TOKEN or not (token.isascii() and token.isprintable()):
        raise Refusal(400, "The platform's registration token cannot be sent.")
    return Invited(configuration, token)


def registered(asked: Invited, title: str, address: str) -> Platform:
    """Register the server at `address` as a tool called `title`; return the platform, which is not trusted yet.

    The platform has no deployment if it named none. It is asked twice: do not call this in the event loop.
    Raises Refusal if an answer is missing or wrong.
    """
    headers = {"Authorization": f"Bearer {asked.token}"} if asked.token else {}
    told = _asked(asked.configuration, headers)
    configuration = _decoded(told, _Configuration, "configuration")
    _refuse_unsafe(configuration, asked.configuration)
    body = json.dumps(_registration(title, address))
    headers["Content-Type"] = "application/json"
    answer = _asked(configuration.registration_endpoint, headers, body)
    made = _decoded(answer, _Registered, "answer to the registration")
    ids = made.client_id, made.tool.deployment_id
    if not made.client_id or max(map(len, ids)) > _LONGEST:
        raise _faulty("its answer to the registration has no client id")
    family = clean(configuration.product.product_family_code, _LONGEST_NAME)
    return Platform(
        issuer=configuration.issuer,
        client_id=made.client_id,
        deployments=(made.tool.deployment_id,) if made.tool.deployment_id else (),
        authorization=configuration.authorization_endpoint,
        token=configuration.token_endpoint,
        keys=configuration.jwks_uri,
        name=family[:1].upper() + family[1:],
        audience=configuration.authorization_server,
    )


def _refuse_unsafe(configuration: _Configuration, at: str) -> None:
    """Raise Refusal if a configuration names an issuer on another host than its own, or an unsafe address."""
    host = urllib.parse.urlsplit(at).netloc.lower()
    if not safe_address(configuration.issuer, may_be_here=_is_here(at)):
        raise _faulty(f"its issuer {_shown(configuration.issuer)} has no https address")
    if urllib.parse.urlsplit(configuration.issuer).netloc.lower() != host:
        raise _faulty(f"its issuer {_shown(configuration.issuer)} is on another host than {host}")
    for field in ("authorization_endpoint", "token_endpoint", "jwks_uri", "registration_endpoint"):
        place = getattr(configuration, field)
        if not safe_address(place, may_be_here=_is_here(at)):
            raise _faulty(f"its {field} {_shown(place)} has no https address")
    if len(configuration.authorization_server) > _LONGEST:
        raise _faulty("its authorization_server is too long")


def _registration(title: str, address: str) -> dict[str, Any]:
    """Return the request to register the server at `address`."""
    launch = address + LAUNCH
    return {
        "application_type": "web",
        "response_types": ["id_token"],
        "grant_types": ["client_credentials", "implicit"],
        "initiate_login_uri": address + LOGIN,
        "redirect_uris": [launch],
        "client_name": title,
        "jwks_uri": address + _KEYS,
        "token_endpoint_auth_method": "private_key_jwt",
        "scope": " ".join(_SCOPES),
        _LTI_TOOL: {
            "domain": urllib.parse.urlsplit(address).hostname,
            "target_link_uri": launch,
            "claims": [*_CLAIMS],
            "messages": [
                {"type": OPENS, "target_link_uri": launch, "label": title},
                {"type": SELECTS, "target_link_uri": address + SELECT, "label": title},
            ],
        },
    }


def _asked(address: str, headers: Mapping[str, str], body: str | None = None) -> Fetched:
    try:
        answer = fetch(address, body=body, headers=headers)
    except OSError as error:
        raise _faulty(f"{_shown(address)} does not answer ({clean(str(error), 200)})") from error
    if answer.status not in (200, 201):
        raise _faulty(f"{_shown(address)} answers with the status {answer.status}")
    return answer


def _decoded(answer: Fetched, kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(answer.table, kind)
    except (OSError, msgspec.ValidationError) as error:
        raise _faulty(f"its {what} cannot be read ({clean(str(error), 200)})") from error


def _faulty(problem: str) -> Refusal:
    """Return the answer about a platform's fault; it says how to go on."""
    return Refusal(
        502,
        f"The platform was not registered: {problem}. The address is used up: run `grade platform invite` for "
        "another one, or register the platform by hand with `grade platform add`.",
    )


def _is_here(address: str) -> bool:
    """Whether an address is on this machine; if so, the addresses that it names may be here, too."""
    return not safe_address(address, may_be_here=False)


def _shown(address: str) -> str:
    return clean(address, 200)
