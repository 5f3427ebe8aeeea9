"""Corrections of points on a student's page, by API and by `grade adjust`: rights and conflicts."""

from __future__ import annotations

import errno
import json
import os
import re
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from grader.course.manifest import load_course
from grader.errors import GraderError
from grader.gradebook import Gradebook
from grader.gradebook.adjusting import state_of
from grader.gradebook.corrections import Kind
from grader.gradebook.corrections_file import corrections_text, read_corrections
from grader.gradebook.tokens import Role
from grader.serve.app import _refusal
from grader.serve.desk import Desk
from grader.serve.roles import Asker
from tests.grader.serve.conftest import PLAIN, SOLUTION, Answer, Served, marked
from tests.grader.serve.test_chaos import a_desk, lines_before_kills, with_a_verdict
from tests.grader.serve.test_requests import form

HELD = b"import ctypes\n\n\n" + SOLUTION
COUNTS_CHARACTERS = PLAIN / "tests" / "wrong" / "text" / "word_count" / "characters.py"
COUNTS_WORDS = PLAIN / "solutions" / "text" / "word_count.py"
HOSTILE = '</textarea><script>alert(1)</script>\x1b[2J\u202e{{ 7 * 7 }}" onfocus="x'


@pytest.fixture
def taught(serving: Callable[..., Served]) -> Served:
    """A server with a right answer of ada and of bob."""
    served = serving(policy="").start()
    for who in ("ada", "bob"):
        served.judged(who, served.hand_in(who, {"greeting.py": SOLUTION}).json["id"])
    return served


def address(student: str) -> str:
    return f"/class/students/{urllib.parse.quote(student, safe='')}"


def page(served: Served, student: str, who: str = "staff") -> str:
    answer = served.ask("GET", address(student), who)
    assert answer.status == 200, answer
    return answer.body.decode()


def seen(text: str, exercise: str = "greeting") -> str:
    """The state of an exercise that a page shows."""
    found = re.search(
        rf'name="exercise" value="{exercise}"><input[^>]* name="seen" value="(\w+)"', text
    )
    assert found is not None
    return found[1]


def change(served: Served, student: str, who: str, state: str, **fields: str) -> Answer:
    fields = {"do": "adjust", "exercise": "greeting", "seen": state, "how": "add", **fields}
    return form(served, address(student), who, **fields)


def kept(served: Served) -> list[tuple[str, Kind, str, str]]:
    """The corrections in the file: student, kind, reason and author."""
    made = read_corrections(corrections_text(served.results), Path("corrections"))
    return [(each.student, each.kind, each.reason, each.author) for each in made]


def score(served: Served, who: str) -> float:
    exercises = served.ask("GET", "/api/standing", who).json["exercises"]
    return float(next(each["score"] for each in exercises if each["name"] == "greeting"))


def test_a_correction_has_reason_and_author_and_can_be_undone(taught: Served) -> None:
    shown = page(taught, "ada")
    assert "Ada Test" in shown and "<strong>counts</strong>" in shown and "def greeting" in shown
    answer = change(
        *(taught, "ada", "assistant", seen(shown)),
        points="-0,5",
        reason="copied the tests",
        comment="See me.",
    )
    assert (answer.status, answer.headers["Location"]) == (303, "/class/students/ada#ex-greeting")
    assert score(taught, "ada") == 2.0
    assert kept(taught) == [("ada", Kind.ADD, "copied the tests", "assistant")]
    home = taught.ask("GET", "/", "ada").body.decode()
    assert "copied the tests" in home and "See me." in home
    shown = page(taught, "ada", "observer")
    assert "0.5 points taken off" in shown and "by <bdi>assistant</bdi>" in shown
    assert '<form method="post">' not in shown and "Change points" not in shown
    shown = page(taught, "ada")
    back = change(taught, "ada", "owner", seen(shown), do="undo", number="0")
    assert back.status == 303 and kept(taught) == [] and score(taught, "ada") == 2.5


