"""Late days: a budget over the term, used in the order in which files come late."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from grader.course.assignments import CourseAssignment, Exam
from grader.gradebook.policy import File, Policy
from grader.gradebook.policy_file import (
    PolicyError,
    check_names,
    policy_of_assignment,
    policy_of_assignments,
    policy_text,
    read_policy,
)
from grader.gradebook.standing import ClassRules, choices, needed, with_late_days
from grader.gradebook.work import Attempt, Work
from grader.results import CourseInfo, StudentInfo

ANN = StudentInfo(id="ann")
FIRST = datetime.datetime(2026, 10, 1, 12, tzinfo=datetime.UTC)
CHAPTERS = {"relu": "one", "glu": "one", "lora": "two", "moe": "three"}
# Three due times, a week apart.
RULES = """
late_days = 3
[late]
per_day = 10
[[due]]
at = 2026-10-01T12:00:00Z
chapters = ["one"]
[[due]]
at = 2026-10-08T12:00:00Z
chapters = ["two"]
[[due]]
at = 2026-10-15T12:00:00Z
chapters = ["three"]
"""
_WEEKS = {"relu": 0, "glu": 0, "lora": 1, "moe": 2}


def at(exercise: str, hours: float, attempt: int = 1) -> File:
    """Return a file of ten points, handed in this many hours after its due time."""
    time = FIRST + datetime.timedelta(weeks=_WEEKS[exercise], hours=hours)
    return File(attempt, f"{time:%Y-%m-%dT%H:%M:%SZ}", False, 10.0)


def policy(text: str = RULES) -> Policy:
    return read_policy(text, CHAPTERS)


def used(text: str = RULES, **hours: float | tuple[float, ...]) -> tuple[dict[int, int], int]:
    """Return the late days used for each due time, and the days left, after files this many hours late."""
    every = {name: late if isinstance(late, tuple) else (late,) for name, late in hours.items()}
    files = {
        name: [at(name, hour, number) for number, hour in enumerate(late, 1)]
        for name, late in every.items()
    }
    after = policy(text).with_late_days(ANN, files)
    assert after.used is not None
    return dict(after.used), after.late_days_left


@pytest.mark.parametrize(
    ("hours", "days"), [(-1, 0), (0, 0), (0.1, 1), (24, 1), (24.1, 2), (72, 3), (300, 3)]
)
def test_each_day_begun_uses_a_late_day(hours: float, days: int) -> None:
    assert used(relu=hours) == ({0: days} if days else {}, 3 - days)


def test_exercises_with_the_same_due_time_share_late_days() -> None:
    assert used(relu=20, glu=30) == ({0: 2}, 1)


def test_late_days_are_used_in_the_order_in_which_files_came() -> None:
    # The second week's file came before the first week's newer file, which gets the remaining days.
    assert used(relu=(-1, 24 * 10), lora=40) == ({1: 2, 0: 1}, 0)
    assert used(relu=40, lora=40, moe=40) == ({0: 2, 1: 1}, 0)


def test_a_day_is_used_only_where_it_helps() -> None:
    closes = RULES.replace("per_day = 10", 'per_day = 10\ncloses = "1 days"')
    # Five days late are two days late after three late days: still closed.
    assert used(closes, relu=24 * 5, lora=24) == ({1: 1}, 2)
    assert used(closes, relu=24 * 4) == ({0: 3}, 0)
    free = RULES.replace('chapters = ["one"]', 'chapters = ["one"]\nlate = {}')
    assert used(free, relu=24, lora=24) == ({1: 1}, 2)


def test_grace_and_extensions_come_first() -> None:
    grace = RULES.replace("per_day = 10", 'per_day = 10\ngrace = "2 hours"')
    assert used(grace, relu=1.5) == ({}, 3)
    assert used(grace, relu=25.5) == ({0: 1}, 2)
    ill = '\n[[extension]]\nstudent = "ann"\nby = "2 days"\nchapters = ["one"]\n'
    assert used(RULES + ill, relu=40, glu=49) == ({0: 1}, 2)


def test_an_unchanged_stub_uses_no_late_days() -> None:
    """A zip of the whole folder has stubs of exercises that the student never began."""
    stub = msgspec.structs.replace(at("relu", 30), judged=0.0, untouched=True)
    rules = policy().with_late_days(ANN, {"relu": [stub], "lora": [at("lora", 30)]})
    assert rules.used == {1: 2}
    assert rules.cost(ANN, "relu", [stub]) == ""
    begun = rules.with_late_days(ANN, {"relu": [stub, at("relu", 40, 2)]})
    assert begun.used == {0: 2}


def test_a_due_time_may_limit_late_days() -> None:
    none = RULES.replace('chapters = ["two"]', 'chapters = ["two"]\nlate_days = 0')
    assert used(none, lora=24, moe=24) == ({2: 1}, 2)


def test_a_later_file_of_a_due_time_adds_to_the_days_of_an_earlier_one() -> None:
    assert used(relu=(24, 72)) == ({0: 3}, 0)


def test_a_file_beyond_the_attempt_limit_uses_no_late_days() -> None:
    assert used("max_attempts = 1\n" + RULES, relu=(1, 30)) == ({0: 1}, 2)


@pytest.mark.parametrize(("hours", "points"), [(24, 10), (72, 10), (73, 9), (120, 8)])
def test_lateness_beyond_the_budget_costs_as_usual(hours: float, points: float) -> None:
    files = [at("relu", hours)]
    counted = policy().with_late_days(ANN, {"relu": files}).counted(ANN, "relu", 10, files)
    assert counted.points == points


def test_the_reason_says_how_many_late_days_were_used() -> None:
    files = [at("relu", 30)]
    after = policy().with_late_days(ANN, {"relu": files})
    (reason,) = after.counted(ANN, "relu", 10, files).reasons
    assert reason == (
        "Handed in 1 day 6 hours late (due 2026-10-01 12:00 UTC; 2 late days used, "
        "until 2026-10-03 12:00 UTC): nothing is lost."
    )


def test_a_standing_counts_late_days() -> None:
    names = ("relu", "lora", "moe")
    attempts = tuple(
        Attempt(number, "ann", number, submitted_at=at(name, 30).submitted_at)
        for number, name in enumerate(names, 1)
    )
    files = {name: {number: str(number)} for number, name in enumerate(names, 1)}
    work = Work(ANN, attempts, files, {})
    rules = ClassRules(
        course=CourseInfo("", "", ""), exercises=tuple(CHAPTERS), policy=policy(), has_policy=True
    )
    assert with_late_days(work, rules).policy.used == {0: 2, 1: 1}
    assert {
        name: choice.counted.late for name, choice in choices(work, rules).items() if choice.counted
    } == {
        "relu": False,
        "lora": True,
        "moe": True,
    }


def test_a_file_that_late_days_keep_open_is_judged() -> None:
    closes = policy(RULES.replace("per_day = 10", 'closes = "1 hours"'))
    attempts = tuple(
        Attempt(number, "ann", number, submitted_at=at("relu", hours).submitted_at)
        for number, hours in ((1, -1), (2, 20))
    )
    work = Work(ANN, attempts, {"relu": {1: "1", 2: "2"}}, {})
    rules = ClassRules(
        course=CourseInfo("", "", ""), exercises=("relu",), policy=closes, has_policy=True
    )
    assert [attempt.id for attempt in needed(work, rules, "relu")] == [2]


def test_an_override_says_which_attempts_count_and_are_judged() -> None:
    def counts(rule: str) -> list[tuple[int, set[int]]]:
        rules = policy(f'[[override]]\nexercises = ["relu"]\n{rule}\n')
        files = [at("relu", 0, 1), msgspec.structs.replace(at("relu", 1, 2), judged=3.0)]
        return [
            (
                rules.counted(ANN, name, 10, files).file.attempt,
                rules.needed(ANN, name, 10, files),
            )
            for name in ("relu", "lora")
        ]

    assert counts('attempts = "best"') == [(1, {1, 2}), (2, {2})]
    assert counts("max_attempts = 1") == [(1, {1}), (2, {2})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("late_days = 3", "`late_days` has no effect, since nothing is due"),
        ("late_days = 3\n[[due]]\nat = 2026-10-01T12:00:00Z", "since lateness costs nothing"),
        ("late_days = -1", "late_days"),
        ('[[override]]\nattempts = "best"', "names no exercises"),
        ('[[override]]\nexercises = ["relu"]', "changes nothing"),
    ],
)
def test_mistakes_are_reported(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        policy(text)


# --- the rules of all assignments together ------------------------------------------------------------


def of(id_: str, *exercises: str, **keys: object) -> CourseAssignment:
    return CourseAssignment(id=id_, title=id_, exercises=exercises, **keys)  # type: ignore[arg-type]


def test_each_exercise_has_the_rules_of_its_assignment() -> None:
    week1 = of(
        "week1", "relu", "glu", due=FIRST, policy={"attempts": "best", "late": {"per_day": 20}}
    )
    test = of(
        "test",
        "moe",
        opens=FIRST,
        due=FIRST + datetime.timedelta(hours=1),
        exam=Exam(),
        policy={"extension": [{"student": "ann", "by": "30 minutes"}]},
    )
    course = policy(RULES + '[[override]]\nchapters = ["one", "two"]\nmax_attempts = 4\n').rules
    merged = Policy(policy_of_assignments([week1, test], CHAPTERS, course), CHAPTERS)
    assert merged.rules_of("relu").attempts.value == "best"
    assert merged.rules_of("lora").max_attempts == 4
    relu, lora = merged.deadline(ANN, "relu"), merged.deadline(ANN, "lora")
    assert relu is not None and (relu.due, relu.rules.per_day) == (FIRST, 20)
    # It belongs to no assignment, so the due time of the course applies.
    assert lora is not None and lora.due == FIRST + datetime.timedelta(weeks=1)
    # The extension is for the test only.
    assert lora.until == lora.due
    moe = merged.deadline(ANN, "moe")
    assert moe is not None and moe.until - moe.due == datetime.timedelta(minutes=30)
    # Late days cannot move the end of an exam.
    late = File(1, "2026-10-01T14:00:00Z", False, 10.0)
    assert merged.with_late_days(ANN, {"moe": [late]}).used == {}
    assert read_policy(policy_text(merged.rules), CHAPTERS).rules == merged.rules


def test_an_assignment_without_a_due_time_may_set_lateness() -> None:
    week = of("week", "relu", "lora", policy={"late": {"per_day": 50}, "late_days": 1})
    merged = Policy(policy_of_assignments([week], CHAPTERS, policy().rules), CHAPTERS)
    for exercise, per_day, days in (("relu", 50, 1), ("lora", 50, 1), ("glu", 10, None)):
        due = merged.due(exercise)
        deadline = merged.deadline(ANN, exercise)
        assert due is not None and due.late_days == days
        assert deadline is not None and deadline.rules.per_day == per_day


def test_an_assignment_replaces_the_tables_that_name_its_exercises() -> None:
    both = 'exercises = ["relu", "lora"]\n'
    course = policy(
        f"[[due]]\nat = 2026-10-08T12:00:00Z\n{both}[[override]]\nmax_attempts = 4\n{both}"
    ).rules
    week = of("week", "relu", due=FIRST, policy={"max_attempts": 2})
    merged = Policy(policy_of_assignments([week], CHAPTERS, course), CHAPTERS)
    dues = [merged.due(name) for name in ("relu", "lora")]
    assert [due.at for due in dues if due] == [FIRST, FIRST + datetime.timedelta(weeks=1)]
    assert [merged.rules_of(name).max_attempts for name in ("relu", "lora")] == [2, 4]


def test_an_assignment_without_a_due_time_keeps_rules_of_the_course() -> None:
    course = policy(
        RULES.replace(
            'chapters = ["one"]', 'chapters = ["one"]\nlate_days = 2\nlate = {per_day = 30}'
        )
    ).rules
    for own, per_day, days in (
        ({"late": {"per_day": 50}}, 50, 2),
        ({"late_days": 1}, 30, 1),
    ):
        week = of("week", "relu", policy=own)
        due = Policy(policy_of_assignments([week], CHAPTERS, course), CHAPTERS).due("relu")
        assert due is not None and due.late is not None
        assert (due.late.per_day, due.late_days) == (per_day, days)


def test_a_budget_of_the_course_is_refused_for_a_single_assignment() -> None:
    rules = policy().rules
    with pytest.raises(PolicyError, match=r"`late_days` of policy\.toml is for the whole term"):
        policy_of_assignment(of("week1", "relu", due=FIRST), {"relu": "one"}, rules)
    alone = of("week1", "relu", due=FIRST, policy={"late_days": 2})
    assert policy_of_assignment(alone, {"relu": "one"}, rules).late_days == 2


def test_two_overrides_for_one_exercise_are_refused() -> None:
    twice = '[[override]]\nexercises = ["relu"]\nmax_attempts = 4\n' * 2
    with pytest.raises(PolicyError, match=r"has two overrides, \[\[override\]\] 1 and"):
        check_names(policy(twice), "policy.toml", CHAPTERS.keys(), CHAPTERS.values())


@pytest.mark.parametrize(
    ("hours", "message"),
    [
        (-1, ""),
        (1, "late: 1 late day used, 2 left"),
        (72, "late: 3 late days used, 0 left"),
        (73, "1 hour late: 10 % of the points are lost, 3 late days used, 0 left"),
        (2000, "83 days 8 hours late: too late to count"),
    ],
)
def test_a_late_student_reads_the_cost_before_the_verdict(hours: float, message: str) -> None:
    rules = policy(RULES.replace("per_day = 10", 'per_day = 10\ncloses = "30 days"'))
    files = [msgspec.structs.replace(at("relu", hours), judged=None)]
    counted = rules.with_late_days(ANN, {"relu": files})
    assert counted.cost(ANN, "relu", files) == message


def test_a_file_in_time_does_not_mention_a_late_day_of_another_file() -> None:
    files = {"relu": [at("relu", 20)], "glu": [at("glu", -1)]}
    counted = policy().with_late_days(ANN, files)
    assert counted.cost(ANN, "relu", files["relu"]) == "late: 1 late day used, 2 left"
    assert counted.cost(ANN, "glu", files["glu"]) == counted.cost(ANN, "glu", []) == ""
