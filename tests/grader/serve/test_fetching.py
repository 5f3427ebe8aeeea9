"""Requests to other servers: to which addresses they go, and that nothing but the answer comes back."""

from __future__ import annotations

import contextlib

import pytest

from grader.serve import fetching
from grader.serve.fetching import fetch, is_safe
from tests.grader.serve.issuer import Issuer
from tests.grader.serve.test_github import Odd

SAFE = (
    "https://a.example",
    "https://a.example:8443/b?c=d",
    "https://[2001:db8::1]/",
    "http://127.0.0.1:8080/",
    "http://localhost/",
    "http://[::1]:80/",
)
UNSAFE = (
    *("", "a.example", "//a.example", "http://a.example", "http://127.0.0.1.evil.example"),
    *("file:///etc/passwd", "ftp://a.example", "javascript:alert(1)", "data:,x"),
    *("https://", "https:///x", "https://a b", "https://a\n", "https://\u00e4.example", "http://["),
    *("https://user@a.example", "https://a.example;x", "https://a.example'", "https://a.example,b"),
)


@pytest.mark.parametrize("address", SAFE)
def test_https_and_this_machine_are_safe(address: str) -> None:
    assert is_safe(address)


@pytest.mark.parametrize("address", UNSAFE)
def test_nothing_else_is_asked(address: str) -> None:
    assert not is_safe(address)
    with pytest.raises(OSError, match="not an https address"):
        fetch(address)


def test_an_answer_comes_back_whatever_its_status() -> None:
    with contextlib.closing(Issuer()) as issuer:
        assert fetch(f"{issuer.address}/keys").table["keys"]
        assert fetch(f"{issuer.address}/nothing").status == 404
        issuer.moved_to = f"{issuer.address}/keys"
        moved = fetch(f"{issuer.address}/token", body="a=b")
        assert moved.status == 307
    with pytest.raises(OSError, match="refused"):
        fetch(f"{issuer.address}/keys")


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b"[" * 100_000, b"<html>"])
def test_an_answer_that_is_no_object_is_told(body: bytes) -> None:
    with contextlib.closing(Odd(body)) as odd, pytest.raises(OSError, match="no JSON object"):
        _ = fetch(odd.address).table


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    # Enough for a process that starts on a busy machine.
    monkeypatch.setattr(fetching, "_FETCH_SECONDS", 5)
    with contextlib.closing(Odd()) as odd, pytest.raises(OSError, match="no answer within"):
        fetch(odd.address)
