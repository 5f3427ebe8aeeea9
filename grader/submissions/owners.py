"""Names of folders, archives and clones: which part of them is a person's or a team's.

Only a class list can tell `lab-1-jane` from the name of a person, so each question is put to one. Without an
answer a name stays whole, and words such as `week` or `src` say that a folder is nobody's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from grader.course.manifest import Course
from grader.results import StudentInfo
from grader.submissions.archive import looks_packed

_MOST_SPLITS = 8
_MOST_NAMES = 2000
_SEPARATOR = re.compile(r"[-_ ]+")
_WORD = re.compile(r"[^\W\d_]+")
# What people call the work and its folders, and nobody is called.
_WORK = frozenset(
    _WORD.findall(
        """
        abgabe abgaben ai answer answers archive assignment assignments attempt attempts blatt build class
        classroom clones code course coursework cs data deep dl doc docs download downloads draft ex exam
        example examples exercise exercises export exports file files final finished fix fixed friday group
        groups hand hausaufgabe hausaufgaben homework homeworks hw implementation improved in inf ins kurs lab
        labs late latest learning lib lösung machine main milestone ml module modules monday my neu new nlp
        notebook notebooks old part problem problems proj project projects pset python py pytorch question
        questions quiz repo repos repositories section semester set sheet sol solution solutions solved source
        sources src submission submissions submitted submit task tasks team teams term test thursday torch
        tuesday tutorial übung übungen unit update updated upload uploads version wednesday week weeks wk work
        """
    )
)
# What is told where a class list cannot say how to split names.
DISPUTED = (
    "The names of these folders can be split in two ways, each of which the roster knows students for, so "
    "none is split: rename the folders to the students' names alone."
)


class Knows(Protocol):
    """A class list as this module asks it."""

    def whom(self, name: str) -> tuple[str, str] | None:
        """The one student or team that is called so, as a kind and an id; None where there is none."""

    def named(self, name: str) -> StudentInfo | None:
        """The one student with this full name."""

    def team(self, name: str) -> str | None:
        """The one team that is called so."""


class Affixes(NamedTuple):
    """What stands before and after the name of the person in the names of a download."""

    before: str = ""
    after: str = ""

    def without(self, name: str) -> str:
        """The name of the person; the whole name where it has not both affixes, or nothing else."""
        fits = name.startswith(self.before) and name.endswith(self.after)
        core = name[len(self.before) : len(name) - len(self.after)]
        return core if fits and len(name) > len(self.before) + len(self.after) else name

    def around(self, text: str) -> str:
        """A text between both affixes."""
        return f"{self.before}{text}{self.after}"


def is_work(name: str, course: Course | None = None) -> bool:
    """Whether a name is surely that of work or of a folder, and no person's: `week 3`, `lab-1-submissions`.

    The words of a course's exercises, chapters and assignments are such words, too.
    """
    words = [word.casefold() for word in _WORD.findall(name)]
    own = _words_of(course) if course is not None else set()
    # A letter alone numbers something: `lab2b`.
    return any(len(word) > 1 for word in words) and all(
        len(word) == 1 or word in _WORK or word in own for word in words
    )


def _words_of(course: Course) -> set[str]:
    names = [name for exercise in course.exercises for name in (exercise.id, exercise.chapter)]
    names += [part.id for part in course.assignments]
    return {word.casefold() for name in names for word in _WORD.findall(name)}


class Shared(NamedTuple):
    """The affixes that a class list speaks for; `is_disputed` where it speaks for two pairs of them."""

    affixes: Affixes = Affixes()
    is_disputed: bool = False


def shared_affixes(
    names: Sequence[str], known: Knows, said: Affixes | None = None, course: Course | None = None
) -> Shared | None:
    """The affixes under which most names are known; None where no name is known.

    They are shared by most of the names. Where two pairs of them fit equally many names and say something else,
    it is what the folder above `said`, or else neither.
    """
    names = names[:_MOST_NAMES]
    found: dict[Affixes, dict[str, tuple[str, str]]] = {}
    for name in names:
        for affixes in _splits(name):
            if (who := known.whom(affixes.without(name))) is not None:
                found.setdefault(affixes, {})[name] = who
    sharing = _sharing(found, names)
    fitting = {
        affixes: whose
        for affixes, whose in found.items()
        if affixes == Affixes()
        or (2 * sharing[affixes] > len(names) and (len(whose) > 1 or _is_of_work(affixes, course)))
    }
    if not fitting:
        return None
    most = max(map(len, fitting.values()))
    best = [affixes for affixes, whose in fitting.items() if len(whose) == most]
    for preferred in (Affixes(), said):
        if preferred is not None and preferred in best:
            return Shared(preferred)
    if any(fitting[affixes] != fitting[best[0]] for affixes in best):
        return Shared(is_disputed=True)
    return Shared(best[0])


def _is_of_work(affixes: Affixes, course: Course | None) -> bool:
    """Whether a single name is enough to believe in these affixes: `lab-1-jane`, and not `mary-jane`."""
    text = affixes.around(" ")
    return is_work(text, course) or any(map(str.isdigit, text))


def _sharing(found: Collection[Affixes], names: Sequence[str]) -> Counter[Affixes]:
    """How many of the names have each of the affixes."""
    counts: Counter[Affixes] = Counter()
    for name in names:
        counts.update(affixes for affixes in _splits(name) if affixes in found)
    return counts


def _splits(name: str) -> Iterator[Affixes]:
    """The ways to split a name in three, of which the outer ones may be empty."""
    gaps = [match.span() for match in _SEPARATOR.finditer(name)]
    befores = [0, *(end for _, end in gaps[:_MOST_SPLITS])]
    afters = [len(name), *(start for start, _ in gaps[-_MOST_SPLITS:])]
    for start in befores:
        for end in afters:
            if start < end:
                yield Affixes(name[:start], name[end:])


def without_groups(names: Iterable[str], known: Knows) -> dict[str, str]:
    """The names of students by the names in which a group's stands in front: `Group A-Ada` is `Ada`.

    Only where all names have a hyphen, the rest names one student alone, and what stands in front is a group's:
    it is a team's or that of several, it is more than a word, or the rest of all names is known.
    """
    unknown = [name for name in names if known.named(name) is None]
    found: dict[str, tuple[str, str]] = {}
    for name in unknown:
        heads = [at.start() for at in re.finditer("-", name)]
        splits = [(name[:at].strip(), name[at + 1 :].strip()) for at in heads]
        students = {s.id: split for split in splits if (s := known.named(split[1])) is not None}
        if len(students) == 1:
            (found[name],) = students.values()
    if not all("-" in name for name in unknown):
        return {}
    shared = Counter(head for head, _ in found.values())
    are_all_known = len(unknown) == len(found) > 1
    return {
        name: rest
        for name, (head, rest) in found.items()
        if are_all_known
        or shared[head] > 1
        or is_work(head)
        or known.team(head) is not None
        or not head.isalpha()
    }


# --- names of files -------------------------------------------------------------------------------

_SUFFIX = re.compile(r"(\.tar)?\.[a-z0-9]+$", re.IGNORECASE)


def without_suffix(name: str) -> str:
    """A name without the suffix of an archive."""
    return _SUFFIX.sub("", name) if looks_packed(name) else name


def owner_of(course: Course, name: str) -> tuple[str, str] | None:
    """The student and the exercise of a file, by its name: `alice_glu.py`; None if it names neither."""
    stem, dot, suffix = name.rpartition(".")
    fitting = [
        exercise.id
        for exercise in course.exercises
        if dot and suffix == "py" and stem.lower().endswith((f"_{exercise.id}", f"-{exercise.id}"))
    ]
    if not fitting:
        return None
    longest = max(fitting, key=len)
    return (stem[: -len(longest) - 1], f"{longest}.py") if len(stem) > len(longest) + 1 else None
