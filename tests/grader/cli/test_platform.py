"""`grade platform` registers, confirms, lists and removes platforms."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from grader.cli.platform import _is_foreign
from grader.gradebook import Gradebook, invitations, platforms, tool_key
from grader.gradebook.platforms import Link, changing_platforms
from grader.gradebook.tool_key import FILE, kept_key
from tests.grader.command import invoke

CANVAS = ("--canvas", "--client-id", "10000000000007", "--deployment", "1:abc")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to register platforms in. The key of the tool is not made: that is slow."""
    monkeypatch.setattr(tool_key, "made_key", lambda _: None)
    return tmp_path / "results"


def platform(results: Path, action: str, *words: str) -> Result:
    return invoke("platform", action, str(results), *words, cwd=results.parent)


def registered(results: Path) -> list[platforms.Platform]:
    with Gradebook.open(results) as book:
        return platforms.platforms(book)


def test_the_addresses_to_enter_are_shown_and_the_key_is_made(tmp_path: Path) -> None:
    results = tmp_path / "results"
    done = platform(results, "show", "--address", "https://grade.example.org/")
    assert done.exit_code == 0, done.output
    for path in ("login", "launch", "keys"):
        assert f"https://grade.example.org/lti/{path}\n" in done.stdout
    assert kept_key(results) is not None
    assert os.name != "posix" or (results / FILE).stat().st_mode & 0o77 == 0
    assert "https" in platform(results, "show", "--address", "http://grade.example.org").output


def test_canvas_and_moodle_need_only_a_client_id_and_deployments(results: Path) -> None:
    done = platform(results, "add", *CANVAS)
    assert done.stdout.startswith(
        "Canvas is registered.\nNext: launch this server from the platform"
    )
    words = ("--moodle", "https://moodle.example.edu/", "--client-id", "X9", "--deployment", "2")
    assert platform(results, "add", *words, "--deployment", "3").exit_code == 0
    canvas, moodle = registered(results)
    assert (canvas.issuer, canvas.deployments) == ("https://canvas.instructure.com", ("1:abc",))
    assert moodle.issuer == "https://moodle.example.edu"
    assert moodle.keys == "https://moodle.example.edu/mod/lti/certs.php"
    assert moodle.deployments == ("2", "3")


def test_a_platform_is_replaced_listed_and_removed(results: Path) -> None:
    platform(results, "add", *CANVAS)
    done = platform(results, "add", *CANVAS, "--claim", "lis_person_sourcedid", "--column", "id")
    assert done.stdout == "Canvas is replaced.\n"
    assert "never launched" in platform(results, "list").stdout
    (known,) = registered(results)
    with changing_platforms(results) as book:
        link = Link(
            issuer=known.issuer,
            client_id=known.client_id,
            deployment="1:abc",
            context="c",
            context_title="Deep \x1b[31mLearning",
            resource_title="Lab 1",
        )
        platforms.keep_launch(book, link)
    shown = platform(results, "list").stdout
    assert "lis_person_sourcedid is id of the class list" in shown
    assert "Lab 1, without grades, without names and roles" in shown
    assert "\x1b" not in shown
    assert platform(results, "remove", "Moodle").exit_code == 2
    assert platform(results, "remove", "Canvas").exit_code == 0
    assert registered(results) == []
    listed = platform(results, "list").stdout
    assert "No platform is registered: use `grade platform invite` or" in listed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--canvas", "--deployment", "1"), "Give --client-id"),
        (("--canvas", "--client-id", "1"), "--deployment"),
        ((*CANVAS, "--moodle", "https://m.example"), "not both"),
        ((*CANVAS, "--token", "http://sso.example/token"), "the address --token"),
        ((*CANVAS, "--keys", "file:///etc/passwd"), "the address --keys"),
        (("--moodle", "http://m.example", *CANVAS[1:]), "the address --authorization"),
        (("--client-id", "1", "--deployment", "1"), "Give --issuer"),
    ],
)
def test_missing_and_invalid_options_are_named(
    results: Path, words: tuple[str, ...], told: str
) -> None:
    done = platform(results, "add", *words)
    assert done.exit_code == 2
    assert told in done.stderr


def test_two_platforms_need_different_names(results: Path) -> None:
    platform(results, "add", *CANVAS)
    done = platform(results, "add", *CANVAS[:2], "8", "--deployment", "1")
    assert "another --name" in done.stderr
    assert platform(results, "remove", "10000000000007").exit_code == 0


def test_list_and_remove_create_no_gradebook(results: Path) -> None:
    assert platform(results, "list").exit_code == 2
    assert platform(results, "remove", "Canvas").exit_code == 2
    assert not results.exists()


# --- platforms that registered themselves ---------------------------------------------------------

