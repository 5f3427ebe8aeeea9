"""The exercise page and its editor, mostly in a real browser."""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from grader.course.manifest import load_course
from grader.serve.exercise import Kind, Paragraph, marked, rules_of, task_of
from tests.grader.exports.report.test_browser import DESK, PHONE, light, resize
from tests.grader.serve.conftest import PLAIN, SOLUTION, Served, sql
from tests.grader.serve.test_browser import address, sign_in, sign_out, until
from tests.grader.serve.test_drafts import HOSTILE, draft, save
from tests.grader.serve.test_pages import console

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

MAX_BYTES = 500_000
STUB = (PLAIN / "exercises" / "text" / "greeting.py").read_text(encoding="utf-8")


@pytest.fixture
def view(browser: Chrome, served: Served) -> Iterator[Chrome]:
    """A desktop browser, signed out. Afterwards, checks that the console has no errors from this server."""
    light(browser)
    resize(browser, DESK)
    sign_out(browser, served)
    console(browser)
    yield browser
    heard = console(browser, served)
    browser.get("about:blank")
    console(browser)
    assert heard == []


def open_editor(view: Chrome, served: Served, exercise: str = "greeting") -> None:
    view.get(address(served, f"/exercise/{exercise}"))
    until(view, lambda v: v.find_element(By.ID, "run").is_enabled())


def focused(view: Chrome) -> str:
    """Return the label or the text of the focused element, also in the editor."""
    return str(
        view.execute_script(
            "let e = document.activeElement; if (e.shadowRoot) e = e.shadowRoot.activeElement;"
            "return e === document.body ? '' : e.getAttribute('aria-label') || e.innerText"
        )
    )


def tab_to(view: Chrome, label: str) -> None:
    """Press Tab until an element with this label has the focus. Escape comes first, to leave the editor."""
    for _ in range(60):
        if label in focused(view):
            return
        ActionChains(view).send_keys(Keys.ESCAPE, Keys.TAB).perform()
    raise AssertionError(f"{label} is not reached")


def keys(view: Chrome, *pressed: str) -> None:
    ActionChains(view).send_keys(*pressed).perform()


def control(view: Chrome, key: str) -> None:
    ActionChains(view).key_down(Keys.CONTROL).send_keys(key).key_up(Keys.CONTROL).perform()


def wait_for_text(view: Chrome, text: str, where: str = "said") -> None:
    until(view, lambda v: text in v.find_element(By.ID, where).text)


def lines(view: Chrome) -> list[str]:
    """The lines that the editor shows."""
    found: list[str] = view.execute_script(
        "const root = document.getElementById('editor').shadowRoot;"
        "return [...root.querySelectorAll('.cm-line')].map(line => line.textContent)"
    )
    return found


@pytest.mark.thorough
def test_an_exercise_can_be_completed_by_keyboard(view: Chrome, served: Served) -> None:
    view.get(address(served))
    while view.switch_to.active_element.get_attribute("id") != "token":
        keys(view, Keys.TAB)
    keys(view, served.tokens["ada"], Keys.ENTER)
    until(view, lambda v: v.find_elements(By.CLASS_NAME, "standing"))
    tab_to(view, "Write greeting")
    keys(view, Keys.ENTER)
    until(view, lambda v: v.find_elements(By.ID, "run"))
    until(view, lambda v: v.find_element(By.ID, "run").is_enabled())
    # Each hint appears after the one before is open.
    assert not view.find_element(By.XPATH, "//summary[.='Hint 2 of 3']").is_displayed()
    tab_to(view, "Hint 1 of 3")
    keys(view, Keys.ENTER)
    until(view, lambda v: "An f-string." in v.find_element(By.TAG_NAME, "body").text)
    assert not view.find_element(By.XPATH, "//summary[.='Hint 3 of 3']").is_displayed()
    tab_to(view, "Your file greeting.py")
    control(view, "a")
    keys(view, "def greeting(name):\nreturn 'Hallo, ' + name")
    # The editor indents the second line.
    assert lines(view) == ["def greeting(name):", "    return 'Hallo, ' + name"]
    control(view, Keys.ENTER)
    wait_for_text(view, "0 of 1 public tests passed.")
    assert "greeting.py:" not in view.find_element(By.ID, "said").text
    # The page scrolls to the findings, while the editor keeps the focus.
    bottom = (
        "return document.getElementById('verdict').getBoundingClientRect().bottom <= innerHeight"
    )
    assert view.execute_script(bottom)
    assert focused(view).startswith("Your file")
    control(view, "a")
    keys(view, "def greeting(name):\nreturn f'Hello, {name}!'")
    wait_for_text(view, "It is not handed in.", "saved")
    tab_to(view, "Run")
    keys(view, Keys.ENTER)
    wait_for_text(view, "1 of 1 public tests passed.")
    tab_to(view, "Hand in")
    keys(view, Keys.ENTER)
    wait_for_text(view, "2.5 of 2.5 points: read the verdict")
    wait_for_text(view, "These findings are of an earlier run:", "verdict")
    wait_for_text(view, "and handed in", "saved")
    tab_to(view, "read the verdict")
    keys(view, Keys.ENTER)
    until(view, lambda v: v.current_url.endswith("/#ex-greeting"))
    assert "2.5 of 20 points" in view.find_element(By.TAG_NAME, "header").text


