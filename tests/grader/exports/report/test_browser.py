"""The report in a headless Chromium, as readers use it: mouse, keyboard, phone, dark mode, screen reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.support.select import Select

from grader.exports.report import write_report
from grader.exports.report.render import shown
from grader.exports.term import write_term
from grader.gradebook.review import Attention, Reason
from grader.gradebook.similarity.findings import Similarity
from grader.results import Status
from tests.grader.exports.report.classes import (
    a_class,
    a_long_course,
    a_term,
    an_entry,
    an_exercise,
    sources,
)
from tests.grader.exports.report.test_site import HOSTILE, a_pair

pytestmark = pytest.mark.thorough

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PAGES = (
    "staff/index.html",
    "staff/exercises/glu.html",
    "staff/students/s0000.html",
    "staff/alike/glu-1.html",
    "students/s0000.html",
)
PHONE, DESK = (360, 740), (1200, 900)
# The students with ordinary names. The class has two more, and those in HOSTILE.
STUDENTS = 200


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of two hundred, with an unjudged student, a similar pair, and hostile names."""
    folder = tmp_path_factory.mktemp("report")
    entries = a_class(STUDENTS)
    unjudged = [an_exercise("glu", "ff", status=Status.UNJUDGED), an_exercise("gelu", "pp")]
    entries.append(an_entry("zz-open", unjudged, name="Ångström, Ünal"))
    monday = {"name": "Łukasz Ćwik", "ids": {"section": "Mon"}}
    entries.append(an_entry("yy-mon", [an_exercise("glu", "nn")], **monday))
    entries += [
        an_entry(name, [an_exercise("glu", "pf", message=name, output=name)], name=name)
        for name in HOSTILE
    ]
    write_report(
        entries,
        folder,
        sources=sources,
        similarity=Similarity(threshold=0.6, exercises=(), pairs=(a_pair("s0000", "s0001"),)),
        attention=[Attention(Reason.TIMEOUT, name, ("glu",), name) for name in HOSTILE],
        title="A course",
    )
    return folder


@pytest.fixture
def view(browser: Chrome) -> Iterator[Chrome]:
    """The browser with a desktop window and a light color scheme."""
    light(browser)
    resize(browser, DESK)
    severe(browser)
    yield browser
    assert severe(browser) == []


def light(browser: Chrome, scheme: str = "light") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def resize(browser: Chrome, size: tuple[int, int]) -> None:
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def severe(browser: Chrome) -> list[dict[str, Any]]:
    """Return the browser's complaints: script errors and violations of the security policy."""
    log = browser.get_log("browser")  # type: ignore[no-untyped-call]  # the one method without types
    return [entry for entry in log if entry["level"] == "SEVERE"]


def load(browser: Chrome, report: Path, page: str = "staff/index.html") -> None:
    browser.get((report / page).as_uri())


def column(browser: Chrome, number: int) -> list[str]:
    """Return the texts of a column in the visible rows."""
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll('#students tbody tr')].filter(r => !r.hidden)"
        ".map(r => r.cells[arguments[0]].innerText.trim())",
        number,
    )
    return found


def click_header(browser: Chrome, number: int) -> str:
    """Click the header of a column and return its aria-sort."""
    header = browser.find_elements("css selector", "#students thead th")[number]
    header.find_element("tag name", "button").click()
    sorted_by = browser.find_elements("css selector", "#students thead th[aria-sort]")
    assert sorted_by == [header]
    return str(header.get_attribute("aria-sort"))


def displayed(browser: Chrome, cells: str) -> list[str]:
    """Return the first words of the visible cells in the table of students."""
    found = browser.find_elements("css selector", f"#students {cells}")
    texts = [cell.get_attribute("textContent") or "" for cell in found if cell.is_displayed()]
    return [text.split()[0] if text.split() else "" for text in texts]


def search(browser: Chrome, text: str) -> None:
    field = browser.find_element("id", "find")
    field.clear()
    field.send_keys(text)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_page_of_a_term_fits_and_tells_namesakes_apart(
    view: Chrome, tmp_path: Path, size: tuple[int, int]
) -> None:
    write_term(a_term(), tmp_path, "A course")
    resize(view, size)
    load(view, tmp_path, "index.html")
    view.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert view.execute_script("return document.documentElement.scrollWidth") <= size[0]
    names = [cell.text for cell in view.find_elements("css selector", "#totals ~ * tbody summary")]
    assert names[1:3] == ["Jan Nowak (s2)", "Jan Nowak (s3)"]
    (region,) = view.find_elements("css selector", "[aria-label='Table of the totals']")
    # The totals are visible without scrolling sideways.
    total = region.find_elements("css selector", "thead th")[1]
    assert total.text == "Total"
    assert total.rect["x"] + total.rect["width"] <= size[0]


