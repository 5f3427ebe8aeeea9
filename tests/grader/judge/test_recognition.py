"""Known mistakes are recognized by observations of the tests, in a course and in its package."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from grader.course.mutants import WrongAnswer
from grader.judge.outcomes import Frame, student_error
from grader.judge.recognition import (
    Key,
    Recognition,
    alike,
    observation,
    observed,
    recognize,
    with_sentences,
)
from grader.judge.suite_run import meaning_of
from grader.results import Cause, Finding, Outcome, TestResult, Visibility
from tests.grader.command import grade

from ..builders import a_finding, checked, exercise
from ..cli.conftest import copy_course

FORWARD: Key = (Visibility.HIDDEN, "test_forward")
GRADIENT: Key = (Visibility.HIDDEN, "test_gradient")


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("1.2345678", "1.2345671", True),
        ("1.2345678", "1.2355678", False),
        ("1e-20", "3e-20", True),
        ("[0, 1]", "[1, 0]", False),
        ("None", "a list", False),
        ("nan", "nan", True),
    ],
)
def test_observations_may_differ_in_the_last_digits(left: str, right: str, same: bool) -> None:
    one, other = (Finding("It is {got}.", values={"got": value}) for value in (left, right))
    assert alike(one, other) is same is alike(other, one)
    assert not alike(one, msgspec.structs.replace(one, sentence="Its sum is {got}."))
    assert not alike(None, None)


def test_an_exception_is_observed_without_its_line_and_a_refusal_not_at_all() -> None:
    ends = []
    for frame in (Frame(3, "forward"), Frame(9, "_gate")):
        end = meaning_of(student_error("TypeError", ("TypeError",), "no len()", (frame,)))
        ends.append(observation(end.outcome, end.finding))
    assert alike(*ends)
    other = meaning_of(student_error("TypeError", ("TypeError",), "no item()", (frame,)))
    assert not alike(ends[0], observation(other.outcome, other.finding))
    refusal = a_finding("aten::glu is not allowed")
    assert observation(Outcome.FAILED, refusal, refused=True) is None
    assert observation(Outcome.TIMEOUT, a_finding("It took too long.")) is None
    assert observation(Outcome.FAILED, Finding("")) is None


def failed(key: Key, message: str) -> TestResult:
    return checked(key[1], Outcome.FAILED, visibility=key[0], message=message, cause=Cause.VALUES)


def named(key: Key, message: str) -> TestResult:
    """Return a failed test whose message names the mistake."""
    return checked(key[1], Outcome.FAILED, visibility=key[0], message=message, cause=Cause.MISTAKE)


def wrong(id_: str, *tests: str) -> WrongAnswer:
    return WrongAnswer(id_, id_, id_.encode(), says=f"You make the mistake {id_}.", caught_by=tests)


class Seen:
    """Gives the messages that tests see for wrong answers, and records which answers were run."""

    def __init__(self, **messages: dict[Key, str]) -> None:
        self.messages, self.run = messages, set[str]()

    def __call__(self, answer: WrongAnswer, keys: Sequence[Key]) -> Mapping[Key, Finding | None]:
        self.run.add(answer.id)
        messages = self.messages.get(answer.id, {})
        causes = {key: Finding(messages[key], cause=Cause.VALUES) for key in messages}
        return {key: causes.get(key) for key in keys}


def test_the_wrong_answer_that_explains_most_failures_is_named() -> None:
    results = [failed(FORWARD, "got 1"), failed(GRADIENT, "got 2")]
    seen = Seen(
        half={FORWARD: "got 1"},
        whole={FORWARD: "got 1", GRADIENT: "got 2"},
        other={FORWARD: "got 1", GRADIENT: "got 3"},
    )
    answers = [wrong("half", "test_forward"), wrong("other", "test_forward")]
    answers.append(wrong("whole", "test_forward", "test_gradient"))
    (found,) = recognize(results, answers, seen)
    assert (found.answer.id, set(found.tests)) == ("whole", {FORWARD, GRADIENT})
    for test in with_sentences(results, [found]):
        sentence, message = test.message.split("\n")
        assert sentence == "You make the mistake whole."
        assert message.startswith("got ")
        assert test.finding is not None
        assert (test.finding.plain[0], test.cause) == (sentence, Cause.MISTAKE)


def test_the_note_of_an_author_is_not_shown_to_students() -> None:
    """Without `says`, the sentence comes from a suite that names the mistake, or there is none."""
    bare, unnamed = failed(FORWARD, "got 1"), failed(GRADIENT, "got 2")
    answer = WrongAnswer("a", "a", b"a", mistake="an odd d is fine", told="got", caught_by=("x",))
    found = Recognition(answer, (FORWARD, GRADIENT))
    shown = with_sentences([bare, unnamed], [found])
    assert [(test.message, test.mistake) for test in shown] == [("got 1", 1), ("got 2", 1)]
    first, _ = with_sentences([bare, named(GRADIENT, "The bias is missing.")], [found])
    assert first.message == "The bias is missing.\ngot 1"
    assert "odd d" not in msgspec.json.encode(observed(answer, exercise(bare))).decode()


def test_two_mistakes_are_named_each_at_its_tests() -> None:
    results = [failed(FORWARD, "got 1"), failed(GRADIENT, "got 2")]
    seen = Seen(a={FORWARD: "got 1"}, b={GRADIENT: "got 2"})
    found = recognize(results, [wrong("a", "test_forward"), wrong("b", "test_gradient")], seen)
    assert [each.answer.id for each in found] == ["a", "b"]


def test_answers_ruled_out_by_a_passed_test_or_the_time_are_not_run() -> None:
    results = [failed(FORWARD, "got 1"), checked("test_gradient", visibility=Visibility.HIDDEN)]
    answers = [wrong("a", "test_forward", "test_gradient"), wrong("b", "test_forward")]
    seen = Seen(b={FORWARD: "got 2"})
    assert recognize(results, answers, seen) == []
    assert seen.run == {"b"}
    assert recognize(results, answers, (late := Seen()), seconds=-1) == []
    assert late.run == set()


def test_a_message_that_names_the_mistake_is_kept_without_running_answers() -> None:
    seen = Seen(a={FORWARD: "The bias is missing."})
    results = [named(FORWARD, "The bias is missing.")]
    assert recognize(results, [wrong("a", "test_forward")], seen) == []
    assert seen.run == set()


@pytest.mark.parametrize(
    ("seconds", "known"), [(60.0, {"same"}), (-1.0, {"same"}), (-1.0, set[str]())]
)
def test_known_observations_come_first_and_are_used_even_after_the_limit(
    seconds: float, known: set[str]
) -> None:
    seen = Seen(another={FORWARD: "got 2"}, same={FORWARD: "got 1"})
    mistakes = recognize(
        [failed(FORWARD, "got 1")],
        [wrong("another", FORWARD[1]), wrong("same", FORWARD[1])],
        seen,
        seconds=seconds,
        is_known=lambda answer, _: answer.id in known,
    )
    assert {mistake.answer.id for mistake in mistakes} == seen.run == known


# Structured differently from the mutant, with the same mistake.
SPLIT = '''"""Count the words of a text."""


def word_count(text: str) -> dict[str, int]:
    parts = text.split(" ")
    return {part: parts.count(part) for part in parts}


def most_common(text: str, n: int) -> list[str]:
    if n < 1:
        raise ValueError(f"n is {n}, it must be at least 1")
    counts = word_count(text.lower())
    return sorted(counts, key=lambda word: (-counts[word], word))[:n]
'''
SENTENCE = "Upper case is kept, and words are split at blanks alone."


def judged(course: Path, submission: Path) -> dict[str, str]:
    """Return the messages that a student reads for word_count, by test."""
    options = ["--json", "-", "--course", str(course), "--submission", str(submission)]
    run = grade("run", "word_count", *options, cwd=course.parent)
    assert run.returncode == 1, run.stderr
    (exercise,) = json.loads(run.stdout)["exercises"]
    return {test["name"]: test["message"] for test in exercise["tests"]}


def test_a_differently_written_mistake_is_named_in_a_course_and_its_package(
    tmp_path: Path,
) -> None:
    course = copy_course(tmp_path / "course")
    mine = tmp_path / "mine.py"
    mine.write_text(SPLIT, encoding="utf-8")
    # `mistake` is the author's note. The student reads `says`.
    wrongs = course / "tests/wrong/text/word_count.toml"
    note = 'mistake = "keeps upper case, splits at blanks"\ntold = "expected"\n'
    text = wrongs.read_text(encoding="utf-8")
    assert note in text
    wrongs.write_text(text.replace(note, f'says = "{SENTENCE}"\n'), encoding="utf-8")
    assert judged(course, mine)["test_random_texts"].startswith(SENTENCE)
    package = tmp_path / "package.zip"
    only = ["--exercise", "word_count"]
    made = grade("package", "gradescope", "-o", package, "--course", course, *only, cwd=course)
    assert made.returncode == 0, made.stderr
    with zipfile.ZipFile(package) as archive:
        archive.extract("course.pack", tmp_path)
    pack = (tmp_path / "course.pack").read_bytes()
    assert b"tests/observed/text/word_count.json" in pack
    assert b"tests/wrong" not in pack
    assert b"solutions/text" not in pack
    assert judged(tmp_path / "course.pack", mine)["test_random_texts"].startswith(SENTENCE)


# Structured differently from the mutant that sorts by the alphabet.
ALPHABET = """
def word_count(text):
    words = text.lower().split()
    return {word: words.count(word) for word in words}


