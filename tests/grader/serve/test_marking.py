"""Marking by a rubric on the page: claims, conflicts, drafts, rights, and the keyboard."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from grader.course.manifest import load_course
from grader.gradebook import Gradebook, marking
from grader.gradebook.anonymous import pseudonyms_of
from grader.gradebook.corrections import Correction
from grader.gradebook.corrections_file import corrections_text, read_corrections
from grader.gradebook.facts import Remarks
from grader.gradebook.tokens import Role
from grader.serve.claims import CLAIM_SECONDS, Claimed, Claims
from grader.serve.desk import Desk
from grader.serve.http import Refusal
from grader.serve.roles import Asker
from tests.grader.serve.conftest import PLAIN, SOLUTION, Answer, Served, marked
from tests.grader.serve.test_browser import address, sign_in, text_of, until
from tests.grader.serve.test_chaos import a_desk, lines_before_kills, with_a_verdict
from tests.grader.serve.test_exercise import keys, tab_to, view
from tests.grader.serve.test_pages import console
from tests.grader.serve.test_requests import form
from tests.grader.serve.test_staff import HOSTILE

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

__all__ = ["view"]

MARK = "/class/mark/greeting"
FIELD = re.compile(r'<input type="hidden" name="(file|seen)" value="([\w-]+)">')


def with_files(served: Served) -> Served:
    """Start the server and submit a file of each student."""
    served.start()
    for number, who in enumerate(("ada", "bob", "eve")):
        source = f"# {who}: {HOSTILE}\n".encode() + marked(number)
        served.judged(who, served.hand_in(who, {"greeting.py": source}).json["id"])
    return served


@pytest.fixture
def busy(serving: Callable[..., Served]) -> Served:
    return with_files(serving())


def opened(served: Served, who: str, query: str = "") -> tuple[str, dict[str, str]]:
    """Open the page. Returns its text and the hidden fields of its form."""
    answer = served.ask("GET", MARK + query, who)
    assert answer.status == 200, answer
    text = answer.body.decode()
    return text, dict(FIELD.findall(text))


def owner_of(served: Served, fields: dict[str, str]) -> str:
    """The id of the student whose file the form shows."""
    with Gradebook.open_beside_writer(served.results) as book:
        named = pseudonyms_of(book)
        return next(s.id for s in book.students() if named(s.id) == fields["file"])


def send(
    served: Served, who: str, fields: Mapping[str, str], do: str, *items: str, **more: str
) -> Answer:
    given = {**fields, **dict.fromkeys((f"item-{key}" for key in items), "on"), "do": do, **more}
    return form(served, MARK, who, **given)


def marks(served: Served) -> list[Correction]:
    return list(read_corrections(corrections_text(served.results), Path("corrections")))


def test_each_file_is_given_to_one_person_and_its_mark_counts(
    busy: Served,
) -> None:
    people = ("staff", "owner", "assistant")
    # The assistant gets the only file of section A.
    _, third = opened(busy, "assistant")
    assert owner_of(busy, third) == "ada"
    _, first = opened(busy, "staff")
    _, second = opened(busy, "owner")
    assert [owner_of(busy, each) for each in (first, second)] == ["bob", "eve"]
    # On a reload, the same person gets the same file.
    assert opened(busy, "staff")[1] == first
    for who, fields in zip(people, (first, second, third), strict=True):
        sent = send(busy, who, fields, "next", "d", line="2", text="Name it.")
        assert sent.status == 303
        assert sent.headers["Location"].endswith(f"after={fields['file']}")
    made = {each.student: each for each in marks(busy)}
    assert {name: each.author for name, each in made.items()} == {
        "bob": "prof",
        "eve": "owner",
        "ada": "assistant",
    }
    for each in made.values():
        assert (each.add, each.comment, len(each.marked)) == (-1.0, "Line 2: Name it.", 64)
        assert each.reason == "The names do not say <b>what</b> things are."
    assert "No file is left to mark." in opened(busy, "staff")[0]
    home = busy.ask("GET", "/", "ada").body.decode()
    assert "Line 2: Name it." in home and "<b>what</b>" not in home
    # `again` shows marked files, and a new mark replaces the old one.
    text, again = opened(busy, "staff", "?again=1")
    assert "Marked by <bdi>assistant</bdi>" in text
    assert send(busy, "staff", again, "next").status == 303
    assert [each.add for each in marks(busy) if each.student == "ada"] == [0.0]


def test_answers_are_saved_at_once_and_skipped_files_come_again(busy: Served) -> None:
    _, fields = opened(busy, "staff")
    saved = send(busy, "staff", fields, "draft", "d")
    assert saved.status == 200 and saved.json["seen"] != fields["seen"]
    # The old state is refused: it would overwrite answers of another person or tab.
    assert send(busy, "staff", fields, "draft", "1").status == 409
    fields["seen"] = saved.json["seen"]
    assert send(busy, "staff", fields, "add", "d", line="1", text="Why?").status == 303
    text, fields = opened(busy, "staff")
    assert 'data-key="d" data-points="-1.0" checked' in text and "Line 1: Why?" in text
    assert (
        send(busy, "staff", fields, "remove-0", "d", **{"comment-0": "Line 1: Why?"}).status == 303
    )
    text, fields = opened(busy, "staff")
    assert "Line 1: Why?" not in text
    skipped = send(busy, "staff", fields, "skip", "d", "1")
    _, other = opened(busy, "staff", "?" + skipped.headers["Location"].partition("?")[2])
    assert other["file"] != fields["file"]
    # The skipped file comes round again, and another person finds the answers so far.
    text, once_more = opened(busy, "owner")
    assert once_more["file"] == fields["file"] and text.count(" checked>") == 3
    assert send(busy, "staff", other, "stop").headers["Location"] == "/class"
    assert marks(busy) == []


def test_two_people_with_one_file_lose_nothing(busy: Served) -> None:
    """This happens after a break longer than a claim, or after the server restarts."""
    _, mine = opened(busy, "staff")
    assert busy.stop() == 0
    busy.start()
    _, theirs = opened(busy, "owner")
    assert theirs == mine
    # Somebody else has the file.
    refused = send(busy, "staff", mine, "next", "d", text="My text.")
    told = refused.body.decode()
    assert refused.status == 409 and "owner has this file now" in told
    assert 'value="My text."' in told and 'data-key="d" data-points="-1.0" checked' in told
    assert send(busy, "staff", mine, "draft", "d").status == 409
    assert send(busy, "owner", theirs, "next", "1").status == 303
    # Then the file is free, but has a mark that the first page does not show.
    refused = send(busy, "staff", mine, "next", "d", text="My text.")
    told = refused.body.decode()
    assert refused.status == 409 and "Nothing was saved" in told
    assert "Marked by <bdi>owner</bdi>" in told and 'value="My text."' in told
    assert [each.author for each in marks(busy)] == ["owner"]
    fields = dict(FIELD.findall(told))
    assert send(busy, "staff", fields, "next", "d", text="My text.").status == 303
    (mark,) = marks(busy)
    assert (mark.author, mark.add, mark.comment) == ("prof", -1.0, "My text.")


def test_a_newer_file_is_not_marked_unread(busy: Served) -> None:
    _, fields = opened(busy, "assistant")
    busy.judged("ada", busy.hand_in("ada", {"greeting.py": marked(77)}).json["id"])
    refused = send(busy, "assistant", fields, "next", "d")
    assert refused.status == 409 and "# 77" in refused.body.decode()
    assert marks(busy) == []
    stub = (PLAIN / "exercises" / "text" / "greeting.py").read_bytes()
    busy.hand_in("ada", {"greeting.py": stub})
    assert send(busy, "assistant", fields, "next", "d").status in (404, 409)
    assert marks(busy) == []


def test_an_equal_file_of_another_section_is_separate(
    serving: Callable[..., Served],
) -> None:
    served = serving().start()
    for who in ("ada", "bob"):
        served.judged(who, served.hand_in(who, {"greeting.py": SOLUTION}).json["id"])
    _, of_ada = opened(served, "staff")
    assert owner_of(served, of_ada) == "ada"
    send(served, "staff", of_ada, "stop")
    _, of_bob = opened(served, "owner", f"?after={of_ada['file']}")
    assert owner_of(served, of_bob) == "bob"
    assert send(served, "owner", of_bob, "add", "d", text="bob copied this from eve").status == 303
    text, fields = opened(served, "assistant")
    assert (
        owner_of(served, fields) == "ada"
        and "copied this" not in text
        and 'data-points="-1.0" checked' not in text
    )
    assert send(served, "assistant", fields, "next", text="well done").status == 303
    text, fields = opened(served, "owner")
    assert owner_of(served, fields) == "bob" and "copied this from eve" in text
    assert [mark.student for mark in marks(served)] == ["ada"]


def test_anonymous_marking_shows_no_name(busy: Served) -> None:
    text, fields = opened(busy, "assistant", "?anonymous=1")
    head, code = text.split('<div class="code"')[0], text.split("</pre>")[1]
    assert fields["file"].startswith("anon-") and f'<h2 id="file">{fields["file"]}</h2>' in text
    assert not re.findall(r"\bada\b", head + code, re.IGNORECASE)
    sent = form(busy, f"{MARK}?anonymous=1", "assistant", **fields, do="next")
    assert "anonymous=1" in sent.headers["Location"]


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ({"do": "next", "line": "999", "text": "x"}, 422, "The file has lines 1 to"),
        ({"do": "next", "line": "-1", "text": "x"}, 422, "The file has lines 1 to"),
        ({"do": "next", "line": "²", "text": "x"}, 422, "The file has lines 1 to"),
        ({"do": "erase"}, 400, "no such button"),
        ({"do": "next", "seen": ""}, 409, "Nothing was saved"),
        ({"do": "next", "file": "anon-aaaaaaaa"}, 404, "no such student"),
        ({"do": "next", "file": "ada"}, 404, "no such student"),
        ({"do": "draft", "seen": "0"}, 409, "error"),
        ({"do": "next", "text": "x" * 2_000_000}, 413, "larger than"),
    ],
    ids=range(9),
)
def test_an_invalid_mark_is_refused(
    rubrics: Served, more: dict[str, str], status: int, said: str
) -> None:
    _, fields = opened(rubrics, "staff")
    answer = form(rubrics, MARK, "staff", **{**fields, "item-d": "on", **more})
    assert (answer.status, said in answer.body.decode()) == (status, True), answer
    if status == 422:
        assert 'data-key="d" data-points="-1.0" checked' in answer.body.decode()
    assert marks(rubrics) == []


@pytest.fixture(scope="module")
def rubrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with files, for tests that mark none of them."""
    server = with_files(Served(tmp_path_factory.mktemp("rubrics")))
    yield server
    server.stop()


