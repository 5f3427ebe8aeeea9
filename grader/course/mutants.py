"""The wrong answers of an exercise: mistakes, which are changes of right answers, and whole files.

tests/wrong/<chapter>/<exercise>.toml describes mistakes: each has an id, a sentence for students who
make it, and a line of a right answer with its replacement:

    base = "tests/right/basics/mean/compact.py"

    [mistake.divides_by_all]
    line = "return x.sum(1, keepdim=True) / x.shape[1]"
    mutant = "return x.sum(1, keepdim=True) / x.numel()"
    says = "You divide by the number of all elements: a row has as many as there are columns."

By default, the base is the solution. Blanks around a line do not count, a statement of several
lines is written as one, and an empty mutant removes it. If the base has a line more than once, `inside` names
its function or class. Changes in several places are a diff of removed (`-`), added (`+`) and
kept lines (a space), with a line `@@` between separate places.

    [mistake.loses_the_dimension]
    says = "The dimension of the mean is lost: keep it, with keepdim=True."
    change = '''
    -    total = x.sum(1, keepdim=True)
    +    total = x.sum(1)
    @@
    -    return total / count
    +    return total / len(count)
    '''

If a message of the suite or of a law names the mistake, the entry has no `says`: `mistake` describes it for
the author, and `told` are words of that message. A mistake may be `central` to a share or function.

tests/wrong/<chapter>/<exercise>/<id>.py is an answer written differently, with the same information in its
first line:

    # wrong: You divide by the number of all elements.
    # wrong: takes any shape | central: mean | told: should raise a ValueError

The tests that catch them are in a file beside (`grader.course.caught`), which is also read here. The file of
mistakes also marks mutants of the solution that are not mistakes (`grader.authoring.mutation`).
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from grader.course.caught import read_caught
from grader.course.manifest import Course, Exercise
from grader.course.syntax import syntax_tree
from grader.toml import TomlMistake, converted, explain_mistake, read_toml, sentence

_HEADER = re.compile(
    r"#\s*wrong:(?P<sentence>[^|]+)(\|\s*central:(?P<central>[^|]+))?(\|\s*told:(?P<told>.+))?$"
)
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Identifier = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$")]


class WrongAnswer(msgspec.Struct, frozen=True):
    """A wrong answer: its mistake, the tests that must catch it, and words that a student must read.

    `name` is its place; `base` names the right answer that a mutant was made of. `caught_by` is empty until
    `grade verify --write` has written it. A mistake that is `central` to a share or function may not keep most
    of its points.
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
    def title(self) -> str:
        """The mistake, for the author; empty for a whole file whose first line does not name it."""
        return self.says or self.mistake


class EquivalentMutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant of the solution that does the same, and why; `inside` distinguishes equal lines."""

    line: _Text
    mutant: str
    reason: Annotated[str, msgspec.Meta(pattern=r"\S")]
    inside: str = ""


class WrongAnswers(msgspec.Struct, frozen=True):
    """All wrong answers of an exercise by id, and complaints about mutants that cannot be made.

    `base` is the base of all entries in the mutants file. If a file is `unreadable`, there are no complaints
    about the consequences.
    """

    answers: tuple[WrongAnswer, ...]
    complaints: tuple[str, ...]
    unreadable: tuple[Path, ...] = ()
    base: str = ""


class _Mistake(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of a mutants file: a line of the base with its replacement, or a diff."""

    says: str = ""
    mistake: str = ""
    told: str = ""
    central: str = ""
    base: str = ""
    line: str = ""
    mutant: str | None = None
    inside: str = ""
    change: str = ""


