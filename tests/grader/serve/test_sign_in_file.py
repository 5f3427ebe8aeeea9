"""The file of `--sign-in`: keys, secret, and messages about mistakes, before the server starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from grader.errors import SubmissionError
from grader.results import StudentInfo
from grader.serve.sign_in.sign_in_file import SECRET, People, SignInError, read_sign_in
from tests.grader.serve.conftest import PLAIN, ROSTER

RIGHT = """\
issuer = "https://login.example.org/realms/students"
client_id = "lab-bench"
client_secret_file = "secret.txt"
"""


def file_in(folder: Path, text: str, secret: str = "hush\n") -> Path:
    (folder / "secret.txt").write_text(secret, encoding="utf-8")
    file = folder / "sign-in.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_secret_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in, secret = read_sign_in(file_in(tmp_path, RIGHT))
    assert (sign_in.claim, sign_in.column, sign_in.hours, secret) == ("email", "email", 12, "hush")
    monkeypatch.setenv(SECRET, "of the environment")
    short = RIGHT.replace('client_secret_file = "secret.txt"\n', "")
    assert read_sign_in(file_in(tmp_path, short)).client_secret == "of the environment"


def test_rules_about_people_change_the_origin(tmp_path: Path) -> None:
    rules = ["", 'staff = ["a@b.org"]\n', 'column = "username"\n', 'claim = "upn"\n']
    # Other keys keep the origin, so sessions stay valid.
    same = ["hours = 2\n", 'name = "X"\n']
    origins = [read_sign_in(file_in(tmp_path, RIGHT + rule)).sign_in.origin for rule in rules]
    others = [read_sign_in(file_in(tmp_path, RIGHT + rule)).sign_in.origin for rule in same]
    assert len({*origins}) == len(rules)
    assert {*others} == {origins[0]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            RIGHT.replace("https", "http"),
            "`issuer` is http://login.example.org/realms/students, not",
        ),
        (RIGHT.replace("https://login.example.org", "https:///"), "not an https address"),
        (RIGHT.replace("client_id", "client"), "there is no key `client`"),
        (
            RIGHT.replace('issuer = "https://login.example.org/realms/students"', ""),
            "needs `issuer`",
        ),
        (RIGHT + 'column = "shoe"\n', "`column` is shoe, not one of"),
        (RIGHT + 'column = "section"\n', "`column` is section, not one of"),
        (RIGHT + "staff = 5\n", "`staff`"),
        (RIGHT + 'staff_claim = "groups"\n', "go together"),
        (RIGHT + 'staff_values = ["x"]\n', "go together"),
        (RIGHT + 'scopes = ["email"]\n', "`scopes` needs"),
        (RIGHT + "hours = 0\n", "`hours`"),
        (RIGHT + "hours = 1000\n", "`hours`"),
        (
            RIGHT + 'token_endpoint_auth_method = "none"\n',
            "client_secret_basic, client_secret_post",
        ),
        (RIGHT.replace("secret.txt", "gone.txt"), "gone.txt cannot be read"),
        (RIGHT.replace('"secret.txt"', '""'), f"environment variable {SECRET}"),
        ("issuer = \n", "line 1"),
    ],
    ids=lambda value: value[-40:],
)
def test_a_mistake_is_refused_with_a_reason(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SignInError) as told:
        read_sign_in(file_in(tmp_path, text))
    assert words in str(told.value) and str(tmp_path) in str(told.value)
    assert told.value.exit_code == 2


@pytest.mark.parametrize("secret", ["", " \n", "two\nlines", "schlüssel"])
def test_an_invalid_secret_is_refused(tmp_path: Path, secret: str) -> None:
    with pytest.raises(SignInError, match="secret"):
        read_sign_in(file_in(tmp_path, RIGHT, secret))


def test_people_are_found_by_unique_values(tmp_path: Path) -> None:
    students = [
        StudentInfo(id="ada", email="Ada@example.org", ids={"username": "al"}),
        StudentInfo(id="bob", email="bob@example.org"),
    ]
    assert People(students, "email").student(" ADA@Example.ORG") == "ada"
    assert People(students, "id").student("bob") == "bob"
    # A student without a value is not found by the empty value.
    assert People(students, "username").student("") is None
    assert People(students, "username").student("AL") == "ada"
    with pytest.raises(SubmissionError, match="no `id_number`"):
        People(students, "id_number")
    twice = [*students, StudentInfo(id="eve", email="BOB@example.org")]
    with pytest.raises(SubmissionError, match=r"bob@example\.org twice"):
        People(twice, "email")


def serve(folder: Path, *options: str) -> Result:
    (folder / "class.csv").write_text(ROSTER, encoding="utf-8")
    roster = ("--roster", str(folder / "class.csv"))
    command = ["serve", str(PLAIN), "-o", str(folder / "results"), *roster, *options]
    return CliRunner().invoke(main, command, env={**os.environ, SECRET: ""})


def test_grade_serve_reports_mistakes_before_it_starts(tmp_path: Path) -> None:
    file = str(file_in(tmp_path, RIGHT + 'column = "username"\n'))
    # The issuer keeps the server from asking GitHub.
    address = ("--address", "https://grade.example.org", "--issuer", "http://127.0.0.1:9")
    alone = serve(tmp_path, "--sign-in", file)
    assert alone.exit_code == 2 and "--address https://grade.example.org" in alone.output
    unknown = serve(tmp_path, "--sign-in", file, *address)
    assert unknown.exit_code == 2 and "no `username`" in unknown.output
    wrong = serve(tmp_path, "--sign-in", str(file_in(tmp_path, "issuer = 5")), *address)
    assert wrong.exit_code == 2 and "sign-in.toml" in wrong.output
