"""A gradebook without names: each student has one pseudonym everywhere, and staff can resolve it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.gradebook import Gradebook
from grader.gradebook.anonymous import AnonymousBook, pseudonyms_of
from grader.gradebook.batch import BatchSummary, ScoreChange
from grader.gradebook.review import Attention, Reason
from grader.gradebook.similarity.findings import (
    ExerciseSurvey,
    Similarity,
    SimilarPair,
    source_digest,
)
from grader.gradebook.work import SERVER, Request
from grader.results import Entry, StudentInfo
from tests.grader.gradebook.conftest import School

ANN = StudentInfo(
    id="a.lee17",
    name="Lee, Ann",
    email="ann.lee@uni.example",
    ids={"sis": "S-471100815", "section": "B"},
)
MAX = StudentInfo(id="max", name="Max Ng", email="max@uni.example")
SOURCE = b"# Ann Lee, A.LEE17\nsmallest = max(leeway, 1)\n"
OTHER = SOURCE.replace(b"Ann Lee, A.LEE17", b"Max (max@uni.example)")
TELLING = ("a.lee17", "lee", "ann", "uni.example", "471100815", "max@", "ng", "zed.1")


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


def test_a_pseudonym_is_stable_and_differs_between_gradebooks(
    results: Path, tmp_path: Path
) -> None:
    first = pseudonyms_in(results)
    assert pseudonyms_in(results)("max") == first("max") != first("a.lee17")
    assert first("max").startswith("anon-") and len(first("max")) == 13
    with Gradebook.open_to_write(tmp_path / "other"):
        pass
    assert pseudonyms_in(tmp_path / "other")("max") != first("max")


def test_a_warning_of_an_unfinished_grading_does_not_name_the_download(
    results: Path, school: School
) -> None:
    with Gradebook.open_to_write(results) as book:
        book.begin(school.course, reading=["downloads/a.lee17.zip"])
    for command in (["export", str(results), "--format", "csv"], ["requests", str(results)]):
        named, hidden = (CliRunner().invoke(main, [*command, *o]) for o in ([], ["--anonymous"]))
        assert "a.lee17.zip" in named.stderr
        assert "did not finish" in hidden.stderr and "a.lee17" not in hidden.output


def test_nothing_that_identifies_a_student_is_left(results: Path) -> None:
    pair = SimilarPair(
        exercise="task", left=ANN.id, right=MAX.id, similarity=1.0, left_lines=((2, 2),),
        right_lines=((2, 2),), left_digest=source_digest(SOURCE), right_digest=source_digest(OTHER),
    )  # fmt: skip
    survey = ExerciseSurvey(exercise="task", files=2, short=0, alike=1)
    with AnonymousBook.open(results) as book:
        entries = list(book.entries())
        sources = {entry.student.id: book.sources(entry) for entry in entries}
        similarity = book.similarity(Similarity(threshold=0.6, exercises=(survey,), pairs=(pair,)))
        shown = (
            entries, book.students(), book.names(), book.absent(), book.attempt_counts(),
            book.attention(), similarity,
            book.shown(BatchSummary(1, 1, 1, 0, 0, (), ("a.lee17",), ("max",))),
            [source.decode() for files in sources.values() for source in files.values()],
        )  # fmt: skip
        ann = pseudonyms_in(results)(ANN.id)
        names = [entry.student.id for entry in entries]
        assert book.entry_of(ANN.id) is None
    text = msgspec.json.encode(shown).decode().replace("max(leeway, 1)", "").casefold()
    for word in TELLING:
        # Short words may be part of other words, such as "failing" and "passing".
        assert not any(word == part for part in text.replace('"', " ").split()), word
        assert len(word) < 4 or word not in text, word
    assert names == sorted(names) and len(names) == 2
    # Python's builtins are not names, and neither is a word that contains one.
    assert sources[ann]["task"] == f"# {ann} {ann}, {ann}\nsmallest = max(leeway, 1)\n".encode()
    # The lines of an alike pair are still found.
    assert similarity.pairs[0].left_digest == source_digest(sources[ann]["task"])


def test_the_name_of_a_server_is_no_student_s_name(school: School) -> None:
    source = b"# Ann handed this in to grade serve\n"
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        with book.transaction():
            book.keep_student(ANN)
        attempt = school.hand_in(book, ANN.id, source, origin=SERVER)
        school.keep(book, attempt, 10, source)
        book.finish(())
    ann = pseudonyms_in(school.results)(ANN.id)
    with AnonymousBook.open(school.results) as hidden:
        (entry,) = hidden.entries()
        assert hidden.sources(entry)["task"] == f"# {ann} handed this in to grade serve\n".encode()


# The structs that commands show with pseudonyms, and their text fields that never name a student: texts of the
# course, the grader and staff, times and digests.
SHOWN = (Entry, Attention, Request, Similarity, BatchSummary, ScoreChange)
HARMLESS = {
    *("Entry.submitted_at", "Entry.timezone", "Result.started_at", "SubmissionInfo.digest"),
    *("CourseInfo.name", "CourseInfo.version", "CourseInfo.digest"),
    *("Environment.grader", "Environment.python", "Environment.torch", "Environment.platform"),
    *("Environment.isolation", "Place.file", "keys of Finding.values"),
    *("ExerciseResult.name", "ExerciseResult.title", "ExerciseResult.chapter"),
    *("ExerciseResult.left_out", "TestResult.name", "TestResult.title", "TestResult.hint"),
    *("TestResult.subject", "TestResult.uses", "TestResult.stood_in"),
    *("Mark.submitted_at", "Mark.due", "StudentRequest.asked_at", "StudentRequest.answered_at"),
    *("Request.exercise", "Request.asked_at", "Request.origin"),
    *("Answer.author", "Answer.answered_at", "Attention.exercises"),
    *("SimilarPair.exercise", "SimilarPair.left_digest", "SimilarPair.right_digest"),
    *("ExerciseSurvey.exercise", "keys of ExerciseSurvey.at_other_thresholds"),
    *("GroupExercise.exercise", "CorpusMatch.exercise", "CorpusMatch.digest"),
    *("CorpusMatch.corpus_digest", "CorpusSurvey.exercise"),
    *("ScoreChange.exercise", "ScoreChange.tests"),
}


def filled(kind: msgspec.inspect.Type) -> Any:
    """Return plain data of this type, with the student's id in place of every text."""
    match kind:
        case msgspec.inspect.StrType():
            return ANN.id
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return 1
        case msgspec.inspect.EnumType(cls=cls):
            return next(iter(cls)).value
        case msgspec.inspect.UnionType(types=types):
            return next(filled(each) for each in types if each != msgspec.inspect.NoneType())
        case msgspec.inspect.VarTupleType(item_type=item):
            return [filled(item)]
        case msgspec.inspect.TupleType(item_types=items):
            return [filled(item) for item in items]
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return {filled(key): filled(value)}
        case msgspec.inspect.StructType(fields=fields):
            return {field.encode_name: filled(field.type) for field in fields}
    raise AssertionError(f"this test cannot fill {kind}")


