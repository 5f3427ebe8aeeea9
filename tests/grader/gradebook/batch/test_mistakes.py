"""`grade mistakes`: unexplained failures of a class, grouped by observations, and a sentence for a group."""

from __future__ import annotations

import re
import shutil

import pytest

from .conftest import RIGHT, School, run

pytestmark = pytest.mark.thorough

TRIPLED = {
    "bob": "def double(x):\n    return x * 3\n",
    "cat": '"""By Cat Miller."""\n\ndef double(x):\n    # Cat\n    tripled = x + x + x\n    return tripled\n',
    "eve": "def double(x):\n    return 3.0 * x\n",
}
CLASS = {
    **TRIPLED,
    "ann": RIGHT,
    "dan": "def double(x):\n    return x + 2\n",
    "fay": "def double(x:\n",
}
SENTENCE = "You triple: multiply by 2."


@pytest.fixture
def judged(school: School) -> School:
    """Return a graded class in which three students made the same mistake in different ways."""
    shutil.rmtree(school.submissions)
    for student, source in CLASS.items():
        school.hand_in(student, source)
    solution = school.course / "solutions" / "one" / "task.py"
    solution.parent.mkdir(parents=True, exist_ok=True)
    solution.write_text(f'"""The solution."""\n\n\n{RIGHT}', encoding="utf-8")
    school.batch()
    return school


def messages(school: School) -> dict[str, str]:
    """Return the message of test_double for each student."""
    return {
        student: next(t.message for t in entry.result.exercises[0].tests if t.name == "test_double")
        for student, entry in school.entries().items()
    }


def grade(school: School, *options: str) -> str:
    done = run(school.command("mistakes", str(school.results), *options))
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_group(school: School) -> str:
    found = re.match(r"task-[0-9a-f]{6}", grade(school))
    assert found is not None
    return found[0]


def test_the_largest_group_comes_first_with_its_code(judged: School) -> None:
    shown = grade(judged)
    first, second = re.findall(r"(task-\w+)  (\d+) students?: (.*)", shown)
    assert first[1:] == ("3", "bob, cat, eve")
    assert second[1:] == ("1", "dan")
    assert "-    return 2 * x" in shown
    assert "+    return x * 3" in shown
    assert shown.index("The double is twice the number") < shown.index("-    return 2 * x")
    assert "2 groups of 4 students." in shown
    assert first_group(judged) == first[0]


def test_a_sentence_reaches_the_group_at_once_and_changes_no_points(judged: School) -> None:
    before = {student: entry.result.score for student, entry in judged.entries().items()}
    grade(judged, "--name", first_group(judged), SENTENCE)
    shown = messages(judged)
    assert {s for s, text in shown.items() if text.startswith(f"{SENTENCE}\n")} == TRIPLED.keys()
    assert {s: entry.result.score for s, entry in judged.entries().items()} == before
    assert SENTENCE in (judged.results / "results" / "bob.json").read_text(encoding="utf-8")
    assert "1 group of 1 student." in grade(judged)


def test_a_named_group_becomes_an_anonymous_wrong_answer_for_later_files(judged: School) -> None:
    grade(judged, "--name", first_group(judged), SENTENCE)
    folder = judged.course / "tests" / "wrong" / "one"
    (file,) = (folder / "task").iterdir()
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f"# wrong: {SENTENCE}\n")
    caught = (folder / "task.caught.toml").read_text(encoding="utf-8").splitlines()
    assert caught[1:] == [f'"test_double" = ["{file.stem}"]']
    assert "Cat" not in text
    judged.hand_in("gus", "def double(x):\n    return sum([x, x, x])\n")
    judged.batch()
    assert messages(judged)["gus"].startswith(f"{SENTENCE}\n")


def test_an_invalid_group_or_sentence_is_refused(judged: School) -> None:
    for group, sentence, complaint in [
        ("task-000000", SENTENCE, "There is no group 'task-000000' among 2 groups"),
        (first_group(judged), "a | b", "Say in one sentence, without '|'"),
        (first_group(judged), " ", "Say in one sentence, without '|'"),
    ]:
        command = judged.command("mistakes", str(judged.results), "--name", group, sentence)
        done = run(command)
        assert done.returncode == 2
        assert complaint in " ".join(done.stderr.split())
    assert not (judged.course / "tests" / "wrong").exists()


def test_a_class_without_unexplained_failures_is_reported(school: School) -> None:
    shutil.rmtree(school.submissions)
    school.hand_in("ann", RIGHT)
    school.batch()
    assert grade(school) == "Every failure has a sentence that explains it.\n"
