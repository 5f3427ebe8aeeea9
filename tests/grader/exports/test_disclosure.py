"""Every format shows students the same about a hidden test, and no more than the level allows."""

from __future__ import annotations

import base64
import datetime
import html
import io
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.course import suites
from grader.course.manifest import load_course
from grader.exports import FORMATS
from grader.exports.disclosure import Audience, disclosed
from grader.exports.files import ClassFormat, ClassSource, Options
from grader.exports.report import write_report
from grader.gradebook.corrections import Correction, of_tests
from grader.judge.scoring import score_exercise, score_test, shares, weighed, without_unfounded
from grader.results import (
    Disclosure,
    Entry,
    ExerciseResult,
    Mark,
    Outcome,
    Place,
    Status,
    TestResult,
    Visibility,
)

from ..builders import checked, entry, exercise, unjudged

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
SHIPPED = Path(__file__).parents[3] / "exercises"
NOW = datetime.datetime(2026, 10, 12, tzinfo=datetime.UTC)
ENVIRONMENT = {
    "CLASSROOM": "cs",
    "ASSIGNMENT": "lab",
    "SUBMISSION_TAG": "submit/1",
    "COMMIT_URL": "https://git.example/c",
    "RELEASE_URL": "https://git.example/r",
}
STUDENTS = [name for name, chosen in FORMATS.items() if chosen.audience is Audience.STUDENTS]
STAFF = [name for name, chosen in FORMATS.items() if chosen.audience is Audience.STAFF]
# Values that only hidden tests know, and texts that some levels show.
VALUES = ("-3.995353", "2.10608", "31.4159", "27.1828", "16.1803", "inner_zzz")
TITLE, MISTAKE, HINT = "Hidden titles are titles", "The halves are swapped.", "Split it again."


def hidden(name: str, outcome: Outcome, message: str, **changes: object) -> TestResult:
    given = {
        "title": TITLE,
        "visibility": Visibility.HIDDEN,
        "message": message,
        "hint": "",
        "printed": "x is 31.4159",
        "place": Place("modules/glu.py", 7, "inner_zzz"),
    }
    return checked(name, outcome, 2, **{**given, **changes})


def secretive() -> Entry:
    """Return an entry whose public and hidden tests ended in every way and mention all values."""
    tests = (
        checked("test_open", Outcome.FAILED, message="The output is 5, expected 6."),
        checked("test_fine", printed="public print"),
        hidden(
            "test_values",
            Outcome.FAILED,
            f"{MISTAKE}\nThe output is -3.995353, expected 2.10608.",
            plain=MISTAKE,
            hint=HINT,
        ),
        hidden(
            "test_raised", Outcome.ERROR, "Your code raised KeyError: 27.1828.", plain="It raised."
        ),
        hidden("test_unwritten", Outcome.NOT_IMPLEMENTED, "Still to do: 27.1828", plain="To do."),
        hidden("test_late", Outcome.TIMEOUT, "No answer to glu(16.1803) in 1 s.", plain="Late."),
        hidden("test_passed", Outcome.PASSED, "", place=None),
    )
    whole = exercise(*tests, output="public print\nx is 31.4159")
    fault = unjudged("broken")
    return entry(whole, msgspec.structs.replace(fault, message="test_x: 27.1828 is no shape"))


