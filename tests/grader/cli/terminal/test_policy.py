"""The rules of a class in words, and the students who gain or lose by a change."""

from __future__ import annotations

import io

from rich.console import Console

from grader.cli.terminal.policy import Effect, Points, points_of, show_effect, show_policy
from grader.gradebook.policy_file import read_policy
from tests.grader.builders import checked, entry, exercise, unjudged

CHAPTERS = {"relu": "autograd", "gelu": "autograd", "glu": "modules"}


def rules(text: str) -> str:
    """Return what is printed about a policy."""
    console = Console(file=io.StringIO(), width=200)
    show_policy(console, read_policy(text, CHAPTERS), list(CHAPTERS))
    return str(console.file.getvalue())  # type: ignore[attr-defined]  # it is a StringIO


def test_without_rules_the_newest_attempt_counts() -> None:
    assert rules("").split("\n")[0] == "The newest attempt counts."


def test_the_attempt_that_counts_and_the_time_zone_are_shown() -> None:
    shown = rules('attempts = "best"\nmax_attempts = 3\ntimezone = "Europe/Warsaw"\n')
    assert "The attempt with the most points counts, of the first 3." in shown
    assert "Times are in Europe/Warsaw." in shown


def test_each_due_time_has_its_exercises_and_its_costs() -> None:
    shown = rules(
        '[late]\nper_day = 10\nat_most = 50\ngrace = "15 minutes"\n'
        '[[due]]\nchapters = ["autograd"]\nat = 2026-10-12T21:59:00Z\n'
    )
    assert "Due 2026-10-12 21:59 UTC  relu, gelu\n" in shown
    assert "10 % lost for each day begun, at most 50 %; grace of 15 minutes" in shown
    assert "Never due: glu" in shown


def test_late_steps_and_the_close_are_listed_in_order() -> None:
    steps = 'steps = [{after = "0 hours", lose = 10}, {after = "3 days", lose = 50}]'
    shown = rules(f'[late]\n{steps}\ncloses = "7 days"\n[[due]]\nat = 2026-10-12T21:59:00Z\n')
    late = "10 % lost when late; 50 % lost when more than 3 days late"
    assert f"{late}; closed when more than 7 days late" in shown
    assert "Never due" not in shown


def test_a_due_time_without_costs_says_so() -> None:
    assert "lateness costs nothing" in rules("[[due]]\nat = 2026-10-12T21:59:00Z\n")


def test_an_extension_names_its_students_exercises_and_end() -> None:
    shown = rules(
        "[[due]]\nat = 2026-10-12T21:59:00Z\n"
        '[[extension]]\nstudent = "zoe"\nexercises = ["glu"]\nby = "2 days"\nreason = "ill"\n'
        '[[extension]]\nsection = "B"\nuntil = 2026-10-15T21:59:00Z\n'
    )
    assert "Extension for zoe, glu, by 2 days: ill" in shown
    assert "Extension for section B, everything, until 2026-10-15 21:59 UTC" in shown


def test_text_from_a_policy_is_one_harmless_line() -> None:
    shown = rules(
        "[[due]]\nat = 2026-10-12T21:59:00Z\n"
        '[[extension]]\nstudent = "zoe"\nby = "2 days"\nreason = "\\u001b[31mill\\nreally"\n'
    )
    assert "\x1b" not in shown
    (line,) = [line for line in shown.splitlines() if "zoe" in line]
    assert "ill" in line and "really" in line


# --- the effect of a change -----------------------------------------------------------------------


def effect(before: dict[str, Points], after: dict[str, Points]) -> tuple[Effect, list[str]]:
    """Return the counts of a change and the lines about it."""
    console = Console(file=io.StringIO(), width=200)
    found = show_effect(console, before, after, {"ann": "Ann Lee"})
    return found, console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # a StringIO


def test_losers_come_first_and_all_are_counted() -> None:
    before = {name: Points(5.0, 10.0, False) for name in ("ann", "bob", "cem", "dee")}
    after = before | {"ann": Points(7.5, 10.0, False), "bob": Points(4.0, 10.0, False)}
    after["dee"] = Points(0.0, 10.0, True)
    found, lines = effect(before, after)
    assert found == Effect(gained=1, lost=1, waiting=1)
    assert lines[0].split() == ["-1.00", "bob:", "5", "to", "4", "of", "10"]
    assert "+2.50" in lines[1] and "Ann Lee" in lines[1] and "5 to 7.5 of 10" in lines[1]
    assert lines[-1] == "1 gained, 1 lost, 1 as before, 1 not judged."


def test_a_large_class_is_shown_in_part() -> None:
    before = {f"s{n:02}": Points(5.0, 10.0, False) for n in range(30)}
    found, lines = effect(before, dict.fromkeys(before, Points(6.0, 10.0, False)))
    assert found == Effect(gained=30, lost=0, waiting=0)
    assert len(lines) == 22 and "10 more students" in lines[-2]


def test_points_are_of_one_exercise_or_of_all() -> None:
    passed = exercise(checked(), worth=15)
    entries = [entry(passed, student="ann"), entry(passed, unjudged(), student="bob")]
    assert points_of(entries, "glu") == dict.fromkeys(("ann", "bob"), Points(15.0, 15.0, False))
    assert points_of(entries) == {
        "ann": Points(15.0, 15.0, False),
        "bob": Points(15.0, 30.0, True),
    }