def test_held_points_are_released_for_this_file_only(taught: Served) -> None:
    taught.judged("bob", taught.hand_in("bob", {"greeting.py": HELD}).json["id"])
    shown = page(taught, "bob")
    assert "These points are held" in shown
    nothing = change(taught, "bob", "staff", seen(shown), do="release", reason=" ")
    assert nothing.status == 422 and "Give a reason" in nothing.body.decode()
    fields = {"do": "release", "reason": "it only measures the memory"}
    assert change(taught, "bob", "staff", seen(shown), **fields).status == 303
    assert kept(taught) == [("bob", Kind.RELEASE, "it only measures the memory", "prof")]
    shown = page(taught, "bob")
    assert "These points are held" not in shown
    again = change(taught, "bob", "staff", seen(shown), **fields)
    assert again.status == 422 and "no held points" in again.body.decode()
    taught.judged("bob", taught.hand_in("bob", {"greeting.py": HELD + b"# other\n"}).json["id"])
    assert "These points are held" in page(taught, "bob")


def test_a_conflict_between_two_people_keeps_the_input(taught: Served) -> None:
    both = seen(page(taught, "ada"))
    first = change(taught, "ada", "owner", both, points="1", how="points", reason="the first")
    assert first.status == 303
    second = change(taught, "ada", "staff", both, points="-1", reason="the second", comment="Hm.")
    told = second.body.decode()
    assert second.status == 409 and "Nothing was changed" in told
    # The page shows the current state and keeps the typed text.
    assert "set to 1 point" in told and "the first" in told
    assert 'value="-1"' in told and 'value="the second"' in told and ">Hm.</textarea>" in told
    assert len(kept(taught)) == 1
    # Sending the new form works.
    now = change(
        taught, "ada", "staff", seen(told), points="0.5", how="points", reason="the second"
    )
    assert now.status == 303 and score(taught, "ada") == 0.5
    assert [reason for *_, reason, _ in kept(taught)] == ["the first", "the second"]


def test_a_newer_file_is_a_conflict(taught: Served) -> None:
    before = seen(page(taught, "ada"))
    taught.judged("ada", taught.hand_in("ada", {"greeting.py": marked(7)}).json["id"])
    assert change(taught, "ada", "staff", before, points="1", reason="x").status == 409
    after = seen(page(taught, "ada"))
    assert change(taught, "ada", "staff", after, do="undo", number="0").status == 422
    assert change(taught, "ada", "staff", after, points="-1", reason="x").status == 303


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"points": "2", "how": "points"}, 422, "Give a reason"),
        ({"points": "3", "how": "points", "reason": "x"}, 422, "must be from 0 to 2.5"),
        ({"points": "-3", "reason": "x"}, 422, "from -2.5 to 2.5"),
        ({"points": "nan", "reason": "x"}, 422, "Points are a number"),
        ({"points": "1e999", "reason": "x"}, 422, "Points are a number"),
        ({"points": "two", "reason": "x"}, 422, "Points are a number"),
        ({"points": "1", "how": "drop", "reason": "x"}, 422, "added or set"),
        ({"reason": "x"}, 422, "Nothing would change"),
        ({"exercise": "nothing", "points": "1", "reason": "x"}, 422, "was not graded here"),
        ({"seen": "", "points": "1", "reason": "x"}, 409, "Nothing was changed"),
        ({"do": "undo", "number": "-1"}, 422, "no such change"),
        ({"do": "undo", "number": "7"}, 422, "no such change"),
        ({"do": "erase"}, 400, "no such button"),
        ({"reason": "x" * 100_000, "points": "1"}, 413, "larger than"),
    ],
    ids=range(14),
)
def test_an_invalid_form_changes_nothing(
    served: Served, fields: dict[str, str], status: int, said: str
) -> None:
    state = seen(page(served, "eve"))
    answer = change(served, "eve", "staff", state, **fields)
    assert (answer.status, said in answer.body.decode()) == (status, True), answer
    assert kept(served) == []


def test_students_of_another_section_are_not_found(taught: Served) -> None:
    state = seen(page(taught, "bob"))
    answers = [
        (
            taught.ask("GET", address(student), "assistant"),
            change(taught, student, "assistant", state, points="-1", reason="x"),
            change(taught, student, "assistant", state, do="undo", number="0"),
        )
        for student in ("bob", "nobody")
    ]
    for of_bob, of_nobody in zip(*answers, strict=True):
        assert of_bob.status == of_nobody.status == 404
        assert of_bob.body == of_nobody.body
    assert kept(taught) == []