def most_common(text, n):
    if n < 1:
        raise ValueError("n")
    by_alphabet = list(word_count(text))
    by_alphabet.sort()
    return by_alphabet[:n]
"""


@pytest.mark.thorough
def test_a_release_names_mistakes_from_public_tests_and_reveals_no_hidden_ones(
    tmp_path: Path,
) -> None:
    course, release, mine = (tmp_path / name for name in ("course", "release", "mine.py"))
    copy_course(course)
    mine.write_text(ALPHABET, encoding="utf-8")
    made = grade("release", release, "--course", course, "--grader", "lab-bench", cwd=course)
    assert made.returncode == 0, made.stderr
    shown = judged(release, mine)
    assert shown["test_most_common"].startswith("You sort by the alphabet alone: ")
    observed = (release / "tests/observed/text/word_count.json").read_text(encoding="utf-8")
    (known,) = [each for each in json.loads(observed)["mistakes"] if each["id"] == "alphabetical"]
    assert known["seen"].keys() == {"public/test_most_common"}
    assert known["caught_by"] == ["test_most_common"]
    assert "hidden" not in observed
    hidden = (course / "tests/hidden/text/test_word_count.py").read_text(encoding="utf-8")
    for name in re.findall(r"def (test_\w+)", hidden):
        assert name not in observed
