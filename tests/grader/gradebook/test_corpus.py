"""`grade similar --corpus`: files similar to those of former classes or to published answers, without names."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.similarity.corpus import CorpusFile, find_in_corpus, read_corpus
from grader.gradebook.similarity.findings import CorpusMatch, read_similar, source_digest
from tests.grader.builders import entry
from tests.grader.gradebook.conftest import School
from tests.grader.gradebook.test_similarity import SOLUTION, STUB, disguised, right_answers

NOWHERE = Path("/nonexistent")


def found(own: dict[str, str], others: list[CorpusFile], **keywords: float) -> list[CorpusMatch]:
    """Return the matches of a class in which each student handed in one file."""
    matches, _ = find_in_corpus(
        [entry(student=student) for student in own],
        lambda entry: {"glu": own[entry.student.id].encode()},
        {"glu": STUB.encode()},
        others,
        **keywords,
    )
    return matches


def corpus_of(sources: list[str], *owners: str) -> list[CorpusFile]:
    return [CorpusFile("glu", each.encode(), frozenset(owners)) for each in sources]


def test_a_disguised_copy_of_a_former_answer_is_found_and_others_are_not() -> None:
    answers = right_answers()
    copied = answers.pop("glu")
    class_ = {**answers, "zoe": disguised(copied)}
    (match,) = found(class_, corpus_of([copied, STUB]), threshold=0.8)
    assert (match.student, match.exercise) == ("zoe", "glu") and match.similarity > 0.8
    assert match.corpus_digest == source_digest(copied.encode())
    assert match.lines and match.corpus_lines


def test_the_most_alike_file_is_named_once() -> None:
    other = right_answers()["compact"]
    matches = found({"zoe": SOLUTION}, corpus_of([other, SOLUTION]), threshold=0.1)
    assert [each.corpus_digest for each in matches] == [source_digest(SOLUTION.encode())]


def test_earlier_work_of_the_same_student_is_not_compared() -> None:
    assert found({"zoe": SOLUTION}, corpus_of([SOLUTION], "zoe")) == []
    assert found({"ann": SOLUTION}, corpus_of([SOLUTION], "zoe"))


def test_a_given_threshold_is_used() -> None:
    other = corpus_of([right_answers()["compact"]])
    assert found({"zoe": SOLUTION}, other, threshold=0.1)
    assert not found({"zoe": SOLUTION}, other, threshold=1.0)


def test_corpus_files_are_found_by_file_and_folder_names(tmp_path: Path) -> None:
    for name in (
        "2024/zoe/modules/glu.py",
        "2025/doejane_101_9001_glu-1.py",
        "answers/glu/fast.py",
        "answers/gelu/fast.py",
        "answers/gelu/reglu.py",
        "notes/other.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    (tmp_path / "link_glu.py").symlink_to(tmp_path / "notes/other.py")
    read = {each.source.decode() for each in read_corpus([tmp_path], ["glu"], NOWHERE.parent)}
    assert read == {
        "2024/zoe/modules/glu.py",
        "2025/doejane_101_9001_glu-1.py",
        "answers/glu/fast.py",
    }
    with pytest.raises(SubmissionError, match="There is no file of nan_watch below"):
        read_corpus([tmp_path], ["nan_watch"], tmp_path)


LONG = "\n".join(f"def f{n}(x):\n    return [x * {n}, x + {n}, len(x) - {n}]\n" for n in range(8))


def test_the_command_names_no_former_student(school: School, tmp_path: Path) -> None:
    former = tmp_path / "former"
    for results, student in ((school.results, "zoe"), (former, "old-student")):
        with Gradebook.open_to_write(results) as book:
            book.begin(school.course)
            source = LONG.encode()
            school.keep(book, school.hand_in(book, student, source), 8.0, source)
            book.finish(())
    arguments = ["similar", str(school.results), "--course", str(school.course.root)]
    done = CliRunner().invoke(main, [*arguments, "--corpus", str(tmp_path)])
    assert done.exit_code == 0, done.output
    digest = source_digest(LONG.encode())
    assert f"100 %  task  zoe  corpus-{digest[:12]}" in done.output
    kept = (school.results / "similar.json").read_text("utf-8")
    assert "old-student" not in done.output + kept and str(former) not in done.output + kept
    similarity = read_similar(school.results)
    assert similarity is not None and [e.student for e in similarity.corpus] == ["zoe"]
    hidden = CliRunner().invoke(main, [*arguments, "--corpus", str(tmp_path), "--anonymous"])
    assert "anon-" in hidden.output and "zoe" not in hidden.output.replace(str(tmp_path), "")
