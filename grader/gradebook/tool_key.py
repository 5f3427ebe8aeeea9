"""The key pair of this server as an LTI tool: made once, kept beside the gradebook, published as a JWKS.

Platforms read the public key from the server, so a lost key is simply replaced. The private key is in a file
that only its owner can read, and not in backups of the gradebook. PyJWT and cryptography come with the extra
`serve`, so they are imported only when a key is used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from grader.errors import GraderError, UsageError
from grader.files import sync_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

FILE = "lti_key.pem"
ALGORITHM = "RS256"
_BITS = 2048
# A signed token is valid for this long.
_VALID_SECONDS = 300
# Tokens are dated back, in case a platform's clock is a little behind.
_EARLIER_SECONDS = 5


class ToolKey(msgspec.Struct, frozen=True):
    """A private key, and its name in the JWKS."""

    private: Any
    name: str

    def signed(self, claims: Mapping[str, Any]) -> str:
        """Return the claims as a signed JWT, valid for five minutes."""
        import jwt

        now = int(time.time()) - _EARLIER_SECONDS
        times = {"iat": now, "exp": now + _VALID_SECONDS, "jti": secrets.token_hex(16)}
        headers = {"kid": self.name}
        return jwt.encode({**times, **claims}, self.private, algorithm=ALGORITHM, headers=headers)


def made_key(folder: Path) -> ToolKey:
    """Return the key of the server of this folder; make one if there is none.

    Raises UsageError if the packages are missing, GraderError if the key cannot be read or written.
    """
    if (kept := kept_key(folder)) is None:
        _make(folder / FILE)
        kept = kept_key(folder)
    assert kept is not None, "it was made a moment ago"
    return kept


def kept_key(folder: Path) -> ToolKey | None:
    """Return the key of this folder's server, None if there is none; raises GraderError if it is damaged."""
    file = folder / FILE
    try:
        return _read(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise GraderError(
            f"The key {file} cannot be read ({error}): move it away, and `grade platform show` makes a new one."
        ) from error


def jwks(folder: Path) -> dict[str, Any]:
    """Return the public key as a JWKS; it is empty if there is no key."""
    key = kept_key(folder)
    if key is None:
        return {"keys": []}
    told = {"kid": key.name, "use": "sig", "alg": ALGORITHM}
    return {"keys": [{**_public(key.private), **told}]}


@functools.lru_cache(maxsize=4)
def _read(pem: bytes) -> ToolKey:
    """Read a private key; cached, since checking it takes milliseconds."""
    _refuse_without_packages()
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from jwt.utils import base64url_encode

    private = load_pem_private_key(pem, None)
    if not isinstance(private, RSAPrivateKey):
        raise ValueError("it is not an RSA key")
    # The thumbprint of RFC 7638, so each key has its own name.
    digest = hashlib.sha256(msgspec.json.encode(_public(private), order="sorted")).digest()
    return ToolKey(private, base64url_encode(digest).decode())


def _make(file: Path) -> None:
    """Make a key, unless another process is just making one."""
    _refuse_without_packages()
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = rsa.generate_private_key(65537, _BITS)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            out.write(pem)
            out.flush()
            os.fsync(out.fileno())
        # Unlike a rename, a link does not replace a key that has appeared meanwhile.
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(draft)
        sync_folder(file.parent)
    except OSError as error:
        raise GraderError(f"The key {file} cannot be written: {error.strerror}.") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _public(private: RSAPrivateKey) -> dict[str, str]:
    from jwt.algorithms import RSAAlgorithm

    public = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
    return {name: public[name] for name in ("kty", "n", "e")}


def _refuse_without_packages() -> None:
    from importlib.util import find_spec

    if missing := [name for name in ("jwt", "cryptography") if find_spec(name) is None]:
        raise UsageError(f"LTI needs {', '.join(missing)}: pip install 'lab-bench[serve]'.")
