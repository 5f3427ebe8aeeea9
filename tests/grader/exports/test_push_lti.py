"""`grade push --lti`: the column of a link, the students of its course, and expiring tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grader.exports.push.lti import LINE_ITEM, RESULT, SCORE, TAG
from grader.gradebook import Gradebook
from grader.gradebook.tool_key import FILE
from grader.results import Status, StudentInfo
from tests.grader.builders import result
from tests.grader.command import invoke
from tests.grader.exports.classroom_of_push import (
    CLASS,
    FEW,
    FIRST,
    LAST,
    SECOND,
    THIRD,
    LtiPushing,
    School,
    info_of,
    kill_at,
    scores,
    verdict,
)
from tests.grader.exports.platforms import BEFORE, LtiServer, same, serving

LEARNER = "http://purl.imsglobal.org/vocab/lis/v2/membership#Learner"
TEACHER = "http://purl.imsglobal.org/vocab/lis/v2/membership#Instructor"
TEST_USER = "http://purl.imsglobal.org/vocab/lti/system/person#TestUser"


def everybody_has_points_and_one_comment(platform: LtiServer) -> bool:
    right = all(same(platform.grades[user], scores(CLASS)[user]) for user in platform.users)
    return right and all(len(platform.comments[user]) == 1 for user in platform.users)


# --- every student, once ------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("shown", [True, False])
def test_every_student_arrives_once_with_or_without_visible_comments(
    shown: bool, school: School, waits: list[float]
) -> None:
    school.grade(scores(CLASS))
    platform = LtiServer(CLASS)
    with serving(platform):
        push = LtiPushing(school, platform)
        platform.shows_comments, platform.refuse_every = shown, 5
        done = push()
    assert done.exit_code == 0, done.stderr
    assert f"{CLASS} students sent." in done.stdout
    assert everybody_has_points_and_one_comment(platform)
    assert platform.writes == dict.fromkeys(platform.users, 1)


def test_a_killed_push_sends_no_invisible_comment_twice(
    lti: LtiPushing,
) -> None:
    lti.platform.shows_comments = False
    kill_at(lti, 3)
    done = lti()
    assert done.exit_code == 0, done.stderr
    assert lti.platform.writes == dict.fromkeys(lti.platform.users, 1)
    lti.school.correct(FIRST, points=9.5)
    assert lti().exit_code == 0
    assert [len(lti.comments(user)) for user in lti.platform.users] == [2, 1, 1, 1]


def test_a_score_is_final_and_not_a_new_submission(lti: LtiPushing) -> None:
    nothing = verdict(0.0, status=Status.NOT_ATTEMPTED, settled=True)
    with Gradebook.open_to_write(lti.school.results) as book:
        book.begin(lti.school.course, result(nothing))
        book.keep_student(info_of(1999))
        book.finish(())
    lti.platform.users.append(1999)
    assert lti().exit_code == 0
    progress = {score["userId"]: score["activityProgress"] for score in lti.platform.scores}
    assert progress == dict.fromkeys((f"u{u}" for u in scores(FEW)), "Completed") | {
        "u1999": "Initialized"
    }
    for score in lti.platform.scores:
        assert score["https://canvas.instructure.com/lti/submission"] == {"new_submission": False}
        assert score["scoreMaximum"] == 10


# --- the column ---------------------------------------------------------------------------------------


@pytest.fixture
def unlinked(school: School, waits: list[float]) -> Any:
    """A push to a course in which the link has no column."""
    platform = LtiServer(FEW)
    platform.is_linked = False
    school.grade(scores(FEW))
    with serving(platform):
        yield LtiPushing(school, platform)


def test_a_link_without_a_column_gets_one_column(unlinked: LtiPushing) -> None:
    assert "the first score creates one" in unlinked("--dry-run").stderr
    assert not unlinked.platform.items
    assert unlinked().exit_code == 0
    (item,) = unlinked.platform.items.values()
    assert item["scoreMaximum"] == 10
    assert item["tag"] == TAG
    unlinked.school.correct(FIRST, points=9.5)
    assert unlinked().exit_code == 0
    assert len(unlinked.platform.items) == 1
    assert unlinked.platform.writes == {FIRST: 2, SECOND: 1, THIRD: 1, LAST: 1}


def test_a_column_is_made_once_even_if_the_answer_is_lost(unlinked: LtiPushing) -> None:
    made: list[str] = []

    def lost(path: str) -> Any:
        if path.startswith("/items?") and not made and unlinked.platform.requests[-1][0] == "POST":
            made.append(path)
            unlinked.platform._make(json.loads(unlinked.platform.requests[-1][2]))
            return 502, {}, b"<html>Bad gateway</html>"
        return None

    unlinked.platform.override = lost
    done = unlinked()
    assert done.exit_code == 0, done.stderr
    assert len(unlinked.platform.items) == len(made) == 1
    assert unlinked.platform.written == FEW


def test_a_new_column_has_the_maximum_from_out_of(unlinked: LtiPushing) -> None:
    unlinked.platform.worth = 5.0
    assert unlinked("--yes", "--out-of", "5").exit_code == 0
    (item,) = unlinked.platform.items.values()
    assert item["scoreMaximum"] == 5
    assert same(unlinked.platform.grades[SECOND], scores(FEW)[SECOND] / 2)


def test_points_are_scaled_to_a_column_that_may_not_be_read(
    school: School, waits: list[float]
) -> None:
    school.grade(scores(FEW))
    platform = LtiServer(FEW)
    platform.scopes, platform.worth = (RESULT, SCORE), 100.0
    with serving(platform):
        push = LtiPushing(school, platform)
        assert push().exit_code == 0
        assert same(platform.grades[SECOND], 10 * scores(FEW)[SECOND])
        again = push()
        assert "Nothing to send." in again.stdout
        assert "entered by a person" not in again.stderr
        school.correct(SECOND, points=9.5)
        assert push().exit_code == 0
        assert same(platform.grades[SECOND], 95)


def test_missing_permissions_are_named(unlinked: LtiPushing) -> None:
    told: tuple[tuple[dict[str, Any], str], ...] = (
        ({"scopes": (LINE_ITEM, SCORE)}, "does not allow this tool result.readonly"),
        ({"scopes": (RESULT, SCORE)}, "does not allow this tool to list columns"),
        ({"scopes": (f"{LINE_ITEM}.readonly", RESULT, SCORE)}, "does not allow this tool to make"),
        ({"lineitems": ""}, "no launch gave an address for grades"),
    )
    for changes, words in told:
        unlinked.launch(**changes)
        unlinked.platform.scopes = changes.get("scopes", unlinked.platform.scopes)
        done = unlinked()
        assert done.exit_code == 2
        assert words in done.stderr
    assert unlinked.platform.written == 0


# --- the students -------------------------------------------------------------------------------------


def test_only_active_learners_are_students(lti: LtiPushing) -> None:
    lti.platform.members = {
        FIRST: {"roles": [TEACHER]},
        SECOND: {"roles": [LEARNER, TEST_USER]},
        THIRD: {"status": "Inactive"},
        LAST: {"roles": ["Learner", TEACHER], "status": None},
    }
    done = lti()
    assert lti.platform.writes == {LAST: 1}
    assert f"s{FIRST}: is not among the students" in done.stderr


def test_a_user_who_launched_is_known_under_any_name(lti: LtiPushing) -> None:
    lti.platform.members = {FIRST: {"name": "Nick", "email": None}, SECOND: {"name": "Nobody"}}
    lti.launch(FIRST, f"s{FIRST}")
    done = lti()
    assert FIRST in lti.platform.grades
    assert SECOND not in lti.platform.grades
    assert f"s{SECOND}: is not among the students" in done.stderr


def test_an_address_with_lookalike_letters_is_another_address(lti: LtiPushing) -> None:
    """As at sign-in, the Kelvin sign is not a k, although its lower case is."""
    with Gradebook.open_to_write(lti.school.results) as book:
        for user in (FIRST, SECOND):
            info = info_of(user)
            book.keep_student(StudentInfo(id=info.id, email=f"kim{user}@uni.example"))
    lti.platform.members = {
        FIRST: {"name": "", "email": f"\u212aim{FIRST}@uni.example"},
        SECOND: {"name": "", "email": f"Kim{SECOND}@Uni.example"},
    }
    done = lti()
    assert FIRST not in lti.platform.grades
    assert SECOND in lti.platform.grades
    assert f"s{FIRST}: is not among the students" in done.stderr


def test_a_launch_decides_before_a_name(lti: LtiPushing) -> None:
    """The launch says that the first user of the platform is the second student."""
    lti.launch(FIRST, f"s{SECOND}")
    lti()
    assert same(lti.platform.grades[FIRST], scores(FEW)[SECOND])


def test_without_names_and_roles_only_users_who_launched_are_students(lti: LtiPushing) -> None:
    lti.launch(THIRD, f"s{THIRD}", memberships="")
    assert lti().exit_code == 0
    assert lti.platform.writes == {THIRD: 1}
    assert all("members" not in path for _, path, _ in lti.platform.requests)


def test_one_of_several_links_must_be_named(lti: LtiPushing) -> None:
    lti.launch(context="c2", context_title="Deep Learning 2", resource="r9")
    done = lti()
    assert done.exit_code == 2
    assert "Our LMS: Deep Learning 2: Lab 1" in done.stderr
    assert "No link has 'physics'" in lti("--yes", "--link", "physics").stderr
    assert lti.platform.written == 0
    assert lti("--yes", "--link", "r9").exit_code == 0
    assert lti.platform.written == FEW


def test_without_a_platform_the_error_says_how_to_add_one(school: School) -> None:
    school.grade(scores(FEW))
    done = invoke("push", str(school.results), "--lti", "--yes", cwd=school.results)
    assert done.exit_code == 2
    assert "grade platform add" in done.stderr


# --- tokens, and hostile platforms --------------------------------------------------------------------


def test_an_expired_token_is_replaced(lti: LtiPushing) -> None:
    """A token may end when it was announced, or earlier."""
    lti.platform.token_seconds = "30"
    assert lti("--dry-run").exit_code == 0
    assert len(lti.platform.tokens) > 1
    lti.platform.token_seconds = 3600
    lti.platform.at_write = lambda _: lti.platform.tokens.clear()
    assert lti().exit_code == 0
    assert lti.platform.writes == dict.fromkeys(lti.platform.users, 1)


def test_each_try_for_a_token_has_an_assertion_of_its_own(lti: LtiPushing) -> None:
    lti.platform.refuse_every, lti.platform.ways = 2, BEFORE
    assert lti().exit_code == 0
    lti.platform.ways = ("lost",)
    assert lti("--dry-run").exit_code == 0


def test_a_platform_that_does_not_know_the_key_is_reported(
    lti: LtiPushing, waits: list[float]
) -> None:
    (lti.school.results / FILE).unlink()
    done = lti()
    assert done.exit_code == 3
    assert "gives this server no access token" in done.stderr
    assert "/lti/keys" in done.stderr
    assert "eyJ" not in done.stderr
    assert waits == []


def test_the_token_goes_only_to_its_own_host(lti: LtiPushing) -> None:
    elsewhere = LtiServer(1)
    with serving(elsewhere):
        link = {"Link": f'<{elsewhere.address}/members?page=2>; rel="next"'}
        members = {"members": [lti.platform._member(FIRST)]}
        lti.platform.override = lambda path: (
            (200, link, members) if path.startswith("/members") else None
        )
        done = lti()
        assert done.exit_code == 3
        assert "another host" in done.stderr
        lti.platform.override = lambda _: None
        lti.platform.items.clear()
        item = {"id": f"{elsewhere.address}/items/1/lineitem", "resourceId": "x"}
        lti.launch(lineitem="")
        lti.platform.override = lambda path: (
            (201, {}, item)
            if lti.platform.requests[-1][0] == "POST" and path.startswith("/items?")
            else None
        )
        done = lti()
        assert done.exit_code == 3
        assert "another host" in done.stderr
    assert elsewhere.requests == []


def test_an_endless_list_is_given_up(lti: LtiPushing) -> None:
    pages = [0]

    def endless(path: str) -> Any:
        if not path.startswith("/members"):
            return None
        pages[0] += 1
        link = f'<{lti.platform.address}/members?page={pages[0]}>; rel="next"'
        return 200, {"Link": link}, {"members": []}

    lti.platform.override = endless
    done = lti()
    assert done.exit_code == 3
    assert "a list with too many or" in done.stderr


def test_long_pages_are_given_up_before_memory_is_full(lti: LtiPushing) -> None:
    pages = [0]

    def long(path: str) -> Any:
        if not path.startswith("/members"):
            return None
        pages[0] += 1
        link = f'<{lti.platform.address}/members?page={pages[0]}>; rel="next"'
        return 200, {"Link": link}, b'{"members": []}' + b" " * (1 << 20)

    lti.platform.override = long
    done = lti()
    assert done.exit_code == 3
    assert "or too long pages" in done.stderr
    assert pages[0] < 12
    lti.platform.override = lambda path: (
        (200, {}, b'{"members": []}' + b" " * (9 << 20)) if path == "/members" else None
    )
    assert "an answer larger than" in lti().stderr


@pytest.mark.parametrize(
    "answer",
    [[], {"members": [7]}, {"members": "all"}, b"<html>Sign in</html>", {"members": [[[]]]}],
    ids=["list", "numbers", "text", "page", "nested"],
)
def test_an_unexpected_answer_is_an_error(lti: LtiPushing, answer: Any) -> None:
    lti.platform.override = lambda path: (200, {}, answer) if path == "/members" else None
    done = lti()
    assert done.exit_code == 3
    assert "Traceback" not in done.stderr
    assert lti.platform.written == 0


def test_members_with_odd_values_are_not_students(lti: LtiPushing) -> None:
    lti.platform.members = {
        FIRST: {"roles": "Learner"},
        SECOND: {"roles": [{"a": 1}], "name": ["x"]},
        THIRD: {"user_id": {"$ne": 1}},
        LAST: {"email": 7, "name": "\x1b[31mLast"},
    }
    done = lti()
    assert lti.platform.written == 0
    assert "\x1b" not in done.stderr + done.stdout


def test_the_private_key_is_in_no_request_and_no_message(lti: LtiPushing) -> None:
    pem = Path(lti.school.results, FILE).read_text().splitlines()[1]
    done = lti()
    told = "".join(f"{path}{body}" for _, path, body in lti.platform.requests)
    assert pem not in told + done.stdout + done.stderr
