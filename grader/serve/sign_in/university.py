"""Signing in at a university: OpenID Connect, by the authorization code flow with PKCE, as its client.

The steps of the protocol are Authlib's: the address of the authorization, the request for tokens, and the rules
for the claims of an ID token. Its HTTP clients are not used, since they need packages of their own and wait for
a slow issuer without end: requests go through `fetching`. PyJWT checks signatures with the keys of the issuer,
as it checks those of GitHub's tokens.
"""

from __future__ import annotations

import base64
import json
import logging
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import jwt
import msgspec
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError

from grader.gradebook.queue import Role
from grader.results import StudentInfo
from grader.serve.fetching import Document, Fetched, IssuerKeys, fetch, is_safe
from grader.serve.http import Refusal
from grader.serve.sign_in.handshakes import Handshake
from grader.serve.sign_in.sign_in_file import People, Person, Secrets, same
from grader.text import clean

log = logging.getLogger("grader.serve")

_DISCOVERY = "/.well-known/openid-configuration"
# Each with a public key: a token that is signed with the client's secret, or not at all, is refused.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_REQUIRED = ["iss", "sub", "aud", "exp", "iat"]
# Clocks may differ this much.
LEEWAY_SECONDS = 60
LONGEST_TOKEN = 65_536
_LONGEST_CLAIM = 300
# What other servers' answers, whatever they are, raise in the libraries.
FAULTS = (
    AuthlibBaseError, JoseError, jwt.PyJWTError, msgspec.ValidationError,
    OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError,
)  # fmt: skip


