"""Handshakes: a person leaves for another server to sign in, and comes back with its answer.

Each answer must belong to a question that this server asked in the same browser, within ten minutes, and each
question is answered once. The browser has a cookie with a random value; the `state` that travels through the
other server is sealed with a key that only this process has, over that value. The `nonce` and the PKCE verifier
follow from the state by the same key, so nothing is kept for a handshake that never ends: strangers who begin
thousands fill no memory. A handshake does not outlive the server: after a restart, people begin again.
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
    """What the two servers say to each other: `note` is ours, which came back with the state."""

    state: str
    nonce: str
    verifier: str
    note: str


class Handshakes:
    """The handshakes of one kind (`purpose`): the state of another kind is not valid."""

    def __init__(self, purpose: str) -> None:
        self._purpose, self._key = purpose, secrets.token_bytes(32)
        self._lock = threading.Lock()
        # The states that were answered, with the time at which they began, oldest first.
        self._answered: dict[str, float] = {}

    def begin(self, browser: str, note: str) -> Handshake:
        """Begin a handshake in a browser, by the value of its cookie; `note` is short and not secret."""
        parts = (f"{time.monotonic():.0f}", secrets.token_hex(16), _in_base64(note.encode()))
        said = ".".join(parts)
        return self._whole(f"{said}.{self._sealed('state', browser, said)}", note)

    @contextlib.contextmanager
    def answered(self, browser: str, state: str) -> Iterator[Handshake]:
        """Return the handshake with this state for the block, after which the state is used up.

        It is not if the block raises an error. Raises Refusal for a state that is too old, used, made up, or of
        another browser.
        """
        # A browser that refuses cookies is the usual reason, but an attack looks the same.
        refused = Refusal(
            403, "This sign-in was not begun in this browser, or was used already. Begin again."
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
            # Only answers that another server vouched for are kept, so strangers cannot fill the memory.
            with self._lock:
                self._answered.pop(state, None)
            raise

    def _forget(self) -> None:
        """Forget states that are too old to be accepted again."""
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
    """Return the value of a browser's cookie for handshakes if it is one, else a new one."""
    return value if _BROWSER.fullmatch(value) else secrets.token_hex(16)


def _in_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
