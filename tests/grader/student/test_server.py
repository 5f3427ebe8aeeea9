"""The address of a course's server and the token, without a server."""

from __future__ import annotations

import email.message
import io
import os
import stat
import urllib.error
import urllib.request
from pathlib import Path
from typing import NoReturn

import pytest

from grader.errors import GraderError, SubmissionError
from grader.student import server as remote
from grader.student.server import (
    Server,
    ServerError,
    checked_address,
    is_unprotected,
    keep_server,
    kept_server,
    standing,
    token_file,
)


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of settings of this test's own."""
    monkeypatch.setenv("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("grade.example.org", "https://grade.example.org"),
        ("https://grade.example.org/", "https://grade.example.org"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://example.org/lab//", "https://example.org/lab"),
    ],
)
def test_an_address_is_kept_in_one_form(typed: str, kept: str) -> None:
    assert checked_address(typed) == kept


@pytest.mark.parametrize(
    "typed", ["", "ftp://example.org", "https://", "https://example.org/?a=1", "example.org#top"]
)
def test_what_is_no_address_is_refused_with_an_example(typed: str) -> None:
    with pytest.raises(SubmissionError, match=r"is not an address: write https://grade\.example"):
        checked_address(typed)


def test_only_on_this_machine_a_token_goes_without_tls() -> None:
    assert is_unprotected("http://grade.example.org")
    for address in ("https://grade.example.org", "http://localhost:8000", "http://[::1]:8000"):
        assert not is_unprotected(address)


def test_a_token_is_kept_for_this_user_only_and_read_again() -> None:
    server = Server("https://grade.example.org", "s3cret")
    assert kept_server() is None
    file = keep_server(server)
    assert file == token_file()
    assert os.name != "posix" or stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kept_server() == server
    keep_server(Server(server.address, "newer"))
    assert kept_server() == Server(server.address, "newer")


def test_a_damaged_file_is_told_with_what_to_do() -> None:
    keep_server(Server("https://grade.example.org", "s3cret")).write_bytes(b"{")
    with pytest.raises(GraderError, match=r"cannot be read.*`grade login ADDRESS` writes it anew"):
        kept_server()


def test_a_token_that_cannot_be_kept_is_told(settings: Path) -> None:
    (settings / "lab-bench").write_text("a file, and no folder")
    with pytest.raises(GraderError, match="The token cannot be kept in"):
        keep_server(Server("https://grade.example.org", "s3cret"))


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [(400, 2), (401, 2), (403, 2), (404, 2), (413, 2), (302, 3), (409, 3), (429, 3), (503, 3)],
)
def test_a_refusal_exits_with_2_unless_trying_again_may_help(
    monkeypatch: pytest.MonkeyPatch, code: int, exit_code: int
) -> None:
    def opened(request: urllib.request.Request, timeout: float) -> NoReturn:
        body = io.BytesIO(b'{"error": "No."}')
        raise urllib.error.HTTPError(request.full_url, code, "", email.message.Message(), body)

    monkeypatch.setattr(remote, "PAUSES_SECONDS", ())
    monkeypatch.setattr(remote.opener, "open", opened)
    with pytest.raises((ServerError, SubmissionError), match=r"No\.") as refused:
        standing(Server("https://grade.example.org", "s3cret"))
    assert refused.value.exit_code == exit_code
