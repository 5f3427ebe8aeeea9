"""Which attempt counts and for how much: each rule, and all rules against an independent reference."""

from __future__ import annotations

import datetime
import math
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import GraderError
from grader.gradebook.policy import Counted, Extension, File, Policy, Rules
from grader.gradebook.policy_file import read_policy
from grader.results import StudentInfo

ANN = StudentInfo(id="ann", ids={"section": "B"})
DUE = datetime.datetime(2026, 10, 12, 21, 59, tzinfo=datetime.UTC)
AT = "[[due]]\nat = 2026-10-12T21:59:00Z\n"
CHAPTERS = {"relu": "autograd", "strides": "tensors", "glu": "modules"}


def at(hours: float, attempt: int = 1, judged: float | None = 10.0, **more: Any) -> File:
    """Return a file of ten points, handed in this many hours after it was due."""
    time = DUE + datetime.timedelta(hours=hours)
    return File(attempt, f"{time:%Y-%m-%dT%H:%M:%SZ}", False, judged, **more)


def counted(text: str, *files: File, exercise: str = "relu") -> Counted:
    return read_policy(text, CHAPTERS).counted(ANN, exercise, 10.0, files)


def test_without_rules_the_newest_attempt_counts_in_full() -> None:
    newest = at(100, 2, 4.0)
    assert counted("", at(-9, 1, 9.0), newest) == Counted(newest, 4.0)
    undated = File(3, "", True, 2.5)
    assert Policy().counted(ANN, "relu", 10, [undated]) == Counted(undated, 2.5)


@pytest.mark.parametrize(
    ("hours", "points"),
    [(-1, 10), (0, 10), (0.001, 9), (24, 9), (24.001, 8), (72, 7), (119, 5), (500, 5)],
)
def test_each_day_begun_costs_points_up_to_the_maximum(hours: float, points: float) -> None:
    assert counted("[late]\nper_day = 10\nat_most = 50\n" + AT, at(hours)).points == points


@pytest.mark.parametrize(
    ("hours", "points"), [(0.25, 10), (0.251, 9), (24, 9), (-3, 10), (24.1, 8)]
)
def test_grace_does_not_shift_the_days(hours: float, points: float) -> None:
    text = '[late]\ngrace = "15 minutes"\nper_day = 10\n' + AT
    assert counted(text, at(hours)).points == points


@pytest.mark.parametrize(("hours", "points"), [(0, 10), (0.1, 9), (72, 9), (72.1, 5), (300, 5)])
def test_the_last_step_passed_applies(hours: float, points: float) -> None:
    steps = 'steps = [{after = "0 hours", lose = 10}, {after = "3 days", lose = 50}]'
    assert counted(f"[late]\n{steps}\n{AT}", at(hours)).points == points


def test_a_due_time_has_its_own_rules_and_the_most_specific_one_applies() -> None:
    text = f"""
[late]
per_day = 10
{AT}
[[due]]
chapters = ["autograd"]
at = 2026-10-13T21:59:00Z
[[due]]
exercises = ["strides"]
at = 2026-10-12T21:59:00Z
late = {{per_day = 50}}
"""
    assert counted(text, at(1), exercise="glu").points == 9
    assert counted(text, at(1), exercise="relu").points == 10
    assert counted(text, at(25), exercise="relu").points == 9
    assert counted(text, at(1), exercise="strides").points == 5
    assert counted(text.replace("per_day = 50", ""), at(1), exercise="strides").points == 10


def test_a_file_after_closing_counts_nothing_and_an_earlier_one_counts() -> None:
    text = '[late]\nper_day = 10\ncloses = "2 days"\n' + AT
    assert counted(text, at(48)).points == 8
    late = counted(text, at(48.1))
    assert late.points == 0
    assert (
        "2 days 6 minutes late (due 2026-10-12 21:59 UTC): a file that is more than 2 days"
        in late.reasons[0]
    )
    both = counted(text, at(-1, 1, 6.0), at(50, 2, 10.0))
    assert (both.file.attempt, both.points) == (1, 6.0)
    assert both.reasons == ("A newer file was handed in 2 days 2 hours late, too late to count.",)


def test_only_the_first_attempts_may_count() -> None:
    files = at(-3, 1, 2.0), at(-2, 2, 4.0), at(-1, 3, 9.0)
    two = counted("max_attempts = 2", *files)
    assert (two.file.attempt, two.points) == (2, 4.0)
    assert two.reasons == ("Only the first 2 attempts may count, without 1 later.",)


def test_the_same_file_again_is_not_another_attempt_and_keeps_its_first_time() -> None:
    files = [
        at(-3, 1, 2.0, source="a"),
        at(-3, 2, 2.0, source="a"),
        at(-1, 3, 6.0, source="b"),
        at(-3, 4, 2.0, source="a"),
    ]
    assert counted("max_attempts = 2", *files[:3]).file.attempt == 3
    assert counted('attempts = "average"', *files).points == 4.0
    assert counted('attempts = "best"', *files).file.attempt == 3
    again = counted("[late]\nper_day = 10\n" + AT, files[0], at(-3, 9, 2.0, source="a"))
    assert (again.file.attempt, again.points) == (9, 2.0)


