"""Send mails by SMTP, several over one connection, encrypted unless mail.toml says otherwise.

`NotTaken` means that the mail server refused one mail, for good or for now; `PostError`, that it takes none: no
connection, no encryption, a wrong password. The text of a PostError is for staff and the log, and contains no
password and no student's name.
"""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from collections.abc import Iterator
from email.message import EmailMessage
from email.utils import parseaddr

from grader.errors import GraderError
from grader.exports.mail.mail_file import MailServer
from grader.text import clean

# The longest wait for an answer of the mail server.
_SECONDS = 30.0
_LONGEST_SAID = 300
# The code with which a mail server ends the connection.
_CLOSING = 421


class PostError(GraderError):
    """No mail can be sent now. With `is_unclear`, the last one may have arrived anyway."""

    def __init__(self, text: str, *, is_unclear: bool = False) -> None:
        super().__init__(text)
        self.is_unclear = is_unclear


class NotTaken(Exception):
    """The mail server refused a mail with these words; do not try again if `for_good`."""

    def __init__(self, said: str, *, for_good: bool) -> None:
        super().__init__(said)
        self.said, self.for_good = said, for_good


class Post:
    """An open connection, made by `opened`."""

    def __init__(self, connection: smtplib.SMTP, server: MailServer) -> None:
        self._connection, self._server = connection, server

    def send(self, message: EmailMessage) -> None:
        """Send a message once; raises NotTaken, or PostError if the connection is no longer usable."""
        sender, to = (parseaddr(str(message[name]))[1] for name in ("From", "To"))
        is_given = False
        try:
            code, said = self._connection.mail(sender)
            if code >= 500:
                words = _words(code, said)
                raise PostError(f"{self._server.name} refuses the `sender`: {words}")
            if code < 400:
                code, said = self._connection.rcpt(to)
            if code < 400:
                is_given = True
                code, said = self._data(message)
            if code >= 400 and code != _CLOSING:
                self._connection.rset()
        except (smtplib.SMTPException, OSError) as error:
            raise PostError(
                f"{self._server.name} did not answer: {_reason(error)}.",
                is_unclear=is_given,
            ) from error
        if code == _CLOSING:
            raise PostError(f"{self._server.name} ended the connection with {code}.")
        if code >= 400:
            raise NotTaken(_words(code, said), for_good=code >= 500)

    def _data(self, message: EmailMessage) -> tuple[int, bytes]:
        try:
            return self._connection.data(message.as_bytes())
        except smtplib.SMTPDataError as error:
            # The server refused the mail before the text was sent.
            said = error.smtp_error
            return error.smtp_code, said.encode() if isinstance(said, str) else said


@contextlib.contextmanager
def opened(server: MailServer) -> Iterator[Post]:
    """Connect to the mail server, encrypt, and sign in; raises PostError if that fails."""
    connection = _connected(server)
    try:
        yield Post(connection, server)
    finally:
        with contextlib.suppress(smtplib.SMTPException, OSError):
            connection.quit()
        connection.close()


def _connected(server: MailServer) -> smtplib.SMTP:
    file, name = server.file, server.name
    try:
        context = ssl.create_default_context(cafile=server.ca_file)
    except (OSError, ValueError) as error:
        raise PostError(f"{server.ca_file} has no certificates: {_reason(error)}.") from error
    connection: smtplib.SMTP | None = None
    try:
        if file.security == "tls":
            connection = smtplib.SMTP_SSL(file.host, server.port, timeout=_SECONDS, context=context)
        else:
            connection = smtplib.SMTP(file.host, server.port, timeout=_SECONDS)
        connection.ehlo_or_helo_if_needed()
        if file.security == "starttls":
            if not connection.has_extn("starttls"):
                raise PostError(
                    f"{name} does not offer STARTTLS, so nothing was sent. Ask its operator which port to use, "
                    'and whether it needs security = "tls".'
                )
            code, said = connection.starttls(context=context)
            if code != 220:
                raise PostError(
                    f"{name} refuses STARTTLS, so nothing was sent: {_words(code, said)}"
                )
            connection.ehlo_or_helo_if_needed()
        if file.user:
            connection.login(file.user, server.password)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, smtplib.SMTPException | OSError | ValueError):
            raise PostError(_no_connection(server, error)) from error
        raise
    return connection


def _no_connection(server: MailServer, error: Exception) -> str:
    """Return why there is no connection, and the remedy."""
    name = server.name
    match error:
        case smtplib.SMTPAuthenticationError():
            words = _words(error.smtp_code, error.smtp_error)
            return f"{name} refuses the `user` or the password: {words}"
        case smtplib.SMTPNotSupportedError():
            return f"{name} does not support signing in: remove `user`, or try another port."
        case ssl.SSLCertVerificationError():
            return (
                f"The certificate of {name} is not trusted ({clean(error.verify_message)}), so nothing was "
                "sent. Is `host` the name in it? If the authority is your own, add "
                'ca_file = "our-authority.pem".'
            )
        case ssl.SSLError():
            return (
                f"The TLS handshake with {name} failed ({_reason(error)}). A port for STARTTLS, often 587, "
                'needs security = "starttls"; one for TLS, often 465, needs security = "tls".'
            )
        case _:
            return f"{name} cannot be reached: {_reason(error)}."


def _reason(error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return clean(str(reason), _LONGEST_SAID).rstrip(".")


def _words(code: int, said: bytes | str) -> str:
    """Return an answer of the mail server on one line."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return clean(" ".join(f"{code} {text}".split()), _LONGEST_SAID)
