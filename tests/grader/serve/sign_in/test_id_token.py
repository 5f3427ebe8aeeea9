"""ID tokens are valid only with the issuer's signature and for this client, this sign-in and this time."""

from __future__ import annotations

import hashlib
import logging
import time
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from authlib.oidc.core import CodeIDToken
from cryptography.hazmat.primitives.asymmetric import ec

from grader.serve.sign_in.id_token import FAULTS, checked_claims, faulty

ISSUER, CLIENT, NONCE = "https://id.example.edu", "lab-bench", "n0nce"
KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


class Keys:
    """The keys of the issuer: the same one for every name."""

    asked: str = ""

    def named(self, name: str, *, wait: bool) -> Any:
        self.asked = name
        return KEY.public_key()


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    given = {
        "iss": ISSUER,
        "sub": "ada",
        "aud": CLIENT,
        "exp": now + 300,
        "iat": now,
        "nonce": NONCE,
    }
    return {name: value for name, value in {**given, **changes}.items() if value is not None}


def signed(key: Any = KEY, algorithm: str = "ES256", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm, headers={"kid": "k1"})


def checked(token: str, access_token: str = "") -> dict[str, Any]:
    return checked_claims(
        token,
        Keys(),  # type: ignore[arg-type]  # it answers like the issuer's keys
        CodeIDToken,
        issuer=ISSUER,
        client_id=CLIENT,
        nonce=NONCE,
        access_token=access_token,
    )


def test_the_claims_of_a_valid_token_are_returned() -> None:
    assert checked(signed(email="ada@example.edu"))["email"] == "ada@example.edu"
    assert checked(signed(aud=[CLIENT]))["sub"] == "ada"


def test_clocks_may_differ_by_a_minute() -> None:
    now = int(time.time())
    assert checked(signed(exp=now - 30, iat=now - 300))["sub"] == "ada"
    assert checked(signed(iat=now + 30))["sub"] == "ada"


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://evil.example"},
        {"aud": "other"},
        {"nonce": "other"},
        {"nonce": None},
        {"sub": None},
        {"exp": None},
        {"iat": None},
        {"exp": 1},
        {"iat": 2**40},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"name": "\ud800"},
    ],
    ids=str,
)
def test_other_claims_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(FAULTS):
        checked(signed(**changes))


@pytest.mark.parametrize(
    "token",
    [
        signed(OTHER),
        signed("a shared secret that is long enough for HS256", "HS256"),
        jwt.encode(claims(), "", "none"),
        signed()[:-4],
        "",
        "a.b.c",
        signed(filler="x" * 65_536),
    ],
    ids=["another key", "a secret", "unsigned", "cut", "empty", "nothing", "too long"],
)
def test_other_signatures_are_refused(token: str) -> None:
    with pytest.raises(FAULTS):
        checked(token)


def test_the_access_token_must_match_its_hash_in_the_claims() -> None:
    half = hashlib.sha256(b"access").digest()[:16]
    token = signed(at_hash=urlsafe_b64encode(half).rstrip(b"=").decode())
    assert checked(token, "access")["sub"] == "ada"
    with pytest.raises(FAULTS):
        checked(token, "another")


def test_a_fault_is_logged_and_the_person_is_asked_to_begin_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "grader.serve"):
        refusal = faulty("x" * 300)
    assert (refusal.status_code, refusal.detail) == (
        502,
        "The sign-in sent an invalid answer, so you were not signed in. Begin again.",
    )
    (record,) = caplog.records
    assert len(vars(record)["fault"]) == 200
