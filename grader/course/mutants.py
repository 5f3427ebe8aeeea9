"""The wrong answers of an exercise: mutants, which are right answers with a mistake put in, and whole files.

tests/wrong/<chapter>/<exercise>.toml describes mutants, each a few changes of its base:

    base = "tests/right/basics/mean/compact.py"

    [[wrong]]
    id = "divides_by_all"
    mistake = "the sum is divided by the number of all elements"
    caught_by = ["test_mean_of_rows"]
    says = "You divide by the number of all elements: a row has as many as there are columns."
    change = [["x.shape[1]", "x.numel()"]]

`caught_by` is what `grade verify --write` writes: the tests that catch it.

tests/wrong/<chapter>/<exercise>/<id>.py is an answer of another build, which says the same in its first line:

    # wrong: the mistake | caught by: test_a, test_b | says: what the student reads

A student who makes the mistake reads `says`, one or two sentences, or else `mistake`
(`grader.judge.recognition`); `told` are words of the suite's own message, where that names the mistake.

A mistake may be `central` to a function: `central = "forward"` in an entry, `| central: forward` before
`| says:`.

The file also marks mutants of the solution that are no mistakes (`grader.authoring.mutation`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from grader.course.manifest import Course, Exercise
from grader.toml import TomlMistake, read_toml

_HEADER = re.compile(
    r"#\s*wrong:(?P<mistake>.+?)\|\s*caught by:(?P<tests>.+?)\|"
    r"(\s*central:(?P<central>.+?)\|)?\s*(told:(?P<told>.*)|says:(?P<says>.*))"
)
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Identifier = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$")]


class WrongAnswer(msgspec.Struct, frozen=True):
    """A wrong answer: its mistake, the tests that must catch it, and words that a student must read.

    `name` says where it stands; `base` names the right answer that a mutant was made of. A file whose first
    line says nothing has no `caught_by`, nor has an entry before `grade verify --write` wrote it. A mistake
    that is `central` to a share or function may not keep most of its points.
    """

    id: str
    name: str
    source: bytes
    mistake: str = ""
    caught_by: tuple[str, ...] = ()
    told: str = ""
    central: str = ""
    base: str = ""
    says: str = ""

    @property
    def sentence(self) -> str:
        """What a student reads who makes this mistake."""
        return self.says or f"Known mistake: {self.mistake.rstrip('.')}."


class EquivalentMutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant of the solution that does the same, and why; `inside` tells equal lines apart."""

    line: _Text
    mutant: str
    reason: Annotated[str, msgspec.Meta(pattern=r"\S")]
    inside: str = ""


class WrongAnswers(msgspec.Struct, frozen=True):
    """All wrong answers of an exercise by id, and complaints about mutants that cannot be made."""

    answers: tuple[WrongAnswer, ...]
    complaints: tuple[str, ...]


class _Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of a mutants file: each change is a text of the base and what replaces it."""

    id: _Identifier
    mistake: _Text
    change: Annotated[tuple[tuple[_Text, str], ...], msgspec.Meta(min_length=1)]
    caught_by: tuple[_Text, ...] = ()
    told: str = ""
    central: str = ""
    base: str = ""
    says: str = ""


class _MutantsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutants file, whose entries are read one by one: a mistake in one does not hide the others."""

    wrong: tuple[dict[str, Any], ...] = ()
    equivalent: tuple[dict[str, Any], ...] = ()
    base: str = ""


class _MutantError(Exception):
    """Why a mutant cannot be made, as the end of a complaint."""


def wrong_answers(course: Course, exercise: Exercise) -> WrongAnswers:
    """Read the wrong answers of an exercise, and make its mutants."""
    answers = {path.stem: _whole(course, path) for path in course.variants(exercise, "wrong")}
    complaints = equivalent_mutants(course, exercise)[1]
    for outcome in _mutants(course, exercise):
        if isinstance(outcome, str):
            complaints.append(outcome)
        elif outcome.id in answers:
            complaints.append(f"{outcome.name}: another wrong answer has this id.")
        else:
            answers[outcome.id] = outcome
    return WrongAnswers(tuple(answers[id_] for id_ in sorted(answers)), tuple(complaints))


