"""`grade platform`: platforms are registered, listed and removed, and mistakes are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import Result

from grader.gradebook import Gradebook, platforms
from grader.gradebook.platforms import Link, changing_platforms
from grader.gradebook.tool_key import FILE, kept_key
from tests.grader.command import invoke

CANVAS = ("--canvas", "--client-id", "10000000000007", "--deployment", "1:abc")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def platform(results: Path, action: str, *words: str) -> Result:
    return invoke("platform", action, str(results), *words, cwd=results.parent)


def registered(results: Path) -> list[platforms.Platform]:
    with Gradebook.open(results) as book:
        return platforms.platforms(book)


def test_the_addresses_to_enter_are_shown_and_the_key_is_made(results: Path) -> None:
    done = platform(results, "show", "--address", "https://grade.example.org/")
    assert done.exit_code == 0, done.output
    for path in ("login", "launch", "keys"):
        assert f"https://grade.example.org/lti/{path}\n" in done.stdout
    assert kept_key(results) is not None
    assert os.name != "posix" or (results / FILE).stat().st_mode & 0o77 == 0
    assert "https" in platform(results, "show", "--address", "http://grade.example.org").output


def test_canvas_and_moodle_need_only_what_they_gave(results: Path) -> None:
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
def test_what_is_missing_or_wrong_is_named(
    results: Path, words: tuple[str, ...], told: str
) -> None:
    done = platform(results, "add", *words)
    assert done.exit_code == 2
    assert told in done.stderr


def test_two_platforms_have_two_names(results: Path) -> None:
    platform(results, "add", *CANVAS)
    done = platform(results, "add", *CANVAS[:2], "8", "--deployment", "1")
    assert "another --name" in done.stderr
    assert platform(results, "remove", "10000000000007").exit_code == 0


def test_a_folder_without_a_gradebook_gets_none_by_looking(results: Path) -> None:
    assert platform(results, "list").exit_code == 2
    assert platform(results, "remove", "Canvas").exit_code == 2
    assert not results.exists()
