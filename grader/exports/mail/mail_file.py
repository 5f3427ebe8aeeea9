"""The file of `--mail`: the mail server, the sender, and the kinds of events to mail."""

from __future__ import annotations

import email.utils
import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from grader.errors import ExitCode, GraderError
from grader.gradebook.outbox import Kind
from grader.gradebook.times import Span, read_span
from grader.text import clean
from grader.toml import Text, TomlMistake, explain_mistake, line_of, read_toml

PASSWORD = "LAB_BENCH_MAIL_PASSWORD"  # noqa: S105  # the name of a variable
_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_EXAMPLES = {
    "host": 'host = "smtp.example.org"',
    "port": "port = 587",
    "security": 'security = "starttls", "tls" or "none"',
    "allow_plain_text": "allow_plain_text = true",
    "ca_file": 'ca_file = "our-authority.pem"',
    "user": 'user = "ml-course"',
    "password_file": 'password_file = "mail-password.txt"',
    "sender": 'sender = "Deep Learning <ml-course@example.org>"',
    "reply_to": 'reply_to = "ml-staff@example.org"',
    "send": 'send = ["verdicts", "answers", "changes"]',
    "gather": 'gather = "1 minute"',
    "most_per_hour": "most_per_hour = 10",
}
# Only ASCII, since not every mail server takes more. No dots in a row, which no header can have.
_ATOM, _LABEL = r"[\w!#$%&'*+/=?^`{|}~-]+", r"\w+(-+\w+)*"
_ADDRESS = re.compile(rf"{_ATOM}(\.{_ATOM})*@{_LABEL}(\.{_LABEL})*", re.ASCII)
_LONGEST_ADDRESS = 254
_DAY_SECONDS = 86_400.0


class MailFileError(GraderError):
    """The file of `--mail` has a mistake that its author must correct."""

    exit_code = ExitCode.USAGE


class MailFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file: a mail server, the `sender`, and the kinds of events that a server `send`s.

    With `security` "none", nothing is encrypted; over a network this needs `allow_plain_text`. After an event,
    a server waits for `gather`, then sends one mail about everything since. A student gets at most
    `most_per_hour`; further events wait for the next mail.
    """

    host: Text
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    security: Literal["starttls", "tls", "none"] = "starttls"
    allow_plain_text: bool = False
    ca_file: str = ""
    user: str = ""
    password_file: str = ""
    sender: Text
    reply_to: str = ""
    send: tuple[Kind, ...] = ()
    gather: Span = Span(seconds=60)
    most_per_hour: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10


class MailServer(NamedTuple):
    """The file of `--mail` with its password; without `ca_file`, this machine's authorities are trusted."""

    file: MailFile
    port: int
    password: str
    ca_file: Path | None

    @property
    def name(self) -> str:
        """The host and port, as messages show them."""
        return f"{clean(self.file.host)}:{self.port}"


def read_mail_file(path: Path, *, is_for_server: bool = False) -> MailServer:
    """Read the file of `--mail`, and the password from its file or the environment.

    With `is_for_server`, `send` is required. Raises MailFileError with file, line, key and remedy.
    """
    text = _text_of(path, f"{path}")
    try:
        mail = read_toml(text, MailFile, dec_hook=_decoded)
    except TomlMistake as error:
        words = explain_mistake(error, text, MailFile, _EXAMPLES)
        raise MailFileError(f"{path}{error.place}: {words}") from error
    if is_for_server and not mail.send:
        raise MailFileError(
            f"{path}: `send` is missing or empty, so the server would mail nothing. Write {_EXAMPLES['send']}, "
            "or some of these."
        )
    for key, complaint in _complaints(mail):
        line = line_of(text, key)
        place = f", line {line}" if line else ""
        raise MailFileError(f"{path}{place}: {complaint}")
    authority = path.parent / mail.ca_file if mail.ca_file else None
    if authority is not None:
        _text_of(authority, f"{path}: the certificates of `ca_file`, {authority},")
    port = _PORTS[mail.security] if mail.port is None else mail.port
    return MailServer(mail, port, _password_of(mail, path), authority)


def is_address(text: str) -> bool:
    """Return whether a text is one address to which mail can be sent."""
    return len(text) <= _LONGEST_ADDRESS and _ADDRESS.fullmatch(text) is not None


def sender_of(text: str) -> tuple[str, str]:
    """Return the name and the address of a sender; the address is empty if the text is not a sender."""
    name, address = email.utils.parseaddr(text)
    return (name, address) if is_address(address) and text.isprintable() else ("", "")


def _decoded(kind: type, value: Any) -> Any:
    if kind is not Span:
        raise NotImplementedError(f"{kind} in a file of --mail")
    if not isinstance(value, str):
        raise ValueError(f"Expected a duration, got {value!r}")
    return read_span(value)


def _complaints(mail: MailFile) -> Iterator[tuple[str, str]]:
    """Yield keys with a complaint about each."""

    def clear(what: str) -> str:
        crosses = f'`security` is "none": {what} would cross the network in the clear.'
        return f'{crosses} Write security = "starttls" or "tls"'

    if not re.fullmatch(r"[\w.:-]+", mail.host, re.ASCII):
        yield (
            "host",
            f"`host` is {clean(mail.host)}, not the name of a host. Write {_EXAMPLES['host']}.",
        )
    if mail.security == "none" and not _is_loopback(mail.host):
        if mail.user:
            yield "security", f"{clear('the password')}."
        if not mail.allow_plain_text:
            accepted = _EXAMPLES["allow_plain_text"]
            yield "security", f"{clear('every mail')}; if you accept that, add {accepted}."
    if not sender_of(mail.sender)[1]:
        yield (
            "sender",
            f"`sender` is {clean(mail.sender)}, which has no address. Write {_EXAMPLES['sender']}.",
        )
    if mail.reply_to and not is_address(mail.reply_to):
        yield (
            "reply_to",
            f"`reply_to` is {clean(mail.reply_to)}, not an address. Write {_EXAMPLES['reply_to']}.",
        )
    if not (mail.user.isascii() and mail.user.isprintable()):
        yield "user", f"`user` is {clean(mail.user)}. Use only ASCII characters."
    if mail.password_file and not mail.user:
        yield "password_file", f"`password_file` needs a `user`. Write {_EXAMPLES['user']}."
    if mail.gather.total_seconds() > _DAY_SECONDS:
        yield "gather", f"`gather` is longer than a day. Write {_EXAMPLES['gather']}."


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _password_of(mail: MailFile, path: Path) -> str:
    """Return the password without its line break; empty without a user."""
    # Processes that the grader starts must not inherit it.
    of_environment = os.environ.pop(PASSWORD, "")
    if not mail.user:
        return ""
    password, where = of_environment, f"the environment variable {PASSWORD}"
    if mail.password_file:
        file = path.parent / mail.password_file
        password, where = _text_of(file, f"The password file {file}"), str(file)
    password = password.strip("\r\n")
    if not password:
        raise MailFileError(
            f"{path}: `user` needs a password, and there is none in {where}. Write it to a file that only you "
            f"can read, and name the file: {_EXAMPLES['password_file']}. Or set {PASSWORD}."
        )
    if not (password.isascii() and password.isprintable()):
        raise MailFileError(f"{where}: the password must be one line of ASCII characters.")
    return password


def _text_of(path: Path, what: str) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise MailFileError(f"{what} cannot be read: {reason}.") from error
