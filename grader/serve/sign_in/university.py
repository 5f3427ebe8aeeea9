"""Signing in at a university: a client of OpenID Connect, with the authorization code flow and PKCE.

Authlib does the steps of the protocol. Requests go through `fetching` instead of Authlib's HTTP clients, which
need more packages and wait for a slow issuer without end.
"""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.client import OAuth2Client
from authlib.oidc.core import CodeIDToken

from grader.gradebook.platforms import is_safe
from grader.gradebook.tokens import Role
from grader.results import StudentInfo
from grader.serve.fetching import Document, Fetched, IssuerKeys, fetch
from grader.serve.http import Refusal
from grader.serve.sign_in.handshakes import Handshake
from grader.serve.sign_in.id_token import FAULTS, checked_claims, faulty
from grader.serve.sign_in.sign_in_file import People, Person, Secrets
from grader.submissions.class_list import value_key
from grader.text import clean

_DISCOVERY = "/.well-known/openid-configuration"
_LONGEST_CLAIM = 300


class _Metadata(msgspec.Struct, frozen=True):
    """The part of a discovery document that we need."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    authorization_response_iss_parameter_supported: bool = False


class University:
    """The sign-in at one issuer. Call methods that wait for it outside the event loop."""

    def __init__(self, secrets: Secrets, callback: str, students: Iterable[StudentInfo]) -> None:
        """Start to read the issuer's discovery document; the issuer sends people back to `callback`.

        Raises SubmissionError if the class list lacks the column that identifies people.
        """
        self.sign_in, self._secret = secrets
        self._callback = callback
        self._people = People(students, self.sign_in.column)
        self._keys: IssuerKeys | None = None
        self._discovery = Document(self.sign_in.issuer.rstrip("/") + _DISCOVERY, self._metadata)

    @property
    def is_down(self) -> bool:
        """Whether the issuer did not answer last time; asks again in the background after a pause."""
        discovery = self._discovery
        discovery.refresh()
        return not discovery.is_answered and not discovery.is_reading

    def authorization(self, handshake: Handshake) -> str:
        """Return the address of the sign-in page; raises Refusal if the issuer does not answer."""
        address, _ = self._client().create_authorization_url(
            self._known().authorization_endpoint,
            state=handshake.state,
            nonce=handshake.nonce,
            code_verifier=handshake.verifier,
            response_type="code",
        )
        return str(address)

    def person(self, handshake: Handshake, answer: Mapping[str, str]) -> Person:
        """Return the person who signed in.

        `answer` is the query of the address to which the issuer sent the person back. Raises Refusal if nobody
        signed in, if the issuer answers wrongly, or if the class has no such person.
        """
        metadata = self._known()
        # RFC 9207: otherwise, we would send another issuer's code to this one.
        is_required = metadata.authorization_response_iss_parameter_supported
        if answer.get("iss", "" if is_required else metadata.issuer) != metadata.issuer:
            raise Refusal(403, "This answer is from another issuer. Begin again.")
        if "error" in answer or not answer.get("code"):
            said = clean(answer.get("error", "no code"), 100)
            raise Refusal(403, f"You were not signed in there ({said}). Begin again.")
        try:
            return self._found(self._claims(metadata, handshake, answer["code"]))
        except Refusal as refusal:
            # The token is the issuer's, not the person's, so an unknown key is the issuer's fault.
            raise faulty(refusal.detail) if refusal.status_code == 401 else refusal from None
        except AuthlibBaseError as error:
            # Leave out the issuer's description, which may name the person.
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
        """Read a discovery document; raises ValueError if it is another issuer's."""
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
        """Wait for the discovery document; raises Refusal if it does not come."""
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
        """Exchange a code for tokens, and return the issuer's claims about the person."""
        tokens = self._client().fetch_token(
            metadata.token_endpoint,
            grant_type="authorization_code",
            code=code,
            code_verifier=handshake.verifier,
        )
        token, access_token = str(tokens["id_token"]), str(tokens["access_token"])
        if not (access_token.isascii() and access_token.isprintable()):
            # Sent in a header, it would raise an error whose text shows the token.
            raise ValueError("the access token has odd characters")
        assert self._keys is not None, "the discovery document names them"
        claims = checked_claims(
            token,
            self._keys,
            CodeIDToken,
            issuer=metadata.issuer,
            client_id=self.sign_in.client_id,
            nonce=handshake.nonce,
            access_token=access_token,
        )
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

    # --- who it is ------------------------------------------------------------------------------

    def _found(self, claims: Mapping[str, Any]) -> Person:
        """Return the person of the class with these claims; raises Refusal if there is none."""
        sign_in, value = self.sign_in, claims.get(self.sign_in.claim)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not 0 < len(value_key(value)) <= _LONGEST_CLAIM:
            raise Refusal(
                403,
                f"The sign-in at {sign_in.name} does not send your `{sign_in.claim}`, which identifies people "
                "here: ask your instructor.",
            )
        if sign_in.claim == "email" and claims.get("email_verified") in (False, "false"):
            raise Refusal(403, f"Your address {clean(value)} is not verified at {sign_in.name}.")
        groups = claims.get(sign_in.staff_claim, ()) if sign_in.staff_claim else ()
        has_group = any(
            group in sign_in.staff_values
            for group in ([groups] if isinstance(groups, str) else groups)
            if isinstance(group, str)
        )
        if has_group or value_key(value) in map(value_key, sign_in.staff):
            return Person(Role.INSTRUCTOR, value_key(value))
        if (student := self._people.student(value)) is None:
            raise Refusal(
                403,
                f"You signed in as {clean(value)}. Nobody in the class list has this `{self._people.column}`: "
                "ask your instructor.",
            )
        return Person(Role.STUDENT, student)


class _Session:
    """The methods of an HTTP library that Authlib's client calls."""

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
    """Authenticate the client in a header. RFC 6749 (2.3.1) asks for this encoding, which Authlib omits."""
    pair = map(urllib.parse.quote_plus, (client.client_id, client.client_secret))
    headers["Authorization"] = "Basic " + base64.b64encode(":".join(pair).encode()).decode()
    return uri, headers, body