def test_names_reasons_and_files_are_escaped(serving: Callable[..., Served]) -> None:
    served = serving()
    odd = "a/../b?c#d%2e &"
    roster = served.folder / "class.csv"
    quoted = HOSTILE.replace('"', '""').replace("\x1b", "")
    roster.write_text(
        roster.read_text(encoding="utf-8") + f'"{odd}","{quoted}",x@example.org,,A\n',
        encoding="utf-8",
    )
    served.start()
    source = f"# {HOSTILE}\n".encode() + SOLUTION
    served.judged("ada", served.hand_in("ada", {"greeting.py": source}).json["id"])
    fields = {"points": "-1", "reason": HOSTILE, "comment": HOSTILE}
    # A refused form is shown again, also escaped.
    refused = change(served, "ada", "staff", "", **fields).body.decode()
    assert change(served, "ada", "staff", seen(page(served, "ada")), **fields).status == 303
    links = re.findall(r'href="(/class/students/[^"]*)"', page_of_class(served))
    (link,) = (each for each in links if urllib.parse.unquote(each).endswith(odd))
    of_odd = served.ask("GET", link, "assistant")
    assert of_odd.status == 200
    for text in (refused, page(served, "ada"), of_odd.body.decode(), page_of_class(served)):
        assert "<script>alert" not in text and "\x1b" not in text and "\u202e" not in text
        assert '" onfocus="' not in text
    for text in (refused, page(served, "ada")):
        assert "{{ 7 * 7 }}" in text


def page_of_class(served: Served) -> str:
    return served.ask("GET", "/class", "staff").body.decode()


def test_the_class_page_says_that_a_batch_did_not_finish(
    serving: Callable[..., Served],
) -> None:
    served = serving().start()
    assert "Not finished" not in page_of_class(served)
    served.stop()
    with Gradebook.open_to_write(served.results) as book:
        book.change(unread=("week1.zip",))
    served.start()
    assert "The grading of week1.zip into" in page_of_class(served)


def test_corrections_of_other_students_are_no_conflict(taught: Served) -> None:
    for who in ("bob", "ada"):
        fields = {"points": "-1", "reason": f"for {who}"}
        assert change(taught, who, "staff", seen(page(taught, who)), **fields).status == 303
    state = seen(page(taught, "ada"))
    back = {"do": "undo", "number": "0"}
    assert change(taught, "bob", "owner", seen(page(taught, "bob")), **back).status == 303
    assert change(taught, "ada", "staff", state, **back).status == 303
    assert kept(taught) == []


@pytest.mark.skipif(os.name != "posix", reason="limits")
def test_a_full_disk_changes_nothing_and_gives_507(memory_path: Path) -> None:
    course, results = load_course(PLAIN), memory_path / "results"
    prof = Asker(Role.INSTRUCTOR, name="prof")
    with a_desk(course, results) as (desk, book):
        with_a_verdict(desk, course)
        state = state_of(book, "ada", "greeting")
        # As if the disk were full, the file cannot be written.
        with (
            patch("grader.files.os.replace", side_effect=OSError(errno.ENOSPC, "no space left")),
            pytest.raises(GraderError) as raised,
        ):
            desk.staff.adjust(prof, "ada", "greeting", state, add=-1.0, reason="x")
        assert _refusal(raised.value).status_code == 507
        assert book.corrections() == ()
        desk.staff.adjust(prof, "ada", "greeting", state, add=-1.0, reason="x")
        assert len(book.corrections()) == 1


# --- the same for programs ------------------------------------------------------------------------


ADDRESS = "/api/staff/corrections"


def asked(served: Served, student: str, who: str = "staff", exercise: str = "greeting") -> Answer:
    query = urllib.parse.urlencode({"student": student, "exercise": exercise})
    return served.ask("GET", f"{ADDRESS}?{query}", who)


def sent(served: Served, who: str, **fields: object) -> Answer:
    body = {"student": "ada", "exercise": "greeting", **fields}
    return served.ask("POST", ADDRESS, who, json.dumps(body).encode())


