"""Pushing to Moodle with prepared answers: the points and comments that are read and sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from grader.errors import UsageError
from grader.exports.push import moodle
from grader.exports.push.client import PushError, Refused
from grader.exports.push.comparison import Change, Mine, There
from grader.exports.push.moodle import Moodle, _as_written

ADDRESS = "https://moodle.example.edu/mod/assign/view.php?id=56"
TOKEN = {"MOODLE_TOKEN": "s3cret"}
COMMENTS = {
    "plugin": "comments",
    "subtype": "assignfeedback",
    "name": "enabled",
    "value": "1",
}
ADA = There(user="7", name="Ada", cells={}, points=3.0)


class Answer(msgspec.Struct):
    value: Any


class Client:
    """Answer by the name of the function, and record the fields of each call."""

    address = "https://moodle.example.edu"

    def __init__(self, *_: object) -> None:
        self.answers: dict[str, Any] = {
            "core_course_get_course_module": {
                "cm": {"course": 4, "instance": 9, "modname": "assign"}
            },
        }
        self.assignment: dict[str, Any] = {"id": 9, "name": "Lab 1", "grade": 20}
        self.calls: list[tuple[str, dict[str, str]]] = []

    def read(self, url: str, fields: Sequence[tuple[str, str]]) -> Answer:
        given = dict(fields)
        function = given.pop("wsfunction")
        self.calls.append((function, given))
        if function == "mod_assign_get_assignments" and function not in self.answers:
            other = {"id": 8, "grade": 5}
            return Answer({"courses": [{"assignments": [other, self.assignment]}]})
        answer = self.answers[function]
        return Answer(answer.pop(0) if isinstance(answer, list) else answer)

    def ask(self, method: str, url: str, fields: Sequence[tuple[str, str]]) -> Answer:
        assert method == "POST"
        return self.read(url, fields)

    def clean(self, text: str) -> str:
        return text

    def words_of(self, body: bytes) -> str:
        return body.decode()


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(moodle, "Client", lambda *_: made)
    return made


def opened(client: Client, **assignment: Any) -> Moodle:
    client.assignment |= assignment
    return Moodle(ADDRESS, TOKEN)


def grades(*rows: tuple[int, float, int]) -> dict[str, Any]:
    names = "userid", "grade", "attemptnumber"
    return {"assignments": [{"grades": [dict(zip(names, row, strict=True)) for row in rows]}]}


def test_the_address_opens_its_assignment(client: Client) -> None:
    platform = opened(client)
    assert (platform.worth, platform.address) == (20, ADDRESS)
    assert client.calls[0][1]["cmid"] == "56"
    assert client.calls[1][1]["courseids[0]"] == "4"
    assert all(fields["wstoken"] == "s3cret" for _, fields in client.calls)


def test_activities_without_points_are_refused(client: Client) -> None:
    with pytest.raises(UsageError, match="graded by a scale, or not at all"):
        opened(client, grade=-3)
    with pytest.raises(UsageError, match="graded by a scale, or not at all"):
        opened(client, grade=0)
    with pytest.raises(PushError, match="may not see"):
        opened(client, id=10)
    client.answers["core_course_get_course_module"]["cm"]["modname"] = "quiz"
    with pytest.raises(UsageError, match="is not an assignment in Moodle"):
        opened(client)


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ({}, ["at once, and may get a message", "No comments are sent"]),
        ({"configs": [COMMENTS]}, ["at once"]),
        ({"configs": [{**COMMENTS, "value": "0"}]}, ["at once", "No comments are sent"]),
        ({"configs": [COMMENTS], "markingworkflow": 1}, ["is 'released'"]),
        ({"configs": [COMMENTS], "gradepenalty": 1}, ["at once", "takes off points for lateness"]),
    ],
)
def test_notes_say_what_students_see(
    client: Client, assignment: dict[str, Any], told: list[str]
) -> None:
    notes = opened(client, **assignment).notes
    assert len(notes) == len(told)
    assert all(words in note for words, note in zip(told, notes, strict=True))


def test_points_are_of_the_newest_attempt_and_minus_one_means_none(client: Client) -> None:
    platform = opened(client)
    client.answers["mod_assign_get_grades"] = grades((7, 9, 1), (7, 4, 0), (8, -1, 0), (9, 0, 0))
    assert platform.points() == {"7": 9, "8": None, "9": 0}


def test_students_are_read_in_pages_until_nobody_is_new(client: Client) -> None:
    platform = opened(client)
    client.answers |= {
        "mod_assign_get_grades": grades((7, 9, 0)),
        "mod_assign_get_user_mappings": {"assignments": [{"mappings": [{"id": 70, "userid": 7}]}]},
        # A short page is not the last one, and a user may be listed twice.
        "core_enrol_get_enrolled_users": [
            [{"id": 7, "fullname": "Ada L", "email": "ADA@x.org", "username": "Ada"}],
            [{"id": 7, "fullname": "Ada L"}, {"id": 8, "fullname": "Bob", "idnumber": "B8"}],
            [{"id": 8, "fullname": "Bob", "idnumber": "B8"}],
        ],
    }
    ada, bob = platform.students()
    assert (ada.user, bob.user, ada.points, bob.points) == ("7", "8", 9, None)
    assert (ada.cells["identifier"], bob.cells["identifier"]) == ("70", "")
    assert bob.cells["idnumber"] == "b8"
    begins = [f["options[1][value]"] for name, f in client.calls if name.startswith("core_enrol")]
    assert begins == ["0", "200", "400"]


def status(points: float | None, *comments: str) -> dict[str, Any]:
    plugins = [
        {"type": "file", "editorfields": [{"text": "no comment"}]},
        {"type": "comments", "editorfields": [{"text": text} for text in comments]},
    ]
    grade = {} if points is None else {"grade": {"userid": 7, "grade": points}}
    return {"feedback": {**grade, "plugins": plugins}}


def test_a_student_is_read_with_points_and_comment(client: Client) -> None:
    platform = opened(client, configs=[COMMENTS])
    client.answers["mod_assign_get_submission_status"] = status(5, "Well done.")
    read = platform.student(ADA)
    assert (read.points, read.comments, read.is_hidden) == (5, ("Well done.",), False)
    client.answers["mod_assign_get_submission_status"] = {"feedback": None}
    read = platform.student(ADA)
    assert (read.points, read.comments) == (3, ()), "the points were read a moment ago"
    client.answers["mod_assign_get_grades"] = grades((7, 6, 0))
    assert platform.student(read).points == 6, "the points are read again"


@pytest.mark.parametrize(
    ("state", "is_graded", "takes_comments", "is_hidden"),
    [
        ("inmarking", True, True, True),
        ("released", True, True, False),
        ("inmarking", False, True, False),
        ("inmarking", True, False, False),
    ],
)
def test_unreleased_feedback_may_hide_a_comment(
    client: Client, state: str, is_graded: bool, takes_comments: bool, is_hidden: bool
) -> None:
    configs = [COMMENTS] if takes_comments else []
    platform = opened(client, configs=configs, markingworkflow=1)
    flags = [{"userid": 7, "workflowstate": state}]
    client.answers |= {
        "mod_assign_get_grades": grades((7 if is_graded else 8, 6, 0)),
        "mod_assign_get_user_mappings": {},
        "mod_assign_get_user_flags": {"assignments": [{"userflags": flags}]},
        "core_enrol_get_enrolled_users": [[{"id": 7}], []],
        "mod_assign_get_submission_status": {"feedback": None},
    }
    (there,) = platform.students()
    assert platform.student(there).is_hidden == is_hidden


def sent(client: Client, platform: Moodle, comment: str, *there: str) -> dict[str, str]:
    client.answers["mod_assign_save_grades"] = None
    mine = Mine(student="ada", points=8.5, comment=comment, begins=())
    platform.send(Change(msgspec.structs.replace(ADA, comments=there), mine, True, bool(comment)))
    return {name.removeprefix("grades[0]"): value for name, value in client.calls[-1][1].items()}


TEXT = "[plugindata][assignfeedbackcomments_editor][text]"


def test_without_a_new_comment_the_old_one_is_saved_again(
    client: Client,
) -> None:
    platform = opened(client, configs=[COMMENTS])
    fields = sent(client, platform, "<p>New.</p>", "Old.")
    assert (fields["[grade]"], fields["[userid]"], fields[TEXT]) == ("8.5", "7", "<p>New.</p>")
    wrapped = '<div class="no-overflow"><p>Old.</p></div>'
    assert sent(client, platform, "", wrapped)[TEXT] == "<p>Old.</p>"
    assert sent(client, platform, "")[TEXT] == ""
    assert TEXT not in sent(client, opened(client, configs=[]), "", "Old.")


def test_the_state_of_the_marking_workflow_stays(client: Client) -> None:
    platform = opened(client, markingworkflow=1)
    flags = [{"userid": 7, "workflowstate": "inmarking"}]
    client.answers |= {
        "mod_assign_get_grades": grades(),
        "mod_assign_get_user_mappings": {},
        "mod_assign_get_user_flags": {"assignments": [{"userflags": flags}]},
        "core_enrol_get_enrolled_users": [[]],
    }
    assert platform.students() == []
    assert sent(client, platform, "")["[workflowstate]"] == "inmarking"


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        ("invalidtoken", PushError, "refuses the token"),
        ("accessexception", PushError, "or a function is not in its service"),
        ("invalidparameter", Refused, "Moodle refuses: "),
    ],
)
def test_exceptions_of_moodle_are_about_the_token_or_the_student(
    client: Client, code: str, kind: type[Exception], told: str
) -> None:
    platform = opened(client)
    client.answers["mod_assign_save_grades"] = {"exception": "x", "errorcode": code}
    mine = Mine(student="ada", points=1, comment="", begins=())
    with pytest.raises(kind, match=told):
        platform.send(Change(ADA, mine, True, False))
    # An exception while reading is about no student.
    client.answers["mod_assign_get_grades"] = {"exception": "x", "errorcode": code}
    with pytest.raises(PushError):
        platform.points()


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ('<div class="no-overflow"><p>a</p>\n<p>b</p></div>', "<p>a</p>\n<p>b</p>"),
        ("<p>a</p>", "<p>a</p>"),
        ('x<div class="no-overflow">a</div>', 'x<div class="no-overflow">a</div>'),
        ("", ""),
    ],
)
def test_the_wrapper_of_a_comment_is_removed(shown: str, written: str) -> None:
    assert _as_written(shown) == written
