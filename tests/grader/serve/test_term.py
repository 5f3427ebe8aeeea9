"""A server for a whole term: opening times, practice, exams beside assignments, totals, and pages."""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from selenium.webdriver.common.by import By

from grader.authoring.handout import zipped_release
from grader.authoring.release import release
from grader.cli.serve import _extra_time
from grader.course.assignments import CourseAssignment, Exam
from grader.course.manifest import load_course
from grader.gradebook.policy import Due, Extension, Policy, Rules
from grader.results import StudentInfo
from tests.grader.exports.report.test_browser import light, resize
from tests.grader.serve.conftest import PLAIN, SOLUTION, Answer, Served, in_json
from tests.grader.serve.test_browser import address, sign_in, sign_out, until
from tests.grader.serve.test_pages import SIZES, console
from tests.grader.serve.test_requests import form
from tests.grader.serve.test_staff import HELD
from tests.grader.serve.test_submit import grade, signed_in, work

__all__ = ["work"]

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

Serving = Callable[..., Served]
NOW = datetime.datetime.now(datetime.UTC)
HOUR, DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
COUNTING = (PLAIN / "solutions" / "text" / "word_count.py").read_bytes()
MEAN = (PLAIN / "solutions" / "arrays" / "running_mean.py").read_bytes()
EARLY = NOW - 8 * DAY


def assignment(
    id_: str,
    exercises: list[str],
    opens: datetime.datetime | None = EARLY,
    due: datetime.datetime | None = None,
    more: str = "",
) -> str:
    """An entry of assignments.toml."""
    times = [f"opens = {opens.isoformat()}"] if opens else []
    times += [f"due = {due.isoformat()}"] if due else []
    head = f'[[assignment]]\nid = "{id_}"\ntitle = "{id_.title()}"\nexercises = {json.dumps(exercises)}\n'
    return "\n".join([head, *times, more, ""])


