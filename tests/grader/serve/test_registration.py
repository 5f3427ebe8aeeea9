"""Platforms register themselves by a one-time address and are trusted once a person confirms them.

No other library here has dynamic registration. `Platform` follows the specification, as Moodle's source does,
and then launches with `lti1p3platform`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result
from starlette.requests import Request

from grader.cli import main
from grader.gradebook import Gradebook, invitations, platforms
from grader.gradebook.platforms import changing_platforms
from grader.serve.http import Refusal, network_of
from grader.serve.sign_in.door import Door
from grader.serve.sign_in.registration import Invited, invited, registered
from tests.grader.serve.conftest import Answer, Served
from tests.grader.serve.issuer import Visitor
from tests.grader.serve.lti_platform import CLIENT, DEPLOYMENT, TOOL, Platform
from tests.grader.serve.test_launch import launched, start

TOKEN = "a.registration.token"


def platform_command(served: Served, action: str, *options: str, keys: str = "") -> Result:
    command = ["platform", action, str(served.results), *options]
    return CliRunner().invoke(main, command, input=keys)


def invitation(served: Served) -> str:
    """Make a one-time address with `grade platform invite` and return its path."""
    here = f"http://127.0.0.1:{served.port}"
    done = platform_command(served, "invite", "--address", here)
    assert done.exit_code == 0, done.output
    return done.stdout.strip().removeprefix(here)


def opened(served: Served, path: str, platform: Platform, **more: str) -> Answer:
    """Open a one-time address as the platform does."""
    asked = {"openid_configuration": f"{platform.address}/openid-configuration"}
    query = urllib.parse.urlencode({**asked, "registration_token": TOKEN, **more})
    return Visitor(served.port).get(f"{path}?{query}")


def kept(served: Served) -> tuple[list[platforms.Platform], list[platforms.Platform]]:
    """The platforms that wait for confirmation, and the trusted ones."""
    with Gradebook.open_beside_writer(served.results) as book:
        return invitations.waiting(book), platforms.platforms(book)


@pytest.fixture
def served(serving: Callable[..., Served]) -> Served:
    return start(serving())


@pytest.fixture
def platform(served: Served) -> Iterator[Platform]:
    made = Platform(f"http://127.0.0.1:{served.port}")
    yield made
    made.close()


def test_a_platform_registers_and_launches_once_confirmed(
    served: Served, platform: Platform
) -> None:
    here, path = f"http://127.0.0.1:{served.port}", invitation(served)
    # Opening the link without a platform does not use it up.
    assert b"for a learning platform" in Visitor(served.port).get(path).body
    looked = f"{path}?openid_configuration={platform.address}/openid-configuration"
    assert Visitor(served.port).get(looked, "HEAD").status == 200 and platform.registrations == []
    page = opened(served, path, platform)
    assert page.status == 200 and b"Moodle" in page.body, page
    assert b'src="/static/close.js"' in page.body
    assert "frame-ancestors" not in str(page.headers["Content-Security-Policy"])
    (read, _), (token, body) = platform.registrations
    assert read == token == f"Bearer {TOKEN}"
    assert body["initiate_login_uri"] == f"{here}/lti/login"
    assert body["redirect_uris"] == [f"{here}/lti/launch"]
    assert body["jwks_uri"] == f"{here}/lti/keys"
    assert body["token_endpoint_auth_method"] == "private_key_jwt"
    assert {"lti-ags", "lti-nrps"} == {s.split("/")[4] for s in body["scope"].split()}
    kinds = {each["type"]: each["target_link_uri"] for each in body[TOOL]["messages"]}
    assert kinds["LtiDeepLinkingRequest"] == f"{here}/lti/select"
    assert "email" in body[TOOL]["claims"] and body[TOOL]["domain"] == "127.0.0.1"
    # Nobody can sign in before a person confirms it.
    (waiting,), trusted = kept(served)
    assert trusted == [] and (waiting.client_id, waiting.deployments) == (CLIENT, (DEPLOYMENT,))
    assert Visitor(served.port).get(platform.login()).status == 403
    listed = platform_command(served, "list").stdout
    assert "waits: `grade platform confirm`" in listed and "No platform" not in listed
    shown = served.ask("GET", "/class/platforms", "staff").body.decode()
    assert "grade platform confirm" in shown and "No platform" not in shown
    assert platform_command(served, "confirm", keys="n\n").exit_code == 1
    assert kept(served)[1] == []
    done = platform_command(served, "confirm", "Moodle", keys="y\n")
    assert done.exit_code == 0 and f"Issuer: {platform.address}" in done.output
    assert f"Keys: {platform.address}/keys" in done.output
    assert "can sign in as any student" in done.output and "Moodle is registered." in done.output
    visitor, _ = launched(served, platform)
    assert b"Ada Test" in visitor.get("/").body
    assert kept(served)[0] == []
    assert "No platform waits" in platform_command(served, "confirm").output


def test_an_address_works_once_within_an_hour(
    served: Served, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = invitation(served)
    assert opened(served, path, platform).status == 200
    again = opened(served, path, platform)
    assert again.status == 403 and b"used already" in again.body
    assert opened(served, "/lti/register/nothing", platform).status == 403
    monkeypatch.setattr(invitations, "VALID_SECONDS", -1.0)
    assert opened(served, invitation(served), platform).status == 403
    assert len(platform.registrations) == 2 and len(kept(served)[0]) == 1
    with contextlib.closing(sqlite3.connect(served.results / "gradebook.sqlite")) as book:
        rows = str(book.execute("SELECT digest FROM platform_invitations").fetchall())
    assert path.rpartition("/")[2] not in rows + served.log.read_text()


def test_an_invalid_configuration_registers_nothing(served: Served, platform: Platform) -> None:
    honest = dict(platform.configuration)
    for field, value, said in (
        ("issuer", "https://lms.example.edu", "is on another host than localhost"),
        ("issuer", "http://lms.example.edu", "has no https address"),
        ("jwks_uri", "http://lms.example.edu/keys", "its jwks_uri http://lms.example.edu/keys has"),
        ("registration_endpoint", "file:///etc/passwd", "its registration_endpoint file:///etc"),
        ("token_endpoint", None, "its configuration cannot be read"),
    ):
        platform.configuration = {**honest, field: value}
        path = invitation(served)
        page = opened(served, path, platform)
        assert page.status == 502 and said in page.body.decode(), (said, page)
        assert b"close.js" not in page.body and kept(served) == ([], [])
        # Otherwise a stranger with the address could probe one server after another.
        assert opened(served, path, platform).status == 403
    assert not any(body for _, body in platform.registrations)


def test_an_answer_without_a_client_id_registers_nothing(
    served: Served, platform: Platform
) -> None:
    for answer, status, said in (
        ({}, 200, "answer to the registration cannot be read"),
        ({"client_id": ""}, 200, "no client id"),
        ({"client_id": "x" * 1001}, 200, "no client id"),
        ({"client_id": "7"}, 302, "answers with the status 302"),
        ({"client_id": "7"}, 401, "answers with the status 401"),
    ):
        platform.registered, platform.status = answer, status
        page = opened(served, invitation(served), platform)
        assert page.status == 502 and said in page.body.decode(), (answer, page)
    assert kept(served) == ([], [])


def test_a_platform_may_leave_fields_out(served: Served, platform: Platform) -> None:
    """A person fills them in with `grade platform confirm`, which has tests of its own."""
    platform.registered = {"client_id": CLIENT}
    assert opened(served, invitation(served), platform).status == 200
    del platform.configuration["https://purl.imsglobal.org/spec/lti-platform-configuration"]
    there = "https://sso.canvaslms.com/login/oauth2/token"
    platform.configuration["authorization_server"] = there
    platform.registered = {"client_id": "nameless"}
    assert opened(served, invitation(served), platform).status == 200
    told = {each.client_id: each for each in kept(served)[0]}
    assert (told[CLIENT].name, told[CLIENT].deployments, told[CLIENT].audience) == (
        "Moodle",
        (),
        "",
    )
    assert (told["nameless"].name, told["nameless"].audience) == ("", there)


ELSEWHERE = "https://grade.example.org"


@pytest.mark.parametrize(
    "configuration",
    [
        "http://lms.example.edu/configuration",
        "http://127.0.0.1:8786/",
        "https://localhost/configuration",
        "https://user:secret@lms.example.edu/",
        "ftp://lms.example.edu/",
    ],
)
def test_a_public_server_asks_no_unsafe_or_local_address(configuration: str) -> None:
    with pytest.raises(Refusal, match="no https address"):
        invited({"openid_configuration": configuration}, ELSEWHERE)


def test_an_invalid_token_is_refused() -> None:
    there = {"openid_configuration": "https://lms.example.edu/configuration"}
    assert invited(there, ELSEWHERE) == Invited(there["openid_configuration"], "")
    for token in ("a\r\nHost: b", "x" * 8193, "\u00e9"):
        with pytest.raises(Refusal, match="token"):
            invited({**there, "registration_token": token}, ELSEWHERE)


def test_a_refusal_names_the_platform_that_does_not_answer() -> None:
    with pytest.raises(Refusal, match=r"127\.0\.0\.1:9/x does not answer"):
        registered(Invited("http://127.0.0.1:9/x", ""), "Course", "http://127.0.0.1:1")


def test_invitations_expire_and_work_once(tmp_path: Path) -> None:
    with changing_platforms(tmp_path) as book:
        assert invitations.waiting(book) == []
        invitations.prepare(book)
        now = time.time()
        secret = invitations.invite(book, now)
        assert invitations.is_valid(book, secret, now + invitations.VALID_SECONDS - 1)
        assert not invitations.is_valid(book, secret, now + invitations.VALID_SECONDS)
        other = invitations.invite(book, now + invitations.VALID_SECONDS)
        assert not invitations.use(book, secret, now)
        assert invitations.use(book, other, now) and not invitations.use(book, other, now)


def test_an_invitation_needs_an_https_address(tmp_path: Path) -> None:
    for options, said in (
        ((), "--address https://grade.example.org"),
        (("--address", "http://grade.example.org"), "https"),
    ):
        done = CliRunner().invoke(main, ["platform", "invite", str(tmp_path / "r"), *options])
        assert done.exit_code == 2 and said in done.output
    assert not (tmp_path / "r").exists()


def test_a_busy_server_does_not_use_up_the_address() -> None:
    """The platform gets 503 and may try again."""

    class Asked:
        used = 0

        async def answer(self, ask: Callable[..., Any]) -> bool:
            self.used += self is desk
            return True

    desk, course = Asked(), SimpleNamespace(title="Lab")
    server = SimpleNamespace(
        address="https://grade.example.org",
        university=None,
        course=course,
        desk=desk,
        views=Asked(),
    )
    door = Door(cast("Any", server), lambda _template, **values: str(values["said"]))
    query = urllib.parse.urlencode({"openid_configuration": "https://moodle.example.edu/lti"})
    request = Request(
        {
            "type": "http",
            "method": "GET",
            "headers": [],
            "client": ("192.0.2.1", 5000),
            "query_string": query.encode(),
            "path_params": {"secret": "s3cret"},
        }
    )
    door._waiting[network_of(request)] = 200
    answer = asyncio.run(door.register(request))
    assert answer.status_code == 503 and b"Try again in a moment" in answer.body
    assert desk.used == 0