@pytest.mark.thorough
def test_a_finding_marks_its_line_and_leads_to_it(view: Chrome, served: Served) -> None:
    sign_in(view, served, "bob")
    source = "\n" * 40 + "def greeting(name):\n    print('<script>')\n    raise ValueError(name)\n"
    assert save(served, "bob", source, draft(served, "bob")["revision"]).status == 200
    open_editor(view, served)
    view.find_element(By.ID, "run").click()
    wait_for_text(view, "0 of 1 public tests passed.")
    findings = view.find_element(By.ID, "verdict")
    assert "ValueError" in findings.text and "<script>" in findings.text
    place = findings.find_element(By.CSS_SELECTOR, "[data-line]")
    assert place.text.endswith("greeting.py:43")
    place.click()
    marked = "return document.getElementById('editor').shadowRoot.querySelector('.cm-marked')?.textContent"
    until(view, lambda v: "raise ValueError" in (v.execute_script(marked) or ""))
    assert focused(view).startswith("Your file")


@pytest.mark.thorough
def test_a_tab_with_an_older_draft_offers_both_texts(view: Chrome, served: Served) -> None:
    sign_in(view, served, "eve")
    open_editor(view, served)
    begun = draft(served, "eve")["revision"]
    # The other tab.
    assert save(served, "eve", "# from the other tab\n", begun).status == 200
    tab_to(view, "Your file")
    control(view, Keys.HOME)
    keys(view, "# from this tab\n")
    wait_for_text(view, "a newer draft was saved in another tab", "saved")
    # The browser logs the status 409 as an error. The page has explained it.
    assert all("409" in entry["message"] for entry in console(view))
    assert draft(served, "eve")["source"] == "# from the other tab\n"
    tab_to(view, "Keep this text")
    keys(view, Keys.ENTER)
    wait_for_text(view, "Saved", "saved")
    newest = draft(served, "eve")
    assert newest["source"] == "# from this tab\n" + STUB
    # Now load the other tab's text instead.
    assert save(served, "eve", "# once more\n", newest["revision"]).status == 200
    tab_to(view, "Your file")
    keys(view, "x")
    wait_for_text(view, "a newer draft was saved in another tab", "saved")
    assert all("409" in entry["message"] for entry in console(view))
    view.find_element(By.ID, "load-newest").click()
    until(view, lambda v: lines(v) == ["# once more", ""])
    wait_for_text(view, "Saved", "saved")


def write_at_the_top(view: Chrome, text: str) -> None:
    tab_to(view, "Your file")
    control(view, Keys.HOME)
    keys(view, text)


def asks_before_leaving(view: Chrome) -> bool:
    """Whether the page asks before it is left. The driver would answer a real question unseen."""
    leave = (
        "const leaving = new Event('beforeunload', {cancelable: true});"
        "window.dispatchEvent(leaving); return leaving.defaultPrevented"
    )
    return bool(view.execute_script(leave))


