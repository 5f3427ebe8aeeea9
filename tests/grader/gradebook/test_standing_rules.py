"""Properties of the points that count, for any attempts, verdicts, policy and corrections."""

from __future__ import annotations

import datetime
import hashlib
import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from grader.gradebook.corrections import Correction
from grader.gradebook.policy_file import read_policy
from grader.gradebook.standing import ClassRules, entry_of, total_of
from grader.gradebook.work import Attempt, Verdict, Work, packed, work_of
from grader.results import CourseInfo, Entry, Status, StudentInfo

from .conftest import HERE, result

ANN = StudentInfo(id="ann")
TIME = datetime.datetime(2026, 3, 9, tzinfo=datetime.UTC)
BEGIN = datetime.datetime(2026, 3, 1, 12)
POLICIES = (
    "",
    'attempts = "best"\n',
    'attempts = "average"\n',
    "max_attempts = 2\n",
    'attempts = "best"\n[late]\nper_day = 10\ncloses = "9 days"\n[[due]]\nat = 2026-03-05T12:00:00Z\n',
    "[late]\nper_day = 10\n[[due]]\nat = 2026-03-05T12:00:00Z\n",
)
# For each attempt: hours since the previous one, the file, and the points it earns, out of ten.
HANDED_IN = st.lists(
    st.tuples(st.integers(1, 90), st.integers(0, 4), st.integers(0, 10)), min_size=1, max_size=6
)
CHANGES = st.lists(
    st.fixed_dictionaries({"add": st.integers(-3, 3)})
    | st.fixed_dictionaries({"points": st.integers(0, 10)}),
    max_size=4,
)


def work(handed_in: list[tuple[int, int, int]], shuffle: random.Random | None = None) -> Work:
    """Return the work of a student who handed in one file each time. Equal files earn the same points."""
    attempts, files, verdicts = [], {}, {}
    time, points = BEGIN, {content: earned for _, content, earned in handed_in}
    for number, (hours, content, _) in enumerate(handed_in, 1):
        time += datetime.timedelta(hours=hours)
        attempts.append(Attempt(100 + number, "ann", number, f"{time.isoformat()}Z"))
        files[100 + number] = hashlib.sha256(bytes([content])).hexdigest()
        score = float(points[content])
        judged = result(Status.PASSED if score == 10 else Status.PARTIAL, score)
        verdicts[100 + number] = Verdict(
            status=judged.status,
            score=score,
            max_score=10.0,
            packed=packed(judged),
            graded_at="2026-03-09T00:00:00Z",
            seed=0,
            environment=HERE,
        )
    if shuffle is not None:
        shuffle.shuffle(attempts)
        files = dict(shuffle.sample(list(files.items()), len(files)))
        verdicts = dict(shuffle.sample(list(verdicts.items()), len(verdicts)))
    return work_of(ANN, attempts, {"task": files}, {"task": verdicts})


def rules(policy: str = "", changes: list[dict[str, Any]] | None = None) -> ClassRules:
    made = (
        Correction(student="ann", exercise="task", reason="so", author="ben", time=TIME, **change)
        for change in changes or ()
    )
    return ClassRules(
        course=CourseInfo("small", "1", "digest"),
        exercises=("task",),
        policy=read_policy(policy, {"task": "one"}),
        has_policy=bool(policy),
        corrections=tuple(made),
    )


def counted(work: Work, rules: ClassRules) -> Entry:
    entry = entry_of(work, rules)
    assert entry is not None
    return entry


