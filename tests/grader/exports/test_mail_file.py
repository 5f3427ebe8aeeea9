"""The file of `--mail`: each mistake is reported with its line, its key and the remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.exports.mail.mail_file import (
    PASSWORD,
    MailFile,
    MailFileError,
    is_address,
    read_mail_file,
    sender_of,
)
from grader.gradebook.outbox import Kind

RIGHT = """\
host = "smtp.example.org"
sender = "Deep Learning <ml-course@example.org>"
send = ["verdicts", "answers"]
"""
LOGIN = 'user = "ml-course"\npassword_file = "word.txt"\n'


def file_in(folder: Path, text: str, password: str = "hush\n") -> Path:
    (folder / "word.txt").write_text(password, encoding="utf-8")
    file = folder / "mail.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_defaults_are_safe(tmp_path: Path) -> None:
    server = read_mail_file(file_in(tmp_path, RIGHT), is_for_server=True)
    assert (server.port, server.file.security, server.ca_file) == (587, "starttls", None)
    assert server.file.send == (Kind.VERDICTS, Kind.ANSWERS)
    assert (server.file.gather.total_seconds(), server.file.most_per_hour) == (60, 10)
    assert sender_of(server.file.sender) == ("Deep Learning", "ml-course@example.org")
    assert read_mail_file(file_in(tmp_path, RIGHT + 'security = "tls"\n')).port == 465
    assert read_mail_file(file_in(tmp_path, RIGHT + "port = 2525\n")).port == 2525


def test_the_password_is_in_a_file_or_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_mail_file(file_in(tmp_path, RIGHT + LOGIN)).password == "hush"
    monkeypatch.setenv(PASSWORD, "of the environment")
    short = file_in(tmp_path, RIGHT + 'user = "ml-course"\n')
    assert read_mail_file(short).password == "of the environment"
    assert PASSWORD not in os.environ, "processes that the server starts must not inherit it"
    assert read_mail_file(file_in(tmp_path, RIGHT)).password == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs `host`. Write host = "),
        (RIGHT + "colour = 1\n", "line 4: there is no key `colour`"),
        (RIGHT + "port = 0\n", "line 4: `port`"),
        (
            RIGHT.replace('"verdicts", ', '"points", '),
            'line 3: `send`: .*Write send = \\["verdicts"',
        ),
        (RIGHT + 'security = "ssl"\n', 'line 4: `security`: .*"starttls", "tls" or "none"'),
        (
            RIGHT + 'security = "none"\n',
            "line 4: `security` .*every mail would cross .*allow_plain_text = true",
        ),
        (
            RIGHT + 'security = "none"\nallow_plain_text = true\n' + LOGIN,
            "line 4: `security` .*the password would cross",
        ),
        (RIGHT.replace("<ml-course@example.org>", ""), "line 2: `sender` .*has no address"),
        (RIGHT.replace("Deep", "De\\nep"), "line 2: `sender` .*has no address"),
        (RIGHT.replace("smtp.", "smtp://"), "line 1: `host` .*not the name of a host"),
        (RIGHT + 'reply_to = "nobody"\n', "line 4: `reply_to` is nobody, not an address"),
        (RIGHT + 'gather = "2 moons"\n', "line 4: `gather`: .*moons.*Write gather"),
        (RIGHT + 'gather = "2 days"\n', "line 4: `gather` is longer than a day"),
        (RIGHT + "most_per_hour = 0\n", "line 4: `most_per_hour`"),
        (RIGHT + 'password_file = "word.txt"\n', "line 4: `password_file` needs a `user`"),
        (RIGHT + 'user = "x"\n', "`user` needs a password.*LAB_BENCH_MAIL_PASSWORD"),
        (RIGHT + 'user = "x"\npassword_file = "no.txt"\n', "no.txt cannot be read"),
        (RIGHT + 'ca_file = "no.pem"\n', "`ca_file`.*no.pem, cannot be read"),
        (RIGHT.replace('send = ["verdicts", "answers"]', ""), "`send` is missing or empty"),
        ("host = smtp\n", "line 1: this is not TOML"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_remedy(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(MailFileError, match=words) as error:
        read_mail_file(file_in(tmp_path, text), is_for_server=True)
    assert error.value.exit_code == 2
    assert str(error.value).startswith(str(tmp_path)) or "word" in str(error.value)


@pytest.mark.parametrize("password", ["", "\n", "two\nlines\n", "hüsch\n"])
def test_a_password_is_one_line_of_ascii(tmp_path: Path, password: str) -> None:
    with pytest.raises(MailFileError, match="password") as error:
        read_mail_file(file_in(tmp_path, RIGHT + LOGIN, password))
    assert "hüsch" not in str(error.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_server_on_this_machine_needs_no_encryption(tmp_path: Path, host: str) -> None:
    text = RIGHT.replace("smtp.example.org", host) + 'security = "none"\n'
    assert read_mail_file(file_in(tmp_path, text)).port == 25


@pytest.mark.parametrize("name", MailFile.__struct_fields__)
def test_every_key_is_explained(name: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "serve.md"
    assert f"`{name}`" in page.read_text(encoding="utf-8").partition("\n## Mail\n")[2]


def test_only_a_single_plain_address_is_accepted() -> None:
    for right in ("ada@example.org", "a.b+c_d@mail.example-1.co.uk", "ada@localhost"):
        assert is_address(right), right
    for wrong in (
        "",
        "ada",
        "@example.org",
        "ada@",
        "ada@example.org, eve@example.org",
        "ada@example.org\nBcc: eve@example.org",
        "ada@example.org\n",
        "a..da@example.org",
        ".ada@example.org",
        "ada.@example.org",
        "ada@example..org",
        "Ada <ada@example.org>",
        "ädä@example.org",
        "ada@-example.org",
        "ada@@example.org",
        f"{'a' * 250}@example.org",
    ):
        assert not is_address(wrong), wrong
