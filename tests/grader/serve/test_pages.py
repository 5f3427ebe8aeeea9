"""Presses each button of every page in a real browser, as student and staff, at the sizes of phone and desk.

Afterwards the browser's console must be empty. It would show what the content security policy refuses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from starlette.routing import Route

from grader.gradebook.corrections import Kind
from grader.serve.api import Api
from grader.serve.app import routes
from grader.serve.pages import Pages
from grader.serve.sign_in.door import Door
from grader.serve.staff_api import StaffApi
from grader.serve.staff_pages import StaffPages
from tests.grader.exports.platforms import LtiServer
from tests.grader.exports.platforms import serving as serving_platform
from tests.grader.exports.report.test_browser import light, resize
from tests.grader.serve.conftest import PLAIN, SOLUTION, STUDENTS, Served, marked, sql
from tests.grader.serve.test_browser import address, sign_in, sign_out, until
from tests.grader.serve.test_extensions import seen as extensions_seen
from tests.grader.serve.test_passback import launched
from tests.grader.serve.test_practice import practiced
from tests.grader.serve.test_requests import form
from tests.grader.serve.test_staff import HELD, change, kept, seen
from tests.grader.serve.test_staff import page as student_page

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.thorough

SIZES = ((390, 844), (1400, 900))
WRONG = PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py"
POLICY = """\
timezone = "Europe/Berlin"
max_attempts = 100
[[due]]
at = 2036-12-01T23:59:00
[[extension]]
student = "ada"
by = "30 days"
reason = "ill"
"""
# An extension must be longer than the one before.
YEARS = itertools.count(2050)
# What the page says once a button is done that does not lead to another page.
ENDS = {
    "Run": ("public tests passed", "The run is below"),
    "Hand in": ("read the verdict",),
    "Reset": ("handed out",),
}
_FIELDS = "textarea, input:not([type=hidden], [type=checkbox])"
# The buttons of each page, by reader.
BUTTONS = {
    "/": {"": ["Sign in"], "ada": ["Hand in", "Ask", "Sign out"]},
    "/exercise/greeting": {
        "": ["Sign in"],
        "ada": ["Run", "Hand in", "Reset", "Sign out"],
        "staff": ["Run", "Reset", "Sign out"],
    },
    "/class": {
        "": ["Sign in"],
        "staff": ["Pause judging", "Resume judging", "Sign out"],
        "observer": ["Sign out"],
    },
    "/class/students/eve": {
        "staff": [
            *("Change", "Take back", "Release the points", "Give more time"),
            *("Take the extension back", "Sign out"),
        ],
        "observer": ["Sign out"],
    },
    "/class/mark/greeting": {
        "staff": ["Add the comment", "Remove", "Skip", "Save, next file", "Stop", "Sign out"]
    },
    # No suite has changed here. See test_regrading.py for the button that begins a regrade.
    "/class/regrade": {"staff": ["Count what would be judged", "Sign out"]},
    "/class/export": {"staff": ["Choose this format", "Export", "Sign out"]},
    "/class/requests": {
        "staff": ["Answer", "Another answer", "Sign out"],
        "observer": ["Sign out"],
    },
    "/class/platforms": {
        "staff": [
            *("Show what would be sent", "Turn pass-back on", "Send now", "Turn pass-back off"),
            "Sign out",
        ]
    },
}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose pages have something in each part: verdicts, a mistake, requests, a due time."""
    server = Served(tmp_path_factory.mktemp("crowded"), policy=POLICY).start()
    for who in ("ada", "bob"):
        files = {"greeting.py": SOLUTION, "word_count.py": WRONG.read_bytes(), "hw 3.py": b"x = 1"}
        server.judged(who, server.hand_in(who, files).json["id"])
        practiced(server, who, "word_count", WRONG.read_bytes())
    for exercise in ("greeting", "word_count"):
        form(server, "/requests", "bob", exercise=exercise, message="Why?")
    form(server, "/class/requests", "staff", number="1", answer="So.")
    platform = LtiServer(len(STUDENTS))
    with serving_platform(platform):
        launched(server, platform)
        platform.refused[platform.users[1]] = "This grade is locked."
        yield server
        server.stop()


@pytest.fixture
def view(browser: Chrome, crowded: Served) -> Iterator[Chrome]:
    """The browser, signed out and with an empty console."""
    light(browser)
    sign_out(browser, crowded)
    console(browser)
    yield browser
    browser.get("about:blank")
    console(browser)


def console(view: Chrome, served: Served | None = None) -> list[Any]:
    """The new entries of the browser's console, from the pages of one server or of all.

    A page of an earlier test may report late that its server has ended.
    """
    heard = list(view.get_log("browser"))  # type: ignore[no-untyped-call]
    own = "" if served is None else f":{served.port}"
    return [each for each in heard if own in each["message"]]


def opened(view: Chrome, served: Served, path: str) -> None:
    """Open a page and expand all of its details."""
    view.get(address(served, path))
    view.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")


def buttons(view: Chrome) -> dict[str, WebElement]:
    """The first visible button of each label. An `Answer` button has the label of its form's field.

    Buttons of draft versions and of lines are left out.
    """
    found: dict[str, WebElement] = {}
    for button in view.find_elements(By.CSS_SELECTOR, "button:not(#versions *, [data-line])"):
        label = button.text
        if label == "Answer":
            label = button.find_element(By.XPATH, "ancestor::form//label").text
        if button.is_displayed():
            found.setdefault(label, button)
    return found


