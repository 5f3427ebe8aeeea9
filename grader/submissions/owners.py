"""The part of a folder's, archive's or clone's name that is a person's or a team's.

Only a class list can show that `lab-1-jane` is not itself a person's name, so the functions here ask one.
Without an answer, a name stays whole. Words such as `week` or `src` show that a folder belongs to nobody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from grader.course.manifest import Course
from grader.results import StudentInfo
from grader.submissions.archive import looks_packed

_MAX_SPLITS = 8
_MAX_NAMES = 2000
_SEPARATOR = re.compile(r"[-_ ]+")
_WORD = re.compile(r"[^\W\d_]+")
# Words in the names of work and folders that are not names of people.
_WORK = frozenset(
    _WORD.findall(
        """
        abgabe abgaben ai answer answers arbeitsblatt archive assignment assignments attempt attempts blatt
        build class classroom clones code course coursework cs data deep dl doc docs download downloads
        draft ex exam example examples exercise exercises export exports file files final finished fix fixed
        friday group groups hand hausaufgabe hausaufgaben homework homeworks hw implementation improved in
        inf ins kurs lab labs late latest learning lib lösung machine main milestone ml module modules
        monday my neu new nlp notebook notebooks old part problem problems proj project projects pset python
        py pytorch question questions quiz repo repos repositories section semester set sheet sol solution
        solutions solved source sources src submission submissions submitted submit task tasks team teams
        term test thursday torch tuesday tutorial übung übungen übungsblatt unit update updated upload
        uploads version wednesday week weeks wk work
        """
    )
)
# A note for names that a class list cannot split.
DISPUTED = (
    "The names of these folders can be split in two ways, and the roster has students for each of them, so "
    "none is split: rename the folders to only the students' names."
)


class Knows(Protocol):
    """A class list, as far as this module needs it."""

    def whom(self, name: str) -> tuple[str, str] | None:
        """Return the only student or team of this name, as a kind and an id, else None."""

    def named(self, name: str) -> StudentInfo | None:
        """Return the only student with this full name, else None."""

    def team(self, name: str) -> str | None:
        """Return the only team of this name, else None."""


class Affixes(NamedTuple):
    """The texts before and after the person's name in the names of a download."""

    before: str = ""
    after: str = ""

    def without(self, name: str) -> str:
        """Return the name without both affixes; the whole name if it lacks one or has nothing else."""
        fits = name.startswith(self.before) and name.endswith(self.after)
        core = name[len(self.before) : len(name) - len(self.after)]
        return core if fits and len(name) > len(self.before) + len(self.after) else name

    def around(self, text: str) -> str:
        """Return a text between both affixes."""
        return f"{self.before}{text}{self.after}"


def is_work(name: str, course: Course | None = None) -> bool:
    """Whether a name, such as `week 3` or `lab-1-submissions`, is surely of work and not of a person.

    The names of a course's exercises, chapters and assignments also consist of such words.
    """
    words = [word.casefold() for word in _WORD.findall(name)]
    own = _words_of(course) if course is not None else set()
    # A single letter is a number: `lab2b`.
    return any(len(word) > 1 for word in words) and all(
        len(word) == 1 or word in _WORK or word in own for word in words
    )


def _words_of(course: Course) -> set[str]:
    names = [name for exercise in course.exercises for name in (exercise.id, exercise.chapter)]
    names += [part.id for part in course.assignments]
    return {word.casefold() for name in names for word in _WORD.findall(name)}


class Shared(NamedTuple):
    """The affixes that fit a class list; `is_disputed` is true if two pairs of them fit equally well."""

    affixes: Affixes = Affixes()
    is_disputed: bool = False


def shared_affixes(
    names: Sequence[str], known: Knows, said: Affixes | None = None, course: Course | None = None
) -> Shared | None:
    """Return the affixes with which most names are known, None if no name is known.

    Most of the names must share them. If two pairs fit equally many names, but mean different people, the pair
    that the folder above `said` is preferred, else neither is used.
    """
    names = names[:_MAX_NAMES]
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
    """Whether a single name with these affixes is enough: `lab-1-jane` is, `mary-jane` is not."""
    text = affixes.around(" ")
    return is_work(text, course) or any(map(str.isdigit, text))


def _sharing(found: Collection[Affixes], names: Sequence[str]) -> Counter[Affixes]:
    """Count the names with each of the affixes."""
    counts: Counter[Affixes] = Counter()
    for name in names:
        counts.update(affixes for affixes in _splits(name) if affixes in found)
    return counts


def _splits(name: str) -> Iterator[Affixes]:
    """Yield the ways to split a name into three parts; the outer ones may be empty."""
    gaps = [match.span() for match in _SEPARATOR.finditer(name)]
    befores = [0, *(end for _, end in gaps[:_MAX_SPLITS])]
    afters = [len(name), *(start for start, _ in gaps[-_MAX_SPLITS:])]
    for start in befores:
        for end in afters:
            if start < end:
                yield Affixes(name[:start], name[end:])


def without_groups(names: Iterable[str], known: Knows) -> dict[str, str]:
    """Map names with a group in front to the students' names: `Group A-Ada` to `Ada`.

    All names must have a hyphen, and the rest must be the name of exactly one student. The part in front must
    be a group's: it is a team's name, several names share it, it is more than a word, or the rest of all names
    is known.
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

_BEFORE_EXERCISE = re.compile(r"[-_. ]+")

_SUFFIX = re.compile(r"(\.tar)?\.[a-z0-9]+$", re.IGNORECASE)


def without_suffix(name: str) -> str:
    """Return a name without the suffix of an archive."""
    return _SUFFIX.sub("", name) if looks_packed(name) else name


def owner_of(course: Course, name: str) -> tuple[str, str] | None:
    """Return the student and the exercise in a file's name, such as `alice_glu.py`, else None.

    Google Classroom writes `Alice A - glu.py`.
    """
    stem, dot, suffix = name.rpartition(".")
    fitting = [
        (exercise.id, separator)
        for exercise in course.exercises
        for separator in (" - ", "_", "-")
        if dot and suffix == "py" and stem.lower().endswith(f"{separator}{exercise.id}")
    ]
    if not fitting:
        return None
    longest, separator = max(fitting, key=lambda pair: len(pair[0]))
    owner = stem[: -len(longest) - len(separator)]
    return (owner, f"{longest}.py") if owner else None


def known_owner(
    course: Course, name: str, known: Knows, *, is_file: bool
) -> tuple[str, str] | None:
    """Return the listed student or team in a name, and the rest of it, which names an exercise, else None.

    `alice_glu.ipynb`, `alice glu_v2.py` and `alice_glu.zip` are Alice's. So is the file `alice.docx`, a name
    without an exercise; its rest is the whole name.
    """
    exercises = [f"_{exercise.id}_" for exercise in course.exercises]
    gaps = [match.span() for match in _BEFORE_EXERCISE.finditer(name)]
    for start, end in reversed(gaps):
        words = f"_{_BEFORE_EXERCISE.sub('_', name[end:].lower())}_"
        is_of_exercise = any(words.startswith(exercise) for exercise in exercises)
        if start and is_of_exercise and known.whom(name[:start]) is not None:
            return name[:start], name[end:]
    for start, _ in gaps if is_file else ():
        if name[start] == "." and start and known.whom(name[:start]) is not None:
            return name[:start], name
    return None