def left_in(value: Any, where: str = "") -> Iterator[str]:
    """Yield each field that still has the student's id of `filled`."""
    match value:
        case str() if ANN.id in value:
            yield where
        case msgspec.Struct():
            for name in value.__struct_fields__:
                yield from left_in(getattr(value, name), f"{type(value).__name__}.{name}")
        case dict():
            for key, each in value.items():
                yield from left_in(key, f"keys of {where}")
                yield from left_in(each, where)
        case list() | tuple():
            for each in value:
                yield from left_in(each, where)


def test_every_text_field_is_anonymized_or_known_to_be_harmless(results: Path) -> None:
    with AnonymousBook.open(results) as book:
        left = {
            field
            for kind in SHOWN
            for value in [msgspec.convert(filled(msgspec.inspect.type_info(kind)), kind)]
            for field in left_in(book.shown(value, ANN.id))
        }
    assert left == HARMLESS


@pytest.mark.parametrize(
    "command",
    [
        ["report", "{results}", "-o", "{out}", "--anonymous"],
        ["export", "{results}", "--format", "csv", "-o", "{out}/x.csv", "--anonymous"],
        ["export", "{results}", "--format", "jsonl", "-o", "{out}/x.jsonl", "--anonymous"],
        ["export", "{results}", "--format", "junit", "-o", "{out}", "--anonymous"],
    ],
)
def test_no_command_writes_a_name_to_a_file(
    results: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    main([word.format(results=results, out=out) for word in command], standalone_mode=False)
    files = [path for path in out.rglob("*") if path.is_file()]
    printed = [capsys.readouterr().out.replace(str(tmp_path), "")]
    for text in (*printed, *(path.name + path.read_text(encoding="utf-8") for path in files)):
        for word in ("a.lee17", "Lee", "uni.example", "471100815", "Max", "zed.1"):
            assert word not in text
    assert files


def test_the_gradebook_resolves_a_pseudonym(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pseudonym = pseudonyms_in(results)(ANN.id)
    main(["show", str(results), pseudonym], standalone_mode=False)
    assert "a.lee17  Lee, Ann" in capsys.readouterr().out
