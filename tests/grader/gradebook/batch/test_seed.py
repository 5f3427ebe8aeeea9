"""A gradebook remembers the seed of its verdicts. Commands without --seed use it and say so."""

from __future__ import annotations

import pytest

from .conftest import HALF, RIGHT, School, run

pytestmark = pytest.mark.thorough


def seeds(school: School) -> set[int]:
    return {entry.result.seed for entry in school.entries().values()}


def test_a_regrade_uses_the_seed_of_earlier_verdicts(school: School) -> None:
    school.batch("--seed", "8231")
    done = run(school.command("regrade", str(school.results)))
    assert f"Judging with the seed 8231, as for the verdicts in {school.results}." in done.stderr
    # Only the file that ran out of time is judged again.
    assert "1 exercise judged" in done.stdout
    assert seeds(school) == {8231}


def test_a_later_batch_uses_the_same_seed_unless_it_names_another(school: School) -> None:
    for student in sorted(path.name for path in school.submissions.iterdir()):
        school.hand_in(student, RIGHT)
    school.batch("--seed", "8231")
    school.hand_in("ann", HALF)
    done = school.batch()
    assert "1 exercise judged" in done.stdout
    assert seeds(school) == {8231}
    done = school.batch("--seed", "0")
    assert "with the seed" not in done.stderr
    assert seeds(school) == {0}


def test_a_seed_that_was_not_chosen_is_not_mentioned(school: School) -> None:
    school.batch()
    done = run(school.command("regrade", str(school.results)))
    assert "seed" not in done.stderr
    assert seeds(school) == {0}