def test_a_file_of_another_section_is_not_found(rubrics: Served) -> None:
    with Gradebook.open_beside_writer(rubrics.results) as book:
        bob = pseudonyms_of(book)("bob")
        student = book.student("bob")
        assert student is not None
        file = marking.file_of(book, student, "greeting")
        assert file is not None
        state = marking.state_of(book, file)
    for do in ("next", "draft", "skip", "add"):
        answers = [
            send(rubrics, "assistant", {"file": name, "seen": state}, do, "d")
            for name in (bob, "anon-aaaaaaaa")
        ]
        assert answers[0].status == answers[1].status == 404
        assert answers[0].body == answers[1].body
    assert marks(rubrics) == []


def test_an_exercise_without_a_rubric_says_where_to_write_one(rubrics: Served) -> None:
    answer = rubrics.ask("GET", "/class/mark/word_count", "staff")
    assert answer.status == 404 and "There is no rubric at" in answer.body.decode()
    assert rubrics.ask("GET", "/class/mark/nothing", "staff").status == 404
    page = rubrics.ask("GET", "/class", "staff").body.decode()
    assert 'href="/class/mark/greeting"' in page and "/class/mark/word_count" not in page
    assert "/class/mark/" not in rubrics.ask("GET", "/class", "observer").body.decode()


