"""ID tokens of OpenID Connect: the checks that both kinds of sign-in make.

PyJWT checks the signature with the issuer's keys, and Authlib the rules for the claims.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import jwt
import msgspec
from authlib.common.errors import AuthlibBaseError
from authlib.oidc.core import IDToken
from joserfc.errors import JoseError

from grader.serve.fetching import IssuerKeys
from grader.serve.http import Refusal

log = logging.getLogger("grader.serve")

# Only algorithms with a public key: a token signed with the client's secret, or not signed, is refused.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_REQUIRED = ["iss", "sub", "aud", "exp", "iat", "nonce"]
# Clocks may differ by this much.
_LEEWAY_SECONDS = 60
_LONGEST_TOKEN = 65_536
# Errors that the libraries raise for answers of other servers, however odd.
FAULTS = (
    AuthlibBaseError, JoseError, jwt.PyJWTError, msgspec.ValidationError,
    OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError,
)  # fmt: skip


def checked_claims(
    token: str,
    keys: IssuerKeys,
    kind: type[IDToken],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    access_token: str = "",
) -> dict[str, Any]:
    """Return the claims of an ID token that the issuer signed, for this client and this nonce.

    `kind` has Authlib's rules for the flow. An `access_token` that came along is compared with its hash in the
    claims. Raises Refusal while the keys are not known, or one of `FAULTS` for any other token.
    """
    if len(token) > _LONGEST_TOKEN:
        raise ValueError("the ID token is too long")
    header = jwt.get_unverified_header(token)
    claims: dict[str, Any] = jwt.decode(
        token,
        keys.named(str(header.get("kid", "")), wait=True),
        algorithms=_ALGORITHMS,
        audience=client_id,
        issuer=issuer,
        leeway=_LEEWAY_SECONDS,
        options={"require": _REQUIRED},
    )
    # JSON can contain half of a surrogate pair, which no gradebook can keep: this raises ValueError.
    json.dumps(claims, ensure_ascii=False).encode()
    expected = {"nonce": nonce, "client_id": client_id}
    if access_token:
        expected["access_token"] = access_token
    kind(claims, header, params=expected).validate(leeway=_LEEWAY_SECONDS)
    return claims


def faulty(fault: str) -> Refusal:
    """Log a fault of the issuer, and return the answer for the person who was signing in."""
    log.warning("a sign-in is refused", extra={"fault": fault[:200]})
    return Refusal(
        502, "The sign-in sent an invalid answer, so you were not signed in. Begin again."
    )
