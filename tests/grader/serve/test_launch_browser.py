"""Launches in a real browser from a platform on another site, by a link and in a frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.grader.exports.report.test_browser import DESK, PHONE, light, resize
from tests.grader.serve.conftest import Served
from tests.grader.serve.issuer import Visitor
from tests.grader.serve.lti_platform import MEMBERSHIP, Platform
from tests.grader.serve.test_browser import address, text_of, until
from tests.grader.serve.test_launch import ADA, INSTRUCTOR, begun, post, register, start
from tests.grader.serve.test_pages import console
from tests.grader.serve.test_registration import invitation
from tests.grader.serve.test_university_browser import COMPLETE, RULES, WIDE

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Platform]]:
    served = start(Served(tmp_path_factory.mktemp("school")))
    platform = Platform(f"http://127.0.0.1:{served.port}")
    register(served, platform)
    yield served, platform
    served.stop()
    platform.close()


@pytest.fixture
def view(browser: Chrome, school: tuple[Served, Platform]) -> Iterator[Chrome]:
    """The browser without cookies and with an empty console."""
    light(browser)
    resize(browser, DESK)
    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    console(browser)
    school[1].user, school[1].selects = dict(ADA), False
    school[1].roles, school[1].selected = [MEMBERSHIP + "Learner"], []
    yield browser
    browser.get("about:blank")
    console(browser)


def test_a_link_on_the_platform_signs_in(view: Chrome, school: tuple[Served, Platform]) -> None:
    served, platform = school
    view.get(platform.address)
    view.find_element(By.TAG_NAME, "a").send_keys(Keys.ENTER)
    until(view, lambda v: v.current_url == address(served))
    until(view, lambda v: "Ada Test" in text_of(v))
    ours = [each for each in console(view) if f":{served.port}" in each["message"]]
    assert ours == []
    assert view.execute_script("return document.cookie") == ""
    view.find_element(By.CSS_SELECTOR, "footer button").click()
    until(view, lambda v: v.find_elements(By.ID, "token"))


def test_a_stranger_on_the_platform_is_refused(
    view: Chrome, school: tuple[Served, Platform]
) -> None:
    _, platform = school
    platform.user = {"user_id": "u-9", "email_address": "mallory@example.org"}
    view.get(platform.address)
    view.find_element(By.TAG_NAME, "a").click()
    until(view, lambda v: "You are not signed in" in text_of(v))
    view.find_element(By.LINK_TEXT, "To the sign-in").click()
    until(view, lambda v: v.find_elements(By.ID, "token"))


def test_a_frame_opens_a_new_tab(view: Chrome, school: tuple[Served, Platform]) -> None:
    served, platform = school
    view.get(f"{platform.address}/framed")
    course = view.current_window_handle
    view.switch_to.frame(view.find_element(By.TAG_NAME, "iframe"))
    until(view, lambda v: v.find_element(By.CSS_SELECTOR, "a.go")).send_keys(Keys.ENTER)
    until(view, lambda v: len(v.window_handles) == 2)
    (tab,) = {*view.window_handles} - {course}
    view.switch_to.window(tab)
    until(view, lambda v: v.current_url == address(served))
    until(view, lambda v: "Ada Test" in text_of(v))
    view.close()
    view.switch_to.window(course)
    ours = [each for each in console(view) if f":{served.port}" in each["message"]]
    assert ours == []


def test_a_target_can_be_chosen_in_a_frame(view: Chrome, school: tuple[Served, Platform]) -> None:
    served, platform = school
    platform.selects, platform.roles = True, [INSTRUCTOR]
    view.get(f"{platform.address}/framed")
    view.switch_to.frame(view.find_element(By.TAG_NAME, "iframe"))
    button = "//button[starts-with(., 'greeting')]"
    until(view, lambda v: v.find_element(By.XPATH, button)).send_keys(Keys.ENTER)
    until(view, lambda v: "1 selected" in text_of(v))
    (item,) = platform.selected
    assert item["url"] == address(served, "/exercise/greeting")
    view.switch_to.default_content()
    assert [each for each in console(view) if f":{served.port}" in each["message"]] == []


def test_a_registration_in_a_frame_tells_the_platform_to_close_it(
    view: Chrome, school: tuple[Served, Platform]
) -> None:
    served, platform = school
    configuration = f"{platform.address}/openid-configuration"
    before = platform.target
    query = f"?openid_configuration={configuration}"
    platform.target = f"{address(served)[:-1]}{invitation(served)}{query}"
    view.get(f"{platform.address}/registering")
    until(view, lambda v: "org.imsglobal.lti.close" in text_of(v))
    # A second use of the address shows a refusal and does not close the frame.
    view.get(f"{platform.address}/registering")
    platform.target = before
    view.switch_to.frame(view.find_element(By.TAG_NAME, "iframe"))
    until(view, lambda v: "used already" in text_of(v))
    view.switch_to.default_content()
    assert "org.imsglobal.lti.close" not in text_of(view)
    ours = [each for each in console(view) if f":{served.port}" in each["message"]]
    assert all("403" in each["message"] for each in ours), ours


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_in_frames_are_accessible(
    view: Chrome, school: tuple[Served, Platform], axe: str, scheme: str
) -> None:
    served, platform = school
    light(view, scheme)
    visitor = Visitor(served.port)
    pages = [visitor.get(platform.login(), Sec_Fetch_Dest="iframe").body.decode()]
    platform.selects, platform.roles = True, [INSTRUCTOR]
    pages.append(post(visitor, platform.launch(begun(visitor, platform))).body.decode())
    asked, path = (
        f"?openid_configuration={platform.address}/openid-configuration",
        invitation(served),
    )
    # The first use of the address registers the platform. The second is refused.
    pages += [visitor.get(path + asked).body.decode() for _ in range(2)]
    words = ("new tab", "greeting", "confirms it", "used already")
    assert all(word in page for word, page in zip(words, pages, strict=True))
    for page in pages:
        view.get(address(served, "/healthz"))
        view.execute_script("document.open(); document.write(arguments[0]); document.close()", page)
        until(view, lambda v: v.title and v.execute_script(COMPLETE))
        for size in (DESK, PHONE):
            resize(view, size)
            assert view.execute_script(WIDE) <= 0, size
            view.execute_script(axe)
            found = view.execute_async_script(
                f"axe.run(document, {RULES}).then(r => arguments[0]([r.passes.length,"
                " r.violations.map(v => v.id + ': ' + v.nodes[0].html)]))"
            )
            assert found[0] > 5 and found[1] == [], (size, found)
