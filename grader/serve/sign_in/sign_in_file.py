"""The file of `grade serve --sign-in`: the issuer where people sign in, and rules to find them here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from grader.errors import ExitCode, GraderError, SubmissionError
from grader.gradebook.platforms import is_safe
from grader.gradebook.tokens import Role
from grader.results import GROUPS, StudentInfo
from grader.submissions.class_list import COLUMNS, value_key
from grader.text import clean, listed
from grader.toml import Text, TomlMistake, explain_mistake, read_toml

SECRET = "LAB_BENCH_CLIENT_SECRET"  # noqa: S105  # the name of a variable
_EXAMPLES = {
    "issuer": 'issuer = "https://login.example.org/realms/students"',
    "client_id": 'client_id = "lab-bench"',
    "client_secret_file": 'client_secret_file = "client-secret.txt"',
    "claim": 'claim = "email"',
    "column": 'column = "email"',
    "staff": 'staff = ["prof@example.org"]',
    "staff_claim": 'staff_claim = "groups"',
    "staff_values": 'staff_values = ["ml-course-staff"]',
    "scopes": 'scopes = ["openid", "email", "profile"]',
    "hours": "hours = 12",
    "name": 'name = "Example University"',
}
# Without columns in which students may share a value, which identify nobody.
_COLUMNS = sorted({*COLUMNS.values()} - {"name", "first", "last", *GROUPS})


class SignInError(GraderError):
    """The file of `--sign-in` has a mistake that its author must correct."""

    exit_code = ExitCode.USAGE


class SignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file: an issuer of OpenID Connect, this server's client there, and the rules to find people.

    A student is found by the value of `claim` in the `column` of the class list. Staff are people whose `claim`
    is in `staff`, or whose `staff_claim` has one of the `staff_values`. A session lasts `hours`.
    """

    issuer: Text
    client_id: Text
    client_secret_file: str = ""
    name: Text = "your university"
    claim: Text = "email"
    column: Text = "email"
    staff: tuple[Text, ...] = ()
    staff_claim: str = ""
    staff_values: tuple[Text, ...] = ()
    scopes: tuple[Text, ...] = ("openid", "email", "profile")
    hours: float = 12
    token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post"] = (
        "client_secret_basic"  # noqa: S105  # the name of a method
    )

    @property
    def origin(self) -> str:
        """A digest of these rules; a session that began under other rules is not valid."""
        rules = (self.issuer, self.client_id, self.claim, self.column)
        staff = (self.staff, self.staff_claim, self.staff_values)
        return "oidc:" + hashlib.sha256(msgspec.json.encode((rules, staff))).hexdigest()


class Secrets(NamedTuple):
    """The file of `--sign-in`, and the client's secret."""

    sign_in: SignIn
    client_secret: str


def read_sign_in(path: Path) -> Secrets:
    """Read the file of `--sign-in`, and the client's secret from its file or the environment.

    Raises SignInError with the file, the line, the key, and a remedy.
    """
    text = _text_of(path, f"{path}")
    try:
        sign_in = read_toml(text, SignIn)
    except TomlMistake as error:
        words = explain_mistake(error, text, SignIn, _EXAMPLES)
        raise SignInError(f"{path}{error.place}: {words}") from error
    for complaint in _complaints(sign_in):
        raise SignInError(f"{path}: {complaint}")
    return Secrets(sign_in, _secret_of(sign_in, path))


def _complaints(sign_in: SignIn) -> Iterable[str]:
    if not is_safe(sign_in.issuer):
        yield f"`issuer` is {clean(sign_in.issuer)}, not an https address. Write {_EXAMPLES['issuer']}."
    if sign_in.column not in _COLUMNS:
        yield f"`column` is {clean(sign_in.column)}, not one of {listed(_COLUMNS)}."
    if "openid" not in sign_in.scopes:
        yield '`scopes` needs "openid", or the issuer does not identify people.'
    if not 0 < sign_in.hours <= 24 * 31:
        yield "`hours` must be more than 0 and at most 744 (31 days)."
    if bool(sign_in.staff_claim) != bool(sign_in.staff_values):
        yield "`staff_claim` and `staff_values` go together: a claim, and its values for staff."


def _secret_of(sign_in: SignIn, path: Path) -> str:
    """Return the client's secret, stripped."""
    if not sign_in.client_secret_file:
        # Processes that the server starts must not inherit it.
        secret, where = os.environ.pop(SECRET, ""), f"the environment variable {SECRET}"
    else:
        file = path.parent / sign_in.client_secret_file
        secret, where = _text_of(file, f"The client's secret {file}"), str(file)
    secret = secret.strip()
    if not secret:
        raise SignInError(
            f"{path}: there is no client secret in {where}. Write it to a file that only this server can read, "
            f"and name the file: {_EXAMPLES['client_secret_file']}. Or set {SECRET}."
        )
    if not (secret.isascii() and secret.isprintable()):
        raise SignInError(f"{where}: a client secret is one line of ASCII characters.")
    return secret


def _text_of(path: Path, what: str) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SignInError(f"{what} cannot be read: {reason}.") from error


# --- people ---------------------------------------------------------------------------------------


class Person(NamedTuple):
    """A person of the class; `name` is a student's id or the name of a member of staff."""

    role: Role
    name: str


class People:
    """The students of the class, by their values in one column of the class list."""

    def __init__(self, students: Iterable[StudentInfo], column: str) -> None:
        """Raise SubmissionError if no student has a value in the column, or two have the same."""
        self._ids: dict[str, str] = {}
        self.column = column
        for student in students:
            if not (value := value_key(student.cell(column))):
                continue
            if self._ids.setdefault(value, student.id) != student.id:
                raise SubmissionError(
                    f"The roster has {clean(value)} twice in the column `{column}`, by which people sign in: "
                    "give each student a unique one."
                )
        if not self._ids:
            raise SubmissionError(
                f"The roster has no `{column}`, which sign-in needs: add the column, or name another."
            )

    def student(self, value: str) -> str | None:
        """Return the id of the student with this value (see `value_key`); None if there is none."""
        return self._ids.get(value_key(value)) if value else None