@pytest.mark.thorough
def test_text_that_cannot_be_saved_is_not_lost(
    view: Chrome, serving: Callable[..., Served]
) -> None:
    served = serving().start()
    sign_in(view, served, "ada")
    open_editor(view, served)
    write_at_the_top(view, "# saved\n")
    # The time is in the course's time zone.
    wait_for_text(view, " UTC. It is not handed in.", "saved")
    assert not asks_before_leaving(view)
    control(view, Keys.ENTER)
    wait_for_text(view, "The run is below.")
    findings = view.find_element(By.ID, "verdict")
    assert findings.text and "earlier run" not in findings.text
    served.stop()
    keys(view, "# only here\n")
    control(view, Keys.ENTER)
    wait_for_text(view, "The server cannot be reached.")
    assert findings.text.startswith("These findings are of an earlier run:")
    wait_for_text(view, "Not saved: The server cannot be reached.", "saved")
    assert asks_before_leaving(view)
    view.find_element(By.ID, "hand-in").click()
    wait_for_text(view, "Nothing was handed in: The server cannot be reached.")
    view.find_element(By.ID, "reset").click()
    wait_for_text(view, "Your text was left as it is: The server cannot be reached.")
    view.execute_script(
        "const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => (blob.text().then((text) => (window.text = text)), make(blob))"
    )
    view.find_element(By.ID, "download").click()
    text = "# saved\n# only here\n" + STUB
    until(view, lambda v: v.execute_script("return window.text") == text)
    served.start()
    # The page tries again by itself.
    wait_for_text(view, "Saved", "saved")
    assert draft(served, "ada")["source"] == text
    assert not asks_before_leaving(view)
    console(view)


@pytest.mark.thorough
def test_a_retry_after_a_lost_answer_counts_once(
    view: Chrome, served: Served, tmp_path: Path
) -> None:
    sign_in(view, served, "eve")
    open_editor(view, served)
    write_at_the_top(view, "# handed in twice\n")
    before = len(sql(served, "SELECT * FROM attempts"))
    lose_an_answer = (
        "const ask = fetch; let isLost = false; window.fetch = async (...of) => {"
        "const answer = await ask(...of); if (of[0] !== '/api/submissions' || isLost) return answer;"
        "isLost = true; throw new TypeError('lost') }"
    )
    view.execute_script(lose_an_answer)
    view.find_element(By.ID, "hand-in").click()
    wait_for_text(view, "The server did not answer. Hand in again: your file counts once.")
    view.find_element(By.ID, "hand-in").click()
    wait_for_text(view, "read the verdict")
    assert len(sql(served, "SELECT * FROM attempts")) == before + 1
    view.get(address(served))
    view.execute_script(lose_an_answer)
    file = tmp_path / "greeting.py"
    file.write_bytes(SOLUTION + b"# from a form\n")
    view.find_element(By.ID, "files").send_keys(str(file))
    button = view.find_element(By.CSS_SELECTOR, "#hand-in-form button")
    button.click()
    wait_for_text(view, "The server did not answer. Hand in again: your files count once.")
    button.click()
    until(view, lambda v: v.current_url.endswith("#ex-greeting"))
    assert len(sql(served, "SELECT * FROM attempts")) == before + 2


@pytest.mark.thorough
def test_writing_continues_after_signing_in_again(view: Chrome, served: Served) -> None:
    sign_in(view, served, "bob")
    open_editor(view, served)
    (cookie,) = view.get_cookies()
    view.delete_all_cookies()
    write_at_the_top(view, "# signed out\n")
    wait_for_text(view, "You are signed out. Sign in again in another tab", "saved")
    assert all("401" in entry["message"] for entry in console(view))
    view.add_cookie(cookie)
    view.execute_script("window.dispatchEvent(new Event('focus'))")
    wait_for_text(view, "Saved", "saved")
    assert draft(served, "bob")["source"].startswith("# signed out\n")