def test_a_click_sorts_by_points_and_another_reverses_the_order(view: Chrome, report: Path) -> None:
    load(view, report)
    assert click_header(view, 2) == "descending"
    totals = [float(text.split()[0]) for text in column(view, 2)]
    assert len(totals) == STUDENTS + 2 + len(HOSTILE)
    assert totals == sorted(totals, reverse=True)
    assert totals[0] > totals[-1]
    assert click_header(view, 2) == "ascending"
    assert [float(text.split()[0]) for text in column(view, 2)] == sorted(totals)


def test_a_long_course_shows_chapters_that_open_one_by_one(view: Chrome, tmp_path: Path) -> None:
    write_report([a_long_course()], tmp_path, sources=sources)
    load(view, tmp_path)
    assert displayed(view, "thead th")[3:-2] == ["first", "second"]
    assert displayed(view, "tbody tr > *")[3:-2] == ["45", "40"]
    Select(view.find_element("id", "columns")).select_by_visible_text("second")
    assert displayed(view, "thead th")[3:-2] == ["e5", "e6", "e7", "e8", "e9"]
    points = displayed(view, "tbody tr > *")[3:-2]
    assert [text[:2] for text in points] == ["10", "10", "\N{WHITE CIRCLE}t", "10", "10"]
    resize(view, PHONE)
    assert view.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]


def test_names_are_sorted_naturally_including_numbers(view: Chrome, report: Path) -> None:
    load(view, report)
    assert click_header(view, 0) == "ascending"
    names = [name for name in column(view, 0) if name.startswith(("Student", "Ång"))]
    assert names == ["Ångström, Ünal", *(f"Student Number {n}" for n in range(STUDENTS))]


def test_an_unjudged_exercise_is_not_a_zero(view: Chrome, report: Path) -> None:
    load(view, report)
    search(view, "zz-open")
    (total,) = column(view, 2)
    assert total.startswith("10")
    cell = view.find_element("css selector", "#students tr:not([hidden]) td.num")
    assert "not final" in str(cell.get_attribute("textContent"))


def test_searching_shows_and_counts_the_matching_students(view: Chrome, report: Path) -> None:
    load(view, report)
    found = view.find_element("id", "found")
    assert found.get_attribute("role") == "status"
    everybody = STUDENTS + 2 + len(HOSTILE)
    assert found.text == f"{everybody} of {everybody} students"
    search(view, "number 77")
    assert column(view, 0) == [
        name for name in (f"Student Number {n}" for n in range(STUDENTS)) if "77" in name
    ]
    assert found.text == f"{len(column(view, 0))} of {everybody} students"
    search(view, "angstrom unal")
    assert column(view, 1) == ["zz-open"]
    for typed in ("lukasz", "ŁUKASZ", "łukasz cwik"):
        search(view, typed)
        assert column(view, 1) == ["yy-mon"]
    search(view, "no such person")
    assert column(view, 0) == []
    assert found.text.startswith("0 of")


def test_a_section_can_be_combined_with_other_filters(view: Chrome, report: Path) -> None:
    load(view, report)
    help_is_needed = Select(view.find_element("id", "show"))
    help_is_needed.select_by_value("help")
    assert 1 < len(column(view, 1)) < STUDENTS
    Select(view.find_element("id", "section")).select_by_visible_text("Mon")
    assert column(view, 1) == ["yy-mon"]
    help_is_needed.select_by_value("late")
    assert column(view, 1) == []


def test_a_filter_shows_students_that_a_person_must_look_at(view: Chrome, report: Path) -> None:
    from selenium.webdriver.support.select import Select

    load(view, report)
    choice = Select(view.find_element("id", "show"))
    choice.select_by_value("look")
    assert len(column(view, 1)) == 1 + len(HOSTILE)
    assert "zz-open" in column(view, 1)
    choice.select_by_value("alike")
    assert column(view, 1) == ["s0000", "s0001"]
    choice.select_by_value("late")
    assert len(column(view, 1)) == 23
    choice.select_by_value("")
    assert len(column(view, 1)) == STUDENTS + 2 + len(HOSTILE)