def test_programs_must_send_the_state_they_saw(taught: Served) -> None:
    state = asked(taught, "ada", "assistant").json
    assert (state["name"], state["score"], state["held"]) == ("Ada Test", 2.5, False)
    made = sent(taught, "assistant", seen=state["seen"], add=-1, reason="x")
    assert made.status == 200 and made.json["score"] == 1.5
    # The request is repeated, as if the answer was lost, and counts once.
    again = sent(taught, "assistant", seen=state["seen"], add=-1, reason="x")
    assert again.status == 409 and "Nothing was changed" in again.json["error"]
    assert kept(taught) == [("ada", Kind.ADD, "x", "assistant")]
    for fields, status in (
        ({"seen": made.json["seen"], "add": -1}, 422),
        ({"seen": made.json["seen"], "points": 99, "reason": "x"}, 422),
        ({"seen": made.json["seen"], "points": 1, "add": 1, "reason": "x"}, 422),
        ({"seen": made.json["seen"], "drop": "test_x", "reason": "x"}, 400),
        ({"seen": made.json["seen"], "author": "me", "reason": "x"}, 400),
        ({"add": -1, "reason": "x"}, 400),
        ({"seen": made.json["seen"], "exercise": "nothing", "add": 1, "reason": "x"}, 422),
    ):
        assert sent(taught, "staff", **fields).status == status, fields
    for who in ("bob", "nobody"):
        assert asked(taught, who, "assistant").status == 404
        assert sent(taught, "assistant", student=who, seen="", add=1, reason="x").status == 404
    assert len(kept(taught)) == 1


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a member of staff, with a separate configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_grade_adjust_corrects_points_on_a_running_server(taught: Served, work: Path) -> None:
    here = f"http://127.0.0.1:{taught.port}"

    def adjust(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["adjust", "--server", here, *arguments])

    fields = ("ada", "text/greeting.py", "--add", "-1", "--reason", "see below")
    unknown = adjust(*fields)
    assert unknown.exit_code == 2 and f"grade login {here}" in unknown.output
    done = CliRunner().invoke(main, ["login", here], input=f"{taught.tokens['assistant']}\n")
    assert done.exit_code == 0 and "Signed in as assistant, assistant:" in done.output
    done = adjust(*fields)
    assert done.exit_code == 0, done.output
    assert "Ada Test" in done.output and "2.5 to 1.5 of 2.5 points" in done.output
    assert kept(taught) == [("ada", Kind.ADD, "see below", "assistant")]
    for arguments, said in (
        (("bob", "greeting", "--add", "-1", "--reason", "x"), "no such student"),
        (("ada", "greeting", "--points", "9", "--reason", "x"), "from 0 to 2.5"),
        (("ada", "greeting", "--points", "2"), "--reason"),
        (("ada", "greeting", "--release", "--reason", "x"), "no held points"),
        (("ada", "--add", "1", "--reason", "x"), "STUDENT and EXERCISE"),
        (("ada", "greeting", "--undo"), "--undo does not go with --server"),
        (("greeting", "--all", "--give", "test_x", "--reason", "x"), "role owner or instructor"),
        (("--list",), "--list does not go with --server"),
    ):
        refused = adjust(*arguments)
        assert refused.exit_code == 2, (arguments, refused.output)
        assert said in " ".join(refused.output.split()), (arguments, refused.output)
    assert len(kept(taught)) == 1
    taught.judged("ada", taught.hand_in("ada", {"greeting.py": HELD}).json["id"])
    done = adjust("ada", "greeting", "--release", "--reason", "it only measures the memory")
    assert done.output.splitlines()[0].endswith("greeting: released"), done.output
    # A folder has only one writer.
    folder = CliRunner().invoke(main, ["adjust", str(taught.results), *fields])
    assert folder.exit_code == 3 and "Another grading writes" in folder.output
    taught.stop()
    folder = CliRunner().invoke(main, ["adjust", str(taught.results), *fields])
    assert folder.exit_code == 0 and len(kept(taught)) == 3
    more = ("ada", "greeting", "--add", "2", "--reason", "shown")
    again = [CliRunner().invoke(main, ["adjust", str(taught.results), *more]) for _ in range(2)]
    lines = [each.output.splitlines()[1:] for each in again]
    assert lines[0] == ["0.5 to 2.5 of 2.5 points"]
    assert (
        lines[1][0] == "as before, 2.5 of 2.5 points" and "points stay between 0 and" in lines[1][1]
    )


