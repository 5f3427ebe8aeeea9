"""A gradebook without names: a student has the same pseudonym everywhere, and staff can resolve it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from grader.cli import main
from grader.gradebook import Gradebook
from grader.gradebook.anonymous import AnonymousBook, pseudonyms_of
from grader.gradebook.batch import BatchSummary
from grader.gradebook.review import Attention, Reason
from grader.gradebook.similarity.findings import (
    ExerciseSurvey,
    Similarity,
    SimilarPair,
    source_digest,
)
from grader.results import StudentInfo
from tests.grader.gradebook.conftest import School

ANN = StudentInfo(
    id="a.lee17",
    name="Lee, Ann",
    email="ann.lee@uni.example",
    ids={"sis": "S-4711", "section": "B"},
)
MAX = StudentInfo(id="max", name="Max Ng", email="max@uni.example")
SOURCE = b"# Ann Lee, A.LEE17\nsmallest = max(leeway, 1)\n"
OTHER = SOURCE.replace(b"Ann Lee, A.LEE17", b"Max (max@uni.example)")
TELLING = ("a.lee17", "lee", "ann", "uni.example", "4711", "max@", "ng", "zed.1")


@pytest.fixture
def results(school: School) -> Path:
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student in (ANN, MAX, StudentInfo(id="zed.1", name="Zed")):
            with book.transaction():
                book.keep_student(student)
        for student, source in ((ANN, SOURCE), (MAX, OTHER)):
            school.keep(book, school.hand_in(book, student.id, source), 10, source)
        what = "a.lee17.zip is damaged: ann.lee@uni.example"
        book.finish((Attention(Reason.UNREADABLE, ANN.id, ("task",), what),))
        for student in (ANN, MAX):
            book.write_result(student.id)
    return school.results


def pseudonyms_in(folder: Path) -> Callable[[str], str]:
    with Gradebook.open(folder) as book:
        return pseudonyms_of(book)


def test_a_pseudonym_is_the_same_each_time_and_another_in_another_gradebook(
    results: Path, tmp_path: Path
) -> None:
    first = pseudonyms_in(results)
    assert pseudonyms_in(results)("max") == first("max") != first("a.lee17")
    assert first("max").startswith("anon-") and len(first("max")) == 13
    with Gradebook.open_to_write(tmp_path / "other"):
        pass
    assert pseudonyms_in(tmp_path / "other")("max") != first("max")


def test_nothing_of_a_student_is_left(results: Path) -> None:
    pair = SimilarPair(
        exercise="task", left=ANN.id, right=MAX.id, similarity=1.0, left_lines=((2, 2),),
        right_lines=((2, 2),), left_digest=source_digest(SOURCE), right_digest=source_digest(OTHER),
    )  # fmt: skip
    survey = ExerciseSurvey(exercise="task", files=2, short=0, alike=1)
    with AnonymousBook.open(results) as book:
        entries = list(book.entries())
        sources = {entry.student.id: book.sources(entry) for entry in entries}
        similarity = book.similarity(Similarity(threshold=0.6, exercises=(survey,), pairs=(pair,)))
        told = (
            entries, book.students(), book.names(), book.absent(), book.attempt_counts(),
            book.attention(), similarity,
            book.shown(BatchSummary(1, 1, 0, 0, (), ("a.lee17",), ("max",))),
            [source.decode() for files in sources.values() for source in files.values()],
        )  # fmt: skip
        ann = pseudonyms_in(results)(ANN.id)
        names = [entry.student.id for entry in entries]
        assert book.entry_of(ANN.id) is None
    text = msgspec.json.encode(told).decode().replace("max(leeway, 1)", "").casefold()
    for word in TELLING:
        # Not as a part of another word, such as "failing" and "passing".
        assert not any(word == part for part in text.replace('"', " ").split()), word
        assert len(word) < 4 or word not in text, word
    assert names == sorted(names) and len(names) == 2
    # Python's keywords are not names, and a word that contains a name is another word.
    assert sources[ann]["task"] == f"# {ann} {ann}, {ann}\nsmallest = max(leeway, 1)\n".encode()
    # The lines of an alike pair are still found.
    assert similarity.pairs[0].left_digest == source_digest(sources[ann]["task"])


@pytest.mark.parametrize(
    "command",
    [
        ["report", "{results}", "-o", "{out}", "--anonymous"],
        ["export", "{results}", "--format", "csv", "-o", "{out}/x.csv", "--anonymous"],
        ["export", "{results}", "--format", "jsonl", "-o", "{out}/x.jsonl", "--anonymous"],
        ["export", "{results}", "--format", "junit", "-o", "{out}", "--anonymous"],
    ],
)
def test_no_file_of_a_command_names_anybody(
    results: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    main([word.format(results=results, out=out) for word in command], standalone_mode=False)
    files = [path for path in out.rglob("*") if path.is_file()]
    said = [capsys.readouterr().out.replace(str(tmp_path), "")]
    for text in (*said, *(path.name + path.read_text(encoding="utf-8") for path in files)):
        for word in ("a.lee17", "Lee", "uni.example", "4711", "Max", "zed.1"):
            assert word not in text
    assert files


def test_the_way_back_is_with_the_gradebook(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pseudonym = pseudonyms_in(results)(ANN.id)
    main(["show", str(results), pseudonym], standalone_mode=False)
    assert "a.lee17  Lee, Ann" in capsys.readouterr().out
