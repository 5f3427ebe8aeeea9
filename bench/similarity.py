"""`python -m bench.similarity`: the disguised copies that `grade similar` finds, and its false alarms.

Honest students are the authors of the course's right answers: the reference and the answers in tests/right,
which were written to be different. Answers that share half of their lines with another are left out, and so is
`compact`, from which the wrong answers were made.

- Small classes, one for each exercise and disguise: the authors, and a disguised copy of one of them. One
  author did only a part.
- A large class: each student takes each function from a random author, so honest students have whole functions
  in common, as in short exercises. Some pairs copy from each other in a few exercises. This is harder than a
  real class, where shared functions are not equal word by word.
"""

from __future__ import annotations

import ast
import difflib
import random
import time
from collections.abc import Iterator, Mapping

import click
from rich.console import Console
from rich.table import Table

from bench.disguises import DISGUISES, disguised
from grader.course.manifest import Course, Exercise, load_course
from grader.gradebook.similarity.findings import Similarity
from grader.gradebook.similarity.survey import find_similar
from grader.results import (
    CourseInfo,
    Entry,
    Environment,
    Result,
    StudentInfo,
    SubmissionInfo,
)

Files = Mapping[str, Mapping[str, str]]
_ONE_HAND = 0.5
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COPY = "the copy"
# Pairs of a large class that copy, and the exercises that each pair shares.
PAIRS, COPIED = 6, 5


def compare(files: Files, stubs: Mapping[str, str], threshold: float | None) -> Similarity:
    """Return the similarity of a class, given the files by student and exercise."""
    return find_similar(
        [_entry(student) for student in files],
        lambda entry: {e: source.encode() for e, source in files[entry.student.id].items()},
        {exercise: stub.encode() for exercise, stub in stubs.items()},
        threshold=threshold,
        most_pairs=100_000,
    )


def _entry(student: str) -> Entry:
    result = Result(
        exercises=(),
        course=CourseInfo("", "", ""),
        submission=SubmissionInfo(student, ""),
        score=0.0,
        max_score=0.0,
        seed=0,
        started_at="",
        duration_seconds=0.0,
        environment=Environment("", "", "", "", ()),
    )
    return Entry(student=StudentInfo(id=student, name="", email="", ids={}), result=result)


def authors(course: Course, exercise: Exercise) -> dict[str, str]:
    """Return the right answers of an exercise by name, without answers that share lines with another."""
    found: dict[str, str] = {}
    for path in course.rights(exercise):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        others = (other.splitlines() for other in found.values())
        if path.stem != "compact" and not any(_share(lines, other) > _ONE_HAND for other in others):
            found["reference" if path == course.solution(exercise) else path.stem] = source
    return found


def _share(lines: list[str], other: list[str]) -> float:
    return difflib.SequenceMatcher(None, lines, other, autojunk=False).ratio()


