"""The pages in headless Chromium: signing in, submitting, live updates, accessibility, and small screens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from tests.grader.exports.platforms import LtiServer
from tests.grader.exports.platforms import serving as serving_platform
from tests.grader.exports.report.test_browser import DESK, PHONE, light, resize, severe
from tests.grader.serve.conftest import (
    PATIENCE_SECONDS,
    PLAIN,
    SOLUTION,
    STUDENTS,
    Served,
    marked,
)
from tests.grader.serve.test_passback import hand_in, launched, page, turned_on
from tests.grader.serve.test_passback import press as press_at_platforms
from tests.grader.serve.test_passback import until as until_it_holds
from tests.grader.serve.test_practice import practiced
from tests.grader.serve.test_requests import form

pytestmark = pytest.mark.thorough

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

T = TypeVar("T")
WRONG = PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py"


@pytest.fixture
def view(browser: Chrome, served: Served) -> Iterator[Chrome]:
    """A desktop browser, signed out. Afterwards, checks that its console has no errors."""
    light(browser)
    resize(browser, DESK)
    sign_out(browser, served)
    severe(browser)
    browser.get(address(served))
    yield browser
    complaints = severe(browser)
    # The server stops next. A page left open would log errors into the next test.
    browser.get("about:blank")
    severe(browser)
    assert complaints == []


def address(served: Served, path: str = "/") -> str:
    return f"http://127.0.0.1:{served.port}{path}"


def sign_out(view: Chrome, served: Served) -> None:
    """Sign out from a page without a script: the class page would poll once more and be refused."""
    view.get(address(served, "/healthz"))
    view.delete_all_cookies()


def sign_in(view: Chrome, served: Served, who: str) -> None:
    """Sign in using only the keyboard."""
    view.get(address(served))
    token = served.staff if who == "staff" else served.tokens[who]
    view.find_element(By.ID, "token").send_keys(token, Keys.ENTER)
    until(view, lambda v: not v.find_elements(By.ID, "token"))


def until(view: Chrome, holds: Callable[[Chrome], T]) -> T:
    """Wait until `holds` is true and return its value. Elements that the page replaces are read again."""
    replaced = (NoSuchElementException, StaleElementReferenceException)
    wait = WebDriverWait(view, PATIENCE_SECONDS, ignored_exceptions=replaced)

    def holds_by_now(view: Chrome) -> T:
        try:
            return holds(view)
        except WebDriverException as error:
            # Chromium says this if it is in the middle of the replacement.
            if "does not belong to the document" in str(error.msg):
                raise StaleElementReferenceException from error
            raise

    return wait.until(holds_by_now)


def press(view: Chrome, label: str) -> None:
    """Press the button with this label, even if the page is about to replace it."""

    def pressed(view: Chrome) -> bool:
        view.find_element(By.XPATH, f"//button[contains(., '{label}')]").click()
        return True

    until(view, pressed)


def text_of(view: Chrome) -> str:
    return str(view.find_element(By.TAG_NAME, "body").text)


def test_a_student_signs_in_hands_in_and_reads_the_verdict(
    view: Chrome, served: Served, tmp_path: Path
) -> None:
    view.find_element(By.ID, "token").send_keys("0" * 32, Keys.ENTER)
    until(view, lambda v: "is not valid" in text_of(v))
    # The browser logs the status 401 as an error.
    assert all("401" in entry["message"] for entry in severe(view))
    sign_in(view, served, "ada")
    assert "Ada Test" in text_of(view)
    file = tmp_path / "greeting.py"
    file.write_bytes(marked(100))
    view.find_element(By.ID, "files").send_keys(str(file))
    view.find_element(By.CSS_SELECTOR, "#hand-in-form button").click()
    passed = "//tr[.//a[@href='#ex-greeting']]//*[contains(., 'passed')]"
    until(view, lambda v: v.find_elements(By.XPATH, passed))
    assert "2.5 of 2.5" in text_of(view)
    assert view.current_url.endswith("#ex-greeting")
    assert served.tokens["ada"] not in view.page_source
    assert served.tokens["ada"] not in str(view.execute_script("return document.cookie"))
    view.find_element(By.CSS_SELECTOR, "footer button").click()
    until(view, lambda v: v.find_elements(By.ID, "token"))


def test_a_refused_file_is_explained_beside_the_form(
    view: Chrome, served: Served, tmp_path: Path
) -> None:
    sign_in(view, served, "bob")
    file = tmp_path / "essay.py"
    file.write_text("x = 1\n", encoding="utf-8")
    view.find_element(By.ID, "files").send_keys(str(file))
    view.find_element(By.CSS_SELECTOR, "#hand-in-form button").click()
    said = view.find_element(By.ID, "said")
    until(view, lambda _: "essay.py" in said.text)
    assert said.text.startswith("Nothing was accepted. ")
    assert all("422" in entry["message"] for entry in severe(view))
    # Beside an accepted file: the message is still there when the page shows the verdict.
    paths = [tmp_path / name for name in ("greeting.py", "my_word_count.py")]
    for path in paths:
        path.write_bytes(marked(101))
    view.get(address(served))
    view.find_element(By.ID, "files").send_keys("\n".join(map(str, paths)))
    view.find_element(By.CSS_SELECTOR, "#hand-in-form button").click()
    until(view, lambda v: v.find_elements(By.LINK_TEXT, "Go on writing"))
    until(view, lambda v: "my_word_count.py" in v.find_element(By.ID, "said").text)


def test_the_class_page_updates_itself(view: Chrome, served: Served) -> None:
    sign_in(view, served, "staff")
    assert view.current_url == address(served, "/class")
    # The page may not listen yet. Once it does, it fetches earlier submissions.
    answer = served.hand_in("eve", {"word_count.py": WRONG.read_bytes()})
    served.judged("eve", answer.json["id"])
    row = "//section[@data-live or @aria-labelledby='newest']//tr[contains(., 'Eve Test')]"
    until(view, lambda v: any("done" in each.text for each in v.find_elements(By.XPATH, row)))
    press(view, "Pause judging")
    until(view, lambda v: "Paused." in text_of(v))
    assert served.ask("GET", "/api/staff/queue", "staff").json["paused"]
    press(view, "Resume judging")
    until(view, lambda v: "Paused." not in text_of(v))


def test_each_page_is_accessible_and_fits_a_phone(view: Chrome, served: Served, axe: str) -> None:
    served.judged("eve", served.hand_in("eve", {"greeting.py": SOLUTION}).json["id"])
    platform = LtiServer(len(STUDENTS))
    platform.address = "https://lms.example.edu"
    launched(served, platform)
    for who in ("ada", "bob"):
        practiced(served, who, "word_count", WRONG.read_bytes())
    if not served.ask("GET", "/class/requests", "staff").body.count(b"Why is it so?"):
        form(served, "/requests", "bob", exercise="word_count", message="Why is it so?")
    staff = [
        *("/class", "/class/requests", "/class/platforms", "/exercise/greeting"),
        *("/class/students/eve", "/class/mark/greeting"),
        *("/class/export?format=moodle", "/class/regrade"),
    ]
    pages = [("", "/"), ("eve", "/"), *(("staff", path) for path in staff)]
    for who, path in pages:
        sign_out(view, served)
        if who:
            sign_in(view, served, who)
        view.get(address(served, path))
        view.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
        for size, scheme in ((DESK, "light"), (DESK, "dark"), (PHONE, "light")):
            resize(view, size)
            light(view, scheme)
            wide = (
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert view.execute_script(wide) <= 0, (who, path, size)
            # The page's policy allows only its own scripts, but the driver's are exempt.
            view.execute_script(axe)
            found = view.execute_async_script(
                "const done = arguments[0];"
                "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
                ".then(r => done([r.passes.length,"
                " r.violations.map(v => v.id + ': ' + v.nodes[0].html)]))"
            )
            assert found[0] > 10 and found[1] == [], (who, path, size, scheme, found)
        resize(view, DESK)
        light(view)


def test_a_phone_shows_every_column_of_the_scores_sent(
    view: Chrome, serving: Callable[..., Served]
) -> None:
    own, platform = serving().start(), LtiServer(len(STUDENTS))
    headers = (
        "return [...document.querySelectorAll('th[scope=col]')]"
        ".filter(e => e.checkVisibility()).map(e => e.innerText)"
    )
    with serving_platform(platform):
        launched(own, platform)
        hand_in(own, "ada")
        sign_in(view, own, "staff")
        resize(view, PHONE)
        assert press_at_platforms(own, platform, "plan").status == 303
        view.get(address(own, "/class/platforms"))
        assert view.execute_script(headers) == ["Student", "There", "New", "Comment"]
        turned_on(own, platform)
        until_it_holds(lambda: "1 sent" in page(own))
        view.get(address(own, "/class/platforms"))
        assert view.execute_script(headers) == ["Student", "Points", "When"]
    resize(view, DESK)
