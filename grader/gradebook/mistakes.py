"""Failures of a class without a sentence that explains them, grouped by the tests' observations.

Students with the same observations made the same mistake, even if their code differs. One sentence of a teacher
explains it to all of them. The sentence and a file become a wrong answer of the course
(`grader.course.mutants`), so that the mistake is recognized from then on.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.course.caught import read_caught, write_caught
from grader.course.manifest import Course, Exercise
from grader.course.syntax import syntax_tree
from grader.errors import CourseError, SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.standing import choices
from grader.judge.recognition import Key, alike, is_unnamed, observation, with_sentence
from grader.results import Entry, ExerciseResult, Finding, Outcome, TestResult
from grader.submissions.source import decode
from grader.text import counted

# Lines of context around each difference.
_CONTEXT_LINES = 2


class UnnamedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Students with the same observations in the tests of one function, and an example file.

    The example fails the fewest tests and is the shortest such file. `tests` are its failed tests.
    """

    id: str
    exercise: str
    function: str
    students: tuple[str, ...]
    tests: tuple[TestResult, ...]
    source: bytes


class _Failure(msgspec.Struct, frozen=True):
    """The failed tests of one function in one student's file."""

    student: str
    tests: dict[Key, TestResult]
    failed: int
    source: bytes

    def is_alike(self, other: _Failure) -> bool:
        if self.tests.keys() != other.tests.keys():
            return False
        return all(alike(_seen(test), _seen(other.tests[key])) for key, test in self.tests.items())


def unnamed_groups(
    entries: Iterable[Entry],
    sources: Callable[[Entry], Mapping[str, bytes]],
    exercises: Sequence[str] = (),
) -> list[UnnamedGroup]:
    """Return groups of unexplained failures with equal observations, the largest group first.

    `exercises` names the exercises to include, by default all.
    """
    groups: dict[tuple[str, str], list[list[_Failure]]] = {}
    for entry in entries:
        unnamed = [
            (result, function, tests)
            for result in entry.result.exercises
            if not exercises or result.name in exercises
            for function, tests in _unnamed(result).items()
        ]
        if not unnamed:
            continue
        files = sources(entry)
        for result, function, tests in unnamed:
            failed = sum(test.outcome is not Outcome.PASSED for test in result.tests)
            failure = _Failure(entry.student.id, tests, failed, files.get(result.name, b""))
            known = groups.setdefault((result.name, function), [])
            group = next((each for each in known if each[0].is_alike(failure)), None)
            if group is None:
                known.append([failure])
            else:
                group.append(failure)
    made = [_group(*key, group) for key, alike_ones in groups.items() for group in alike_ones]
    return sorted(made, key=lambda group: (-len(group.students), group.id))


def _unnamed(result: ExerciseResult) -> dict[str, dict[Key, TestResult]]:
    """Return the failed tests without a named mistake, by function."""
    by_function: dict[str, dict[Key, TestResult]] = {}
    for test in result.tests:
        if is_unnamed(test) and _seen(test) and not result.message:
            function = test.place.function if test.place is not None else ""
            by_function.setdefault(function, {})[test.visibility, test.name] = test
    return by_function


def _seen(test: TestResult) -> Finding | None:
    return observation(test.outcome, test.finding, refused=test.refused)


def _group(exercise: str, function: str, failures: Sequence[_Failure]) -> UnnamedGroup:
    """Return a group of alike failures, named by the exercise and a digest of its observations."""
    shown = min(failures, key=lambda each: (each.failed, len(each.source), each.student))
    tests = tuple(shown.tests.values())
    seen = "\0".join(
        [function, *(f"{test.name}\0{test.message}" for test in failures[0].tests.values())]
    )
    return UnnamedGroup(
        id=f"{exercise}-{hashlib.sha256(seen.encode()).hexdigest()[:6]}",
        exercise=exercise,
        function=function,
        students=tuple(each.student for each in failures),
        tests=tests,
        source=shown.source,
    )