def test_an_unchanged_stub_is_not_an_attempt() -> None:
    stub, work = at(-3, 1, 0.0, source="s", untouched=True), at(-1, 2, 8.0, source="w")
    assert counted("max_attempts = 1", stub, work) == Counted(work, 8.0)
    assert counted('attempts = "average"', stub, work) == Counted(work, 8.0)
    assert counted('attempts = "average"', stub).points == 0


def test_the_best_attempt_is_chosen_after_late_penalties() -> None:
    text = 'attempts = "best"\n[late]\nper_day = 50\n' + AT
    best = counted(text, at(-1, 1, 6.0), at(1, 2, 10.0))
    assert (best.file.attempt, best.points) == (1, 6.0)
    assert best.reasons == ("The best of 2 attempts counts.",)
    assert counted('attempts = "best"', at(-2, 1, 6.0), at(-1, 2, 6.0)).file.attempt == 2


def test_an_average_is_rounded_once() -> None:
    # (0.045 + 0.04) / 2 is 0.0425. Rounding first would average 0.05 and 0.04 to 0.045, rounded to 0.05.
    text = 'attempts = "average"\n[late]\nper_day = 10\n' + AT
    assert counted(text, at(1, 1, 0.05), at(-1, 2, 0.04)).points == 0.04


def test_points_after_a_late_penalty_are_rounded_half_up_and_add_up() -> None:
    late = counted("[late]\nper_day = 10\n" + AT, at(1, 1, 0.05))
    assert (late.points, late.lost) == (0.05, 0.0)


def test_the_average_is_of_points_after_penalties() -> None:
    text = 'attempts = "average"\n[late]\nper_day = 50\ncloses = "3 days"\n' + AT
    average = counted(text, at(-1, 1, 5.01), at(1, 2, 10.0), at(100, 3, 10.0))
    assert average.points == 5.01
    assert average.file.attempt == 2
    assert average.reasons[-1] == (
        "The average of 2 attempts counts: 5.01 and 5 after 50 % for 1 hour late points."
    )
    assert (
        counted('attempts = "average"', at(-2, 1, 1.0), at(-1, 2, 2.0), at(0, 3, 2.0)).points
        == 1.67
    )


@pytest.mark.parametrize("judged", [0.25, 0.05, 4.35, 8.15])
def test_half_a_hundredth_is_rounded_up(judged: float) -> None:
    exact = Decimal(str(judged)) * Decimal("0.9")
    points = counted("[late]\nper_day = 10\n" + AT, at(1, judged=judged)).points
    assert points == float(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))


def test_an_extension_moves_the_due_time_and_the_latest_one_applies() -> None:
    text = f"""
[late]
per_day = 10
{AT}
[[extension]]
student = "ann"
until = 2026-10-14T21:59:00Z
reason = "ill"
[[extension]]
section = "B"
by = "1 day"
exercises = ["relu"]
[[extension]]
students = ["bob"]
by = "9 days"
"""
    on_time = counted(text, at(48))
    assert on_time.points == 10
    assert on_time.reasons == (
        "Handed in on time (due 2026-10-12 21:59 UTC; extension until 2026-10-14 21:59 UTC: ill).",
    )
    assert counted(text, at(49)).points == 9
    assert counted(text.replace('"ann"', '"zoe"'), at(24)).points == 10
    assert counted(text.replace('"ann"', '"zoe"'), at(24), exercise="glu").points == 9


def test_an_extension_shortens_nothing() -> None:
    text = (
        f'[late]\nper_day = 10\n{AT}[[extension]]\nstudent = "ann"\nuntil = 2026-10-01T00:00:00Z\n'
    )
    assert counted(text, at(-1)).points == 10


def test_without_a_timestamp_nothing_is_late() -> None:
    text = "[late]\nper_day = 10\n" + AT
    undated = File(1, "", True, 7.0)
    assert counted(text, undated) == Counted(undated, 7.0)


@pytest.mark.parametrize(
    ("text", "files", "attempt"),
    [
        ("", [at(-2, 1, 5.0), at(-1, 2, None)], 2),
        ('attempts = "best"', [at(-2, 1, None), at(-1, 2, 5.0)], 1),
        ('attempts = "best"', [at(-2, 1, None), at(-1, 2, 10.0)], 2),
        ('attempts = "average"', [at(-2, 1, None), at(-1, 2, 10.0)], 1),
        ('attempts = "best"\n[late]\nper_day = 60\n' + AT, [at(-2, 1, 5.0), at(1, 2, None)], 1),
    ],
)
def test_a_file_without_a_verdict_counts_if_it_could_change_the_points(
    text: str, files: list[File], attempt: int
) -> None:
    assert counted(text, *files).file.attempt == attempt


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("", {3}),
        ("max_attempts = 2", {2}),
        ('attempts = "best"', {1, 2, 3}),
        ('attempts = "average"\nmax_attempts = 2', {1, 2}),
        ('[late]\ncloses = "1 day"\n' + AT, {2}),
        ('attempts = "best"\n[late]\ncloses = "1 day"\n' + AT, {1, 2}),
    ],
)
def test_only_files_that_can_count_need_a_verdict(text: str, needed: set[int]) -> None:
    files = [at(-2, 1, None), at(-1, 2, None), at(30, 3, None)]
    assert read_policy(text).needed(ANN, "relu", 10, files) == needed


