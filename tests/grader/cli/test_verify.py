"""`grade verify` proves a correct course and reports every problem of a faulty one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytestmark = pytest.mark.thorough

if TYPE_CHECKING:
    from tests.grader.cli.conftest import Grade


def test_a_correct_course_is_proved(grade: Grade, clone: Path) -> None:
    done = grade("verify", "--jobs", "2", "--seeds", "2", cwd=clone)
    assert done.stdout.splitlines() == [
        "+ word_count: 6 tests, 2 right answers, 3 wrong answers: proved",
        "+ greeting: 1 test, 2 right answers, 1 wrong answer: proved",
        "+ running_mean: 3 tests, 2 right answers, 1 wrong answer: proved",
        "No complaint about 3 exercises.",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_complaints_in_full(grade: Grade, clone: Path) -> None:
    wrong = clone / "tests/wrong/text/greeting/nameless.py"
    wrong.write_text(wrong.read_text("utf-8").replace("Hello, Ada!", "Hi, Ada!"), encoding="utf-8")
    (clone / "tests/right/text/greeting/loud.py").write_text(
        "def greeting(name: str) -> str:\n    return f'HELLO, {name}!'\n", encoding="utf-8"
    )
    done = grade("verify", "greeting", "--jobs", "1", "--seeds", "1", cwd=clone, COLUMNS="500")
    lines = done.stdout.splitlines()
    assert lines[0] == "x greeting: 1 test, 3 right answers, 1 wrong answer: 2 complaints"
    assert lines[1].startswith("  - tests/right/text/greeting/loud.py is right, but test_greeting")
    assert "no message has the words 'expected \"Hi, Ada!\"'" in done.stdout
    assert lines[-1] == "2 complaints about 1 exercise."
    assert done.returncode == 1


def test_kept_stub_that_drifted(grade: Grade, clone: Path) -> None:
    kept = clone / "tests/stubs/text/greeting.py"
    kept.write_text(kept.read_text("utf-8") + "# later\n", encoding="utf-8")
    done = grade("verify", "greeting", "--jobs", "1", "--seeds", "1", cwd=clone, COLUMNS="500")
    assert (
        "tests/stubs/text/greeting.py: it is not the same as exercises/text/greeting.py; copy one."
        in done.stdout
    )
    assert done.returncode == 1


def test_release_without_solutions_cannot_be_proved(grade: Grade, clone: Path) -> None:
    (clone / "solutions/text/greeting.py").unlink()
    done = grade("verify", cwd=clone)
    assert "There is nothing to prove 'greeting' with" in done.stderr
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


# --- authors' mistakes ----------------------------------------------------------------------------


def complaints_of(
    grade: Grade, clone: Path, exercise: str = "word_count", seeds: int = 1
) -> list[str]:
    """Return the complaints. On this wide terminal, each is one line."""
    done = grade(
        "verify", exercise, "--jobs", "2", "--seeds", str(seeds), cwd=clone, COLUMNS="2000"
    )
    assert (done.returncode, done.stderr) == (1, "")
    return [line[4:] for line in done.stdout.splitlines() if line.startswith("  - ")]


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_right_answer_whose_points_would_be_held(grade: Grade, clone: Path) -> None:
    (clone / "tests/right/text/greeting/caller.py").write_text(
        "import sys\ndef greeting(name: str) -> str:\n    sys._getframe(1)\n    return f'Hello, {name}!'\n",
        encoding="utf-8",
    )
    (complaint,) = complaints_of(grade, clone, "greeting", seeds=2)
    assert "caller.py is right, but its points would be held: line 3 reads a running" in complaint
    manifest = clone / "exercises" / "course.toml"
    replace(manifest, 'id = "greeting"\n', 'id = "greeting"\nordinary = ["sys._getframe"]\n')
    done = grade("verify", "greeting", "--jobs", "1", "--seeds", "1", cwd=clone)
    assert done.returncode == 0, done.stdout


def test_one_complaint_for_all_seeds(grade: Grade, clone: Path) -> None:
    (clone / "tests/right/text/greeting/loud.py").write_text(
        "import random\ndef greeting(name: str) -> str:\n    return f'{random.random()}'\n",
        encoding="utf-8",
    )
    (complaint,) = complaints_of(grade, clone, "greeting", seeds=3)
    assert "loud.py is right, but test_greeting is failed with seeds 0, 1, 2: " in complaint


def test_a_fault_of_the_suite_is_reported_once(grade: Grade, clone: Path) -> None:
    (clone / "tests/hidden/text/probe_word_count.py").unlink()
    (complaint,) = complaints_of(grade, clone, seeds=2)
    assert complaint.startswith(
        "exercises/text/word_count.py and 7 more: The suite of 'word_count' is at fault in "
    )
    assert "no such file is beside it" in complaint


def test_an_answer_that_is_not_python(grade: Grade, clone: Path) -> None:
    (clone / "tests/wrong/text/word_count/latin.py").write_bytes(b"x = '\xe9'\n")
    (clone / "tests/right/text/word_count/half.py").write_bytes(b"x = 1\ndef f(:\n")
    half, latin = complaints_of(grade, clone)
    assert half == (
        "tests/right/text/word_count/half.py: line 2 is not valid Python: invalid syntax."
    )
    assert latin.startswith("tests/wrong/text/word_count/latin.py: line 1 is not valid Python: ")


def test_a_wrong_answer_that_no_test_catches(grade: Grade, clone: Path) -> None:
    solution = (clone / "solutions/text/greeting.py").read_text("utf-8")
    header = "# wrong: nothing | told: hello\n"
    wrong = clone / "tests/wrong/text/greeting/nothing.py"
    wrong.write_text(header + solution, encoding="utf-8")
    name = "tests/wrong/text/greeting/nothing.py"
    assert complaints_of(grade, clone, "greeting") == [f"{name}: no test catches it."]
    with (clone / "tests/wrong/text/greeting.caught.toml").open("a", encoding="utf-8") as file:
        file.write('"test_greeting test_nothing" = ["nothing"]\n')
    assert complaints_of(grade, clone, "greeting") == [
        f"{name}: there is no test 'test_nothing'. Did you mean 'test_greeting'?",
        f"{name}: test_greeting does not catch it (passed).",
        f"{name}: no message has the words 'hello'; the student reads: nothing",
    ]
    wrong.write_text(solution, encoding="utf-8")
    assert complaints_of(grade, clone, "greeting") == [
        f"{name}: its first line must read '# wrong: ' and what its student reads."
    ]


def test_unknown_names_in_the_manifest_and_the_suite(grade: Grade, clone: Path) -> None:
    manifest = clone / "exercises/course.toml"
    replace(manifest, 'inside = ["word_count"]', 'inside = ["word_cuont"]')
    replace(manifest, 'preload = ["numpy"]', 'preload = ["numpy.linalg", "numpi", "numpy.lianlg"]')
    suite = clone / "tests/public/text/test_word_count.py"
    replace(suite, 'place("word_count")', 'place("word_counts")')
    meant = "which neither the stub nor an answer defines. Did you mean 'word_count'?"
    first, *places = complaints_of(grade, clone)
    assert first == (
        f"exercises/course.toml: a rule of 'word_count' looks inside 'word_cuont', {meant}"
    )
    assert places
    for complaint in places:
        assert complaint.startswith("word_count: the place of public test_")
        assert complaint.endswith(f" is 'word_counts', {meant}")
    assert complaints_of(grade, clone, "running_mean") == [
        f"exercises/course.toml: 'running_mean' preloads {module!r}, which is not installed here."
        for module in ("numpi", "numpy.lianlg")
    ]


def test_a_rule_that_forbids_an_unknown_name(grade: Grade, clone: Path) -> None:
    manifest = clone / "exercises/course.toml"
    replace(manifest, '"collections.Counter"', '"collections.Conuter", "not_installed.Counter"')
    first, *_ = complaints_of(grade, clone, "word_count")
    assert first == (
        "exercises/course.toml: a rule of 'word_count' forbids 'collections.Conuter', which does not exist. "
        "Did you mean 'Counter'?"
    )


def test_a_stub_that_was_not_kept(grade: Grade, clone: Path) -> None:
    (clone / "tests/stubs/text/greeting.py").unlink()
    (complaint,) = complaints_of(grade, clone, "greeting")
    assert complaint.startswith(
        "tests/stubs/text/greeting.py is missing: mark in the solution what"
    )


def test_a_stub_that_drifted(grade: Grade, clone: Path) -> None:
    for path in ("exercises", "tests/stubs"):
        replace(clone / path / "text/greeting.py", "(name:", "(who:")
    assert complaints_of(grade, clone, "greeting")[0] == (
        "tests/stubs/text/greeting.py: greeting is `def greeting(who: str) -> str`, but "
        "`def greeting(name: str) -> str` in the solution."
    )


def lists_in(text: str) -> dict[str, set[str]]:
    """The tests that catch each wrong answer, by its id."""
    by_tests = tomllib.loads(text).items()
    return {id_: set(tests.split()) for tests, ids in by_tests for id_ in ids}


def test_the_tests_that_catch_a_wrong_answer_are_written(grade: Grade, clone: Path) -> None:
    name = "tests/wrong/text/word_count.caught.toml"
    file = clone / name
    before = file.read_text("utf-8")
    replace(file, "alphabetical", "gone")
    replace(file, '"test_case test_random_texts"', '"test_counts test_random_texts"')
    stale, missing, wrong = complaints_of(grade, clone, "word_count")
    command = "`grade verify word_count --write`"
    assert stale == f"{name}: there is no wrong answer 'gone': {command} removes it."
    assert missing == f"{name}: which tests catch alphabetical is not in it: {command} writes it."
    assert wrong.endswith("case_kept: test_counts does not catch it (passed).")
    done = grade("verify", "word_count", "--jobs", "1", "--seeds", "2", "--write", cwd=clone)
    assert f"{name}: written" in done.stdout
    assert done.returncode == 0, done.stdout
    caught, by_hand = lists_in(file.read_text("utf-8")), lists_in(before)
    assert caught.keys() == by_hand.keys()
    assert all(caught[id_] >= by_hand[id_] for id_ in by_hand)
    again = grade("verify", "word_count", "--write", "--seeds", "2", cwd=clone)
    assert (again.returncode, "written" in again.stdout) == (0, False)


def test_worth_shows_what_each_test_catches_and_costs(grade: Grade, clone: Path) -> None:
    options = ["--jobs", "1", "--seeds", "1", "--worth"]
    done = grade("verify", "word_count", *options, cwd=clone)
    assert done.returncode == 0, done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    rows = lines[lines.index(["caught", "alone", "ms", "test"]) + 1 : -1]
    figures = {row[4]: (int(row[0]), int(row[1])) for row in rows}
    # Of the three wrong answers, characters fails test_counts and case_kept fails no public test.
    assert figures["test_counts"] == (1, 0)
    assert figures["test_case"] == (2, 0)
    assert figures["test_no_torch"] == (0, 0)
    assert all(float(row[2]) > 0 for row in rows)


def test_a_stub_that_earns_points(grade: Grade, clone: Path) -> None:
    for folder in ("exercises", "tests/stubs"):
        file = clone / folder / "text/greeting.py"
        replace(file, "raise NotImplementedError", "return 'Hello, Ada!'  #")
    told = complaints_of(grade, clone, "greeting")
    assert any("judged, the stub is passed: let all that a student writes" in each for each in told)


def test_a_stub_may_be_complete_and_wrong(grade: Grade, clone: Path) -> None:
    solution = clone / "solutions/text/greeting.py"
    lines = solution.read_text("utf-8").splitlines()
    (at,) = (i for i, line in enumerate(lines) if line.lstrip().startswith("return "))
    block = ["    # begin solution", lines[at], "    # stub: return name", "    # end solution"]
    solution.write_text("\n".join([*lines[:at], *block, *lines[at + 1 :], ""]), encoding="utf-8")
    assert grade("stub", "greeting", "--force", cwd=clone).returncode == 0
    assert "NotImplementedError" not in (clone / "tests/stubs/text/greeting.py").read_text("utf-8")
    done = grade("verify", "greeting", "--jobs", "1", "--seeds", "1", cwd=clone)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "No complaint about 1 exercise.")


def test_each_mutant_that_cannot_be_made_is_a_complaint(grade: Grade, clone: Path) -> None:
    mutants = clone / "tests/wrong/text/word_count.toml"
    entry = 'mistake = "m"\ntold = "counted"\n'
    line = 'line = "if n < 1:"\nmutant = "if n < 2:"'
    further = {
        "never": 'line = "n < 1"\nmutant = ""',
        "equal": 'line = "if n < 1:"\nmutant = "if n < 1:"',
        "overlapping": "change = '''\n-    if n < 1:\n@@\n-    if n < 1:\n+    if n < 2:\n'''",
        "lost": f'base = "tests/right/text/word_count/none.py"\n{line}',
        "strange": f'base = "tests/wrong/text/word_count/characters.py"\n{line}',
        "characters": line,
        "misspelled": 'change_ = "n < 1"',
        "half": 'line = "if n < 1:"',
    }
    entries = "".join(f"\n[mistake.{i}]\n{entry}{text}\n" for i, text in further.items())
    mutants.write_text(mutants.read_text("utf-8") + entries, encoding="utf-8")
    base = "solutions/text/word_count.py"
    stranger = "is neither the solution nor a right answer"
    complaints = {
        "never": f"the line 'n < 1' occurs 0 times in {base}, but must occur once",
        "equal": f"it equals {base}",
        "overlapping": "two changes overlap at '    if n < 1:\\n'",
        "lost": f"its base 'tests/right/text/word_count/none.py' {stranger}",
        "strange": f"its base 'tests/wrong/text/word_count/characters.py' {stranger}",
        "characters": "another wrong answer has this id",
        "misspelled": "there is no key `change_`. Did you mean 'change'?",
        "half": "it needs either `line` and `mutant`, or `change`",
    }
    assert complaints_of(grade, clone) == [
        f"tests/wrong/text/word_count.toml: {id_}: {complaint}{'' if complaint[-1] == '?' else '.'}"
        for id_, complaint in complaints.items()
    ]


@pytest.mark.parametrize("file", ["word_count.toml", "word_count.caught.toml"])
def test_a_syntax_error_is_one_complaint(grade: Grade, clone: Path, file: str) -> None:
    path = clone / "tests/wrong/text" / file
    path.write_text(f"{path.read_text('utf-8')}\nlast = = 1\n", encoding="utf-8")
    (complaint,) = complaints_of(grade, clone)
    assert re.fullmatch(
        rf"tests/wrong/text/{file}: line \d+: this is not TOML: Invalid value\.", complaint
    )


def test_a_base_that_does_not_pass_proves_nothing(grade: Grade, clone: Path) -> None:
    replace(clone / "tests/right/text/word_count/sets.py", "reverse=True", "reverse=False")
    first, *_ = complaints_of(grade, clone)
    assert first.startswith("tests/right/text/word_count/sets.py is right, but test_most_common ")


def test_told_shows_the_messages_about_wrong_answers(grade: Grade, clone: Path) -> None:
    done = grade("verify", "running_mean", "--seeds", "1", "--told", cwd=clone, COLUMNS="200")
    first, name, test, message, *_ = done.stdout.splitlines()
    assert first == "+ running_mean: 3 tests, 2 right answers, 1 wrong answer: proved"
    assert (
        name
        == "  tests/wrong/arrays/running_mean.toml: sums: You added the neighbors up: divide by the width."
    )
    assert (test, message[:6].strip()) == ("    test_example", "")
    assert "      You added the neighbors up: divide by the width.\n" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_proof_mutants_and_words_run_one_after_another(grade: Grade, clone: Path) -> None:
    options = ("running_mean", "--seeds", "1", "--mutants", "2", "--words")
    done = grade("verify", *options, cwd=clone)
    assert done.stdout.splitlines() == [
        "+ running_mean: 3 tests, 2 right answers, 1 wrong answer: proved",
        "No complaint about 1 exercise.",
        "+ running_mean: 2 of 4 mutants, 2 caught, 0 marked equivalent, 0 unseen",
        "2 of 2 mutants caught, 0 marked equivalent, 0 unseen, in 1 exercise.",
        "x running_mean: 20.0% of the points for words",
        "  - hidden test_no_torch: 1",
        "1 exercise. 1 is above a tenth.",
    ]
    # All three must hold.
    assert done.returncode == 1
    alone = grade("verify", "greeting", "--mutants", "1", "--told", cwd=clone)
    assert "mutants" in alone.stdout and "proved" not in alone.stdout
    assert alone.returncode == 0


# --- mutants --------------------------------------------------------------------------------------


def test_mutants_that_the_suites_catch(grade: Grade, clone: Path) -> None:
    done = grade("verify", "--mutants", "--jobs", "2", cwd=clone)
    assert done.stdout.splitlines() == [
        "+ word_count: 19 mutants, 19 caught, 0 marked equivalent, 0 unseen",
        "+ greeting: 2 mutants, 2 caught, 0 marked equivalent, 0 unseen",
        "+ running_mean: 4 mutants, 4 caught, 0 marked equivalent, 0 unseen",
        "25 of 25 mutants caught, 0 marked equivalent, 0 unseen, in 3 exercises.",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_a_mutant_that_no_test_sees(grade: Grade, clone: Path) -> None:
    suite = clone / "tests/hidden/text/test_word_count.py"
    replace(suite, '{"a": 2}', 'student.function("word_count")("A a")')
    # An exercise may follow the option directly.
    done = grade("verify", "--mutants", "word_count", "--jobs", "1", cwd=clone)
    assert done.stdout.splitlines() == [
        "x word_count: 19 mutants, 18 caught, 0 marked equivalent, 1 unseen",
        "",
        "# solutions/text/word_count.py, line 7, in word_count: no test sees it.",
        "[mistake.for_word_in_text_split]",
        'line = "for word in text.lower().split():"',
        'mutant = "for word in text.split():"',
        'says = ""',
        "",
        "18 of 19 mutants caught, 0 marked equivalent, 1 unseen, in 1 exercise.",
    ]
    assert (done.returncode, done.stderr) == (1, "")
    # A number after the option limits the mutants.
    some = grade("verify", "--mutants", "3", "word_count", "greeting", cwd=clone).stdout
    assert some.startswith(("+ word_count: 3 of 19 mutants, ", "x word_count: 3 of 19 mutants, "))
    assert " of 5 mutants caught, " in some
    assert grade("verify", "--mutants", "0", cwd=clone).returncode == 2


def test_a_mark_without_a_reason_is_a_complaint_of_the_proof(grade: Grade, clone: Path) -> None:
    mutants = clone / "tests/wrong/text/word_count.toml"
    entry = "\n[[equivalent]]\nline = 'if n < 1:'\nmutant = 'if n < 2:'\nreason = ''\n"
    mutants.write_text(mutants.read_text("utf-8") + entry, encoding="utf-8")
    assert complaints_of(grade, clone) == [
        "tests/wrong/text/word_count.toml: equivalent 'if n < 2:': a reason may not be empty."
    ]


def test_a_central_mistake_keeps_at_most_half_of_its_function(grade: Grade, clone: Path) -> None:
    wrongs = clone / "tests/wrong/text/word_count.toml"
    replace(wrongs, 'central = "word_count"', 'central = "most_common"')
    replace(wrongs, "[mistake.alphabetical]", '[mistake.alphabetical]\ncentral = "most_common"')
    whole = clone / "tests/wrong/text/word_count/characters.py"
    replace(whole, "central: word_count", "central: word_counts")
    assert complaints_of(grade, clone) == [
        (
            "tests/wrong/text/word_count.toml: case_kept: this central mistake keeps 100% of the share of "
            "most_common, and may keep 50%: give more points to the tests that catch it. Still passing: "
            "test_most_common, test_no_words_wanted."
        ),
        (
            "tests/wrong/text/word_count/characters.py: it is central to 'word_counts', but no test is "
            "about it. Did you mean 'word_count'?"
        ),
    ]


def test_a_mistake_that_is_not_central_costs_at_most_two_fifths(grade: Grade, clone: Path) -> None:
    replace(clone / "tests/wrong/arrays/running_mean.toml", 'central = "running_mean"\n', "")
    (told,) = complaints_of(grade, clone, "running_mean")
    assert told.startswith(
        "tests/wrong/arrays/running_mean.toml: sums: this mistake costs 80% of the points"
    )


def test_only_functions_can_be_built_on(grade: Grade, clone: Path) -> None:
    manifest = clone / "exercises/course.toml"
    replace(manifest, "points = 2.5\n", 'points = 2.5\nbuilds_on = { greeting = ["Greeter"] }\n')
    (told,) = complaints_of(grade, clone, "greeting")
    assert told.startswith(
        "exercises/course.toml: builds_on of 'greeting' names 'Greeter', which is not a function"
    )


def test_shares_of_functions_that_no_test_is_about(grade: Grade, clone: Path) -> None:
    manifest = clone / "exercises/course.toml"
    replace(manifest, "points = 2.5\n", "points = 2.5\nshares = { greeting = 2, greetings = 1 }\n")
    (told,) = complaints_of(grade, clone, "greeting")
    assert told == (
        "exercises/course.toml: 'greeting' has a share for 'greetings', which neither the stub nor an answer "
        "defines. Did you mean 'greeting'?"
    )
    for name in ("exercises", "tests/stubs", "solutions"):
        stub = clone / name / "text/greeting.py"
        stub.write_text(stub.read_text("utf-8") + "\n\ndef greetings(): ...\n", encoding="utf-8")
    assert complaints_of(grade, clone, "greeting") == [
        (
            "exercises/course.toml: 'greeting' has a share for 'greetings', which no test has its place in; "
            "remove it, or write a test."
        )
    ]
