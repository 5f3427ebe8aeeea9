"""The corrections file: staff edit it, a command adds and removes tables, and mistakes are explained."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.errors import GraderError
from grader.gradebook import Gradebook
from grader.gradebook.corrections import Correction, unknown_names
from grader.gradebook.corrections_file import (
    CorrectionsError,
    change_corrections,
    corrections_text,
    read_corrections,
)

from .conftest import School, no_room

FILE = Path("corrections.toml")
TIME = datetime.datetime(2026, 10, 12, 10, tzinfo=datetime.UTC)
HEAD = '[[correction]]\nexercise = "relu"\nauthor = "ben"\ntime = 2026-10-12T10:00:00Z\n'
ZOE = HEAD + 'student = "zoe"\n'
WRONG = {
    "[[correction]\n": ["line 1: this is not TOML"],
    "points = 8\n": ["line 1: there is no key `points`", "It belongs below [correction]"],
    ZOE + 'point = 8\nreason = "so"\n': ["line 6: there is no key `point`", "'points'"],
    ZOE + 'points = "8"\nreason = "so"\n': [
        "line 6: `points` of [[correction]] 1: expected a number, got a text in quotes",
        "Write points = 8",
    ],
    ZOE + 'points = nan\nreason = "so"\n': ["line 6: `points`"],
    ZOE + 'add = -inf\nreason = "so"\n': ["line 6: `add`"],
    ZOE + 'points = 8\nreason = "so"\n' + HEAD.replace('"relu"', "3"): [
        "line 9: `exercise` of [[correction]] 2: expected a text in quotes"
    ],
    '[[correction]]\nexercise = "relu"\nauthor = "ben"\n': ["[[correction]] 1 needs `time`"],
    ZOE.replace("Z\n", "\n") + 'points = 8\nreason = "so"\n': ["line 4: `time`", "10:00:00Z"],
    ZOE.replace("2026-10-12T10:00:00Z", '"noon"') + "points = 8\n": ["line 4: `time`"],
    ZOE: ["line 1: [[correction]] 1 has no effect", "`points`, `add`, `drop`"],
    ZOE + "points = 8\n": ["line 1: [[correction]] 1 needs `reason`"],
    "\n" + ZOE + 'points = 8\nadd = 1\nreason = "so"\n': ["line 2:", "`points` and `add`"],
    HEAD + 'points = 8\nreason = "so"\n': ["is for one student. Write", 'student = "zoe"'],
    ZOE + 'drop = "test_a"\nreason = "so"\n': ["omit `student`"],
    "correction = 3\n": ["line 1: `correction`", "[[correction]]"],
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_explained_with_its_line_and_a_fix(text: str) -> None:
    with pytest.raises(CorrectionsError) as caught:
        read_corrections(text, FILE)
    message = str(caught.value)
    assert message.startswith("corrections.toml, line ") and "\n" not in message
    for words in WRONG[text]:
        assert words in message
    assert caught.value.exit_code == 2


def made(**fields: Any) -> Correction:
    given = {"student": "zoe", "exercise": "relu", "author": "ben", "time": TIME, "reason": "so"}
    return Correction(**{**given, **fields})


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
CORRECTIONS = st.builds(
    made,
    student=TEXTS,
    exercise=TEXTS,
    points=st.floats(0, 1e6),
    author=TEXTS.filter(str.strip),
    reason=TEXTS.filter(str.strip),
    comment=st.just("") | TEXTS,
) | st.builds(lambda test: made(student="", drop=test), TEXTS)


# Fewer examples, since each writes to the disk.
@settings(max_examples=30)
@given(st.lists(CORRECTIONS, max_size=4), st.data())
def test_written_corrections_are_read_back_and_removed_ones_are_gone(
    tmp_path_factory: pytest.TempPathFactory, expected: list[Correction], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("results")
    for correction in expected:
        change_corrections(folder, [correction])
    while expected:
        read = read_corrections(corrections_text(folder), FILE)
        # Texts for people are escaped to one line.
        assert [plain(each) for each in read] == [plain(each) for each in expected]
        place = data.draw(st.integers(0, len(expected) - 1))
        change_corrections(folder, [], [place])
        del expected[place]
    assert read_corrections(corrections_text(folder), FILE) == ()


def plain(correction: Correction) -> Correction:
    return msgspec.structs.replace(correction, reason="", comment="", author="x")


def test_comments_in_the_file_stay(tmp_path: Path) -> None:
    text = f"# ours\n\n{ZOE}add = 1\nreason = 'so'  # why\n\n# of Kim\n{ZOE}add = 2\nreason = 'so'"
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    change_corrections(tmp_path, [made(points=8.0)])
    assert corrections_text(tmp_path).startswith(text)
    change_corrections(tmp_path, [], [0])
    left = corrections_text(tmp_path)
    assert left.startswith(f"# ours\n\n# of Kim\n{ZOE}add = 2\n")
    assert [each.add for each in read_corrections(left, FILE)] == [2, None]


def test_a_file_that_cannot_be_edited_is_left_unchanged(tmp_path: Path) -> None:
    table = '{exercise = "relu", student = "zoe", author = "b", time = 2026-10-12T10:00:00Z, comment = "x"}'
    text = f"correction = [{table}]\n"
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    assert len(read_corrections(text, FILE)) == 1
    with pytest.raises(CorrectionsError, match="change the file by hand"):
        change_corrections(tmp_path, [made(points=8.0)])
    with pytest.raises(CorrectionsError, match="change the file by hand"):
        change_corrections(tmp_path, [], [0])
    assert corrections_text(tmp_path) == text
    (tmp_path / FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(CorrectionsError, match="not in UTF-8"):
        corrections_text(tmp_path)


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with no_room(), pytest.raises(GraderError, match=r"corrections\.toml cannot be written"):
        change_corrections(tmp_path, [made(points=8.0)])
    assert list(tmp_path.iterdir()) == []


def test_unknown_names_are_reported() -> None:
    notes = list(unknown_names([made(add=1.0, student="zeo", exercise="rleu")], ["zoe"], ["relu"]))
    assert "'zeo'" in notes[0] and "'zoe'?" in notes[0]
    assert "'rleu'" in notes[1] and "'relu'?" in notes[1]


def test_edits_by_hand_reach_the_results_with_the_next_grading(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        school.keep(book, school.hand_in(book, "ann", b"x = 1\n"), 10)
        book.finish(())
        book.mark_current()
        assert not book.begin(school.course)
        book.finish(())
        book.mark_current()
    text = ZOE.replace("relu", "task").replace("zoe", "ann") + 'points = 4\nreason = "copied"\n'
    (school.results / FILE).write_text(text, encoding="utf-8")
    with Gradebook.open(school.results) as book:
        entry = book.entry_of("ann")
        assert entry is not None and entry.result.score == 4
    with Gradebook.open_to_write(school.results) as book:
        assert book.begin(school.course), "any result may have changed"
        book.correct(replacing=(0,))
        entry = book.entry_of("ann")
        assert entry is not None and entry.result.score == 10


def test_every_key_is_documented() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "reference.md"
    section = page.read_text(encoding="utf-8").partition("## Corrections")[2]
    section = section.partition("\n## ")[0]
    keys = Correction.__struct_fields__
    assert [key for key in keys if not re.search(rf"`{key}\b", section)] == []