def test_the_keyboard_alone_is_enough(view: Chrome, report: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    load(view, report)
    press = ActionChains(view)
    press.send_keys(Keys.TAB).perform()
    first = view.switch_to.active_element
    assert first.text == "Skip to the content"
    assert first.rect["y"] >= 0, "the skip link must be visible while it has the focus"
    press.send_keys(Keys.ENTER).perform()
    assert view.switch_to.active_element.get_attribute("id") == "main"
    for _ in range(60):
        press.send_keys(Keys.TAB).perform()
        if view.switch_to.active_element.text.startswith("Total"):
            break
    button = view.switch_to.active_element
    assert button.text.startswith("Total")
    assert (
        view.execute_script("return getComputedStyle(arguments[0]).outlineWidth", button) == "3px"
    )
    press.send_keys(Keys.ENTER).perform()
    header = button.find_element("xpath", "..")
    assert header.get_attribute("aria-sort") == "descending"
    press.send_keys(Keys.SPACE).perform()
    assert header.get_attribute("aria-sort") == "ascending"
    assert view.switch_to.active_element == button


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_shows_a_page_without_scrolling_sideways(
    view: Chrome, report: Path, page: str
) -> None:
    resize(view, PHONE)
    load(view, report, page)
    view.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert view.execute_script("return document.documentElement.scrollWidth") == PHONE[0]
    size = view.execute_script("return parseFloat(getComputedStyle(document.body).fontSize)")
    assert size >= 16


BROKEN = """
const broken = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode;
  if (!text.parentElement.closest("label, button, summary, dt, th[scope=col]")) continue;
  for (const word of text.data.matchAll(/[A-Za-z]+/g)) {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
    if (lines.size > 1) broken.push(word[0]);
  }
}
return broken;
"""


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_breaks_no_word_of_a_field_or_a_button(
    view: Chrome, report: Path, page: str
) -> None:
    resize(view, (390, 844))
    load(view, report, page)
    assert view.execute_script(BROKEN) == []
    # Controls with unbroken words still fit their cards.
    wide = "return [...document.querySelectorAll('.controls > *')].filter(e => e.scrollWidth > e.clientWidth)"
    assert view.execute_script(wide) == []


def test_hostile_names_are_text_and_break_no_row(view: Chrome, report: Path) -> None:
    resize(view, PHONE)
    load(view, report)
    assert view.title == "A course: the class (staff)"
    assert view.execute_script("return document.documentElement.scrollWidth") == PHONE[0]
    resize(view, DESK)
    for name in HOSTILE:
        search(view, shown(name)[:20])
        assert column(view, 0), name
    heights = view.execute_script(
        "document.getElementById('find').value = '';"
        "document.getElementById('find').dispatchEvent(new Event('input'));"
        "return [...document.querySelectorAll('#students tbody tr')].map(r => r.offsetHeight)"
    )
    assert max(heights) < 300
    for link in [
        str(each.get_attribute("href"))
        for each in view.find_elements("css selector", "#students tbody a")[1001:]
    ]:
        view.get(link)
        assert view.title.endswith("(staff)")
        assert view.find_elements("css selector", "main h1, img, main script") == []


def test_the_page_of_a_class_is_complete_without_its_script(view: Chrome, report: Path) -> None:
    view.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        load(view, report)
        rows = view.find_elements("css selector", "#students tbody tr")
        assert len(rows) == STUDENTS + 2 + len(HOSTILE)
        assert not view.find_element("id", "controls").is_displayed()
    finally:
        view.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_page_follows_the_reader_s_dark_mode(view: Chrome, report: Path) -> None:
    load(view, report)
    brightness = (
        "const s = getComputedStyle(document.body);"
        "return [s.backgroundColor, s.color].map(c => c.match(/\\d+/g).map(Number)"
        ".reduce((a, b) => a + b) / 3)"
    )
    page, ink = view.execute_script(brightness)
    assert page > 200 > 80 > ink
    light(view, "dark")
    page, ink = view.execute_script(brightness)
    assert page < 60 < 180 < ink


def test_a_place_links_to_the_line_and_opens_the_code(view: Chrome, report: Path) -> None:
    load(view, report, "staff/students/s0000.html")
    view.find_element("css selector", "a[href$='-5']").click()
    line = view.find_element("css selector", "span:target")
    assert line.is_displayed()
    assert "x.chunk(2, -1)" in line.text


def test_no_page_loads_anything(view: Chrome, report: Path) -> None:
    for page in PAGES:
        load(view, report, page)
        loaded = view.execute_script("return performance.getEntriesByType('resource').length")
        assert loaded == 0


def test_the_security_policy_of_a_page_refuses_foreign_scripts(
    browser: Chrome, report: Path
) -> None:
    load(browser, report)
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.owned = 1';"
        "document.body.append(s)"
    )
    assert browser.execute_script("return window.owned") is None
    assert any("Content Security Policy" in entry["message"] for entry in severe(browser))


@pytest.mark.parametrize("page", PAGES)
def test_no_two_elements_have_the_same_id(view: Chrome, report: Path, page: str) -> None:
    load(view, report, page)
    ids = view.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)), ids


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_accessibility_problem(
    view: Chrome, report: Path, axe: str, page: str, scheme: str
) -> None:
    light(view, scheme)
    load(view, report, page)
    view.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    # Later rows are like the first ones, and axe would check each of them.
    view.execute_script(
        "document.querySelectorAll('#students tbody tr:nth-child(n+40)').forEach(r => r.remove())"
    )
    view.execute_script(axe)
    found = view.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa',"
        " 'best-practice']}).then(done, error => done({error: String(error)}))"
    )
    assert "error" not in found
    complaints = [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]
    assert complaints == []
    assert len(found["passes"]) > 20
