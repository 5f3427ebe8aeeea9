"""A mail server on loopback (aiosmtpd) that keeps its messages and refuses those that a test names."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import email
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# aiosmtpd takes AUTH without STARTTLS for AUTH in the clear, and calls a function that Python 3.14 deprecates.
QUIET = [
    pytest.mark.filterwarnings("ignore:Requiring AUTH while:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*iscoroutinefunction:DeprecationWarning"),
]
USER, WORD = "ml-course", "hush"
OK = "250 OK"
# Takes a mail and ends the connection before it answers.
CUT = "cut"


class Mailbox:
    """The messages that a mail server took, and its answers to recipients and to data.

    For each message, `connections` has whether it came encrypted and the user who had signed in.
    """

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.connections: list[tuple[bool, str]] = []
        self.tries: list[str] = []
        self.commands: list[str] = []
        self.to_recipient: Callable[[str], str] = lambda address: OK
        self.to_data: Callable[[EmailMessage], str] = lambda message: OK
        self.port = 0
        self._arrived = threading.Condition()

    def addresses(self) -> list[str]:
        """Return the recipients of the messages, in the order in which they came."""
        return [str(message["To"]) for message in self.messages]

    def texts(self, to: str) -> list[str]:
        """Return the texts of the messages to an address."""
        return [text_of(m) for m in self.messages if str(m["To"]) == to]

    def wait_for(self, count: int, seconds: float) -> None:
        """Wait until `count` messages were taken."""
        with self._arrived:
            done = self._arrived.wait_for(lambda: len(self.messages) >= count, seconds)
        assert done, f"{len(self.messages)} of {count} mails: {self.tries}"

    # --- called by aiosmtpd -----------------------------------------------------------------------

    async def handle_RCPT(  # noqa: N802  # its name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        self.tries.append(address)
        answer = self.to_recipient(address)
        if answer == OK:
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        message = email.message_from_bytes(envelope.content, policy=default)
        assert isinstance(message, EmailMessage)
        answer = self.to_data(message)
        if answer in (OK, CUT):
            with self._arrived:
                self.messages.append(message)
                login = session.auth_data
                name = login.login.decode() if isinstance(login, LoginPassword) else ""
                self.connections.append((session.ssl is not None, name))
                self._arrived.notify_all()
        if answer == CUT:
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
        return answer

    def signed_in(
        self, server: Any, session: Any, envelope: Any, way: str, data: Any
    ) -> AuthResult:
        is_right = data == LoginPassword(USER.encode(), WORD.encode())
        return AuthResult(success=is_right, handled=is_right, auth_data=data)


class _Controller(Controller):
    """A thread that serves at a given port, or at any free one, and knows which."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        super()._trigger_server()  # type: ignore[no-untyped-call]


def text_of(message: EmailMessage) -> str:
    content: str = message.get_content()
    return content.replace("\r\n", "\n")


@contextlib.contextmanager
def serving(
    mailbox: Mailbox, certificate: Path | None = None, *, at_once: bool = False, port: int = 0
) -> Iterator[Mailbox]:
    """Serve a mailbox. With a certificate, users sign in over STARTTLS, or over TLS if `at_once`."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    more: dict[str, Any] = {}
    if context is not None and not at_once:
        more = {"tls_context": context, "require_starttls": True}
    if context is not None:
        more |= {"auth_required": True, "authenticator": mailbox.signed_in}
        more |= {"auth_require_tls": not at_once}
    ssl_context = context if at_once else None
    controller = _Controller(
        mailbox, hostname="127.0.0.1", port=port, ssl_context=ssl_context, **more
    )
    controller.start()
    mailbox.port = controller.port
    try:
        yield mailbox
    finally:
        controller.stop()


def certificate_in(folder: Path) -> Path:
    """Write a key and a self-signed certificate for 127.0.0.1 to one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file = folder / "mail.pem"
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(pem)
    )
    return file


def mail_toml(folder: Path, port: int, **keys: str) -> Path:
    """Write a mail.toml for a mailbox. The values of `keys` are TOML."""
    given = {
        "host": '"127.0.0.1"',
        "port": str(port),
        "security": '"none"',
        "sender": '"Plain Course <course@example.org>"',
        **keys,
    }
    file = folder / "mail.toml"
    text = "".join(f"{key} = {value}\n" for key, value in given.items() if value)
    file.write_text(text, encoding="utf-8")
    return file