class _MutantsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutants file, whose entries are read one by one: an error in one does not hide the others."""

    mistake: dict[str, dict[str, Any]] = {}
    equivalent: tuple[dict[str, Any], ...] = ()
    base: str = ""


class _MutantError(Exception):
    """Why a mutant cannot be made, as the end of a complaint."""


def wrong_answers(course: Course, exercise: Exercise) -> WrongAnswers:
    """Read the wrong answers of an exercise and the tests that catch them, and make its mutants."""
    complaints = equivalent_mutants(course, exercise)[1]
    unreadable: list[Path] = []
    file = _MutantsFile()
    try:
        file = _file(course, exercise)
    except _MutantError:
        unreadable.append(course.mutants(exercise))
    caught: dict[str, tuple[str, ...]] = {}
    try:
        caught = read_caught(course, exercise)
    except (TomlMistake, UnicodeDecodeError) as error:
        complaints.append(
            f"{course.name_of(course.caught(exercise))}: {_reason(error, dict[str, list[str]])}"
        )
        unreadable.append(course.caught(exercise))
    wholes = course.variants(exercise, "wrong")
    answers = {path.stem: _whole(course, path, caught) for path in wholes}
    for outcome in _mutants(course, exercise, file, caught):
        if isinstance(outcome, str):
            complaints.append(outcome)
        elif outcome.id in answers:
            complaints.append(f"{outcome.name}: another wrong answer has this id.")
        else:
            answers[outcome.id] = outcome
    if not complaints:
        name = course.name_of(course.caught(exercise))
        command = f"`grade verify {exercise.id} --write`"
        complaints += [
            f"{name}: there is no wrong answer {id_!r}: {command} removes it."
            for id_ in sorted(caught.keys() - answers.keys())
        ]
    made = tuple(answers[id_] for id_ in sorted(answers))
    return WrongAnswers(made, tuple(complaints), tuple(unreadable), file.base)


def equivalent_mutants(
    course: Course, exercise: Exercise
) -> tuple[list[EquivalentMutant], list[str]]:
    """Return the mutants of the solution that are marked as equivalent, and complaints about the marks."""
    try:
        marks = _file(course, exercise).equivalent
    except _MutantError as error:
        return [], [f"{course.name_of(course.mutants(exercise))}: {sentence(str(error))}"]
    name, entries, complaints = course.name_of(course.mutants(exercise)), [], []
    for number, fields in enumerate(marks, 1):
        label = f"{name}: equivalent {fields.get('mutant', f'entry {number}')!r}"
        try:
            entry = converted(fields, EquivalentMutant)
        except TomlMistake as error:
            is_reason = error.path == "reason"
            told = (
                "a reason may not be empty."
                if is_reason
                else explain_mistake(error, "", EquivalentMutant)
            )
            complaints.append(f"{label}: {told}")
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
    except (TomlMistake, UnicodeDecodeError) as error:
        raise _MutantError(_reason(error, _MutantsFile)) from error
    if not file.mistake and not file.equivalent:
        raise _MutantError("there is no mistake in it")
    return file


def _reason(error: TomlMistake | UnicodeDecodeError, kind: Any) -> str:
    """Return why a file of this kind cannot be read, as the end of a complaint."""
    if isinstance(error, UnicodeDecodeError):
        return sentence(str(error))
    line = f"{error.place.removeprefix(', ')}: " if error.place else ""
    return f"{line}{explain_mistake(error, '', kind)}"


def _whole(course: Course, path: Path, caught: Mapping[str, tuple[str, ...]]) -> WrongAnswer:
    source, name, tests = path.read_bytes(), course.name_of(path), caught.get(path.stem, ())
    header = _HEADER.match(source.partition(b"\n")[0].decode("utf-8", "replace").strip())
    if header is None:
        return WrongAnswer(path.stem, name, source, caught_by=tests)
    sentence, central, told = (
        (header[part] or "").strip() for part in ("sentence", "central", "told")
    )
    mistake, says = (sentence, "") if told else ("", sentence)
    return WrongAnswer(path.stem, name, source, mistake, tests, told, central, says=says)


def _mutants(
    course: Course,
    exercise: Exercise,
    file: _MutantsFile,
    caught: Mapping[str, tuple[str, ...]],
) -> Iterator[WrongAnswer | str]:
    """Yield the mutants of a file, and a complaint for each that cannot be made."""
    name = course.name_of(course.mutants(exercise))
    rights = {course.name_of(right): right for right in course.rights(exercise)}
    for id_, entry in file.mistake.items():
        label = f"{name}: {id_}"
        try:
            converted(id_, _Identifier)
            mistake = converted(entry, _Mistake)
            has = bool(mistake.says), bool(mistake.mistake), bool(mistake.told)
            if has not in ((True, False, False), (False, True, True)):
                raise _MutantError("it needs either `says`, or `mistake` and `told`")
            base = mistake.base or file.base or course.name_of(course.solution(exercise))
            source = _mutate(base, rights, mistake).encode()
        except TomlMistake as error:
            yield f"{label}: {explain_mistake(error, '', _Mistake)}"
            continue
        except (UnicodeDecodeError, _MutantError) as error:
            yield f"{label}: {sentence(str(error))}"
            continue
        yield WrongAnswer(
            id_,
            label,
            source,
            mistake.mistake,
            caught.get(id_, ()),
            mistake.told.strip(),
            mistake.central,
            base,
            mistake.says.strip(),
        )


def _mutate(base: str, rights: Mapping[str, Path], mistake: _Mistake) -> str:
    """Return the text of the base with the mistake in it."""
    if base not in rights:
        raise _MutantError(f"its base {base!r} is neither the solution nor a right answer")
    # Read text, not bytes: the base may have CR LF at line ends, and the mutants file LF.
    text = rights[base].read_text(encoding="utf-8")
    has = bool(mistake.line), mistake.mutant is not None, bool(mistake.change)
    if has not in ((True, True, False), (False, False, True)):
        raise _MutantError("it needs either `line` and `mutant`, or `change`")
    if mistake.change:
        if mistake.inside:
            raise _MutantError("`inside` belongs to a `line`: a diff has lines that stay")
        places = [_of_hunk(hunk, text, base) for hunk in _hunks(mistake.change)]
    else:
        places = [_of_line(mistake, text, base)]
    mutated, end = "", 0
    for start, old, new in sorted(places):
        if start < end:
            raise _MutantError(f"two changes overlap at {old!r}")
        mutated += text[end:start] + new
        end = start + len(old)
    mutated += text[end:]
    if mutated == text:
        raise _MutantError(f"it equals {base}")
    return mutated


def joined(lines: str) -> str:
    """Join several lines into one, without indentation."""
    return " ".join(line.strip() for line in lines.split("\n") if line.strip())


def _of_line(mistake: _Mistake, text: str, base: str) -> tuple[int, str, str]:
    """Return where the line begins in the text, with the line and its replacement."""
    lines, wanted, where = list(io.StringIO(text)), mistake.line.strip(), base
    places = places_of(wanted, text)
    if mistake.inside:
        functions = _functions(text, base)
        places = [place for place in places if functions.get(place[0] + 1) == mistake.inside]
        where = f"{mistake.inside} in {base}"
    if len(places) != 1:
        advice = "; `inside` names the function that is meant" if len(places) > 1 else ""
        raise _MutantError(
            f"the line {wanted!r} occurs {len(places)} times in {where}, but must occur once{advice}"
        )
    ((first, last),) = places
    old = "".join(lines[first : last + 1])
    mutant = (mistake.mutant or "").strip("\n")
    new = textwrap.indent(mutant, old[: len(old) - len(old.lstrip())])
    return len("".join(lines[:first])), old, f"{new}\n" if new else ""


def places_of(wanted: str, text: str) -> list[tuple[int, int]]:
    """Find a line, or several joined ones, in a text: the first and the last line of each place, from 0."""
    lines = list(io.StringIO(text))
    return [
        (first, last)
        for first in range(len(lines))
        if (last := _last(lines, first, wanted)) is not None
    ]


def _last(lines: Sequence[str], first: int, wanted: str) -> int | None:
    """Return the last of the lines that, joined from the first, equal the wanted line."""
    if not lines[first].strip():
        return None
    for last in range(first, len(lines)):
        line = joined("".join(lines[first : last + 1]))
        if line == wanted:
            return last
        if not wanted.startswith(f"{line} "):
            return None
    return None


def _functions(text: str, base: str) -> dict[int, str]:
    """Return the name of the innermost function or class around each line of a source, by line number."""
    functions: dict[int, str] = {}

    def visit(node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}".lstrip(".")
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                assert child.end_lineno is not None
                functions.update(dict.fromkeys(range(first, child.end_lineno + 1), inner))
            visit(child, inner)

    try:
        visit(syntax_tree(text), "")
    except SyntaxError as error:
        raise _MutantError(f"{base}, line {error.lineno}, is not valid Python") from error
    return functions


def _hunks(diff: str) -> list[list[str]]:
    """Return the lines of each place of a diff; an empty line is context, whose space an editor removed."""
    hunks: list[list[str]] = [[]]
    for line in diff.removesuffix("\n").split("\n"):
        if line == "@@":
            hunks.append([])
        elif line[:1] in ("", " ", "-", "+"):
            hunks[-1].append(line or " ")
        else:
            raise _MutantError(f"a line of a diff must begin with '-', '+' or a space: {line!r}")
    return hunks


def _of_hunk(hunk: Sequence[str], text: str, base: str) -> tuple[int, str, str]:
    """Return where the old lines begin in the text, with the old lines and the new ones."""
    old = [line[1:] for line in hunk if line[0] != "+"]
    new = [line[1:] for line in hunk if line[0] != "-"]
    if not old:
        shown = repr("\n".join(hunk))
        raise _MutantError(f"no line says where {shown} goes: begin one that stays with a space")
    lines = text.split("\n")[:-1]
    starts = [n for n in range(len(lines) - len(old) + 1) if lines[n : n + len(old)] == old]
    if len(starts) != 1:
        shown = repr("\n".join(old))
        raise _MutantError(
            f"{shown} occurs as whole lines {len(starts)} times in {base}, but must occur once"
        )
    before, gone, come = (
        "".join(f"{line}\n" for line in part) for part in (lines[: starts[0]], old, new)
    )
    return len(before), gone, come