MOODLE = platforms.Platform(
    issuer="https://moodle.example.edu",
    client_id="X9",
    deployments=("2",),
    authorization="https://moodle.example.edu/mod/lti/auth.php",
    token="https://moodle.example.edu/mod/lti/token.php",
    keys="https://moodle.example.edu/mod/lti/certs.php",
    name="Moodle",
)
NAMELESS = msgspec.structs.replace(MOODLE, client_id="nameless", name="")


def waiting(results: Path, *told: platforms.Platform) -> list[platforms.Platform]:
    """Add platforms that wait to be confirmed, as a server does, and return all that wait."""
    with changing_platforms(results) as book:
        invitations.prepare(book)
        for each in told:
            invitations.keep_waiting(book, each)
        return invitations.waiting(book)


def test_confirm_needs_a_deployment(results: Path) -> None:
    waiting(results, msgspec.structs.replace(MOODLE, deployments=()))
    done = platform(results, "confirm", "--yes")
    assert done.exit_code == 2 and "give --deployment" in " ".join(done.stderr.split())
    options = ("--deployment", "7", "--claim", "lis_person_sourcedid", "--column", "id")
    assert platform(results, "confirm", "--yes", *options, "--name", "School").exit_code == 0
    (made,) = registered(results)
    assert (made.name, made.claim, made.column) == ("School", "lis_person_sourcedid", "id")
    assert made.deployments == ("7",) and waiting(results) == []
    # Registering again does not replace it.
    waiting(results, MOODLE)
    again = platform(results, "confirm", "--yes", "--deployment", "other")
    assert again.exit_code == 2 and "remove it first" in again.stderr
    assert registered(results) == [made]


def test_confirm_needs_a_name_if_several_platforms_wait(results: Path) -> None:
    """A platform without a name is not mistaken for the one that is named."""
    waiting(results, MOODLE, NAMELESS)
    done = platform(results, "confirm", "--yes")
    said = " ".join(done.stderr.split())
    assert done.exit_code == 2 and "Moodle (X9), https://moodle.example.edu (nameless)" in said
    assert "Several platforms are called" in platform(results, "remove", MOODLE.issuer).stderr
    assert registered(results) == []
    assert platform(results, "confirm", "nameless", "--yes").exit_code == 0
    assert waiting(results) == [MOODLE]


def test_no_platform_is_trusted_without_a_yes(results: Path) -> None:
    waiting(results, MOODLE)
    assert platform(results, "confirm").exit_code == 1
    assert registered(results) == []
    assert "waits: `grade platform confirm`" in platform(results, "list").stdout
    assert platform(results, "remove", "Moodle").exit_code == 0 and waiting(results) == []
    assert "No platform waits to be confirmed" in platform(results, "confirm").stderr


def test_a_platform_cannot_have_us_sign_in_at_another(results: Path) -> None:
    """Otherwise it would get our signature for another platform's client id and address."""
    victim = ("--canvas", "--client-id", MOODLE.client_id, "--deployment", "1")
    assert platform(results, "add", *victim).exit_code == 0
    there = "https://sso.canvaslms.com/login/oauth2/token"
    waiting(results, msgspec.structs.replace(MOODLE, audience=there))
    done = platform(results, "confirm", "--yes")
    assert done.exit_code == 2 and "have the same client id" in done.stderr
    assert len(registered(results)) == 1
    # Without the other platform, or with an audience on its own host, it is confirmed.
    platform(results, "remove", "Canvas")
    done = platform(results, "confirm", "--yes")
    assert done.exit_code == 0 and f"Audience: {there}" in done.stdout
    done = platform(results, "add", *victim)
    assert done.exit_code == 2 and "have the same client id" in done.stderr
    platform(results, "remove", "Moodle")
    waiting(results, msgspec.structs.replace(MOODLE, audience="moodle.example.edu"))
    assert platform(results, "add", *victim).exit_code == 0
    assert platform(results, "confirm", "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("audience", "is_foreign"),
    [
        ("", False),
        ("moodle.example.edu", False),
        ("https://moodle.example.edu/elsewhere", False),
        ("https://moodle.example.edu.evil.example/token", True),
        ("https://evil.example/moodle.example.edu", True),
        ("evil.example", True),
        ("https://moodle.example.edu:8443/token", True),
    ],
)
def test_a_foreign_audience_is_recognized(audience: str, is_foreign: bool) -> None:
    assert _is_foreign(msgspec.structs.replace(MOODLE, audience=audience)) == is_foreign


@pytest.mark.parametrize(
    ("action", "words", "told"),
    [
        ("show", (), "Name the address of your server"),
        ("invite", (), "Name the address of your server"),
        ("invite", ("--address", "http://grade.example.org"), "https"),
        ("remove", (), "Name the platform to remove"),
        ("roster", ("Deep Learning",), "Name the class list to write"),
        ("roster", ("Deep Learning", "-o", __file__), "already exists: name a new file"),
    ],
)
def test_missing_arguments_of_an_action_are_named(
    results: Path, action: str, words: tuple[str, ...], told: str
) -> None:
    done = platform(results, action, *words)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert not results.exists()