# --- claims ---------------------------------------------------------------------------------------


def files(names: Sequence[str], exercise: str = "glu") -> list[Claimed]:
    return [Claimed(exercise, name) for name in names]


def test_a_claim_expires_after_the_last_answer() -> None:
    now = 0.0
    claims = Claims(clock=lambda: now)
    assert claims.take("kim", files("ab")) == files("a")[0]
    assert claims.take("lee", files("ab")) == files("b")[0]
    assert claims.take("max", files("ab")) is None
    assert claims.renew("max", "glu", "a") == "kim"
    now = CLAIM_SECONDS - 1
    assert claims.renew("kim", "glu", "a") == ""
    now = CLAIM_SECONDS + 1
    # Lee's claim has expired, so Max can take the file.
    assert claims.take("max", files("ab")) == files("b")[0]
    assert claims.renew("lee", "glu", "b") == "max"
    claims.drop("lee", "glu", "b")
    assert claims.holders("glu") == ["kim", "max"]
    claims.drop("max", "glu", "b")
    assert claims.renew("lee", "glu", "b") == ""
    # One person may claim a file of each exercise.
    assert claims.take("lee", files("c")) == files("c")[0]
    assert claims.take("lee", files("x", "gelu")) == files("x", "gelu")[0]
    assert (claims.own("lee", "glu"), claims.own("lee", "gelu")) == ("c", "x")
    assert claims.take("max", files("b")) == files("b")[0]