@pytest.mark.thorough
def test_a_reset_can_be_undone_and_the_file_downloaded(view: Chrome, served: Served) -> None:
    sign_in(view, served, "eve")
    revision = draft(served, "eve")["revision"]
    mine = SOLUTION.decode() + "# mine\n"
    assert save(served, "eve", mine, revision, keep=True).status == 200
    open_editor(view, served)
    view.find_element(By.ID, "reset").click()
    wait_for_text(view, "as it was handed out")
    assert draft(served, "eve")["source"] == STUB
    view.find_element(By.XPATH, "//summary[.='Earlier versions']").click()
    view.find_element(By.CSS_SELECTOR, "#versions button").click()
    wait_for_text(view, "This is the version of")
    assert draft(served, "eve")["source"] == mine
    # Undo restores the stub, and is saved like any edit.
    tab_to(view, "Your file")
    control(view, "z")
    until(view, lambda _: draft(served, "eve")["source"] == STUB)
    download = view.find_element(By.ID, "download")
    assert download.get_attribute("href") == address(served, "/exercise/greeting/file")
    answer = served.ask("GET", "/exercise/greeting/file", "eve")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="greeting.py"'
    assert answer.body == STUB.encode()


@pytest.mark.thorough
def test_versions_can_be_compared_by_keyboard(view: Chrome, served: Served) -> None:
    sign_in(view, served, "ada")
    version = "# <b>one</b>\n" + STUB
    for source, keep in ((version, False), ("# two\n" + STUB, True)):
        revision = draft(served, "ada")["revision"]
        assert save(served, "ada", source, revision, keep=keep).status == 200
    open_editor(view, served)
    tab_to(view, "Your file")
    control(view, Keys.HOME)
    keys(view, "# not saved yet\n")
    tab_to(view, "Earlier versions")
    keys(view, Keys.ENTER)
    tab_to(view, "Compare with the version")
    keys(view, Keys.ENTER)
    wait_for_text(view, "2 lines added and 1 line removed", "changes-said")
    # The list of lines has the focus. The sentence before it is its label.
    assert view.switch_to.active_element.get_attribute("id") == "changes"
    kinds = (
        "return [...document.querySelectorAll('#changes > :is(ins, del)')].map(e => e.textContent)"
    )
    assert view.execute_script(kinds) == [
        "removed: − # <b>one</b>",  # noqa: RUF001 (a minus)
        "added: + # not saved yet",
        "added: + # two",
    ]
    assert "equal line" in view.find_element(By.ID, "changes").text


@pytest.mark.thorough
def test_a_comparison_is_complete_and_minimal(view: Chrome, served: Served) -> None:
    sign_in(view, served, "eve")
    open_editor(view, served)
    draw = random.Random(0)
    for _ in range(60):
        texts = ["\n".join(draw.choices("abcd", k=draw.randrange(9))) for _ in range(2)]
        lines = view.execute_script("return changes.linesOf(...arguments)", *texts)
        for text, others in zip(texts, "+-", strict=True):
            assert "\n".join(line for kind, line in lines if kind != others) == text
        equal = sum(kind == " " for kind, _ in lines)
        before, after = (text.split("\n") for text in texts)
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        assert equal >= sum(block.size for block in matcher.get_matching_blocks()), texts
    # Texts too long for an alignment table still give all lines at once.
    long = ["\n".join(f"{sign}{number}" for number in range(5000)) for sign in "ab"]
    assert len(view.execute_script("return changes.linesOf(...arguments)", *long)) == 10_000


@pytest.mark.thorough
def test_a_script_in_a_draft_does_not_run(view: Chrome, served: Served) -> None:
    sign_in(view, served, "bob")
    revision = draft(served, "bob")["revision"]
    assert save(served, "bob", HOSTILE, revision).status == 200
    open_editor(view, served)
    assert "<script>alert(1)</script>" in "".join(lines(view))
    view.find_element(By.ID, "run").click()
    wait_for_text(view, "The run is below.")


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK, (2560, 1440)], ids=["phone", "desk", "projector"])
def test_the_page_is_accessible_and_fits(
    view: Chrome, served: Served, axe: str, scheme: str, size: tuple[int, int]
) -> None:
    sign_in(view, served, "bob")
    revision = draft(served, "bob")["revision"]
    wrong = "print('here')\ndef greeting(name: str) -> str:\n    '''Greet.'''\n    return 1 + 'a'\n"
    before = save(served, "bob", "# before\n", revision).json["revision"]
    assert save(served, "bob", wrong, before, keep=True).status == 200
    light(view, scheme)
    resize(view, size)
    open_editor(view, served)
    view.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    view.find_element(By.ID, "run").click()
    wait_for_text(view, "public tests passed")
    # The draft before this one is a version.
    view.find_element(By.XPATH, "//button[.='Compare']").click()
    wait_for_text(view, "added", "changes-said")
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert view.execute_script(wide) <= 0
    view.execute_script(axe)
    found = view.execute_async_script(
        "const done = arguments[0];"
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
        ".then(r => done([r.passes.length,"
        " r.violations.map(v => v.id + ': ' + v.nodes[0].html)]))"
    )
    assert found[0] > 10 and found[1] == [], found