class _Metadata(msgspec.Struct, frozen=True):
    """The part of a discovery document that is needed here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False


class University:
    """The sign-in at one issuer. Methods that wait for it are not for the event loop."""

    def __init__(self, secrets: Secrets, callback: str, students: Iterable[StudentInfo]) -> None:
        """Prepare the sign-in, which sends people back to `callback`, and start to read the discovery document.

        Raises SubmissionError if the class list has not what people are found by.
        """
        self.sign_in, self._secret = secrets
        self._callback = callback
        self._people = People(students, self.sign_in.column)
        self._keys: IssuerKeys | None = None
        self._discovery = Document(self.sign_in.issuer.rstrip("/") + _DISCOVERY, self._metadata)

    @property
    def is_down(self) -> bool:
        """Whether the issuer did not answer when it was last asked; asks again if that was a while ago."""
        discovery = self._discovery
        discovery.refresh()
        return not discovery.is_answered and not discovery.is_reading

    def authorization(self, handshake: Handshake) -> str:
        """Return the address at which a person signs in; raises Refusal if the issuer does not answer."""
        address, _ = self._client().create_authorization_url(
            self._known().authorization_endpoint,
            state=handshake.state,
            nonce=handshake.nonce,
            code_verifier=handshake.verifier,
            response_type="code",
        )
        return str(address)

    def person(self, handshake: Handshake, answer: Mapping[str, str]) -> Person:
        """Return who signed in, by the issuer's `answer` in the address to which it sent the person back.

        Raises Refusal if nobody did, if the answer or the issuer is not in order, or if the person is not of
        this class.
        """
        metadata = self._known()
        # RFC 9207: with another issuer's answer, a code would be told to the wrong one.
        is_required = metadata.authorization_response_iss_parameter_supported
        if answer.get("iss", "" if is_required else metadata.issuer) != metadata.issuer:
            raise Refusal(403, "This answer is from another issuer. Begin again.")
        if "error" in answer or not answer.get("code"):
            said = clean(answer.get("error", "no code"), 100)
            raise Refusal(403, f"You were not signed in there ({said}). Begin again.")
        try:
            return self._found(self._claims(metadata, handshake, answer["code"]))
        except Refusal as refusal:
            # Nobody sent us a token: one that is signed with an unknown key is the issuer's.
            raise faulty(refusal.detail) if refusal.status_code == 401 else refusal from None
        except AuthlibBaseError as error:
            # Without the issuer's description, which may name the person.
            raise faulty(f"{type(error).__name__}: {error.error}") from error
        except FAULTS as error:
            raise faulty(f"{type(error).__name__}: {error}") from error

    # --- the protocol ---------------------------------------------------------------------------

    def _client(self) -> OAuth2Client:
        sign_in = self.sign_in
        client = OAuth2Client(
            _Session(),
            client_id=sign_in.client_id,
            client_secret=self._secret,
            token_endpoint_auth_method=sign_in.token_endpoint_auth_method,
            scope=" ".join(sign_in.scopes),
            redirect_uri=self._callback,
            code_challenge_method="S256",
        )
        client.register_client_auth_method(("client_secret_basic", _basic))
        return client

    def _metadata(self, document: dict[str, Any]) -> _Metadata:
        """Read a discovery document; raises ValueError if it is not of our issuer."""
        metadata = msgspec.convert(document, _Metadata)
        if metadata.issuer.rstrip("/") != self.sign_in.issuer.rstrip("/"):
            raise ValueError(f"this is the issuer {metadata.issuer}, not {self.sign_in.issuer}")
        addresses = (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri)
        for address in filter(None, (*addresses, metadata.userinfo_endpoint)):
            if not is_safe(address):
                raise ValueError(f"{address} is not an https address")
        if self._keys is None or self._keys.address != metadata.jwks_uri:
            self._keys = IssuerKeys(metadata.jwks_uri, "The issuer's")
        return metadata

    def _known(self) -> _Metadata:
        """Return the discovery document, which is awaited; raises Refusal if it does not come."""
        discovery = self._discovery
        if discovery.value is None:
            discovery.refresh()
            discovery.wait()
        if discovery.value is None:
            raise Refusal(
                503,
                f"The sign-in at {self.sign_in.name} does not answer now. Try again later.",
                retry_after=5,
            )
        return discovery.value

    def _claims(self, metadata: _Metadata, handshake: Handshake, code: str) -> dict[str, Any]:
        """Redeem a code, and return what the issuer says of the person."""
        tokens = self._client().fetch_token(
            metadata.token_endpoint,
            grant_type="authorization_code",
            code=code,
            code_verifier=handshake.verifier,
        )
        token, access_token = str(tokens["id_token"]), str(tokens["access_token"])
        if not (access_token.isascii() and access_token.isprintable()):
            # In a header it would be an error whose text has the token.
            raise ValueError("the access token has odd characters")
        claims = self._checked(metadata, handshake, token, access_token)
        wanted = {self.sign_in.claim, self.sign_in.staff_claim} - {"", *claims}
        if not wanted or not metadata.userinfo_endpoint:
            return claims
        answer = fetch(
            metadata.userinfo_endpoint, headers={"Authorization": f"Bearer {access_token}"}
        )
        more = answer.table
        if answer.status != 200 or more.get("sub") != claims["sub"]:
            raise ValueError(f"user info of another person, or none (status {answer.status})")
        return {**more, **claims}

    def _checked(
        self, metadata: _Metadata, handshake: Handshake, token: str, access_token: str
    ) -> dict[str, Any]:
        """Return the claims of an ID token that is signed by the issuer, for us and for this handshake."""
        if len(token) > LONGEST_TOKEN:
            raise ValueError("the ID token is too long")
        header = jwt.get_unverified_header(token)
        assert self._keys is not None, "the discovery document names them"
        claims: dict[str, Any] = jwt.decode(
            token,
            self._keys.named(str(header.get("kid", "")), wait=True),
            algorithms=ALGORITHMS,
            audience=self.sign_in.client_id,
            issuer=metadata.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": _REQUIRED},
        )
        refuse_half_characters(claims)
        expected = {
            "nonce": handshake.nonce,
            "client_id": self.sign_in.client_id,
            "access_token": access_token,
        }
        CodeIDToken(claims, header, params=expected).validate(leeway=LEEWAY_SECONDS)
        return claims

    # --- who it is ------------------------------------------------------------------------------

    def _found(self, claims: Mapping[str, Any]) -> Person:
        """Return the person of the class with these claims; raises Refusal if there is none."""
        sign_in, value = self.sign_in, claims.get(self.sign_in.claim)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not 0 < len(same(value)) <= _LONGEST_CLAIM:
            raise Refusal(
                403,
                f"The sign-in at {sign_in.name} does not tell your `{sign_in.claim}`, by which people are "
                "found here: ask your instructor.",
            )
        if sign_in.claim == "email" and claims.get("email_verified") in (False, "false"):
            raise Refusal(403, f"Your address {clean(value)} is not verified at {sign_in.name}.")
        groups = claims.get(sign_in.staff_claim, ()) if sign_in.staff_claim else ()
        has_group = any(
            group in sign_in.staff_values
            for group in ([groups] if isinstance(groups, str) else groups)
            if isinstance(group, str)
        )
        if has_group or same(value) in map(same, sign_in.staff):
            return Person(Role.INSTRUCTOR, same(value))
        if (student := self._people.student(value)) is None:
            raise Refusal(
                403,
                f"You signed in as {clean(value)}, which nobody in the class list of this course has as "
                f"{self._people.column}: ask your instructor.",
            )
        return Person(Role.STUDENT, student)


def refuse_half_characters(claims: Mapping[str, Any]) -> None:
    """Raise ValueError for claims that no gradebook can keep: JSON can name half of a character."""
    json.dumps(claims, ensure_ascii=False).encode()


class _Session:
    """What Authlib's client needs of a library for HTTP."""

    def post(
        self, url: str, data: Mapping[str, str], headers: dict[str, str], auth: Any
    ) -> _Answer:
        """Send a form, with the client's authentication."""
        url, headers, body = auth.prepare("POST", url, dict(headers), urllib.parse.urlencode(data))
        return _Answer(fetch(url, body=body, headers=headers))


class _Answer:
    """An answer, as Authlib's client reads it."""

    def __init__(self, fetched: Fetched) -> None:
        self.status_code, self._fetched = fetched.status, fetched

    def json(self) -> dict[str, Any]:
        """Return the JSON object in the body."""
        return self._fetched.table

    def raise_for_status(self) -> None:
        """Raise OSError for an answer that is an error."""
        if self.status_code >= 400:
            raise OSError(f"status {self.status_code}")


def _basic(
    client: Any, _method: str, uri: str, headers: dict[str, str], body: str
) -> tuple[str, dict[str, str], str]:
    """Authenticate the client in a header, encoded as RFC 6749 (2.3.1) says, which Authlib's own does not."""
    pair = map(urllib.parse.quote_plus, (client.client_id, client.client_secret))
    headers["Authorization"] = "Basic " + base64.b64encode(":".join(pair).encode()).decode()
    return uri, headers, body


def faulty(fault: str) -> Refusal:
    """Return the answer for a fault of the issuer, which is told in the log."""
    log.warning("a sign-in is refused", extra={"fault": fault[:200]})
    return Refusal(
        502, "The answer of the sign-in is not in order, and nobody was signed in. Begin again."
    )