# --- killed -----------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_confirmed_answers_and_marks_survive_a_kill_at_any_statement(memory_path: Path) -> None:
    """The steps are two drafts of answers, a mark, and a mark that replaces it."""
    course, results = load_course(PLAIN), memory_path / "results"
    rubric = marking.Rubric(
        (marking.RubricItem("d", -1.0, "one"), marking.RubricItem("e", -0.5, "two"))
    )
    prof = Asker(Role.INSTRUCTOR, name="prof")
    steps = [Remarks(("d",)), Remarks(("d",), ("Line 1: x",)), Remarks(("d", "e")), Remarks(("e",))]

    def act(desk: Desk, book: Gradebook, say: Callable[[str], object]) -> None:
        name = pseudonyms_of(book)("ada")
        for place, answers in enumerate(steps):
            student = book.student("ada")
            assert student is not None
            file = marking.file_of(book, student, "greeting")
            assert file is not None
            state = marking.state_of(book, file)
            if place < 2:
                desk.staff.keep_remarks(prof, "greeting", name, state, answers)
            else:
                desk.staff.mark(prof, rubric, "greeting", name, state, answers)
            say("+")
        with pytest.raises(Refusal):
            desk.staff.mark(prof, rubric, "greeting", name, "an older state", answers)

    confirmed_before = set()
    for said in lines_before_kills(course, results, act, with_a_verdict):
        confirmed = len(said)
        confirmed_before.add(confirmed)
        with a_desk(course, results) as (desk, book):
            desk.open()
            drafts, made = [each.remarks for each in book.facts.mark_drafts], book.corrections()
            # The gradebook has the confirmed state or the next one.
            known = {each.add for each in made if each.marked}
            if confirmed < 2:
                assert known == set()
                assert drafts in ([*steps[confirmed - 1 : confirmed]], [steps[confirmed]])
            elif confirmed == 2:
                assert (known, drafts) in (
                    (set(), [steps[1]]),
                    ({-1.5}, [steps[1]]),
                    ({-1.5}, []),
                )
            else:
                assert known in ({-1.5}, {-0.5})
                assert drafts == []
    assert confirmed_before == set(range(len(steps)))


# --- in the browser ---------------------------------------------------------------------------------


@pytest.fixture
def served(rubrics: Served) -> Served:
    """The server of the fixture `view`."""
    return rubrics