def equivalent_mutants(
    course: Course, exercise: Exercise
) -> tuple[list[EquivalentMutant], list[str]]:
    """The mutants of the solution that are marked as equivalent, and complaints about the marks."""
    try:
        marks = _file(course, exercise).equivalent
    except _MutantError as error:
        return [], [f"{course.name_of(course.mutants(exercise))}: {str(error).rstrip('.')}."]
    name, entries, complaints = course.name_of(course.mutants(exercise)), [], []
    for number, fields in enumerate(marks, 1):
        label = f"{name}: equivalent {fields.get('mutant', f'entry {number}')!r}"
        try:
            entry = msgspec.convert(fields, EquivalentMutant)
        except msgspec.ValidationError as error:
            empty = "a reason may not be empty" if "$.reason" in str(error) else error
            complaints.append(f"{label}: {empty}.")
            continue
        if entry in entries:
            complaints.append(f"{label}: it is marked twice; remove one.")
        entries.append(entry)
    return entries, complaints


def _file(course: Course, exercise: Exercise) -> _MutantsFile:
    """Read the mutants file; an empty one if it is missing."""
    path = course.mutants(exercise)
    if not path.is_file():
        return _MutantsFile()
    try:
        file = read_toml(path.read_text(encoding="utf-8"), _MutantsFile)
    except UnicodeDecodeError as error:
        raise _MutantError(str(error)) from error
    except TomlMistake as error:
        key = f" (`{error.path}`)" if error.path else ""
        raise _MutantError(f"{error.reason}{key}{error.place}") from error
    if not file.wrong and not file.equivalent:
        raise _MutantError("Object missing required field `wrong`")
    return file


def _whole(course: Course, path: Path) -> WrongAnswer:
    source, name = path.read_bytes(), course.name_of(path)
    header = _HEADER.match(source.partition(b"\n")[0].decode("utf-8", "replace"))
    if header is None:
        return WrongAnswer(path.stem, name, source)
    tests = tuple(test.strip() for test in header["tests"].split(","))
    mistake, told, central, says = (
        (header[part] or "").strip() for part in ("mistake", "told", "central", "says")
    )
    return WrongAnswer(path.stem, name, source, mistake, tests, told, central, says=says)


def _mutants(course: Course, exercise: Exercise) -> Iterator[WrongAnswer | str]:
    """The mutants of an exercise, and a complaint for each that cannot be made."""
    name = course.name_of(course.mutants(exercise))
    try:
        file = _file(course, exercise)
    except _MutantError:
        return  # as `equivalent_mutants` complains
    rights = {course.name_of(right): right for right in course.rights(exercise)}
    for number, entry in enumerate(file.wrong, 1):
        label = f"{name}: {entry.get('id', f'entry {number}')}"
        try:
            mutant = msgspec.convert(entry, _Mutant)
            base = mutant.base or file.base
            source = _mutate(base, rights, mutant.change).encode()
        except (msgspec.ValidationError, UnicodeDecodeError, _MutantError) as error:
            yield f"{label}: {str(error).rstrip('.')}."
            continue
        yield WrongAnswer(
            mutant.id,
            label,
            source,
            mutant.mistake,
            mutant.caught_by,
            mutant.told.strip(),
            mutant.central,
            base,
            mutant.says.strip(),
        )


def _mutate(base: str, rights: Mapping[str, Path], changes: Sequence[tuple[str, str]]) -> str:
    if base not in rights:
        raise _MutantError(f"its base {base!r} is neither the solution nor a right answer")
    # Not the bytes: where lines end in CR LF, those of the mutants file end in LF all the same.
    text = rights[base].read_text(encoding="utf-8")
    for old, _ in changes:
        if (count := text.count(old)) != 1:
            raise _MutantError(f"{old!r} stands {count} times in {base}, and must stand there once")
    places = sorted((text.index(old), old, new) for old, new in changes)
    mutated, end = "", 0
    for start, old, new in places:
        if start < end:
            raise _MutantError(f"two changes overlap at {old!r}")
        mutated += text[end:start] + new
        end = start + len(old)
    mutated += text[end:]
    if mutated == text:
        raise _MutantError(f"it is the same as {base}")
    return mutated