def difference(course: Course, exercise: Exercise, group: UnnamedGroup) -> list[str]:
    """Return the lines of a unified diff of the function, from the nearest right answer to the group's file.

    Comments, docstrings and layout do not count. The diff is empty if the course has no right answer.
    """
    mine = _plain(group.source)
    rights = [_plain(path.read_bytes()) for path in course.rights(exercise)]
    if mine is None or not (read := [tree for tree in rights if tree is not None]):
        return []
    function = group.function
    parts = [(_text(mine, function), _text(tree, function)) for tree in read]
    if not function or not parts[0][0] or not any(right for _, right in parts):
        parts = [(ast.unparse(mine), ast.unparse(tree)) for tree in read]
    own, right = max(
        ((own.splitlines(), right.splitlines()) for own, right in parts),
        key=lambda pair: difflib.SequenceMatcher(None, *pair).ratio(),
    )
    names = "right answer", "these students"
    return [*difflib.unified_diff(right, own, *names, lineterm="", n=_CONTEXT_LINES)]


def _plain(source: bytes) -> ast.Module | None:
    """Return the syntax tree without docstrings, None if the source is not Python."""
    try:
        tree = syntax_tree(decode(source))
    except (SyntaxError, ValueError, RecursionError):
        return None
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _text(tree: ast.Module, function: str) -> str:
    """Return the definition of a function or `Class.method`, empty if there is none."""
    body: list[ast.stmt] = tree.body
    definition: ast.stmt | None = None
    for name in function.split("."):
        named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        definition = next((n for n in body if isinstance(n, named) and n.name == name), None)
        if not isinstance(definition, named):
            return ""
        body = definition.body
    return ast.unparse(definition) if definition is not None else ""


def name_group(book: Gradebook, course: Course, group: UnnamedGroup, sentence: str) -> Path:
    """Keep the group's file as a wrong answer of the course with this sentence; return its path.

    The students' verdicts get the sentence without being judged again; points do not change. The file is kept
    without comments and docstrings, which may contain a name. Raises SubmissionError for an unfit sentence or
    file, and CourseError for a pack.
    """
    sentence = " ".join(sentence.split())
    if not sentence or "|" in sentence:
        raise SubmissionError("Say in one sentence, without '|', what is wrong and what to do.")
    if course.unpacked is not None:
        raise CourseError("A pack cannot be changed: name the course's folder with --course.")
    exercise = course.exercise(group.exercise)
    tree = _plain(group.source)
    if tree is None:
        raise SubmissionError(
            f"The file of {group.id} is not Python, so it cannot become a wrong answer."
        )
    try:
        caught = read_caught(course, exercise)
    except ValueError as error:
        raise CourseError(f"{course.caught(exercise)}: {error}.") from error
    folder = course.mutants(exercise).with_suffix("")
    path = folder / f"class_{group.id.rpartition('-')[2]}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# wrong: {sentence}\n{ast.unparse(tree)}\n", encoding="utf-8")
    caught_by = tuple(test.name for test in group.tests)
    write_caught(course, exercise, caught | {path.stem: caught_by})
    names = {(test.visibility, test.name) for test in group.tests}
    with book.transaction():
        for student in book.students():
            if student.id not in group.students:
                continue
            work = book.work(student)
            # Only the verdict that counts gets the sentence.
            attempt = choices(work, book.rules())[group.exercise].judged_as
            if attempt is not None:
                result = work.verdicts[group.exercise][attempt].result
                tests = (
                    with_sentence(t, sentence) if (t.visibility, t.name) in names else t
                    for t in result.tests
                )
                book.reword(attempt, msgspec.structs.replace(result, tests=tuple(tests)))
    for name in group.students:
        book.write_result(name)
    return path


def of_group(groups: Iterable[UnnamedGroup], wanted: str) -> UnnamedGroup:
    """Return the group with this id; raises SubmissionError if there is none."""
    groups = list(groups)
    group = next((each for each in groups if each.id == wanted), None)
    if group is None:
        raise SubmissionError(
            f"There is no group {wanted!r} among {counted(len(groups), 'group')}: "
            "`grade mistakes` lists them. A later grading may have changed them."
        )
    return group
