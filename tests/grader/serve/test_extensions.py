"""Extensions given on a student's page or by API: their effect, rights, conflicts, and durability."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from grader.course.manifest import load_course
from grader.gradebook import Gradebook
from grader.gradebook.corrections_file import corrections_text, read_file
from grader.gradebook.extending import state_of
from grader.gradebook.tokens import Role
from grader.results import StudentInfo
from grader.serve.desk import Desk
from grader.serve.roles import Asker
from tests.grader.serve.conftest import PLAIN, SOLUTION, Answer, Served, marked
from tests.grader.serve.test_chaos import a_desk, lines_before_kills, with_a_verdict
from tests.grader.serve.test_requests import form
from tests.grader.serve.test_staff import HOSTILE, address, page, score, work

__all__ = ["work"]

# Due long ago, so that a file submitted now does not count.
POLICY = """\
timezone = "Europe/Berlin"
[late]
closes = "1 day"
[[due]]
at = 2026-01-12T12:00:00
"""
ASSIGNMENTS = """\
timezone = "Europe/Berlin"
[[assignment]]
id = "week1"
title = "Week 1"
chapters = ["text"]
due = 2026-01-12T12:00:00
[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["running_mean"]
due = 2026-01-19T12:00:00
"""
LATER = "2066-12-03T23:59"
API = "/api/staff/extensions"


@pytest.fixture
def late(serving: Callable[..., Served]) -> Served:
    """A server to which ada submitted two files, both too late."""
    served = serving(policy=POLICY).start()
    for number in (1, 2):
        files = {"greeting.py": marked(number)}
        served.judged("ada", served.hand_in("ada", files).json["id"])
    return served


def seen(text: str) -> str:
    """The state of the extensions that a page shows."""
    found = re.search(r'id="extensions".*?name="seen" value="(\w+)"', text, re.DOTALL)
    assert found is not None
    return found[1]


def give(served: Served, student: str, who: str, state: str, **fields: str) -> Answer:
    given = {"do": "extend", "seen": state, "name": "greeting", "until": LATER, "reason": "ill"}
    return form(served, address(student), who, **{**given, **fields})


def kept(served: Served) -> list[tuple[str, tuple[str, ...], str, str]]:
    """The extensions in the file: student, exercises, reason and author."""
    read = read_file(corrections_text(served.results), Path("corrections"))
    return [(e.student, e.exercises, e.reason, e.author) for e in read.extension]


def due(served: Served, who: str) -> dict[str, tuple[str, str]]:
    """When each exercise is due in the student's own standing, with the reason of an extension."""
    exercises = served.ask("GET", "/api/standing", who).json["exercises"]
    return {each["name"]: (each["until"], each["extended"]) for each in exercises}


def test_an_extension_counts_at_once_and_the_student_sees_it(late: Served) -> None:
    assert score(late, "ada") == 0
    shown = page(late, "ada", "assistant")
    assert "No extensions were given here" in shown and "Until (Europe/Berlin)" in shown
    answer = give(late, "ada", "assistant", seen(shown))
    assert (answer.status, answer.headers["Location"]) == (303, "/class/students/ada#extensions")
    assert kept(late) == [("ada", ("greeting",), "ill", "assistant")]
    assert score(late, "ada") == 2.5
    times = due(late, "ada")
    assert times["greeting"] == ("2066-12-03T22:59:00Z", "ill")
    assert times["word_count"][1] == "" and due(late, "bob")["greeting"][1] == ""
    home = late.ask("GET", "/", "ada").body.decode()
    assert "(extended: <bdi>ill</bdi>)" in home
    shown = page(late, "ada", "observer")
    assert "until 2066-12-03 23:59 CET for greeting" in shown and "by <bdi>assistant</bdi>" in shown
    assert "Give more time" not in shown and "take-extension-back" not in shown
    # A restart and an export keep it.
    assert late.stop() == 0
    late.start()
    assert score(late, "ada") == 2.5
    done = CliRunner().invoke(main, ["export", str(late.results), "--format", "csv"])
    assert re.search(r"^ada,.*2\.5", done.output, re.MULTILINE), done.output
    back = give(late, "ada", "owner", seen(page(late, "ada")), do="take-extension-back", number="0")
    assert back.status == 303 and kept(late) == [] and score(late, "ada") == 0


def test_all_exercises_can_be_extended_and_only_to_a_later_time(late: Served) -> None:
    assert give(late, "ada", "staff", seen(page(late, "ada")), name="").status == 303
    (made,) = kept(late)
    assert set(made[1]) == set(due(late, "ada")) and len(made[1]) > 1
    shorter = give(late, "ada", "staff", seen(page(late, "ada")), until="2060-01-01T00:00")
    told = shorter.body.decode()
    assert shorter.status == 422 and "An extension only gives more time" in told
    assert 'value="2060-01-01T00:00"' in told and 'value="ill"' in told
    longer = give(late, "ada", "staff", seen(page(late, "ada")), until="2070-01-01T00:00")
    assert longer.status == 303
    assert due(late, "ada")["greeting"][0].startswith("2069-12-31T23:00")
    assert due(late, "ada")["word_count"][0].startswith("2066-12-03")


def test_an_assignment_of_a_course_can_be_extended(
    serving: Callable[..., Served],
) -> None:
    served = serving(policy="")
    served.course = served.folder / "course"
    shutil.copytree(PLAIN, served.course)
    (served.course / "exercises" / "assignments.toml").write_text(ASSIGNMENTS, encoding="utf-8")
    served.start()
    shown = page(served, "ada")
    assert '<option value="week1">all of Week 1</option>' in shown
    assert "all exercises" not in shown
    assert give(served, "ada", "staff", seen(shown), name="week1").status == 303
    assert kept(served) == [("ada", ("word_count", "greeting"), "ill", "prof")]
    times = due(served, "ada")
    assert times["greeting"] == times["word_count"] == ("2066-12-03T22:59:00Z", "ill")
    assert times["running_mean"] == ("2026-01-19T11:00:00Z", "")


def test_a_note_says_if_an_extension_includes_an_exam(
    serving: Callable[..., Served], work: Path
) -> None:
    served = serving(policy="")
    served.course = served.folder / "course"
    shutil.copytree(PLAIN, served.course)
    exam = ASSIGNMENTS.replace("\ndue", "\nopens = 2026-01-11T12:00:00\nexam = {}\ndue", 1)
    (served.course / "exercises" / "assignments.toml").write_text(exam, encoding="utf-8")
    served.start()
    shown = page(served, "ada")
    assert '<option value="week1">all of Week 1, an exam</option>' in shown
    assert '<option value="week2">all of Week 2</option>' in shown
    assert '<option value="greeting">greeting, in the exam Week 1</option>' in shown
    note = "This is also extra time in Week 1, which is an exam."
    server = f"http://127.0.0.1:{served.port}"
    done = CliRunner().invoke(main, ["login", server], input=f"{served.staff}\n")
    assert done.exit_code == 0, done.output
    options = ("--until", LATER, "--reason", "ill")
    assert note not in output_of("--server", server, "ada", "week2", *options)
    assert note in output_of("--server", server, "ada", *options)
    served.stop()
    assert note not in output_of(str(served.results), "bob", "week2", *options)
    assert note in output_of(str(served.results), "bob", *options)


def output_of(*words: str) -> str:
    """The output of `grade adjust`."""
    done = CliRunner().invoke(main, ["adjust", *words])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_a_replaced_file_is_judged_if_an_extension_makes_it_count(
    serving: Callable[..., Served],
) -> None:
    """A limit of one attempt makes the first file count, which was never judged."""
    served = serving(policy='timezone = "UTC"\n[[due]]\nat = 2066-01-01T00:00:00\n').start()
    served.pause()
    for number in (1, 2):
        served.hand_in("ada", {"greeting.py": marked(number)})
    served.stop()
    limit = 'max_attempts = 1\ntimezone = "UTC"\n[[due]]\nat = 2066-01-01T00:00:00\n'
    (served.course / "exercises" / "policy.toml").write_text(limit, encoding="utf-8")
    served.start()
    served.resume()
    assert give(served, "ada", "staff", seen(page(served, "ada"))).status == 303
    first = served.ask("GET", "/api/standing", "ada").json["submissions"][-1]["id"]
    assert served.judged("ada", first)["result"]["score"] == 2.5
    assert score(served, "ada") == 2.5


def test_a_conflict_between_two_people_keeps_the_input(late: Served) -> None:
    both = seen(page(late, "ada"))
    assert give(late, "ada", "owner", both, reason="the first").status == 303
    second = give(late, "ada", "staff", both, until="2067-01-01T10:00", reason="the second")
    told = second.body.decode()
    assert second.status == 409 and "somebody else changed an extension" in told
    assert "the first" in told and 'value="the second"' in told
    assert 'value="2067-01-01T10:00"' in told
    assert [reason for *_, reason, _ in kept(late)] == ["the first"]
    back = {"do": "take-extension-back", "number": "0"}
    assert give(late, "ada", "staff", both, **back).status == 409
    # An extension of another student is no conflict.
    mine = seen(told)
    assert give(late, "bob", "staff", seen(page(late, "bob"))).status == 303
    assert give(late, "ada", "staff", mine, **back).status == 303
    assert [student for student, *_ in kept(late)] == ["bob"]


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"reason": " "}, 422, "Give a reason"),
        ({"until": ""}, 422, "Write a date and a time"),
        ({"until": "2066-12-03"}, 422, "Write a date and a time"),
        ({"until": "0001-01-01T00:00"}, 422, "out of range"),
        ({"until": "9999-12-31T23:59:59Z"}, 422, "out of range"),
        ({"name": "nothing"}, 422, "neither an exercise nor an assignment"),
        ({"seen": ""}, 409, "Nothing was changed"),
        ({"do": "take-extension-back", "number": "7"}, 422, "no such extension"),
        ({"do": "take-extension-back", "number": "-1"}, 422, "no such change"),
    ],
    ids=range(9),
)
def test_an_invalid_form_changes_nothing(
    dated: Served, fields: dict[str, str], status: int, said: str
) -> None:
    answer = give(dated, "eve", "staff", seen(page(dated, "eve")), **fields)
    assert (answer.status, said in answer.body.decode()) == (status, True), answer
    assert kept(dated) == []


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for tests that leave it as it is."""
    served = Served(tmp_path_factory.mktemp("dated"), policy=POLICY).start()
    yield served
    served.stop()


def test_students_of_another_section_are_not_found(dated: Served) -> None:
    state = seen(page(dated, "bob"))
    for student in ("bob", "nobody"):
        answer = give(dated, student, "assistant", state)
        assert answer.status == 404 and b"There is no such student." in answer.body
        assert dated.ask("GET", f"{API}?student={student}", "assistant").status == 404
        sent = json.dumps(
            {"student": student, "seen": state, "until": f"{LATER}:00", "reason": "x"}
        )
        assert dated.ask("POST", API, "assistant", sent.encode()).status == 404
    assert kept(dated) == []


def test_without_due_times_nothing_can_be_extended(served: Served) -> None:
    shown = page(served, "eve")
    assert "Nothing is due here." in shown and "Give more time" not in shown
    state = served.ask("GET", f"{API}?student=eve", "staff").json
    assert (state["due"], state["choices"]) == ([], [])
    answer = give(served, "eve", "staff", state["seen"])
    assert answer.status == 422 and "never due" in answer.body.decode()


def test_reasons_are_escaped(late: Served) -> None:
    assert give(late, "ada", "staff", seen(page(late, "ada")), reason=HOSTILE).status == 303
    refused = give(late, "ada", "staff", "", reason=HOSTILE).body.decode()
    home = late.ask("GET", "/", "ada").body.decode()
    for text in (refused, page(late, "ada"), home):
        assert "<script>alert" not in text and "\x1b" not in text and '" onfocus="' not in text
        assert "{{ 7 * 7 }}" in text


def test_students_can_submit_despite_a_mistake_in_the_file(late: Served) -> None:
    file = late.results / "corrections.toml"
    file.write_text("[[extension]]\nstudent = 3\n", encoding="utf-8")
    assert late.hand_in("bob", {"greeting.py": SOLUTION}).status == 202
    # The page says why it shows no points. The log says where the mistake is.
    for who, path in (("bob", "/"), ("staff", "/class"), ("bob", "/api/standing")):
        told = late.ask("GET", path, who)
        assert told.status == 503 and b"The file of corrections has a mistake" in told.body
    assert "corrections.toml, line 2" in late.log.read_text(encoding="utf-8")
    file.write_text("", encoding="utf-8")
    assert late.ask("GET", "/class", "staff").status == 200


# --- the same for programs ------------------------------------------------------------------------


def test_programs_must_send_the_state_they_saw(late: Served) -> None:
    def sent(who: str = "assistant", **fields: object) -> Answer:
        body = {"student": "ada", "until": f"{LATER}:00", "reason": "x", **fields}
        return late.ask("POST", API, who, json.dumps(body).encode())

    state = late.ask("GET", f"{API}?student=ada", "observer").json
    assert state["name"] == "Ada Test" and ["", "all exercises"] in state["choices"]
    assert {each["until"] for each in state["due"]} == {"2026-01-12T11:00:00Z"}
    made = sent(seen=state["seen"], name="greeting")
    assert made.status == 200
    (extension,) = made.json["extensions"]
    assert extension["until"] == "2066-12-03T23:59:00+01:00"
    assert (extension["exercises"], extension["author"]) == (["greeting"], "assistant")
    # The request is repeated, as if the answer was lost, and counts once.
    again = sent(seen=state["seen"], name="greeting")
    assert again.status == 409 and len(kept(late)) == 1
    now = made.json["seen"]
    for fields, status in (
        ({"seen": now, "until": None}, 422),
        ({"seen": now, "take_back": 0}, 422),
        ({"seen": now, "until": None, "take_back": -1}, 422),
        ({"seen": now, "until": None, "take_back": 7}, 422),
        ({"seen": now, "until": "soon"}, 400),
        ({"seen": now, "author": "me"}, 400),
        ({"seen": now, "reason": ""}, 422),
    ):
        assert sent(**fields).status == status, fields
    assert sent(who="observer", seen=now).status == 403
    back = sent(seen=now, until=None, take_back=0)
    assert back.status == 200 and back.json["extensions"] == [] and kept(late) == []


def test_grade_adjust_extends_on_a_running_server(late: Served, work: Path) -> None:
    here = f"http://127.0.0.1:{late.port}"

    def adjust(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["adjust", "--server", here, *arguments])

    done = CliRunner().invoke(main, ["login", here], input=f"{late.tokens['assistant']}\n")
    assert done.exit_code == 0
    done = adjust("ada", "text/greeting.py", "--until", LATER, "--reason", "ill")
    assert done.exit_code == 0, done.output
    assert "Ada Test" in done.output
    assert "more time until 2066-12-03 23:59 CET for greeting" in " ".join(done.output.split())
    assert kept(late) == [("ada", ("greeting",), "ill", "assistant")]
    for arguments, said in (
        (("bob", "greeting", "--until", LATER, "--reason", "x"), "no such student"),
        (("ada", "greeting", "--until", LATER, "--reason", "x"), "only gives more time"),
        (("ada", "greeting", "--until", "soon", "--reason", "x"), "--until"),
        (("ada", "greeting", "--until", LATER), "--reason"),
    ):
        refused = adjust(*arguments)
        assert refused.exit_code == 2, (arguments, refused.output)
        assert said in " ".join(refused.output.split()), (arguments, refused.output)
    assert len(kept(late)) == 1


# --- killed ---------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_a_confirmed_extension_survives_a_kill_at_any_statement(
    memory_path: Path, tmp_path: Path
) -> None:
    shutil.copytree(PLAIN, tmp_path / "course")
    (tmp_path / "course" / "exercises" / "policy.toml").write_text(POLICY, encoding="utf-8")
    course, results = load_course(tmp_path / "course"), memory_path / "results"
    prof = Asker(Role.INSTRUCTOR, name="prof")
    reasons = [f"reason {number}" for number in range(2)]

    def act(desk: Desk, book: Gradebook, say: Callable[[str], object]) -> None:
        for number, reason in enumerate(reasons):
            until = datetime.datetime(2066 + number, 1, 1)
            state = state_of(book, StudentInfo(id="ada"))
            desk.staff.extend(prof, "ada", "greeting", state, until=until, reason=reason)
            say("+")

    confirmed_before = set()
    for said in lines_before_kills(course, results, act, with_a_verdict):
        confirmed = len(said)
        confirmed_before.add(confirmed)
        with a_desk(course, results) as (desk, book):
            desk.open()
            there = [made.reason for made in book.extensions()]
            assert there in (reasons[:confirmed], reasons[: confirmed + 1])
            written = (results / "results" / "ada.json").read_text(encoding="utf-8")
            assert (reasons[len(there) - 1] in written) is bool(there)
    assert confirmed_before == set(range(len(reasons)))
