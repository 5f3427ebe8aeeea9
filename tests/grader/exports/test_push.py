"""`grade push` sends each student's points and comment once, and leaves what a person changed."""

from __future__ import annotations

import datetime
import functools
import os
import subprocess
import sys
from typing import Any
from urllib.parse import unquote_plus

import msgspec
import pytest

from grader.course.assignments import CourseAssignment, Exam
from grader.exports.files import ClassSource
from grader.exports.push import comparison
from grader.exports.push.canvas import Canvas
from grader.gradebook import Gradebook
from grader.gradebook.policy import Due, Extension, Rules
from grader.gradebook.pushed import Pushed, pushing, reading
from grader.results import Outcome, Status, StudentInfo
from grader.submissions.source import code_digest
from tests.grader.builders import checked, entry, exercise, result
from tests.grader.exports.classroom_of_push import (
    BUSY,
    CLASS,
    FEW,
    FILE,
    FIRST,
    LAST,
    PATIENCE_SECONDS,
    SECOND,
    SECRET,
    THIRD,
    Pushing,
    School,
    info_of,
    kill_at,
    scores,
    verdict,
)
from tests.grader.exports.platforms import (
    TOKEN,
    CanvasServer,
    MoodleServer,
    Platform,
    same,
    serving,
)

# --- every student, once ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CanvasServer, MoodleServer])
def test_every_student_arrives_once_although_requests_are_refused(
    kind: type[CanvasServer] | type[MoodleServer], school: School, waits: list[float]
) -> None:
    """The platform refuses every fifth request, before or after it is carried out."""
    school.grade(scores(CLASS))
    platform = kind(CLASS)
    with serving(platform):
        platform.refuse_every = 5
        push = Pushing(school, platform, "--canvas" if kind is CanvasServer else "--moodle")
        done = push()
    assert done.exit_code == 0, done.stderr
    assert f"{CLASS} students sent." in done.stdout
    assert all(same(platform.grades[user], points) for user, points in scores(CLASS).items())
    assert platform.writes == dict.fromkeys(platform.users, 1)
    assert [len(platform.comments[user]) for user in platform.users] == [1] * CLASS
    # Of all refusals, only a rate limit says how long to wait.
    assert waits.count(3.0) > 10
    assert len(waits) > waits.count(3.0)


def test_a_second_push_sends_nothing(push: Pushing) -> None:
    assert push().exit_code == 0
    before = push.platform.written
    done = push()
    assert done.exit_code == 0
    assert "Nothing to send." in done.stdout
    assert push.platform.written == before == FEW


def test_only_changed_points_and_their_comment_are_sent_again(push: Pushing) -> None:
    push()
    push.school.correct(SECOND, points=9.5, comment="Well explained.")
    done = push()
    assert done.exit_code == 0, done.stderr
    assert push.platform.writes == {FIRST: 1, SECOND: 2, THIRD: 1, LAST: 1}
    assert push.platform.grades[SECOND] == 9.5
    assert "Well explained." in push.comments(SECOND)[-1]
    assert "shown in the lab" in push.comments(SECOND)[-1]
    # Comments accumulate, but Moodle has only one.
    assert len(push.comments(SECOND)) == (1 if push.option == "--moodle" else 2)


def test_an_earlier_comment_is_sent_again_if_it_is_right_again(canvas: Pushing) -> None:
    canvas()
    canvas.school.correct(FIRST, points=9.5)
    canvas()
    with Gradebook.open_to_write(canvas.school.results) as book:
        book.correct(replacing=[0])
    canvas()
    first, second, third = canvas.comments(FIRST)
    assert first == third != second
    canvas()
    assert len(canvas.comments(FIRST)) == 3


def test_equal_points_on_the_platform_count_as_ours(canvas: Pushing) -> None:
    """The points came from an earlier upload of a file."""
    canvas.platform.grades = dict(scores(FEW))
    canvas("--yes", "--no-comments")
    assert canvas.platform.written == 0
    canvas.school.correct(FIRST, points=9.5)
    done = canvas("--yes", "--no-comments")
    assert canvas.platform.grades[FIRST] == 9.5
    assert canvas.platform.written == 1
    assert not canvas.platform.comments, done.stderr


