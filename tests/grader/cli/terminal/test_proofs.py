"""The report of a proof to its author."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from grader.authoring.verify import CaughtAnswer, ExerciseProof
from grader.cli.terminal.proofs import show_proofs


@pytest.mark.parametrize(
    ("kept", "is_central", "mark", "last"),
    [
        (0.5, False, "dear", "lost more than a third for a mistake that is not marked as central"),
        (0.9, False, "", ""),
        (0.3, True, "central", ""),
        (0.09, True, "harsh", "1 central mistake left less than a quarter of the points"),
    ],
)
def test_the_points_that_a_mistake_keeps_are_marked(
    kept: float, is_central: bool, mark: str, last: str
) -> None:
    wrong = CaughtAnswer("a", "It is wrong.", (), kept, is_central)
    out = io.StringIO()
    console = Console(file=out, width=200)
    assert not show_proofs(console, [ExerciseProof("glu", 1, 1, 1, (), (wrong,))], points=True)
    lines = out.getvalue().splitlines()
    assert lines[1].split()[: 2 if mark else 1] == [f"{kept:.0%}", mark][: 2 if mark else 1]
    assert mark in ("", lines[1].split()[1])
    assert last in out.getvalue()
