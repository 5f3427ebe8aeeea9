"""Exams on the server: opening and end, extra time, networks, and rules on hints and downloads."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from selenium.webdriver.common.by import By

from grader.authoring.release import release
from grader.cli import main
from grader.course.assignments import released_table
from grader.course.manifest import load_course
from grader.errors import CourseError
from tests.grader.exports.report.test_browser import light, resize
from tests.grader.serve.conftest import (
    PATIENCE_SECONDS,
    PLAIN,
    SOLUTION,
    Answer,
    Served,
    in_json,
    marked,
)
from tests.grader.serve.test_browser import sign_in, sign_out, until
from tests.grader.serve.test_exercise import focused, open_editor, wait_for_text, write_at_the_top
from tests.grader.serve.test_extensions import seen as extensions_seen
from tests.grader.serve.test_pages import SIZES, console
from tests.grader.serve.test_practice import practiced
from tests.grader.serve.test_requests import form
from tests.grader.serve.test_staff import page as student_page

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.thorough

Serving = Callable[..., Served]
NOW = datetime.datetime.now(datetime.UTC)
HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)
STRICT = 'hints = false, downloads = false, networks = ["10.1.0.0/16", "2001:db8::/32"]'
INSIDE = {"X-Forwarded-For": "192.0.2.1, 10.1.2.3"}
POLICY = """
[[extension]]
student = "ada"
by = "2 days"
reason = "extra time"
"""


def exam(
    serving: Serving,
    opens: datetime.datetime,
    due: datetime.datetime,
    rules: str = "",
    *options: str,
) -> Served:
    """A server with an exam of greeting and word_count, and extra time for ada."""
    server = serving()
    server.course = server.folder / "course"
    shutil.copytree(PLAIN, server.course, ignore=shutil.ignore_patterns("__pycache__"))
    (server.course / "exercises" / "policy.toml").write_text(POLICY, encoding="utf-8")
    (server.course / "exercises" / "assignments.toml").write_text(
        f"""timezone = "Europe/Berlin"