@pytest.mark.thorough
def test_files_can_be_marked_by_keyboard(view: Chrome, busy: Served, served: Served) -> None:
    view.get(address(busy))
    while view.switch_to.active_element.get_attribute("id") != "token":
        keys(view, Keys.TAB)
    keys(view, busy.staff, Keys.ENTER)
    until(view, lambda v: v.find_elements(By.ID, "queue"))
    tab_to(view, "Mark greeting")
    keys(view, Keys.ENTER)
    until(view, lambda v: "3 of 3 files left." in text_of(v))
    assert view.execute_script("return window.alerted") is None
    assert "<script>alert(1)</script>" in view.find_element(By.CLASS_NAME, "code").text
    keys(view, "1", "d", "1")
    until(view, lambda v: v.find_element(By.ID, "said").text == "Saved")
    assert view.find_element(By.ID, "sum").text == "−1"  # noqa: RUF001 (a minus)
    # In a text field, keys are text.
    keys(view, "c")
    keys(view, "2", Keys.TAB, "ndsq: say what it greets")
    keys(view, Keys.ENTER)
    until(view, lambda v: "Line 2: ndsq: say what it greets" in text_of(v))
    assert view.find_element(By.CSS_SELECTOR, "[data-key=d]").is_selected()
    # The form is sent while the answer is still being saved, and waits for it.
    keys(view, "1", "n")
    until(view, lambda v: "2 of 3 files left." in text_of(v))
    keys(view, "s")
    until(view, lambda v: "Eve Test" in text_of(v))
    keys(view, "n")
    until(view, lambda v: "1 of 3 files left." in text_of(v))
    keys(view, "c", "x", Keys.ESCAPE, "q")
    until(view, lambda v: v.current_url.endswith("/class"))
    made = {each.student: each for each in marks(busy)}
    assert {name: each.add for name, each in made.items()} == {"ada": -1.5, "eve": 0.0}
    assert made["ada"].comment == "Line 2: ndsq: say what it greets"


@pytest.mark.thorough
def test_keys_can_be_switched_off_and_a_click_chooses_a_line(view: Chrome, served: Served) -> None:
    sign_in(view, served, "owner")
    view.get(address(served, MARK))
    view.find_element(By.ID, "line-3").click()
    assert view.find_element(By.ID, "line").get_attribute("value") == "3"
    keys(view, "n", Keys.ESCAPE)
    assert view.find_element(By.ID, "text").get_attribute("value") == "n"
    view.find_element(By.ID, "use-keys").click()
    keys(view, "d", "n")
    assert not view.find_element(By.CSS_SELECTOR, "[data-key=d]").is_selected()
    view.refresh()
    keys(view, "d")
    assert not view.find_element(By.ID, "use-keys").is_selected()
    assert not view.find_element(By.CSS_SELECTOR, "[data-key=d]").is_selected()
    view.find_element(By.ID, "use-keys").click()
    keys(view, "d")
    assert view.find_element(By.CSS_SELECTOR, "[data-key=d]").is_selected()
    keys(view, "d")
    until(view, lambda v: v.find_element(By.ID, "said").text == "Saved")
    assert marks(served) == []


@pytest.mark.thorough
def test_an_expired_claim_keeps_the_answers_on_the_page(
    view: Chrome, busy: Served, served: Served
) -> None:
    sign_in(view, busy, "staff")
    view.get(address(busy, MARK))
    assert busy.stop() == 0
    busy.start()
    assert opened(busy, "owner")[1]["file"]
    keys(view, "d")
    told = "owner has this file now"
    until(view, lambda v: told in v.find_element(By.ID, "said").text)
    keys(view, "n")
    until(view, lambda v: told in v.find_element(By.CSS_SELECTOR, "[role=alert]").text)
    assert view.find_element(By.CSS_SELECTOR, "[data-key=d]").is_selected()
    # The browser logs the status 409 as an error. The page has explained it.
    assert all("409" in entry["message"] for entry in console(view))