# --- the reference --------------------------------------------------------------------------------


def reference(rules: dict[str, Any], files: list[File]) -> tuple[int, Decimal]:
    """Compute the attempt and the points with exact decimals and whole seconds."""
    counting: list[tuple[int, Decimal]] = []
    for turn, file in enumerate(files, 1):
        seconds = 0
        if file.submitted_at:
            time = datetime.datetime.strptime(file.submitted_at, "%Y-%m-%dT%H:%M:%S%z")
            seconds = max(0, int((time - DUE).total_seconds()) - rules["extension"])
        if turn > rules["max_attempts"] or seconds > max(rules["closes"], rules["grace"]):
            continue
        lost = Decimal(0)
        if seconds > rules["grace"]:
            lost = min(
                Decimal(rules["per_day"]) * math.ceil(seconds / 86_400), Decimal(rules["at_most"])
            )
        counting.append((file.attempt, Decimal(str(file.judged)) * (100 - lost) / 100))
    if not counting:
        return files[-1].attempt, Decimal(0)
    # Shown points are rounded once: an average is of the exact points.
    shown = [(attempt, in_hundredths(points)) for attempt, points in counting]
    if rules["attempts"] == "best":
        return max(shown, key=lambda pair: (pair[1], pair[0]))
    if rules["attempts"] == "average":
        mean = sum(points for _, points in counting) / Decimal(len(counting))
        return counting[-1][0], in_hundredths(mean)
    return shown[-1]


def in_hundredths(points: Decimal) -> Decimal:
    return points.quantize(Decimal("0.01"), ROUND_HALF_UP)


RULES = st.fixed_dictionaries(
    {
        "attempts": st.sampled_from(["newest", "best", "average"]),
        "max_attempts": st.integers(1, 6),
        "per_day": st.integers(0, 100),
        "at_most": st.integers(0, 100),
        "grace": st.sampled_from([0, 1, 900, 90_000]),
        "closes": st.sampled_from([0, 3600, 86_400, 250_000]),
        "extension": st.sampled_from([0, 1, 86_400, 100_000]),
    }
)
SECONDS = st.one_of(
    st.integers(-200_000, 400_000), st.sampled_from([0, 1, 86_400, 86_401, 172_800]), st.none()
)


@given(RULES, st.lists(st.tuples(SECONDS, st.integers(0, 1000)), min_size=1, max_size=6))
def test_policies_agree_with_the_reference(
    rules: dict[str, Any], handed_in: list[tuple[int | None, int]]
) -> None:
    text = f"""
attempts = "{rules["attempts"]}"
max_attempts = {rules["max_attempts"]}
[late]
per_day = {rules["per_day"]}
at_most = {rules["at_most"]}
grace = "{rules["grace"]} seconds"
closes = "{max(rules["closes"], rules["grace"])} seconds"
{AT}
[[extension]]
student = "ann"
by = "{rules["extension"]} seconds"
"""
    files = [
        File(
            number,
            ""
            if seconds is None
            else f"{DUE + datetime.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}",
            False,
            hundredths / 100,
        )
        for number, (seconds, hundredths) in enumerate(handed_in, 1)
    ]
    found = counted(text, *files)
    assert (found.file.attempt, found.points) == (lambda pair: (pair[0], float(pair[1])))(
        reference(rules, files)
    )


@pytest.mark.parametrize(
    ("cell", "name", "is_for"),
    [
        ("B", "B", True),
        ("A and B", "B", True),
        ("A and B", "A", True),
        ("A, B", "B", True),
        ("A; B", "A", True),
        ("A & B", "B", True),
        ("A, C, and B", "B", True),
        ("A und B", "B", True),
        ("A and B", "A and B", True),
        ("Research and Development", "Research and Development", True),
        ("B and Research and Development", "Research and Development", True),
        ("1, 2", "2", True),
        ("B2", "B", False),
        ("AB", "B", False),
        ("Brand", "Br", False),
        ("Section B, A", "B", False),
        ("A and C", "B", False),
        ("", "B", False),
    ],
)
def test_a_section_extension_applies_to_students_in_several_sections(
    cell: str, name: str, *, is_for: bool
) -> None:
    for kind in ("section", "team"):
        extension = msgspec.convert({kind: name}, Extension)
        assert extension.is_for(StudentInfo(id="ada", ids={kind: cell})) is is_for


def test_an_unknown_timezone_is_reported() -> None:
    # A gradebook may come from a machine with other time zones.
    with pytest.raises(GraderError, match="`timezone`"):
        _ = Policy(Rules(timezone="Mars/Olympus"), {}).zone