[[assignment]]
id = "midterm"
title = "Midterm"
chapters = ["text"]
opens = {opens.isoformat()}
due = {due.isoformat()}
exam = {{{rules}}}
""",
        encoding="utf-8",
    )
    return server.start("--assignment", "midterm", *options)


def by_page(served: Served, who: str, source: bytes, **headers: str) -> Answer:
    """Submit a file as the page does."""
    told = {
        "Cookie": f"lab_bench_token={served.tokens[who]}",
        "Origin": f"http://127.0.0.1:{served.port}",
        **headers,
    }
    return served.ask("POST", "/api/submissions", "", in_json({"greeting.py": source}), told)


def test_only_staff_sees_tasks_before_an_exam_opens(serving: Serving) -> None:
    served = exam(serving, NOW + DAY, NOW + 2 * DAY)
    practice = json.dumps({"source": SOLUTION.decode()}).encode()
    for method, path, body in (
        ("GET", "/exercise/greeting", None),
        ("GET", "/exercise/greeting/file", None),
        ("GET", "/release", None),
        ("GET", "/api/exercises/greeting/draft", None),
        ("GET", "/api/exercises/greeting/versions/0", None),
        ("PUT", "/api/exercises/greeting/draft", b'{"source": "", "revision": 0}'),
        ("POST", "/api/exercises/greeting/practice", practice),
        ("POST", "/api/exercises/greeting/plot", practice),
    ):
        answer = served.ask(method, path, "ada", body)
        assert answer.status == 403 and b"opens at" in answer.body, (path, answer)
    assert by_page(served, "ada", SOLUTION).status == 403
    assert served.ask("GET", "/", "ada").status == 200
    assert served.ask("GET", "/exercise/greeting", "staff").status == 200
    # Without signing in, the status is 401.
    assert served.ask("GET", "/exercise/greeting").status == 401


def test_an_open_exam_accepts_files_only_from_the_page(serving: Serving) -> None:
    served = exam(serving, NOW - HOUR, NOW + DAY)
    refused = served.hand_in("bob", {"greeting.py": SOLUTION})
    assert refused.status == 403 and "on the page" in refused.json["error"]
    taken = by_page(served, "bob", SOLUTION)
    assert taken.status == 202
    assert served.judged("bob", taken.json["id"])["result"]["score"] == 2.5
    home = served.ask("GET", "/", "bob").body.decode()
    assert "This is an exam" in home and "hand-in-form" not in home
    # Hints and downloads are allowed unless the exam forbids them.
    page = served.ask("GET", "/exercise/greeting", "bob").body.decode()
    assert "Hint 1 of" in page and 'id="download"' in page
    assert served.ask("GET", "/exercise/greeting/file", "bob").status == 200


def test_after_the_end_only_students_with_extra_time_submit(serving: Serving) -> None:
    served = exam(serving, NOW - DAY, NOW - HOUR)
    refused = by_page(served, "bob", marked(1))
    assert refused.status == 403 and "The exam ended at" in refused.json["error"]
    assert by_page(served, "ada", marked(1)).status == 202
    assert served.ask("GET", "/api/standing", "bob").json["submissions"] == []
    # Drafts are still saved.
    body = b'{"source": "# later", "revision": 0}'
    assert served.ask("PUT", "/api/exercises/greeting/draft", "bob", body).status == 200


def test_staff_can_extend_a_running_exam(serving: Serving) -> None:
    served = exam(serving, NOW - DAY, NOW - HOUR)
    assert by_page(served, "bob", marked(1)).status == 403
    until = (NOW + DAY).strftime("%Y-%m-%dT%H:%M")
    shown = extensions_seen(student_page(served, "bob"))
    fields = {"seen": shown, "name": "greeting", "until": until, "reason": "the fire alarm"}
    assert form(served, "/class/students/bob", "staff", do="extend", **fields).status == 303
    assert by_page(served, "bob", marked(1)).status == 202
    assert "the fire alarm" in served.ask("GET", "/", "bob").body.decode()
    shown = extensions_seen(student_page(served, "bob"))
    back = {"do": "take-extension-back", "seen": shown, "number": "0"}
    assert form(served, "/class/students/bob", "staff", **back).status == 303
    assert by_page(served, "bob", marked(2)).status == 403


def test_an_exam_can_be_limited_to_networks(serving: Serving) -> None:
    served = exam(serving, NOW - HOUR, NOW + DAY, STRICT)
    for address in ("", "10.2.0.1", "10.1.2.3, 192.0.2.1", "x", "10.1.2.3.4", "::1"):
        headers = {"X-Forwarded-For": address} if address else {}
        assert by_page(served, "bob", SOLUTION, **headers).status == 403, address
        answer = served.ask("GET", "/exercise/greeting", "bob", headers=headers)
        assert answer.status == 403 and b"own network" in answer.body
        home = served.ask("GET", "/", "bob", headers=headers)
        assert home.status == 200 and b"own network. You are not in it now." in home.body
    assert b"own network" not in served.ask("GET", "/", "bob", headers=INSIDE).body
    for address in ("10.1.2.3", "192.0.2.1, 10.1.2.3", "::ffff:10.1.2.3", "2001:db8::7"):
        headers = {"X-Forwarded-For": address}
        page = served.ask("GET", "/exercise/greeting", "bob", headers=headers)
        assert page.status == 200, address
    text = page.body.decode()
    assert "Hint 1 of" not in text and 'id="download"' not in text
    for hint in load_course(PLAIN).exercise("greeting").hints:
        assert hint not in text
    assert served.ask("GET", "/exercise/greeting/file", "bob", headers=INSIDE).status == 403
    assert served.ask("GET", "/release", "bob", headers=INSIDE).status == 403
    assert by_page(served, "bob", SOLUTION, **INSIDE).status == 202
    # Some proxies add a header line of their own after the client's.
    assert read_with(served, "10.1.2.3", "192.0.2.66") == 403
    assert read_with(served, "192.0.2.66", "10.1.2.3") == 200


def read_with(served: Served, *forwarded: str) -> int:
    """The status of a page for bob, requested with these X-Forwarded-For lines."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection):
        connection.putrequest("GET", "/exercise/greeting")
        connection.putheader("Authorization", f"Bearer {served.tokens['bob']}")
        for line in forwarded:
            connection.putheader("X-Forwarded-For", line)
        connection.endheaders()
        return connection.getresponse().status


def test_an_exam_without_hints_offers_no_release(serving: Serving, tmp_path: Path) -> None:
    folder, course = tmp_path / "students", tmp_path / "course"
    shutil.copytree(PLAIN, course, ignore=shutil.ignore_patterns("__pycache__"))
    stubs = course / "tests" / "stubs"
    shutil.copytree(PLAIN / "exercises", stubs, ignore=shutil.ignore_patterns("*.toml"))
    release(load_course(course), folder, requirement="lab-bench", judge=False)
    hint = load_course(PLAIN).exercise("greeting").hints[0]
    for rules, status in (("hints = false", 403), ("", 200)):
        served = exam(serving, NOW - HOUR, NOW + DAY, rules, "--release", str(folder))
        answer = served.ask("GET", "/release", "bob")
        assert answer.status == status, answer
        for path in ("/", "/exercise/greeting"):
            offers = b'href="/release"' in served.ask("GET", path, "bob").body
            assert offers is (status == 200), path
        # Students may still download their own file.
        assert served.ask("GET", "/exercise/greeting/file", "bob").status == 200
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert any(hint in archive.read(name).decode() for name in archive.namelist())


