"""Requests to other servers: safe addresses, bounded answers, and no redirects."""

from __future__ import annotations

import contextlib

import pytest

from grader.serve import fetching
from grader.serve.fetching import fetch
from tests.grader.serve.issuer import Issuer
from tests.grader.serve.test_github import Odd


@pytest.mark.parametrize("address", ["", "http://a.example", "file:///etc/passwd"])
def test_unsafe_addresses_are_refused(address: str) -> None:
    with pytest.raises(OSError, match="not an https address"):
        fetch(address)


def test_answers_of_every_status_are_returned() -> None:
    with contextlib.closing(Issuer()) as issuer:
        assert fetch(f"{issuer.address}/keys").table["keys"]
        assert fetch(f"{issuer.address}/nothing").status == 404
        issuer.moved_to = f"{issuer.address}/keys"
        moved = fetch(f"{issuer.address}/token", body="a=b")
        assert moved.status == 307
    with pytest.raises(OSError, match="refused"):
        fetch(f"{issuer.address}/keys")


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b"[" * 100_000, b"<html>"])
def test_an_answer_must_be_a_json_object(body: bytes) -> None:
    with contextlib.closing(Odd(body)) as odd, pytest.raises(OSError, match="no JSON object"):
        _ = fetch(odd.address).table


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for a process to start on a busy machine.
    monkeypatch.setattr(fetching, "_FETCH_SECONDS", 5)
    with contextlib.closing(Odd()) as odd, pytest.raises(OSError, match="no answer within"):
        fetch(odd.address)
