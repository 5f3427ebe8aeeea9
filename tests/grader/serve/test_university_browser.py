"""Signing in at an issuer that is not our code (oidc-provider, a certified library), in a real browser.

To the browser, the issuer at `localhost` is another site than the server at `127.0.0.1`. So it does not send
the session's cookie with the redirect that comes back.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.grader.exports.report.conftest import _missing
from tests.grader.exports.report.test_browser import DESK, PHONE, light, resize
from tests.grader.serve.conftest import Served
from tests.grader.serve.issuer import CLIENT, SECRET, Issuer, Visitor, free_port
from tests.grader.serve.test_browser import address, text_of, until
from tests.grader.serve.test_pages import console
from tests.grader.serve.test_university import start

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[3]
LINK = "a.go"
RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}"
COMPLETE = "return document.readyState === 'complete'"
WIDE = "return document.documentElement.scrollWidth - window.innerWidth"


@pytest.fixture(scope="module")
def campus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose people sign in at oidc-provider."""
    node, installed = shutil.which("node"), ROOT / "build" / "oidc"
    if node is None or not (installed / "node_modules" / "oidc-provider").is_dir():
        _missing("oidc-provider (npm install --prefix build/oidc oidc-provider, as .ci/run does)")
    served = Served(tmp_path_factory.mktemp("campus"))
    served.port = free_port()
    script = Path(__file__).with_name("oidc_provider.mjs")
    back = f"http://127.0.0.1:{served.port}/sign-in/university/callback"
    with subprocess.Popen(
        [node, str(script), str(installed), back, CLIENT, SECRET],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as provider:
        assert provider.stdout is not None
        try:
            yield start(served, provider.stdout.readline().decode().strip())
            served.stop()
        finally:
            # Otherwise a server that does not start leaves the block waiting for the issuer.
            provider.kill()


@pytest.fixture
def view(browser: Chrome, campus: Served) -> Iterator[Chrome]:
    """The browser without cookies and with an empty console."""
    light(browser)
    resize(browser, DESK)
    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    console(browser)
    yield browser
    browser.get("about:blank")
    console(browser)


def sign_in(view: Chrome, who: str) -> None:
    """Sign in from our page through the issuer's pages and back."""
    view.find_element(By.CSS_SELECTOR, LINK).send_keys(Keys.ENTER)
    until(view, lambda v: v.find_element(By.NAME, "login")).send_keys(who)
    view.find_element(By.NAME, "password").send_keys("of no matter", Keys.ENTER)
    until(
        view, lambda v: "/interaction/" in v.current_url and not v.find_elements(By.NAME, "login")
    )
    # Ignore what the issuer's own pages log.
    console(view)
    view.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
    until(view, lambda v: v.current_url.startswith("http://127.0.0.1"))


def test_a_student_reaches_the_requested_page_and_signs_out(view: Chrome, campus: Served) -> None:
    view.get(address(campus, "/exercise/greeting"))
    assert all("401" in each["message"] for each in console(view))
    sign_in(view, "ada@example.org")
    until(view, lambda v: v.current_url == address(campus, "/exercise/greeting"))
    until(view, lambda v: v.find_element(By.ID, "run").is_enabled())
    view.get(address(campus))
    until(view, lambda v: "Ada Test" in text_of(v))
    assert console(view) == []
    assert view.execute_script("return document.cookie") == ""
    view.find_element(By.CSS_SELECTOR, "footer button").click()
    until(view, lambda v: v.find_elements(By.ID, "token"))
    view.get(address(campus))
    assert view.find_elements(By.ID, "token")


def test_staff_reaches_the_class_page(view: Chrome, campus: Served) -> None:
    view.get(address(campus))
    sign_in(view, "prof@example.org")
    until(view, lambda v: v.current_url == address(campus, "/class"))
    assert console(view) == []


def test_a_stranger_is_refused_and_can_go_back(view: Chrome, campus: Served) -> None:
    view.get(address(campus))
    sign_in(view, "mallory@example.org")
    until(view, lambda v: "You are not signed in" in text_of(v))
    assert "mallory@example.org" in text_of(view)
    assert all("403" in each["message"] for each in console(view))
    view.find_element(By.LINK_TEXT, "To the sign-in").click()
    until(view, lambda v: v.find_elements(By.ID, "token"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_sign_in_pages_are_accessible(
    view: Chrome, campus: Served, axe: str, scheme: str, tmp_path: Path
) -> None:
    light(view, scheme)
    issuer = Issuer()
    own = start(Served(tmp_path), issuer.address)
    visitor, stranger = Visitor(own.port), Visitor(own.port)
    pages = [
        visitor.get("/").body.decode(),
        visitor.get(issuer.allow(visitor.leave(), email="ada@example.org")).body.decode(),
        stranger.get(issuer.allow(stranger.leave(), email="mallory@example.org")).body.decode(),
    ]
    issuer.close()
    own.stop()
    assert ["You are signed in" in page for page in pages] == [False, True, False]
    for page in pages:
        # Disable the refresh, or the page would move on before it is checked.
        still = page.replace('http-equiv="refresh"', 'name="still"')
        view.get(address(campus, "/healthz"))
        view.execute_script(
            "document.open(); document.write(arguments[0]); document.close()", still
        )
        until(view, lambda v: v.title and v.execute_script(COMPLETE))
        for size in (DESK, PHONE):
            resize(view, size)
            assert view.execute_script(WIDE) <= 0, (page, size)
            view.execute_script(axe)
            found = view.execute_async_script(
                f"axe.run(document, {RULES}).then(r => arguments[0]([r.passes.length,"
                " r.violations.map(v => v.id + ': ' + v.nodes[0].html)]))"
            )
            assert found[0] > 5 and found[1] == [], (size, found)
    assert console(view) == []
