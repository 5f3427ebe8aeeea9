"""Handshakes: a person leaves for another server to sign in, and comes back with its answer.

An answer is accepted once, within ten minutes, and only in the browser where the handshake began. The browser
keeps a random value in a cookie. The `state` travels through the other server, sealed over that value with a
key that only this process knows. The `nonce` and the PKCE verifier are derived from the state with the same
key, so a handshake takes no memory before it is answered, and strangers can begin thousands. After a restart,
people begin again.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from grader.serve.http import Refusal

_SECONDS = 600
_LONGEST = 2000
_BROWSER = re.compile(r"[0-9a-f]{32}")


class Handshake(NamedTuple):
    """The values of a handshake; `note` is our own text, which comes back within the state."""

    state: str
    nonce: str
    verifier: str
    note: str


class Handshakes:
    """The handshakes of one kind (`purpose`), which accept no state of another kind."""

    def __init__(self, purpose: str) -> None:
        self._purpose, self._key = purpose, secrets.token_bytes(32)
        self._lock = threading.Lock()
        # Answered states, with the times at which they began, oldest first.
        self._answered: dict[str, float] = {}

    def begin(self, browser: str, note: str) -> Handshake:
        """Begin a handshake in the browser with this cookie value; `note` is short and not secret."""
        parts = (f"{time.monotonic():.0f}", secrets.token_hex(16), _in_base64(note.encode()))
        said = ".".join(parts)
        return self._whole(f"{said}.{self._sealed('state', browser, said)}", note)

    @contextlib.contextmanager
    def answered(self, browser: str, state: str) -> Iterator[Handshake]:
        """Yield the handshake with this state. The state is used up unless the block raises an error.

        Raises Refusal for a state that is too old, used, made up, or from another browser.
        """
        # Usually the browser refuses cookies, but an attack looks the same.
        refused = Refusal(
            403, "This sign-in was not begun in this browser, or was already used. Begin again."
        )
        said, _, seal = state.rpartition(".")
        is_ours = len(state) <= _LONGEST and _BROWSER.fullmatch(browser) is not None
        if not is_ours or not hmac.compare_digest(
            seal.encode(), self._sealed("state", browser, said).encode()
        ):
            raise refused
        began, _, note = said.split(".")
        if not time.monotonic() - float(began) <= _SECONDS:
            raise Refusal(403, "This sign-in took longer than ten minutes. Begin again.")
        with self._lock:
            if state in self._answered:
                raise refused
            self._answered[state] = float(began)
            self._forget()
        try:
            yield self._whole(
                state, base64.urlsafe_b64decode(note + "=" * (-len(note) % 4)).decode()
            )
        except BaseException:
            # Keep only states of successful sign-ins, so that strangers cannot fill the memory.
            with self._lock:
                self._answered.pop(state, None)
            raise

    def _forget(self) -> None:
        """Forget states that have expired anyway."""
        oldest = time.monotonic() - _SECONDS - 1
        for state in [state for state, began in self._answered.items() if began < oldest]:
            del self._answered[state]

    def _whole(self, state: str, note: str) -> Handshake:
        nonce, verifier = (self._sealed(kind, state) for kind in ("nonce", "verifier"))
        return Handshake(state, nonce, verifier, note)

    def _sealed(self, *parts: str) -> str:
        """Return a hash of these parts that only this process can compute: 43 characters."""
        message = "\0".join((self._purpose, *parts)).encode("utf-8", "surrogatepass")
        return _in_base64(hmac.digest(self._key, message, hashlib.sha256))


def browser_value(value: str) -> str:
    """Return the value of a browser's cookie if it is valid, else a new value."""
    return value if _BROWSER.fullmatch(value) else secrets.token_hex(16)


def _in_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