@given(HANDED_IN, st.sampled_from(POLICIES), CHANGES, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(
    handed_in: list[tuple[int, int, int]],
    policy: str,
    changes: list[dict[str, Any]],
    chance: random.Random,
) -> None:
    by = rules(policy, changes)
    assert counted(work(handed_in, chance), by) == counted(work(handed_in), by)


@given(HANDED_IN, st.sampled_from([text for text in POLICIES if "best" in text]))
def test_another_attempt_never_costs_points_if_the_best_counts(
    handed_in: list[tuple[int, int, int]], policy: str
) -> None:
    files = [(hours, number % 256, points) for number, (hours, _, points) in enumerate(handed_in)]
    scores = [
        counted(work(files[:end]), rules(policy)).result.score for end in range(1, len(files) + 1)
    ]
    assert scores == sorted(scores)


@given(HANDED_IN)
def test_without_a_policy_the_newest_attempt_counts_with_its_judged_points(
    handed_in: list[tuple[int, int, int]],
) -> None:
    entry = counted(work(handed_in), rules())
    points = {content: earned for _, content, earned in handed_in}
    assert (entry.attempt, entry.result.score) == (len(handed_in), points[handed_in[-1][1]])


@given(HANDED_IN, st.sampled_from(POLICIES))
def test_the_same_file_again_changes_no_points(
    handed_in: list[tuple[int, int, int]], policy: str
) -> None:
    by, last = rules(policy), handed_in[-1]
    again = counted(work([*handed_in, (1, *last[1:])]), by)
    assert again.result.score == counted(work(handed_in), by).result.score


@given(HANDED_IN, st.sampled_from(POLICIES), CHANGES, st.integers(0, 10))
def test_points_set_last_by_a_person_override_everything(
    handed_in: list[tuple[int, int, int]], policy: str, changes: list[dict[str, Any]], points: int
) -> None:
    entry = counted(work(handed_in), rules(policy, [*changes, {"points": points}]))
    (exercise,) = entry.result.exercises
    assert exercise.score == points and exercise.mark is not None
    assert exercise.mark.judged in {float(earned) for *_, earned in handed_in}


@given(HANDED_IN, st.sampled_from(POLICIES), CHANGES)
def test_points_stay_in_bounds_and_ignore_corrections_of_others(
    handed_in: list[tuple[int, int, int]], policy: str, changes: list[dict[str, Any]]
) -> None:
    by = rules(policy, changes)
    score = counted(work(handed_in), by).result.score
    assert 0 <= score <= 10 and score == total_of(work(handed_in), by)
    others = tuple(msgspec.structs.replace(each, student="bob") for each in by.corrections)
    apart = msgspec.structs.replace(by, corrections=others)
    assert counted(work(handed_in), apart) == counted(work(handed_in), rules(policy))


def test_an_attempt_is_late_only_because_of_its_own_files_with_work() -> None:
    """A project in time is not late because an exercise of an earlier week was, or its stub was included."""
    first, second = (Attempt(n, "ann", n, f"2026-03-0{n + 5}T12:00:00Z") for n in (1, 2))

    def verdict(status: Status, score: float) -> Verdict:
        return Verdict(
            status=status,
            score=score,
            max_score=10.0,
            packed=packed(result(status, score)),
            graded_at="2026-03-09T00:00:00Z",
            seed=0,
            environment=HERE,
        )

    passed, stub = verdict(Status.PASSED, 10.0), verdict(Status.NOT_ATTEMPTED, 0.0)
    due = "[late]\nper_day = 10\n" + "".join(
        f'[[due]]\nat = {day}T12:00:00Z\nexercises = ["{name}"]\n'
        for name, day in (
            ("week1", "2026-03-05"),
            ("stub", "2026-03-05"),
            ("project", "2026-03-20"),
        )
    )
    by = msgspec.structs.replace(
        rules(),
        exercises=("week1", "stub", "project"),
        policy=read_policy(due, {}),
        has_policy=True,
    )

    def late(*attempts: Attempt) -> bool:
        files = {"week1": {1: "aa"}, "stub": {2: "bb"}, "project": {2: "cc"}}
        verdicts = {"week1": {1: passed}, "stub": {2: stub}, "project": {2: passed}}
        return counted(work_of(ANN, [*attempts], files, verdicts), by).late

    assert late(first)
    assert not late(first, second)