def test_findings_of_an_exam_without_hints_have_none(serving: Serving) -> None:
    wrong, hint = b"def greeting(name):\n    return name\n", "An f-string does it."
    for rules, is_shown in (("hints = false", False), ("", True)):
        served = exam(serving, NOW - HOUR, NOW + DAY, rules)
        name, run = practiced(served, "bob", "greeting", wrong)
        assert name == "judged"
        verdict = served.judged("bob", by_page(served, "bob", wrong).json["id"])
        home = served.ask("GET", "/", "bob").body.decode()
        for told in (json.dumps(run["exercise"]), run["page"], json.dumps(verdict), home):
            assert (hint in told) is is_shown, told
        assert run["exercise"]["tests"][0]["message"] and verdict["result"]["score"] == 0


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ("exam = {}", "needs `opens` and `due`"),
        ("opens = 2026-01-01T09:00:00\nexam = {}", "needs `opens` and `due`"),
        (
            "opens = 2026-01-01T09:00:00\ndue = 2026-01-01T10:00:00\nexam = {networks = ['10.1.0.0/99']}",
            "Write networks as",
        ),
        ("exam = {phones = false}", "phones"),
    ],
)
def test_invalid_keys_of_an_exam_are_refused(tmp_path: Path, keys: str, complaint: str) -> None:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "course" / "exercises" / "assignments.toml").write_text(
        f'timezone = "Europe/Berlin"\n[[assignment]]\nid = "m"\ntitle = "M"\nchapters = ["text"]\n{keys}\n',
        encoding="utf-8",
    )
    with pytest.raises(CourseError, match=complaint):
        load_course(tmp_path / "course")


def test_a_release_does_not_have_the_rules_of_an_exam(serving: Serving, tmp_path: Path) -> None:
    served = exam(serving, NOW - HOUR, NOW + DAY, STRICT)
    served.stop()
    pack = tmp_path / "midterm.pack"
    command = ["pack", "--course", str(served.course), "-o", str(pack), "--assignment", "midterm"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    packed = load_course(pack).assignments[0]
    assert packed.exam is not None and not packed.exam.hints
    assert released_table(packed)["exam"] == {}


@pytest.mark.parametrize("size", SIZES, ids=["phone", "desk"])
def test_a_student_takes_an_exam_in_the_browser(
    browser: Chrome, serving: Serving, axe: str, size: tuple[int, int]
) -> None:
    served = exam(serving, NOW - HOUR, NOW + DAY, "hints = false, downloads = false")
    light(browser)
    resize(browser, size)
    sign_out(browser, served)
    console(browser)
    sign_in(browser, served, "eve")
    find = (
        "const done = arguments[0];"
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
        ".then(r => done(r.violations.map(v => v.id + ': ' + v.nodes[0].html)))"
    )
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    browser.execute_script(axe)
    assert browser.execute_async_script(find) == []
    assert browser.execute_script(wide) <= 0
    open_editor(browser, served)
    browser.execute_script(axe)
    assert browser.execute_async_script(find) == []
    assert browser.execute_script(wide) <= 0
    # Move the end of the exam to about four minutes from now.
    browser.execute_script("document.querySelector('[data-seconds]').dataset.seconds = 250")
    write_at_the_top(browser, "# mine\n")
    wait_for_text(browser, "minutes left. Your text is saved but not handed in.", "last-minutes")
    assert focused(browser).startswith("Your file")
    notice = browser.find_element(By.ID, "last-minutes")
    assert (notice.get_attribute("class"), notice.get_attribute("role")) == ("notice", "status")
    assert browser.execute_async_script(find) == []
    browser.find_element(By.ID, "hand-in").click()
    wait_for_text(browser, "read the verdict")
    until(browser, lambda b: b.find_element(By.ID, "last-minutes").text == "")
    # The page names the assignment and its due time, as `grade submit` does.
    wait_for_text(browser, "Handed in, and judged. Midterm, due ")
    assert console(browser, served) == []
    browser.get("about:blank")