def term_course(folder: Path, *assignments: str, policy: str = "") -> Path:
    """Copy the plain course and give it these assignments."""
    shutil.copytree(PLAIN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = 'timezone = "Europe/Berlin"\n' + "".join(assignments)
    (folder / "exercises" / "assignments.toml").write_text(text, encoding="utf-8")
    if policy:
        (folder / "exercises" / "policy.toml").write_text(policy, encoding="utf-8")
    return folder


def term(
    serving: Serving,
    *assignments: str,
    policy: str = "",
    roster: str = "",
    options: tuple[str, ...] = (),
) -> Served:
    """Start a server for a term with these assignments."""
    server = serving()
    server.course = term_course(server.folder / "course", *assignments, policy=policy)
    if roster:
        (server.folder / "class.csv").write_text(roster, encoding="utf-8")
    return server.start(*options)


WEEKS = (
    assignment("week1", ["greeting"], due=NOW + 2 * DAY, more="extra_credit = []"),
    assignment("week2", ["running_mean"], NOW + DAY, NOW + 9 * DAY),
)


def by_page(served: Served, who: str, files: dict[str, bytes]) -> Answer:
    """Submit files as the page does."""
    told = {
        "Cookie": f"lab_bench_token={served.tokens[who]}",
        "Origin": f"http://127.0.0.1:{served.port}",
    }
    return served.ask("POST", "/api/submissions", "", in_json(files), told)


def test_an_assignment_is_hidden_from_students_before_it_opens(serving: Serving) -> None:
    served = term(serving, *WEEKS)
    # word_count is practice, so it comes last and is not in the sum.
    begun = served.ask("GET", "/", "ada").body
    assert b"<strong>0</strong> of 2.5</span> points" in begun
    assert begun.index(b"Week1 <span") < begun.index(b"Practice <span")
    practice = json.dumps({"source": MEAN.decode()}).encode()
    for method, path, body in (
        ("GET", "/exercise/running_mean", None),
        ("GET", "/exercise/running_mean/file", None),
        ("GET", "/api/exercises/running_mean/draft", None),
        ("GET", "/api/exercises/running_mean/versions/0", None),
        ("PUT", "/api/exercises/running_mean/draft", b'{"source": "", "revision": 0}'),
        ("POST", "/api/exercises/running_mean/practice", practice),
        ("POST", "/api/exercises/running_mean/plot", practice),
    ):
        answer = served.ask(method, path, "ada", body)
        assert answer.status == 404 and b"Week2 opens at" in answer.body, (path, answer)
        if method == "GET":
            assert served.ask(method, path, "staff").status in (200, 404), path
    assert served.ask("GET", "/exercise/running_mean", "staff").status == 200
    refused = served.hand_in("ada", {"running_mean.py": MEAN})
    assert refused.status == 403 and "Week2 opens at" in refused.json["error"]
    # The answer to a misnamed file lists only open exercises.
    wrong = served.hand_in("ada", {"x.py": b"x = 1\n"})
    assert wrong.status == 422 and "greeting.py" in wrong.json["error"]
    # A damaged archive beside work is reported without names of unopened exercises.
    torn = {"x.zip": b"PK\x03\x04 torn"}
    broken = served.hand_in("ada", torn)
    assert broken.status == 422 and "x.zip is cut off" in broken.json["error"]
    beside = served.hand_in("ada", {"greeting.txt": SOLUTION, **torn})
    assert beside.status == 202 and "running_mean" not in beside.json["problems"]
    asked = form(served, "/requests", "ada", exercise="running_mean", message="Why?")
    assert asked.status == 422
    home = served.ask("GET", "/", "ada")
    assert b"Week2" in home.body and b"opens 20" in home.body
    standing = served.ask("GET", "/api/standing", "ada")
    assert [e["name"] for e in standing.json["exercises"]] == ["word_count", "greeting"]
    assert standing.json["max_score"] == 2.5
    assert [(a["id"], a["state"]) for a in standing.json["assignments"]] == [
        ("week1", "open"),
        ("week2", "upcoming"),
    ]
    secrets = [b"running_mean", b"A running mean", b"arrays", b"neighbors"]
    for answer in (
        home,
        standing,
        wrong,
        broken,
        beside,
        served.ask("GET", "/exercise/greeting", "ada"),
        served.ask("GET", "/release", "ada"),
        *(
            served.ask("GET", f"/static/{name}")
            for name in ("serve.js", "exercise.js", "serve.css")
        ),
    ):
        assert not [secret for secret in secrets if secret in answer.body], answer


def test_the_home_page_folds_practice_that_is_not_begun(serving: Serving) -> None:
    served = term(serving, assignment("week1", ["greeting"], due=NOW + 2 * DAY))
    sent = json.dumps({"source": "# begun", "revision": 0}).encode()
    assert served.ask("PUT", "/api/exercises/running_mean/draft", "ada", sent).status == 200
    home = served.ask("GET", "/", "ada").body.decode()
    assert "<strong>0</strong> of 2.5</span> points" in home
    assert 'id="ex-' not in home and "#ex-" not in home
    open_part, folded = home.split("<summary>1 exercise that you have not begun</summary>")
    assert "Write greeting" in open_part and "Write running_mean" in open_part
    assert "Write word_count" in folded and "Write greeting" not in folded
    served.judged("ada", served.hand_in("ada", {"word_count.py": COUNTING}).json["id"])
    home = served.ask("GET", "/", "ada").body.decode()
    assert "not begun</summary>" not in home and 'href="#ex-word_count"' in home
    assert 'id="ex-word_count"' in home and 'id="ex-greeting"' not in home
    assert "<strong>0</strong> of 2.5</span> points" in home


def test_only_files_of_open_assignments_are_accepted(
    serving: Serving,
) -> None:
    served = term(serving, *WEEKS)
    taken = served.hand_in(
        "ada", {"greeting.py": SOLUTION, "running_mean.py": MEAN}, key="one-two-3"
    )
    assert taken.status == 202
    assert [*taken.json["exercises"]] == ["greeting"]
    assert taken.json["problems"]["running_mean"].startswith(
        "running_mean was not accepted: Week2 opens"
    )
    assert taken.json["about"]["greeting"].startswith("Week1, due 20")
    again = served.hand_in(
        "ada", {"greeting.py": SOLUTION, "running_mean.py": MEAN}, key="one-two-3"
    )
    assert again.json["id"] == taken.json["id"] and "running_mean" in again.json["problems"]
    assert [e["name"] for e in served.judged("ada", taken.json["id"])["result"]["exercises"]] == [
        "greeting"
    ]


@pytest.mark.thorough
def test_students_of_a_term_can_submit_despite_a_mistake_in_corrections(
    serving: Serving,
) -> None:
    served = term(serving, *WEEKS)
    file = served.results / "corrections.toml"
    file.write_text("[[extension]]\nstudent = 3\n", encoding="utf-8")
    taken = served.hand_in("ada", {"greeting.py": SOLUTION})
    assert taken.status == 202 and "about" not in taken.json


def test_held_points_make_the_term_provisional(serving: Serving) -> None:
    served = term(serving, assignment("week1", ["greeting"], due=NOW - DAY))
    for who, source, is_held in (("ada", HELD, True), ("bob", SOLUTION, False)):
        served.judged(who, served.hand_in(who, {"greeting.py": source}).json["id"])
        for page in (
            served.ask("GET", "/", who).body,
            served.ask("GET", f"/class/students/{who}", "staff").body,
        ):
            assert b"<strong>100 %</strong>" in page
            assert (b"</span>, provisional</p>" in page) is is_held
            assert (b"week1 2.5 / 2.5 = 100 %, provisional, weight" in page) is is_held
    of_class = served.ask("GET", "/class", "staff").body
    assert of_class.count(b"100 %, provisional</td>") == 1
    assert of_class.count(b">2.5, held</td>") == 2, "in all and in week1, only for ada"


def test_grade_submit_names_assignments_and_refusals(serving: Serving, work: Path) -> None:
    served = term(
        serving,
        assignment(
            "week1", ["greeting", "word_count"], due=NOW + DAY, more='extra_credit = ["word_count"]'
        ),
        WEEKS[1],
    )
    signed_in(served)
    for chapter, name, source in (
        ("text", "word_count", COUNTING),
        ("arrays", "running_mean", MEAN),
    ):
        (work / "exercises" / chapter / f"{name}.py").write_bytes(source)
    # Without names, only changed files of open assignments are sent, so not week2.
    done = grade("submit")
    assert done.exit_code == 0, done.output
    assert "Handing in word_count for" in done.output
    assert re.search(r"word_count: Week1, due 20\S+ \S+ C\w+, extra credit\.", done.output), (
        done.output
    )
    early = grade("submit", "running_mean")
    assert early.exit_code == 2 and "Week2 opens at" in early.output


@pytest.mark.thorough
def test_an_exam_has_its_own_rules_beside_other_assignments(serving: Serving) -> None:
    more = 'exam = {hints = false, downloads = false, networks = ["10.1.0.0/16"]}'
    inside = {"X-Forwarded-For": "10.1.2.3"}
    served = term(
        serving, WEEKS[0], assignment("midterm", ["word_count"], NOW - HOUR, NOW + DAY, more)
    )
    # Week 1 is not restricted: programs, all networks, hints and downloads are allowed.
    both = {"greeting.py": SOLUTION, "word_count.py": COUNTING}
    taken = served.hand_in("bob", both)
    assert taken.status == 202 and [*taken.json["exercises"]] == ["greeting"]
    assert "own network" in taken.json["problems"]["word_count"]
    page = served.ask("GET", "/exercise/greeting", "bob").body
    assert b"Hint 1 of" in page and b'id="download"' in page
    # The exam has its own rules.
    assert served.ask("GET", "/exercise/word_count", "bob").status == 403
    exam = served.ask("GET", "/exercise/word_count", "bob", headers=inside).body
    assert b"Hint 1 of" not in exam and b'id="download"' not in exam
    assert b"data-seconds=" in exam and b"This is an exam" in exam
    token = served.ask(
        "POST", "/api/submissions", "bob", in_json({"word_count.py": COUNTING}), inside
    )
    assert token.status == 403 and "on the page" in token.json["error"]
    assert served.ask("GET", "/exercise/word_count/file", "bob", headers=inside).status == 403
    assert served.ask("GET", "/exercise/greeting/file", "bob").status == 200
    home = served.ask("GET", "/", "bob").body
    assert b"hand-in-form" in home and home.count(b"You are not in it now.") == 1
    assert b"You are not in it now." not in served.ask("GET", "/", "bob", headers=inside).body


@pytest.mark.thorough
def test_other_files_are_accepted_after_the_end_of_an_exam(serving: Serving) -> None:
    policy = '[[extension]]\nstudent = "ada"\nexercises = ["word_count"]\nby = "2 days"\n'
    ended = assignment("midterm", ["word_count"], NOW - DAY, NOW - HOUR, "exam = {}")
    served = term(serving, WEEKS[0], ended, policy=policy)
    both = {"greeting.py": SOLUTION, "word_count.py": COUNTING}
    taken = by_page(served, "bob", both)
    assert taken.status == 202 and [*taken.json["exercises"]] == ["greeting"]
    assert "word_count was not accepted: The exam ended" in taken.json["problems"]["word_count"]
    alone = by_page(served, "bob", {"word_count.py": COUNTING})
    assert alone.status == 403 and "The exam ended at" in alone.json["error"]
    own = by_page(served, "ada", both)
    assert [*own.json["exercises"]] == ["greeting", "word_count"]
    assert b"This exam ended" in served.ask("GET", "/", "bob").body


@pytest.mark.thorough
def test_a_release_is_offered_once_all_its_assignments_are_open(
    serving: Serving, tmp_path: Path
) -> None:
    course = load_course(term_course(tmp_path / "course", *WEEKS))
    stubs = course.root / "tests" / "stubs"
    shutil.copytree(PLAIN / "exercises", stubs, ignore=shutil.ignore_patterns("*.toml"))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    release(course, whole, requirement="lab-bench")
    served = term(serving, *WEEKS, options=("--release", str(whole)))
    assert served.ask("GET", "/release", "ada").status == 404
    assert b'href="/release"' not in served.ask("GET", "/", "ada").body
    assert served.ask("GET", "/release", "staff").status == 200
    served.stop()
    # A folder that grows with the term has all releases so far.
    release(course.assigned("week1"), parts, requirement="lab-bench")
    assert zipped_release(parts, course).exercises == {"greeting"}
    served.start("--release", str(parts))
    assert served.ask("GET", "/release", "ada").status == 200
    served.stop()
    release(course.assigned("week2"), parts, requirement="lab-bench", force=True)
    handout = zipped_release(parts, course)
    assert handout.exercises == {"greeting", "running_mean"}
    served.start("--release", str(parts))
    assert served.ask("GET", "/release", "ada").status == 404


# --- pages ----------------------------------------------------------------------------------------

TERM = (
    assignment("week1", ["greeting"], NOW - 9 * DAY, NOW - HOUR, "weight = 2"),
    assignment("midterm", ["word_count"], NOW - HOUR, NOW + 5 * HOUR, "exam = {}"),
    assignment("week3", ["running_mean"], NOW + DAY, NOW + 9 * DAY),
    "[term]\ncuts = {A = 90, F = 0}\n",
)
LATE = """
late_days = 5
[late]
per_day = 10
[[extension]]
student = "ada"
exercises = ["word_count"]
by = "30 minutes"
"""
# An extension as given on the page.
GIVEN = f"""
[[extension]]
student = "eve"
exercises = ["word_count"]
until = {(NOW + DAY + HOUR).isoformat()}
reason = "ill"
author = "prof"
time = {NOW.isoformat()}
"""


@pytest.fixture(scope="module")
def under_way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server in mid-term: week 1 is graded, an exam is running, and week 3 opens tomorrow."""
    server = Served(tmp_path_factory.mktemp("term"))
    server.course = term_course(server.folder / "course", *TERM, policy=LATE)
    (server.results / "corrections.toml").write_text(GIVEN, encoding="utf-8")
    server.start()
    taken = server.hand_in("ada", {"greeting.py": SOLUTION}).json
    assert taken["about"]["greeting"].endswith(", late: 1 late day used, 4 left")
    assert "more time in the exam Midterm: ada until 20" in server.log_tail
    assert " and eve until 20" in server.log_tail
    server.judged("ada", taken["id"])
    server.judged("ada", by_page(server, "ada", {"word_count.py": COUNTING}).json["id"])
    yield server
    server.stop()


def test_a_student_sees_open_past_and_upcoming_assignments(under_way: Served) -> None:
    home = under_way.ask("GET", "/", "ada").body.decode()
    order = ["The term so far", "Midterm <span", "Week1 <span", "Upcoming", "Week3</strong> opens"]
    places = [home.index(each) for each in order]
    assert places == sorted(places)
    assert "past due, graded" in home and "Late days left: 4 of 5." in home
    assert "If late: 10 % lost for each day begun." in home
    # One hour late uses a late day, so it costs no points.
    assert "week1 2.5 / 2.5 = 100 %, weight 2: 100" in home
    assert (
        "midterm 10 / 10 = 100 %, may be handed in until" in home
        and "100 %</strong></span>, A" in home
    )
    standing = under_way.ask("GET", "/api/standing", "ada").json
    assert standing["term"] == {"total": 100, "letter": "A", "why": "", "provisional": False}
    states = {each["id"]: each["state"] for each in standing["assignments"]}
    assert states == {"week1": "past", "midterm": "open", "week3": "upcoming"}
    exam = next(each for each in standing["assignments"] if each["id"] == "midterm")
    # Ada has an extension of half an hour.
    left = datetime.datetime.fromisoformat(exam["until"]) - datetime.datetime.now(datetime.UTC)
    assert exam["until"] > exam["due"] and abs(exam["seconds_left"] - left.total_seconds()) < 900
    other = under_way.ask("GET", "/api/standing", "eve").json
    assert other["term"]["total"] == 0 and other["late_days_left"] == 5


def test_practice_does_not_count_in_totals(serving: Serving) -> None:
    served = term(serving, assignment("week1", ["greeting"]), assignment("week2", ["running_mean"]))
    handed = served.hand_in("ada", {"greeting.py": SOLUTION, "word_count.py": COUNTING}).json
    served.judged("ada", handed["id"])
    standing = served.ask("GET", "/api/standing", "ada").json
    (row, *_) = served.ask("GET", "/api/staff/students", "staff").json
    assert [(each["score"], each["max_score"]) for each in (standing, row)] == [(2.5, 10)] * 2
    assert (
        row["term"]
        == standing["term"]
        == {"total": 50, "letter": "", "why": "", "provisional": False}
    )
    for path, who in (("/", "ada"), ("/class/students/ada", "staff")):
        assert b"<strong>2.5</strong> of 10</span> points" in served.ask("GET", path, who).body
    assert b'nowrap">practice</span>' in served.ask("GET", "/class/students/ada", "staff").body
    assert b"Counting words, practice" in served.ask("GET", "/class", "staff").body
    shown = grade("show", str(served.results), "ada").stdout
    assert "Total: 2.5 of 10 points" in shown


def test_the_start_names_students_with_extra_time_in_an_exam() -> None:
    course = load_course(PLAIN)
    exam = CourseAssignment(
        id="exam",
        title="Exam",
        exercises=("greeting", "word_count"),
        opens=NOW,
        due=NOW + HOUR,
        exam=Exam(),
    )
    course = msgspec.structs.replace(course, assignments=(exam,))
    more = Extension(student="eve", exercises=("word_count",), until=NOW + 2 * HOUR)
    due = Due(at=NOW + HOUR)
    policy = Policy(Rules(due=(due,)), course.chapter_of, given=(more,))
    (note,) = _extra_time(course, policy, [StudentInfo(id="ada"), StudentInfo(id="eve")])
    assert note.startswith("Extensions give more time in the exam Exam: eve until 20")


def test_a_course_without_assignments_has_no_term(served: Served) -> None:
    standing = served.ask("GET", "/api/standing", "eve").json
    assert (standing["assignments"], standing["term"]) == ([], None)
    home = served.ask("GET", "/", "eve").body.decode()
    assert 'id="exercises"' in home and "term" not in home


def test_staff_sees_the_whole_term_or_one_assignment(under_way: Served) -> None:
    page = under_way.ask("GET", "/class", "staff").body.decode()
    assert '<abbr title="Week1">week1</abbr>' in page
    rows = {each["id"]: each for each in under_way.ask("GET", "/api/staff/students", "staff").json}
    of_ada = rows["ada"]["assignments"]
    assert {name: each["score"] for name, each in of_ada.items()} == {
        "week1": 2.5,
        "midterm": 10,
        "week3": 0,
    }
    # The sum covers only opened assignments.
    assert (rows["ada"]["score"], rows["ada"]["max_score"]) == (12.5, 12.5)
    # The total equals that on the student's own page.
    assert '<td class="num">100 %, A</td>' in page and '<td class="num">0 %, F</td>' in page
    for who, total in (("ada", 100), ("eve", 0)):
        own_term = under_way.ask("GET", "/api/standing", who).json["term"]
        assert rows[who]["term"] == own_term and own_term["total"] == total
    own = under_way.ask("GET", "/class/students/ada", "staff").body.decode()
    assert "<strong>12.5</strong> of 12.5" in own
    # Staff also sees the student's term.
    assert "100 %</strong></span>, A" in own and "week1 2.5 / 2.5 = 100 %, weight 2: 100" in own
    assert of_ada["week3"]["absent"] and rows["eve"]["assignments"]["week1"]["absent"]
    part = under_way.ask("GET", "/class?assignment=week1", "staff").body.decode()
    assert "<h1>Plain Python and NumPy: Week1</h1>" in part
    # Other assignments are not in its tables, nor among new submissions.
    assert "running_mean" not in part and "word_count" not in part
    assert ">1 of 3<" in part
    assert under_way.ask("GET", "/class?assignment=week7", "staff").status == 404
    assert under_way.ask("GET", "/class?assignment=week1", "ada").status == 403
    pressed = form(under_way, "/class", "staff", do="resume", assignment="week1")
    assert pressed.headers["Location"] == "/class?assignment=week1"


@pytest.mark.thorough
@pytest.mark.parametrize("size", SIZES, ids=["phone", "desk"])
def test_the_pages_of_a_term_are_accessible_and_fit(
    browser: Chrome, under_way: Served, axe: str, size: tuple[int, int]
) -> None:
    light(browser)
    resize(browser, size)
    find = (
        "const done = arguments[0];"
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
        ".then(r => done(r.violations.map(v => v.id + ': ' + v.nodes[0].html)))"
    )
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for who, path in (
        ("ada", "/"),
        ("ada", "/exercise/word_count"),
        ("staff", "/class"),
        ("staff", "/class?assignment=week1"),
    ):
        sign_out(browser, under_way)
        console(browser)
        sign_in(browser, under_way, who)
        browser.get(address(under_way, path))
        browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.execute_script(axe)
        assert browser.execute_async_script(find) == [], path
        assert browser.execute_script(wide) <= 0, path
        if who == "ada":
            left = browser.find_element(By.CSS_SELECTOR, "[data-seconds]")
            until(browser, lambda _, left=left: re.fullmatch(r"0\d:\d\d:\d\d left", left.text))  # type: ignore[misc]
        assert console(browser, under_way) == [], path
    browser.get("about:blank")