def test_grade_adjust_corrects_the_class_on_a_running_server(
    serving: Callable[..., Served], work: Path
) -> None:
    served = serving(policy="").start()
    wrong, right = COUNTS_CHARACTERS.read_bytes(), COUNTS_WORDS.read_bytes()
    for who, source in (("ada", wrong), ("bob", right)):
        served.judged(who, served.hand_in(who, {"word_count.py": source}).json["id"])
    here = f"http://127.0.0.1:{served.port}"
    CliRunner().invoke(main, ["login", here], input=f"{served.staff}\n")

    def adjust(*arguments: str) -> Result:
        options = ("--server", here, "--all", "text/word_count.py")
        return CliRunner().invoke(main, ["adjust", *options, *arguments])

    test = "test_random_texts"
    done = adjust("--give", test, "--reason", "unclear")
    assert done.exit_code == 0, done.output
    assert f"all word_count: {test} given to all" in done.output
    assert "1 gained, 0 lost, 2 as before" in done.output and "Ada Test" in done.output
    assert kept(served) == [("", Kind.GIVE, "unclear", "prof")]
    again = adjust("--give", test, "--reason", "unclear")
    assert again.exit_code == 2 and "take that back first" in " ".join(again.output.split())
    # Refused: options that need the folder, and invalid ones.
    for arguments, said in (
        (("--undo", "--number", "1"), "--number does not go with --server"),
        (("--points", "1", "--reason", "x"), "--points is for one student"),
        (("--give", "test_nothing", "--reason", "x"), "no test 'test_nothing'"),
        (("--undo", "--drop", "test_nothing"), "about test_nothing to take back"),
    ):
        refused = adjust(*arguments)
        assert refused.exit_code == 2, (arguments, refused.output)
        assert said in " ".join(refused.output.split()), (arguments, refused.output)
    taken_back = adjust("--undo")
    assert f"all word_count: taken back: {test} given to all" in taken_back.output
    assert "0 gained, 1 lost, 2 as before" in taken_back.output and kept(served) == []
    added = adjust("--add", "-1", "--reason", "late")
    assert "0 gained, 2 lost" in added.output


def test_a_correction_of_the_class_needs_the_state_seen(taught: Served) -> None:
    path = "/api/staff/corrections/class"
    state = taught.ask("GET", f"{path}?exercise=greeting", "staff").json
    assert [each["student"] for each in state["students"] if each["score"]] == ["ada", "bob"]

    def answered(who: str = "staff", **fields: object) -> Answer:
        body = {"exercise": "greeting", "seen": state["seen"], **fields}
        return taught.ask("POST", path, who, json.dumps(body).encode())

    assert answered("assistant", add=-1, reason="x").status == 403
    assert answered(add=-1, drop="test_x", reason="x").status == 422
    assert answered(add=-1).status == answered().status == 422
    assert answered(points=1, reason="x").status == 400
    assert answered(add=-1, reason="x").status == 200
    # The request is repeated, as if the answer was lost, and counts once.
    assert answered(add=-1, reason="x").status == answered(undo=True).status == 409
    assert kept(taught) == [("", Kind.ADD, "x", "prof")]
    assert taught.ask("GET", f"{path}?exercise=nothing", "staff").status == 404


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_confirmed_correction_survives_a_kill_at_any_statement(memory_path: Path) -> None:
    course, results = load_course(PLAIN), memory_path / "results"
    prof = Asker(Role.INSTRUCTOR, name="prof")
    reasons = [f"reason {number}" for number in range(3)]

    def act(desk: Desk, book: Gradebook, say: Callable[[str], object]) -> None:
        for reason in reasons:
            state = state_of(book, "ada", "greeting")
            desk.staff.adjust(prof, "ada", "greeting", state, add=0.1, reason=reason)
            say("+")

    confirmed_before = set()
    for said in lines_before_kills(course, results, act, with_a_verdict):
        confirmed = len(said)
        confirmed_before.add(confirmed)
        with a_desk(course, results) as (desk, book):
            desk.open()
            there = [made.reason for made in book.corrections()]
            # Confirmed changes are on the disk. One more may be, without its answer.
            assert there in (reasons[:confirmed], reasons[: confirmed + 1])
            entry = book.entry_of("ada")
            assert entry is not None
            (result,) = (e for e in entry.result.exercises if e.name == "greeting")
            added = [each for each in result.mark.reasons if "added" in each] if result.mark else []
            assert result.mark is None or len(added) == len(there)
            written = (results / "results" / "ada.json").read_text(encoding="utf-8")
            assert [reason for reason in reasons if reason in written] == there
    assert confirmed_before == set(range(len(reasons)))


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check that a test leaves no correction on the shared server."""
    yield
    if "served" in request.fixturenames:
        assert kept(request.getfixturevalue("served")) == []