def press(view: Chrome, served: Served, label: str, file: Path) -> None:
    """Fill in the form of a button, press it, and wait until it is done."""
    page = view.find_element(By.TAG_NAME, "html")

    def is_pressed(view: Chrome) -> bool:
        button = buttons(view)[label]
        for own in button.find_elements(By.XPATH, "ancestor::form"):
            fill(own)
        button.click()
        return True

    def fill(own: WebElement) -> None:
        for field in own.find_elements(By.CSS_SELECTOR, _FIELDS):
            texts = {"file": str(file), "password": served.tokens["eve"]}
            texts |= {
                "decimal": "-0.1",
                "numeric": "1",
                "datetime-local": f"1231{next(YEARS)}\t1159PM",
            }
            kind = field.get_attribute("inputmode") or field.get_attribute("type") or ""
            field.send_keys(texts.get(kind, "So?"))

    def is_another(_: Chrome) -> bool:
        try:
            return not page.is_enabled()
        except StaleElementReferenceException:
            return True

    is_here = "/exercise/" in view.current_url and label in ENDS
    until(view, is_pressed)
    if is_here:
        said = view.find_element(By.ID, "said")
        until(view, lambda _: any(end in said.text for end in ENDS[label]))
        return
    until(view, is_another)
    until(view, lambda v: v.execute_script("return document.readyState") == "complete")


@pytest.mark.parametrize(
    ("who", "size"),
    [
        *(pytest.param(who, SIZES[0], id=f"{who}-phone") for who in ("", "ada")),
        *(
            pytest.param(who, SIZES[1], id=f"{who}-desk")
            for who in ("", "ada", "staff", "observer")
        ),
    ],
)
def test_every_button_works_without_console_errors(
    view: Chrome, crowded: Served, who: str, size: tuple[int, int], tmp_path: Path
) -> None:
    resize(view, size)
    if who == "staff":
        assert form(crowded, "/requests", "eve", exercise="greeting", message="Why?").status == 303
        crowded.judged("eve", crowded.hand_in("eve", {"greeting.py": HELD}).json["id"])
        state = seen(student_page(crowded, "eve"))
        assert change(crowded, "eve", "staff", state, points="-0.2", reason="So.").status == 303
        given = {"do": "extend", "name": "greeting", "until": "2040-01-01T10:00"}
        shown = extensions_seen(student_page(crowded, "eve"))
        assert form(crowded, "/class/students/eve", "staff", seen=shown, reason="Ill.", **given)
    file = tmp_path / "greeting.py"
    file.write_bytes(marked(SIZES.index(size)))
    is_signed_in = False
    for path, readers in BUTTONS.items():
        for label in readers.get(who, ()):
            if not is_signed_in:
                sign_out(view, crowded)
                if who:
                    sign_in(view, crowded, who)
            is_signed_in = bool(who) and label != "Sign out"
            opened(view, crowded, path)
            assert set(until(view, buttons)) <= set(readers[who]), path
            # The browser logs the status 401 of a page that asks to sign in.
            heard = [each["message"] for each in console(view, crowded)]
            assert all("401" in each for each in heard) and (not heard or not who), (path, heard)
            if "/exercise/" in path and who:
                until(view, lambda v: v.find_element(By.ID, "run").is_enabled())
            width = "return document.documentElement.scrollWidth - window.innerWidth"
            # Pages of staff are used at a desk, but must also fit a phone.
            for each in SIZES if who in ("staff", "observer") else (size,):
                resize(view, each)
                assert view.execute_script(width) <= 0, (path, who, each)
            resize(view, size)
            press(view, crowded, label, file)
            heard = console(view, crowded)
            assert heard == [], (path, label, heard)
            assert "That did not work" not in view.page_source, (path, label)
            assert not view.find_elements(By.CSS_SELECTOR, "[role=alert]"), (path, label)
    if who == "ada":
        assert sql(crowded, "SELECT count(*) FROM requests WHERE student = 'ada'") != [(0,)]
    if who == "staff":
        assert sql(crowded, "SELECT count(*) FROM answers WHERE text = 'So?'") != [(0,)]
        made = [(student, kind) for student, kind, *_ in kept(crowded)]
        assert ("eve", Kind.RELEASE) in made and ("eve", Kind.ADD) in made


@pytest.mark.parametrize("size", SIZES, ids=["phone", "desk"])
def test_the_students_table_needs_no_scrolling(
    view: Chrome, crowded: Served, size: tuple[int, int]
) -> None:
    resize(view, size)
    sign_in(view, crowded, "ada")
    hidden = (
        "return [...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert view.execute_script(hidden) == [0]
    rows = [row.text for row in view.find_elements(By.CSS_SELECTOR, ".standing tbody tr")]
    assert sum("2036-12-31" in row and "(extended: ill)" in row for row in rows) == 3, rows


def test_all_pages_are_listed() -> None:
    kinds = (Api, Pages, StaffPages, Door, StaffApi)
    pages = {
        route.path
        for route in routes(*(kind.__new__(kind) for kind in kinds))  # type: ignore[arg-type]
        if isinstance(route, Route) and "GET" in (route.methods or ())
    }
    pages = {path.replace("{exercise}", "greeting") for path in pages}
    pages -= {"/exercise/greeting/file", "/release", "/assignment/{assignment}"}
    pages -= {"/class/export/{id}"}
    pages = {path.replace("{student:path}", "eve") for path in pages}
    # See test_university_browser and test_launch_browser for the pages of other ways to sign in.
    elsewhere = ("/api/", "/healthz", "/metrics", "/static", "/sign-in/university", "/lti/")
    others = {path for path in pages if path.startswith(elsewhere)}
    assert pages - others == set(BUTTONS)