def partial(source: str) -> str:
    """Return the answer with every other function's body removed."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
    for function in functions[::2]:
        function.body = [ast.Raise(ast.Name("NotImplementedError", ast.Load()), None)]
    return ast.unparse(ast.fix_missing_locations(tree))


def small_class(honest: Mapping[str, str], stub: str, label: str, seed: str) -> tuple[Files, str]:
    """Return a class with a copy of one author and a partial answer of another; and the copied author."""
    chance = random.Random(seed)
    victim, other = chance.sample(sorted(honest), 2)
    sources = {**honest, other: partial(honest[other])}
    sources[COPY] = disguised(honest[victim], stub, DISGUISES[label], chance.randrange(1000))
    return {name: {"": source} for name, source in sources.items()}, victim


def small_classes(course: Course, threshold: float | None, table: Table) -> None:
    """Add a row for each disguise: the classes in which the copy was found, and the false alarms."""
    hands = {e.id: authors(course, e) for e in course.exercises}
    stubs = {e.id: course.stub(e).source.decode() for e in course.exercises}
    for label in DISGUISES:
        found = alarms = pairs = 0
        for exercise, honest in hands.items():
            files, victim = small_class(honest, stubs[exercise], label, f"{exercise} {label}")
            compared = compare(files, {"": stubs[exercise]}, threshold)
            told = {frozenset((pair.left, pair.right)) for pair in compared.pairs}
            found += frozenset((victim, COPY)) in told
            alarms += len(told - {frozenset((victim, COPY))})
            pairs += len(files) * (len(files) - 1) // 2 - 1
        table.add_row(label, f"{found} of {len(hands)}", f"{alarms} of {pairs}")


def mixed(hands: list[str], chance: random.Random) -> str:
    """Return an answer whose functions come from random authors."""
    parsed = [ast.parse(hand) for hand in hands]
    choices: dict[str, list[ast.stmt]] = {}
    for tree in parsed:
        for name, body, place in _functions(tree):
            choices.setdefault(name, []).append(body[place])
    chosen = chance.choice(parsed)
    for name, body, place in _functions(chosen):
        body[place] = chance.choice(choices[name])
    return ast.unparse(chosen)


def _functions(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt], int]]:
    """Yield functions and methods: the name, the body that contains it, and its index there."""
    classes = [(f"{c.name}.", c.body) for c in tree.body if isinstance(c, ast.ClassDef)]
    for prefix, body in (("", tree.body), *classes):
        for place, statement in enumerate(body):
            if isinstance(statement, _FUNCTIONS):
                yield prefix + statement.name, body, place


def large_class(
    course: Course, students: int, seed: int
) -> tuple[dict[str, dict[str, str]], dict[str, str], dict[frozenset[str], tuple[str, ...]]]:
    """Return a class of mixed answers, in which some pairs share a few exercises, each copy disguised."""
    chance = random.Random(seed)
    hands = {e.id: list(authors(course, e).values()) for e in course.exercises}
    stubs = {e.id: course.stub(e).source.decode() for e in course.exercises}
    files = {
        f"s{number:04}": {exercise: mixed(answers, chance) for exercise, answers in hands.items()}
        for number in range(students)
    }
    names = chance.sample(sorted(files), 2 * PAIRS)
    copied: dict[frozenset[str], tuple[str, ...]] = {}
    for left, right in zip(names[::2], names[1::2], strict=True):
        exercises = tuple(chance.sample(sorted(stubs), COPIED))
        for exercise in exercises:
            disguise = DISGUISES[chance.choice(sorted(DISGUISES))]
            copy = disguised(
                files[left][exercise], stubs[exercise], disguise, chance.randrange(1000)
            )
            files[right][exercise] = copy
        copied[frozenset((left, right))] = exercises
    return files, stubs, copied


def large(course: Course, students: int, table: Table) -> None:
    """Add a row for the class: the pairs found by one exercise, and by several together."""
    files, stubs, copied = large_class(course, students, seed=0)
    begin = time.perf_counter()
    found = compare(files, stubs, None)
    seconds = time.perf_counter() - begin
    told = {frozenset((pair.left, pair.right)) for pair in found.pairs}
    alone = {frozenset((pair.left, pair.right)) for pair in found.pairs if pair.alone}
    table.add_row(
        str(students),
        f"{len(alone & set(copied))} of {len(copied)}",
        f"{len(told & set(copied))} of {len(copied)}",
        f"{len(alone - set(copied))} and {len(told - set(copied))}",
        f"{seconds:.0f}",
    )


@click.command()
@click.option(
    "--students", type=click.IntRange(12), default=60, help="Students of the large class."
)
@click.option("--threshold", type=click.FloatRange(1, 100), help="For small classes, in percent.")
def main(students: int, threshold: float | None) -> None:
    """Measure and print."""
    course, console = load_course("."), Console(width=110)
    table = Table("disguise", "copies found", "other pairs reported", title="small classes")
    small_classes(course, threshold and threshold / 100, table)
    console.print(table)
    columns = ("students", "by one exercise", "with several together", "other pairs", "seconds")
    table = Table(*columns, title=f"a class in which {PAIRS} pairs share {COPIED} of all exercises")
    large(course, students, table)
    console.print(table)


if __name__ == "__main__":
    main()
