"""Pass-back and `grade push --lti` to Open edX's LTI platform, in an environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from grader.gradebook import platforms
from grader.gradebook.platforms import Link, Platform, changing_platforms
from grader.gradebook.tool_key import made_key
from grader.serve.passback import id_of
from tests.grader.command import invoke
from tests.grader.serve.conftest import PATIENCE_SECONDS, STUDENTS, Served, marked
from tests.grader.serve.test_passback import hand_in, page, until
from tests.grader.serve.test_requests import form

# Few machines have it. In `make test`, test_lti1p3platform does the same with another platform.
pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / "build" / "openedx" / "bin" / "python"
SITE = Path(__file__).with_name("openedx_site.py")
CLAIM = "https://purl.imsglobal.org/spec/lti-ags/claim/endpoint"


class Site:
    """The platform and the contents of its database."""

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self.folder, self.told = folder, told

    @property
    def platform(self) -> Platform:
        base, passport = f"{self.told['address']}/api/lti_consumer/v1", self.told["passport"]
        return Platform(
            issuer=self.told["address"],
            client_id=self.told["client"],
            deployments=("1",),
            authorization=f"{base}/launch/",
            token=f"{base}/token/{passport}",
            keys=f"{base}/public_keysets/{passport}",
            name="Open edX",
        )

    @property
    def link(self) -> Link:
        """The link as a launch would give it, with the claim that Open edX makes."""
        grades = self.told["grades"][CLAIM]
        return Link(
            issuer=self.told["address"],
            client_id=self.told["client"],
            deployment="1",
            context="course-v1:edX+DL+1",
            resource="lab",
            lineitem=grades.get("lineitem", ""),
            lineitems=grades["lineitems"],
            scopes=tuple(grades["scope"]),
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.folder / "edx.sqlite", timeout=60)) as base:
            return base.execute(query).fetchall()

    def scores(self) -> dict[str, tuple[float, float, str]]:
        """Points, worth and progress of each student."""
        query = (
            "SELECT user_id, score_given, score_maximum, activity_progress"
            " FROM lti_consumer_ltiagsscore"
        )
        return {row[0].removeprefix("edx-"): row[1:] for row in self.rows(query)}


def _missing() -> NoReturn:
    what = (
        f"Open edX's platform ({SITE.with_name('openedx.txt').relative_to(ROOT)} has the commands)"
    )
    if os.environ.get("GRADE_CI"):
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is not installed")


@pytest.fixture
def served(serving: Callable[..., Served]) -> Served:
    """A server with its key."""
    served = serving().start()
    made_key(served.results)
    return served


@pytest.fixture
def site(served: Served, tmp_path: Path) -> Iterator[Site]:
    """The platform, which reads the server's keys. Every student has launched from it."""
    if not PYTHON.is_file():
        _missing()
    folder = tmp_path / "edx"
    folder.mkdir()
    command = [str(PYTHON), "-W", "ignore", str(SITE), str(folder)]
    with subprocess.Popen(
        [*command, f"http://127.0.0.1:{served.port}/lti/keys"], stdout=subprocess.PIPE, cwd=folder
    ) as process:
        try:
            assert process.stdout is not None
            site = Site(folder, json.loads(process.stdout.readline()))
            with changing_platforms(served.results) as book:
                platforms.add_platform(book, site.platform)
                for name in STUDENTS:
                    platforms.keep_launch(book, site.link, f"edx-{name}", name)
            yield site
        finally:
            process.kill()
            process.wait(PATIENCE_SECONDS)


def push(served: Served, *words: str) -> Any:
    return invoke("push", str(served.results), "--lti", *words, cwd=served.folder)


def test_points_arrive_in_one_column(served: Served, site: Site) -> None:
    for who in STUDENTS[:2]:
        hand_in(served, who)
    assert "3 students to send, 1 of them" in push(served, "--dry-run").stdout
    assert site.rows("SELECT * FROM lti_consumer_ltiagslineitem") == []
    done = push(served, "--yes")
    assert done.exit_code == 0, done.stderr
    assert "3 students sent." in done.stdout
    standing = {who: served.ask("GET", "/api/standing", who).json for who in STUDENTS}
    assert site.scores() == {
        who: (
            standing[who]["score"],
            standing[who]["max_score"],
            "Completed" if who != "eve" else "Initialized",
        )
        for who in STUDENTS
    }
    assert "Nothing to send." in push(served, "--yes").stdout
    ((tag, worth),) = site.rows("SELECT tag, score_maximum FROM lti_consumer_ltiagslineitem")
    assert (tag, worth) == ("lab-bench", standing["ada"]["max_score"])
    ((comment,),) = site.rows(
        "SELECT comment FROM lti_consumer_ltiagsscore WHERE user_id = 'edx-ada'"
    )
    assert "points" in comment


def test_the_server_passes_changes_back(served: Served, site: Site) -> None:
    hand_in(served, "ada", b"def greeting(name):\n    return name\n")
    link = id_of(site.link)
    assert form(served, "/class/platforms", "staff", link=link, do="plan").status == 303
    plan = page(served).partition('name="plan" value="')[2].partition('"')[0]
    assert form(served, "/class/platforms", "staff", link=link, do="on", plan=plan).status == 303
    until(lambda: site.scores().keys() == {"ada"}, lambda: page(served))
    before = site.scores()["ada"][0]
    hand_in(served, "ada", marked(1))
    hand_in(served, "bob", marked(2))
    until(lambda: site.scores().keys() == {"ada", "bob"}, lambda: page(served))
    until(lambda: site.scores()["ada"][0] > before, lambda: page(served))
    assert site.scores()["ada"] == site.scores()["bob"]


def test_without_readable_keys_there_is_no_access_token(served: Served, site: Site) -> None:
    hand_in(served, "ada")
    assert served.stop() == 0
    done = push(served, "--yes")
    assert done.exit_code == 3
    assert "gives this server no access token" in done.stderr
    assert site.scores() == {}
    served.start()
    assert push(served, "--yes").exit_code == 0
    assert site.scores().keys() == {*STUDENTS}