def test_the_page_is_small_and_only_it_loads_the_editor(served: Served) -> None:
    page = served.ask("GET", "/exercise/greeting", "ada").body.decode()
    files = ("style.css", "serve.css", "serve.js", "changes.js", "exercise.js", "editor.js")
    assert all(f"/static/{name}" in page for name in files)
    sizes = [len(served.ask("GET", f"/static/{name}").body) for name in files]
    assert len(page.encode()) + sum(sizes) < MAX_BYTES
    version = page.partition("editor.js?")[2].partition('"')[0]
    kept = served.ask("GET", f"/static/editor.js?{version}").headers["Cache-Control"]
    assert "immutable" in kept
    assert served.ask("GET", "/static/editor.js?other").headers["Cache-Control"] == "no-store"
    assert "editor.js" not in served.ask("GET", "/", "ada").body.decode()
    policy = served.ask("GET", "/exercise/greeting", "ada").headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "script-src 'self'" in policy


def test_the_task_is_the_text_of_the_stub() -> None:
    stub = b'"""Build it.\n\nAs a\nformula:\n\n    y = x\n      + 1\n\n- one,\n  or another\n- two\n"""\n'
    assert task_of(stub) == [
        Paragraph(Kind.TEXT.value, ["Build it."]),
        Paragraph(Kind.TEXT.value, ["As a", "formula:"]),
        Paragraph(Kind.CODE.value, ["y = x", "  + 1"]),
        Paragraph(Kind.LIST.value, ["one, or another", "two"]),
    ]
    assert task_of(b"x = 1\n") == []


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Call `f(*x)`, *not* `g`.", "Call |<f(*x)>|, |_not_| |<g>|."),
        ("y = a * b * c, x*y*z and (out, *rest)", "y = a * b * c, x*y*z and (out, *rest)"),
        ("*Not allowed*: `a * b`", "|_Not allowed_|: |<a * b>|"),
    ],
)
def test_code_and_emphasis_of_a_task_are_marked(text: str, pieces: str) -> None:
    form = {"text": "{}", "code": "<{}>", "emphasis": "_{}_"}
    assert "|".join(form[kind].format(piece) for kind, piece in marked(text)) == pieces


def test_the_page_has_the_rules_of_the_course_if_there_are_any() -> None:
    assert rules_of(load_course(PLAIN)) == []
    course = load_course(Path(__file__).parents[3])
    heading, listed, *_ = rules_of(course)[1:]
    assert heading == Paragraph(Kind.HEADING.value, ["What you write"])
    assert listed.kind == Kind.LIST.value
    assert listed.lines[0].startswith("`raise NotImplementedError` marks a part")


def test_a_file_of_rules_named_in_a_task_becomes_a_link(serving: Callable[..., Served]) -> None:
    """A browser could not open the file itself."""
    served = serving(policy='attempts = "newest"\n')
    stub = served.course / "exercises" / "text" / "greeting.py"
    task = "Greet.\n\nWhat holds for every exercise: docs/every-exercise.md.\n"
    stub.write_text(f'"""{task}"""\n{stub.read_text(encoding="utf-8")}', encoding="utf-8")
    rules = served.course / "docs" / "every-exercise.md"
    rules.parent.mkdir()
    rules.write_text("# Rules\n\n## What you write\n\n- No `<loops>`, *ever*.\n", encoding="utf-8")
    served.start()
    text = served.ask("GET", "/exercise/greeting", "ada").body.decode()
    assert 'What holds for every exercise: <a href="#rules">the rules below</a>.' in text
    (inside,) = re.findall(r'<details>.*?<div id="rules">(.*?)</div>', text, re.DOTALL)
    assert (
        "<h3>What you write</h3>" in inside
        and "No <code>&lt;loops&gt;</code>, <em>ever</em>." in inside
    )