@pytest.mark.parametrize("write", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_a_killed_push_resumes_without_a_second_comment(push: Pushing, write: int) -> None:
    kill_at(push, write)
    done = push()
    assert done.exit_code == 0, done.stderr
    platform = push.platform
    assert platform.writes == dict.fromkeys(platform.users, 1)
    assert [len(platform.comments[user]) for user in platform.users] == [1] * FEW
    assert all(same(platform.grades[user], points) for user, points in scores(FEW).items())


def test_points_from_a_killed_push_count_as_ours(push: Pushing) -> None:
    """The next push replaces them if other points count by then."""
    kill_at(push, 1)
    push.school.correct(FIRST, points=9)
    done = push()
    assert done.exit_code == 0, done.stderr
    assert push.platform.grades[FIRST] == 9
    assert "shown in the lab" in push.comments(FIRST)[-1]


def test_a_push_without_its_memory_sends_no_comment_twice(push: Pushing) -> None:
    """The memory is lost, for example, when a copy of the gradebook is restored."""
    push()
    with Gradebook.open_to_write(push.school.results) as book, book.transaction():
        book.tables.connection.execute("DELETE FROM pushed")
    done = push()
    assert done.exit_code == 0
    assert push.platform.writes == dict.fromkeys(push.platform.users, 1)


def test_a_comment_that_canvas_would_refuse_is_cut(canvas: Pushing) -> None:
    canvas.school.correct(FIRST, points=9, comment="\n".join(["Read this. \x00"] * 6000))
    assert canvas().exit_code == 0
    (comment,) = canvas.comments(FIRST)
    assert len(comment.encode()) < 1 << 16
    assert comment.endswith("[…]")
    assert "\x00" not in comment
    assert "Nothing to send." in canvas().stdout


def test_two_pushes_at_once_are_refused(push: Pushing) -> None:
    with pushing(push.school.results, push.platform.url):
        done = push()
    assert done.exit_code == 3
    assert "Another push" in done.stderr
    assert push.platform.written == 0


def test_a_push_works_beside_a_server(push: Pushing) -> None:
    with Gradebook.open_to_write(push.school.results):
        assert push().exit_code == 0
    assert push.platform.written == FEW


# --- a person's changes ---------------------------------------------------------------------------------


def test_points_that_a_person_changed_stay_without_overwrite(push: Pushing) -> None:
    push()
    push.platform.grades[FIRST] = 5.55
    push.school.correct(FIRST, points=9)
    push.school.correct(SECOND, points=9)
    done = push()
    assert done.exit_code == 0
    assert f"s{FIRST}: has 5.55 points in" in done.stderr
    assert "--overwrite" in done.stderr
    assert push.platform.grades[FIRST] == 5.55
    assert push.platform.grades[SECOND] == 9
    assert push.platform.writes[FIRST] == 1
    assert push("--yes", "--overwrite").exit_code == 0
    assert push.platform.grades[FIRST] == 9


def test_points_that_a_person_entered_before_the_first_push_stay(push: Pushing) -> None:
    push.platform.grades[FIRST] = 2.22
    done = push()
    assert f"s{FIRST}: has 2.22 points" in done.stderr
    assert push.platform.grades[FIRST] == 2.22
    assert not push.comments(FIRST)


def test_points_that_a_person_removed_are_not_entered_again(push: Pushing) -> None:
    push()
    del push.platform.grades[FIRST]
    done = push()
    assert f"s{FIRST}: has no points any more" in done.stderr
    assert FIRST not in push.platform.grades


def test_excused_students_stay_excused(canvas: Pushing) -> None:
    assert isinstance(canvas.platform, CanvasServer)
    canvas.platform.excused.add(FIRST)
    done = canvas("--yes", "--overwrite")
    assert f"s{FIRST}: is excused in Canvas" in done.stderr
    assert canvas.platform.writes[FIRST] == 0


def test_a_late_penalty_of_canvas_is_not_a_person_s_change(canvas: Pushing) -> None:
    assert isinstance(canvas.platform, CanvasServer)
    canvas()
    canvas.platform.deducted[FIRST] = 1.0
    done = canvas()
    assert "Nothing to send." in done.stdout
    assert "by its own policy" in done.stderr


def test_a_persons_comment_in_moodle_stays_with_the_points_beside_it(moodle: Pushing) -> None:
    moodle.platform.comments[FIRST] = ["<p>See me on Monday.</p>"]
    done = moodle()
    assert f"s{FIRST}: has a person's comment" in done.stderr
    assert moodle.comments(FIRST) == ["<p>See me on Monday.</p>"]
    assert FIRST not in moodle.platform.grades
    moodle("--yes", "--overwrite")
    assert "points" in moodle.comments(FIRST)[0]


def test_pushing_only_points_leaves_comments_in_moodle(moodle: Pushing) -> None:
    moodle.platform.comments[FIRST] = ["<p>See me on Monday.</p>"]
    moodle("--yes", "--no-comments")
    assert moodle.comments(FIRST) == ["<p>See me on Monday.</p>"]
    assert not moodle.comments(SECOND)
    assert SECOND in moodle.platform.grades


def test_the_marking_workflow_keeps_its_states(moodle: Pushing) -> None:
    assert isinstance(moodle.platform, MoodleServer)
    moodle.platform.assignment = {"markingworkflow": 1}
    moodle.platform.states = {FIRST: "inmarking", SECOND: "released"}
    done = moodle()
    assert "'released'" in done.stderr
    states = {user: moodle.platform.states.get(user, "") for user in (FIRST, SECOND, THIRD)}
    assert states == {FIRST: "inmarking", SECOND: "released", THIRD: ""}


def test_a_comment_that_moodle_hides_is_not_replaced(moodle: Pushing) -> None:
    assert isinstance(moodle.platform, MoodleServer)
    moodle.platform.assignment = {"markingworkflow": 1}
    moodle.platform.comments[FIRST] = ["<p>See me on Monday.</p>"]
    done = moodle()
    assert f"s{FIRST}: may have a comment" in done.stderr
    assert moodle.comments(FIRST) == ["<p>See me on Monday.</p>"]
    # Our own hidden comment is replaced but never erased.
    moodle.school.grade({SECOND: 9.0})
    assert f"s{SECOND}: may have a comment" in moodle("--yes", "--no-comments").stderr
    moodle()
    assert moodle.platform.grades[SECOND] == 9.0
    assert "points" in moodle.comments(SECOND)[0]
    moodle("--yes", "--overwrite")
    assert "points" in moodle.comments(FIRST)[0]


def test_pushing_only_points_keeps_our_comment_in_moodle(moodle: Pushing) -> None:
    moodle()
    (before,) = moodle.comments(FIRST)
    moodle.school.grade({FIRST: 9.0})
    moodle("--yes", "--no-comments")
    assert moodle.platform.grades[FIRST] == 9.0
    # Moodle writes the comment in its own way.
    assert moodle.comments(FIRST) == [before.replace("<br>", "<br />")]


def test_overwriting_only_points_keeps_a_person_s_comment(moodle: Pushing) -> None:
    moodle.platform.comments[FIRST] = ["<p>See me on Monday.</p>"]
    moodle("--yes", "--no-comments", "--overwrite")
    assert FIRST in moodle.platform.grades
    assert moodle.comments(FIRST) == ["<p>See me on Monday.</p>"]


def test_points_that_change_during_the_question_stay(
    push: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*arguments: Any, own: Any = comparison.send) -> Any:
        push.platform.grades[FIRST] = 7.5
        return own(*arguments)

    monkeypatch.setattr(comparison, "send", send)
    done = push()
    assert done.exit_code == 3
    assert f"s{FIRST}: the points in" in done.stderr
    assert push.platform.grades[FIRST] == 7.5
    assert SECOND in push.platform.grades


def test_an_assignment_without_feedback_comments_gets_points(moodle: Pushing) -> None:
    assert isinstance(moodle.platform, MoodleServer)
    moodle.platform.takes_comments = False
    done = moodle()
    assert done.exit_code == 0, done.stderr
    assert "No comments are sent" in done.stderr
    assert moodle.platform.written == FEW
    assert "Nothing to send." in moodle().stdout


# --- nothing is sent ------------------------------------------------------------------------------------


def test_held_points_are_sent_only_after_release(push: Pushing) -> None:
    push.school.grade({FIRST: 7.0}, held=("it imports ctypes",))
    done = push()
    assert f"s{FIRST}: has held points" in done.stderr
    assert FIRST not in push.platform.grades
    assert not push.comments(FIRST)
    push.school.correct(FIRST, release=code_digest(FILE + f"# {FIRST} 7.0\n".encode()))
    push()
    assert push.platform.grades[FIRST] == 7.0
    assert len(push.comments(FIRST)) == 1


def test_held_points_of_practice_do_not_hold_the_total() -> None:
    held = exercise(checked(), name="more", held=("it imports ctypes",), practice=True)
    nowhere: Any = None
    options = comparison.Options(comments=False)
    mine = comparison._mine(entry(exercise(checked()), held), nowhere, options)
    assert (mine.points, mine.why) == (15, "")


def test_an_open_total_is_not_sent_as_zero(push: Pushing) -> None:
    push.school.grade({FIRST: 0.0}, status=Status.UNJUDGED)
    done = push()
    assert f"s{FIRST}: has no total." in done.stderr
    assert FIRST not in push.platform.grades


def test_absent_students_get_0_points_and_are_counted(push: Pushing) -> None:
    push.platform.users.append(LAST + 1)
    nothing = verdict(0.0, status=Status.NOT_ATTEMPTED, settled=True)
    with Gradebook.open_to_write(push.school.results) as book:
        book.begin(push.school.course, result(nothing))
        info = info_of(LAST + 1)
        # In Moodle, only students who opened the assignment have a number.
        book.keep_student(msgspec.structs.replace(info, email=f"s{LAST + 1}@uni.example"))
        book.finish(())
    done = push()
    assert "1 of them without a submission" in done.stdout
    assert push.platform.grades[LAST + 1] == 0
    assert "Nothing was handed in." in push.comments(LAST + 1)[0]


def test_absent_students_get_no_0_before_the_due_time(canvas: Pushing) -> None:
    """The due time of the class has passed. The extension of one student has not ended."""
    nothing = verdict(0.0, status=Status.NOT_ATTEMPTED, settled=True)
    early, late = LAST + 1, LAST + 2
    canvas.platform.users += [early, late]
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    more = Extension(student=f"s{late}", until=day.replace(year=2999), reason="ill")
    with Gradebook.open_to_write(canvas.school.results) as book:
        rules = Rules(timezone="UTC", due=(Due(at=day),), extension=(more,))
        book.begin(canvas.school.course, result(nothing), rules)
        for user in (early, late):
            book.keep_student(info_of(user))
        book.finish(())
    done = canvas()
    assert "1 student who handed in no work and can do so until 2999-01-01 00:00 UTC" in done.stderr
    assert {*canvas.platform.grades} == {FIRST, SECOND, THIRD, LAST, early}
    assert canvas.platform.grades[early] == 0
    done = canvas("--yes", "--zeros")
    assert "1 student sent." in done.stdout
    assert canvas.platform.grades[late] == 0


def test_a_0_that_a_person_gave_is_sent_before_the_due_time(canvas: Pushing) -> None:
    nothing, late = verdict(0.0, status=Status.NOT_ATTEMPTED, settled=True), LAST + 1
    canvas.platform.users.append(late)
    with Gradebook.open_to_write(canvas.school.results) as book:
        rules = Rules(due=(Due(at=datetime.datetime(2999, 1, 1, tzinfo=datetime.UTC)),))
        book.begin(canvas.school.course, result(nothing), rules)
        book.keep_student(info_of(late))
        book.finish(())
    assert canvas().exit_code == 0 and late not in canvas.platform.grades
    canvas.school.correct(late, points=0.0)
    canvas()
    assert canvas.platform.grades[late] == 0


def bodies(platform: Platform) -> str:
    return "\n".join(unquote_plus(f"{path} {body}") for _, path, body in platform.requests)


def test_hidden_values_are_in_no_request(push: Pushing) -> None:
    push()
    assert "The title of test_hidden" in bodies(push.platform)
    assert SECRET not in bodies(push.platform)


def test_a_course_may_disclose_everything(push: Pushing) -> None:
    """This shows that the test above can fail."""
    push("--yes", "--disclose", "everything")
    assert SECRET in bodies(push.platform)


def test_at_level_nothing_no_request_names_a_hidden_test(push: Pushing) -> None:
    push("--yes", "--disclose", "nothing")
    assert "The title of test_hidden" not in bodies(push.platform)
    assert push.platform.written == FEW


def test_an_exam_without_hints_has_none_in_comments_and_exports(canvas: Pushing) -> None:
    hint = checked(outcome=Outcome.FAILED).hint
    canvas()
    assert hint in canvas.comments(FIRST)[-1]
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    midterm = CourseAssignment(
        id="midterm",
        title="Midterm",
        exercises=("task",),
        opens=day,
        due=day.replace(year=2999),
        exam=Exam(hints=False),
    )
    with Gradebook.open_to_write(canvas.school.results) as book:
        book.begin(msgspec.structs.replace(canvas.school.course, assignments=(midterm,)))
        book.finish(())
    canvas()
    assert len(canvas.comments(FIRST)) == 2
    assert hint not in canvas.comments(FIRST)[-1]
    assert not any(hint in str(each.result) for each in ClassSource(canvas.school.results))
    # A copy of the course without its assignments does not end the exam.
    with Gradebook.open_to_write(canvas.school.results) as book:
        book.begin(canvas.school.course)
        book.finish(())
    assert not any(hint in str(each.result) for each in ClassSource(canvas.school.results))


def test_an_unmatched_student_is_reported_and_not_guessed(rest: Pushing) -> None:
    with Gradebook.open_to_write(rest.school.results) as book, book.transaction():
        book.tables.put_student(StudentInfo(id=f"s{FIRST}", name="Somebody Else"))
        # This student has the id of one user and the name of another.
        ids = {"canvas_id": "999", "moodle_identifier": "Participant 999"}
        name = f"First{SECOND} Last{SECOND}"
        book.tables.put_student(StudentInfo(id=f"s{SECOND}", name=name, ids=ids))
    done = rest()
    assert f"s{FIRST}: is not among the students of the assignment in" in done.stderr
    assert f"s{SECOND}: is not among the students" in done.stderr
    assert sorted(rest.platform.grades) == [THIRD, LAST]


# --- before it is sent ----------------------------------------------------------------------------------


def test_a_dry_run_shows_the_changes_and_sends_nothing(push: Pushing) -> None:
    push.platform.grades[FIRST] = scores(FEW)[FIRST]
    done = push("--dry-run")
    assert done.exit_code == 0, done.stderr
    rows = {line.split()[0]: line.split()[-3:] for line in done.stdout.splitlines() if " " in line}
    assert rows[f"s{FIRST}"][-3:] == ["it", "is", "new"]
    assert rows[f"s{SECOND}"] == ["-", f"{scores(FEW)[SECOND]:g}", "new"]
    assert push.platform.written == 0
    with reading(push.school.results, push.platform.url) as memory:
        assert memory.all() == {}


@pytest.mark.parametrize(("answer", "sent"), [("y\n", FEW), ("\n", 0)])
def test_a_push_asks_on_a_terminal(canvas: Pushing, answer: str, sent: int) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    done = subprocess.run(
        [sys.executable, "-P", "-m", "grader.cli", *canvas.arguments()],
        stdin=theirs,
        env={**os.environ, "CANVAS_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert "Send this to" in done.stdout + done.stderr
    assert canvas.platform.written == sent


def test_a_different_maximum_is_refused_without_out_of(push: Pushing) -> None:
    push.platform.worth = 20.0
    done = push()
    assert done.exit_code == 2
    assert "--out-of 20" in done.stderr
    assert push.platform.written == 0
    push("--yes", "--out-of", "20")
    assert same(push.platform.grades[SECOND], 2 * scores(FEW)[SECOND])


@pytest.mark.parametrize(
    "assignment",
    [{"grading_type": "pass_fail"}, {"group_category_id": 5}],
)
def test_canvas_assignments_without_individual_points_are_refused(
    canvas: Pushing, assignment: dict[str, Any]
) -> None:
    assert isinstance(canvas.platform, CanvasServer)
    canvas.platform.assignment |= assignment
    assert canvas().exit_code == 2
    assert canvas.platform.written == 0


def test_a_note_says_whether_students_see_grades_in_canvas_at_once(canvas: Pushing) -> None:
    assert isinstance(canvas.platform, CanvasServer)
    assert "at once" in canvas("--dry-run").stderr
    canvas.platform.assignment["post_manually"] = True
    assert "until you post" in canvas("--dry-run").stderr


# --- refusals and failures ------------------------------------------------------------------------------


def test_a_refusal_is_shown_in_harmless_words_of_the_platform(push: Pushing) -> None:
    push.platform.refused[SECOND] = f"The grade is \x1b[31mlocked\x07 {TOKEN}"
    done = push()
    assert done.exit_code == 3
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(f"s{SECOND}: ")]
    assert "locked" in line
    assert "\x1b" not in done.stderr + done.stdout
    assert TOKEN not in done.stderr + done.stdout
    assert sorted(push.platform.grades) == [FIRST, THIRD, LAST]
    push.platform.refused.clear()
    assert push().exit_code == 0
    assert push.platform.writes == dict.fromkeys(push.platform.users, 1)


def test_a_grade_that_moodle_ignores_is_reported(moodle: Pushing) -> None:
    assert isinstance(moodle.platform, MoodleServer)
    moodle.platform.locked.add(FIRST)
    done = moodle()
    assert done.exit_code == 3
    assert f"s{FIRST}: Moodle took" in done.stderr
    moodle.platform.locked.clear()
    assert moodle().exit_code == 0
    assert same(moodle.platform.grades[FIRST], scores(FEW)[FIRST])


def test_a_busy_platform_ends_the_push_and_the_next_one_resumes(
    push: Pushing, waits: list[float]
) -> None:
    def broken(written: int) -> None:
        if written == 2:
            push.platform.refuse_every, push.platform.ways = 1, BUSY

    push.platform.at_write = broken
    done = push()
    assert done.exit_code == 3
    assert "503" in done.stderr
    assert len(waits) < 100
    push.platform.refuse_every = 0
    assert push().exit_code == 0
    assert push.platform.writes == dict.fromkeys(push.platform.users, 1)


def test_a_rate_limit_is_waited_for_if_the_wait_is_short(push: Pushing, waits: list[float]) -> None:
    asked = iter([(429, {"Retry-After": "17"}, b"")])
    push.platform.override = lambda path: next(asked, None)
    assert push("--dry-run").exit_code == 0
    assert waits == [17.0]
    push.platform.override = lambda path: (429, {"Retry-After": "3600"}, b"")
    done = push("--dry-run")
    assert done.exit_code == 3
    assert "3600 seconds" in done.stderr
    assert waits == [17.0]


def test_a_wrong_token_is_refused_at_once_and_never_shown(
    rest: Pushing, waits: list[float]
) -> None:
    done = rest(token="wr0ng~token")
    assert done.exit_code == 3
    assert "refuses the token" in done.stderr
    assert "wr0ng" not in done.stderr
    assert waits == []


def test_the_token_comes_from_the_environment(rest: Pushing) -> None:
    done = rest(token="")
    assert done.exit_code == 2
    assert "_TOKEN" in done.stderr
    assert rest.platform.requests == []
    # No address contains it, since servers log addresses.
    rest()
    assert all(TOKEN not in path for _, path, _ in rest.platform.requests)


@pytest.mark.parametrize("host", ["example.edu", "user@example.edu"])
def test_an_address_without_https_or_with_a_user_is_refused(rest: Pushing, host: str) -> None:
    place = rest.platform.url.removeprefix(rest.platform.address)
    done = rest(url=f"http://{host}{place}")
    assert done.exit_code == 2
    assert "https" in done.stderr or "not the address" in done.stderr


def test_the_address_of_another_page_is_refused(rest: Pushing) -> None:
    done = rest(url=f"{rest.platform.address}/courses/12")
    assert done.exit_code == 2
    assert "copy it from your browser" in done.stderr


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_gets_no_token(push: Pushing, status: int) -> None:
    elsewhere = CanvasServer(1)
    with serving(elsewhere):
        place = {"Location": f"{elsewhere.address}/elsewhere"}
        push.platform.override = lambda path: (status, place, b"")
        done = push()
    assert done.exit_code == 3
    assert "redirects to" in done.stderr
    assert elsewhere.requests == []


def test_a_next_page_on_another_host_gets_no_token(canvas: Pushing) -> None:
    elsewhere = CanvasServer(1)
    with serving(elsewhere):
        link = {"Link": f'<{elsewhere.address}/api/v1/courses/12/users>; rel="next"'}
        canvas.platform.override = lambda path: (200, link, []) if "/users" in path else None
        done = canvas()
    assert done.exit_code == 3
    assert "another host" in done.stderr
    assert elsewhere.requests == []


@pytest.mark.parametrize("answer", [b"<html>Sign in</html>", {"id": "x"}, [], {"cm": 3}, 7])
def test_an_unexpected_answer_is_not_a_crash(
    push: Pushing, answer: object, waits: list[float]
) -> None:
    push.platform.override = lambda path: (200, {}, answer)
    done = push()
    assert done.exit_code == 3, done.output
    assert push.platform.written == 0
    assert waits == []


def test_anonymous_submissions_are_refused(canvas: Pushing) -> None:
    rows = [{"anonymous_id": "aB3d5", "score": None}]
    canvas.platform.override = lambda path: (200, {}, rows) if "/submissions?" in path else None
    done = canvas()
    assert done.exit_code == 3
    assert "anonymously" in done.stderr


# --- the comparison ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "before", "is_new"),
    [
        ([], Pushed(), True),
        (["See me."], Pushed(), True),
        (["now"], Pushed(), False),
        (["now", "See me."], Pushed(), False),
        # A person removed it.
        ([], Pushed(comment=comparison.digest_of("now")), False),
        (["old"], Pushed(comment=comparison.digest_of("old")), True),
        (["now", "old"], Pushed(comment=comparison.digest_of("old")), True),
        # A killed push sent another comment, which may have arrived.
        (
            ["now"],
            Pushed(
                comment=comparison.digest_of("now"), sending_comment=comparison.digest_of("new")
            ),
            False,
        ),
        (
            ["now", "new"],
            Pushed(
                comment=comparison.digest_of("now"), sending_comment=comparison.digest_of("new")
            ),
            True,
        ),
        # A platform may write the same words differently.
        (["<p>now </p>\r\n"], Pushed(), False),
    ],
)
def test_a_comment_is_new_unless_it_is_our_last_one(
    there: list[str], before: Pushed, is_new: bool
) -> None:
    mine = comparison.Mine(student="ann", points=1.0, comment="now", begins=("Lab 1: ",))
    found = comparison.There(user="1", name="Ann", cells={}, points=1.0, comments=tuple(there))
    platform = object.__new__(Canvas)
    decided = comparison.decided(mine, found, before, platform)
    assert isinstance(decided, comparison.Change) is is_new


# --- answers of a hostile platform ----------------------------------------------------------------------


def test_a_token_in_an_answer_is_not_shown(canvas: Pushing) -> None:
    assert isinstance(canvas.platform, CanvasServer)
    canvas.platform.assignment["name"] = f"Week 1 {TOKEN}"
    assert TOKEN not in (done := canvas("--dry-run")).stderr + done.stdout
    elsewhere = f"https://else.example/?access_token={TOKEN}"
    answers: list[tuple[int, dict[str, str], Any]] = [
        (302, {"Location": elsewhere}, b""),
        (200, {"Link": f'<{elsewhere}>; rel="next"'}, {"id": 1, "name": "x"}),
    ]
    for answer in answers:
        canvas.platform.override = functools.partial(lambda given, _: given, answer)
        done = canvas("--dry-run")
        assert done.exit_code != 0
        assert TOKEN not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "answer",
    [
        (400, {}, b"[" * 100_000 + b"]" * 100_000),
        (200, {}, b"[" * 100_000 + b"]" * 100_000),
        (200, {"Link": '<http://[>; rel="next"'}, []),
        (200, {}, {"id": 34, "name": "x", "points_possible": 1e308, "grading_type": "points"}),
    ],
    ids=["deep refusal", "deep", "no address", "huge"],
)
def test_an_odd_answer_is_not_reported_as_a_grader_fault(canvas: Pushing, answer: Any) -> None:
    canvas.platform.override = lambda path: answer if "/users" in path or answer[2] else None
    done = canvas("--dry-run")
    assert done.exit_code == 3
    assert "fault of the grader" not in done.stderr and "Traceback" not in done.stderr


def test_a_page_that_names_itself_as_the_next_is_read_once(canvas: Pushing) -> None:
    pages = []

    def itself(path: str) -> Any:
        if "/users" not in path:
            return None
        pages.append(path)
        link = f'<{canvas.platform.address}{path}>; rel="next"'
        return 200, {"Link": link}, [{"id": FIRST, "name": "First"}]

    canvas.platform.override = itself
    assert canvas("--dry-run").exit_code == 0
    assert len(pages) == 1