def texts(name: str, of: Entry, disclose: Disclosure | None = None) -> Iterator[str]:
    """Yield all texts that a format writes, unpacked and decoded."""
    chosen = FORMATS[name]
    options = Options(environment=ENVIRONMENT, disclose=disclose, feedback="Feedback")
    if isinstance(chosen, ClassFormat):
        out = io.BytesIO()
        yield from chosen.write([of], out, options)
        raw = out.getvalue()
    else:
        raw = chosen.render(of, options)
    if raw[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            yield from (archive.read(each).decode() for each in archive.namelist())
        return
    text = raw.decode()
    for encoded in re.findall(r"_RESULTS=(.+)", text):
        yield base64.b64decode(encoded).decode()
    yield text


def judged(of: Entry) -> Entry:
    """Return the entry without unjudged exercises, which some formats leave out."""
    exercises = tuple(e for e in of.result.exercises if e.status is not Status.UNJUDGED)
    return msgspec.structs.replace(
        of, result=msgspec.structs.replace(of.result, exercises=exercises)
    )


# --- a class as it is graded ----------------------------------------------------------------------

WRONG = {
    "scaled": "return np.convolve(values, np.ones(width) / width, 'valid') * 1.25",
    "raises": "raise KeyError(f'{values[0]} {width}')",
    "odd": "raise type(f'Odd_{values[0]}', (ValueError,), {})()",
    "unwritten": "raise NotImplementedError(f'{values[0]}')",
    "prints": "print(values, float(values[0])); return np.zeros(len(values) - width + 1)",
}
ANSWER = '''\
"""An answer."""

import numpy as np


def running_mean(values, width):
    {}
'''


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graded class of wrong answers that reveal the inputs of a hidden test."""
    folder = tmp_path_factory.mktemp("wrong")
    for student, line in WRONG.items():
        home = folder / "submissions" / student / "arrays"
        home.mkdir(parents=True)
        (home / "running_mean.py").write_text(ANSWER.format(line), encoding="utf-8")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "grader.cli",
        "batch",
        folder / "submissions",
    ]
    command += ["-o", folder / "results", "--jobs", "1", "--exercise", "running_mean"]
    subprocess.run(command, cwd=PLAIN, check=True, capture_output=True, timeout=120)
    return folder / "results"


def numbers(of: Entry) -> set[str]:
    """Return the decimal numbers in messages and output of the failed hidden tests."""
    hidden = [t for e in of.result.exercises for t in e.tests if t.visibility is Visibility.HIDDEN]
    texts = [f"{t.message} {t.printed}" for t in hidden if t.outcome is not Outcome.PASSED]
    return set(re.findall(r"\d+\.\d{3,}", " ".join(texts)))


@pytest.mark.parametrize("student", WRONG)
def test_no_number_of_a_hidden_test_leaks_from_a_graded_class(
    results: Path, tmp_path: Path, student: str
) -> None:
    (of,) = [each for each in ClassSource(results) if each.student.id == student]
    secrets = numbers(of)
    assert secrets, "no number could leak"
    for name in STUDENTS:
        text = "\n".join(texts(name, of))
        assert not [secret for secret in secrets if secret in text], name
    write_report([of], tmp_path, sources=lambda _: {})
    page = (tmp_path / "students" / f"{student}.html").read_text(encoding="utf-8")
    assert not [secret for secret in secrets if secret in page]
    assert all(secret in "".join(texts("jsonl", of)) for secret in secrets)


def test_students_read_how_a_hidden_test_ended(results: Path) -> None:
    told, shown = {}, {}
    for of in ClassSource(results):
        tests = [test for each in disclosed(of).result.exercises for test in each.tests]
        hidden = [test for test in tests if test.visibility is Visibility.HIDDEN]
        told[of.student.id] = "\n".join(f"{test.title}\n{test.message}" for test in hidden)
        shown[of.student.id] = "\n".join(texts("feedback", of))
    assert "Every width from 1 to the number of values is fine" in told["scaled"]
    assert "Your code raised a KeyError." in told["raises"]
    assert "Your code raised a ValueError." in told["odd"]
    assert "Odd_" not in told["odd"]
    # A public test shows the same line, so the hidden one is only counted.
    assert "1 more test fails there, too." in shown["scaled"]


def test_every_format_says_who_reads_it() -> None:
    for name, chosen in FORMATS.items():
        assert isinstance(chosen.audience, Audience), name
        assert ("disclose" in chosen.reads) == (chosen.audience is Audience.STUDENTS), name
    assert {"csv", "jsonl", "canvas", "nbgrader"} == set(STAFF)


@pytest.mark.parametrize("name", STUDENTS)
@pytest.mark.parametrize("level", [None, *Disclosure])
def test_no_value_of_a_hidden_test_leaks(name: str, level: Disclosure | None) -> None:
    text = "\n".join(texts(name, judged(secretive()), level))
    for value in VALUES:
        assert value not in text or level is Disclosure.EVERYTHING, (name, value)


@pytest.mark.parametrize("name", [n for n in STUDENTS if n not in ("moodle",)])
def test_everything_that_a_level_allows_is_shown(name: str) -> None:
    def reads(level: Disclosure) -> str:
        # Each format escapes in its own way, but words stay words.
        text = "\n".join(texts(name, judged(secretive()), level))
        return re.sub(r"&#(\d+);", lambda sign: chr(int(sign[1])), text)

    shown = {level: reads(level) for level in Disclosure}
    # Formats like GitHub's annotations show only failed tests.
    assert [TITLE in shown[level] for level in Disclosure] == [False, True, True, True]
    assert [MISTAKE in shown[level] for level in Disclosure] == [False, False, True, True]
    assert [HINT in shown[level] for level in Disclosure] == [False, False, True, True]
    assert "-3.995353" in shown[Disclosure.EVERYTHING]
    assert all("The output is 5, expected 6." in text for text in shown.values()), "public tests"


@pytest.mark.parametrize("name", STUDENTS)
def test_no_line_tells_students_where_a_hidden_test_made_odd_code_run(name: str) -> None:
    held = ("line 2 imports ctypes", "line 7777 runs code from a string as it runs (exec)")
    whole = msgspec.structs.replace(secretive().result.exercises[0], held=held)
    text = "".join(texts(name, entry(whole)))
    assert "7777" not in text
    assert ("imports ctypes" in text) is ("did something odd as it ran" in text)


@pytest.mark.parametrize("name", ["jsonl"])
def test_staff_read_everything(name: str) -> None:
    text = "\n".join(texts(name, secretive()))
    assert all(value in text for value in VALUES)


@pytest.mark.parametrize("level", Disclosure)
def test_no_level_changes_the_points(level: Disclosure) -> None:
    of = secretive()
    before, after = of.result.exercises[0], disclosed(of, level).result.exercises[0]
    assert (after.score, after.max_score, after.status) == (before.score, 15, before.status)
    assert sum(share.score for share in shares(after)) == round(before.score * 100)
    passed = [test.score for test in after.tests if test.outcome is Outcome.PASSED]
    assert sum(passed) == sum(test.score for test in after.tests)


def test_at_level_title_each_hidden_test_keeps_its_title() -> None:
    tests = [hidden(f"t{n}", Outcome.FAILED, f"It is {n}.", title=f"Title {n}") for n in range(3)]
    of = entry(exercise(checked(), *tests))
    for name in ("markdown", "feedback", "annotations", "mailmerge"):
        text = "\n".join(texts(name, of, Disclosure.TITLE))
        assert all(f"Title {n}" in text for n in range(3)), name


def words_of(text: str) -> str:
    """Return the words of a text, without the marks that a format puts between them."""
    words = re.findall(r"[^\W_]+", html.unescape(text))
    return f" {' '.join(words)} "


@pytest.fixture(scope="module")
def ended() -> Entry:
    """Exercises of the shipped course whose values are all wrong and whose hidden tests are all dropped."""
    course, exercises = load_course(SHIPPED), []
    for each in course.exercises[::3]:
        tests = weighed(each, suites.tests_of(course, each, tuple(Visibility)))
        results = [
            score_test(
                test,
                Outcome.FAILED if test.is_value else Outcome.PASSED,
                f"What {test.name} says." if test.is_value else "",
            )
            for test in tests
        ]
        made = score_exercise(each, without_unfounded(tests, results))
        reasons = [
            reason
            for test in made.tests
            if test.visibility is Visibility.HIDDEN
            for reason in of_tests(
                [Correction(exercise=each.id, drop=test.name, author="x", time=NOW)], made
            )
        ]
        mark = Mark(made.score, reasons=tuple(reasons), comment=f"See {tests[-1].name}.")
        exercises.append(msgspec.structs.replace(made, mark=mark))
    return entry(*exercises)


@pytest.mark.parametrize("name", STUDENTS)
def test_at_level_nothing_no_text_reveals_a_hidden_test(name: str, ended: Entry) -> None:
    """Not even public and dropped tests of the shipped course reveal one, in any format."""
    found = words_of("\n".join(texts(name, ended, Disclosure.NOTHING)))
    told = words_of("\n".join(texts(name, ended, Disclosure.EVERYTHING)))
    public, secret = [], set()
    for test in (test for each in ended.result.exercises for test in each.tests):
        if test.visibility is Visibility.PUBLIC:
            public += [test.name, test.title, test.hint]
        else:
            secret |= {test.name, test.title, test.hint, test.message}
    known = " ".join(map(words_of, [*public, *(e.title for e in ended.result.exercises)]))
    # Texts that public tests also show are known anyway.
    secret = {words_of(text) for text in secret if words_of(text) not in known}
    assert not [text for text in secret if text.strip() and text in found]
    if name not in ("classroom", "classroom50", "moodle"):
        assert [text for text in secret if text in told], (
            "this format would show nothing in any case"
        )


@pytest.mark.parametrize("name", [n for n in STUDENTS if n not in ("annotations", "junit")])
def test_extra_credit_is_marked_for_students(name: str) -> None:
    extra = exercise(checked(title="More"), name="gelu", extra_credit=True)
    of = entry(exercise(checked()), extra)
    assert "extra credit" in "\n".join(texts(name, of))
    plain = msgspec.structs.replace(extra, extra_credit=False)
    assert "extra credit" not in "\n".join(texts(name, entry(exercise(checked()), plain)))


@pytest.mark.parametrize("name", ["feedback", "markdown", "prairielearn"])
def test_a_total_names_its_extra_credit(name: str) -> None:
    extra = exercise(checked(), name="gelu", extra_credit=True)
    of = entry(exercise(checked()), extra)
    assert f"with {extra.score:g} of extra credit" in "\n".join(texts(name, of))


def test_a_title_that_is_also_public_stays() -> None:
    twin = hidden("test_open", Outcome.FAILED, "x", title="The title of test_open")
    other = hidden("test_other", Outcome.FAILED, "x", title="Shapes")
    says = 'First correct "The title of test_open". Shapes are (2, 3). See "Shapes" in test_other.'
    of = entry(exercise(checked("test_open", Outcome.FAILED, message=says), twin, other))
    (test, *_) = disclosed(of, Disclosure.NOTHING).result.exercises[0].tests
    assert test.message == (
        'First correct "The title of test_open". Shapes are (2, 3). See a further test in a further test.'
    )


def test_the_message_about_a_broken_file_stays_at_every_level() -> None:
    message = "modules/glu.py cannot be imported. Your code raised NameError: y."
    tests = (checked("a", Outcome.ERROR, message=message), hidden("b", Outcome.ERROR, message))
    broken = exercise(*tests, message=message, status=Status.ERROR)
    for level in Disclosure:
        after: ExerciseResult = disclosed(entry(broken), level).result.exercises[0]
        assert {test.message for test in after.tests} == {message}
        assert {test.outcome for test in after.tests} == {Outcome.ERROR}


def test_the_option_overrides_the_level_of_the_course() -> None:
    of = secretive()
    course = msgspec.structs.replace(of.result.course, disclose=Disclosure.NOTHING)
    strict = msgspec.structs.replace(of, result=msgspec.structs.replace(of.result, course=course))
    assert TITLE not in str(disclosed(strict))
    assert MISTAKE in str(disclosed(strict, Disclosure.MISTAKE))
    assert MISTAKE in str(disclosed(of)), "a result without a level has the default"


@pytest.mark.parametrize("level", [None, *Disclosure])
def test_the_page_of_a_student_follows_the_level(tmp_path: Path, level: Disclosure | None) -> None:
    written = write_report([secretive()], tmp_path, sources=lambda _: {}, disclose=level)
    page = (tmp_path / "students" / "ada.html").read_text(encoding="utf-8")
    for value in VALUES:
        assert value not in page or level is Disclosure.EVERYTHING
    assert (TITLE in page) == (level is not Disclosure.NOTHING)
    assert (MISTAKE in page) == (level not in (Disclosure.NOTHING, Disclosure.TITLE))
    staff = (written.index.parent / "students" / "ada.html").read_text(encoding="utf-8")
    assert "-3.995353" in staff
    assert "31.4159" in staff


def test_the_command_reads_the_level(tmp_path: Path) -> None:
    source = tmp_path / "result.json"
    source.write_bytes(msgspec.json.encode(judged(secretive()).result))

    def exported(*arguments: str) -> str:
        return CliRunner().invoke(main, ["export", str(source), *arguments]).output

    assert MISTAKE in exported("--format", "feedback")
    assert MISTAKE not in exported("--format", "feedback", "--disclose", "title")
    assert "csv is for staff" in exported("--format", "csv", "--disclose", "title")
