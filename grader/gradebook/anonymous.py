"""A gradebook without names: each student has a pseudonym, the same one in every output of that gradebook.

A pseudonym depends on the student's id and a secret of the gradebook, so only the gradebook reveals the student
(`grade show RESULTS PSEUDONYM`); a list of ids does not. In texts about a student, the student's ids, names and
addresses are replaced, but other words may still reveal who it is.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import hmac
import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from grader.gradebook.book import Gradebook
from grader.gradebook.review import Attention
from grader.gradebook.similarity.findings import Similarity, source_digest
from grader.gradebook.work import SERVER, Request
from grader.results import Entry, ExerciseResult, StudentInfo, SubmissionInfo

T = TypeVar("T")

# Fields of structs with ids of students, and fields whose text may have their names. A test lists the fields
# that need neither, and fails for a new field with text.
_IDS = frozenset(["student", "students", "left", "right", "undated", "older"])
_TEXTS = frozenset(
    [
        "message",
        "output",
        "printed",
        "sentence",
        "details",
        "values",
        "plain",
        "held",
        "note",
        "reasons",
        "comment",
        "answer",
        "text",
        "what",
        "function",
    ]
)
# Shorter names occur in any text.
_SHORTEST = 3
_WORDS = re.compile(r"[^\W_]+")


def pseudonyms_of(book: Gradebook) -> Callable[[str], str]:
    """Return a function that maps a student's id to the pseudonym, with the secret of the gradebook.

    A pseudonym is `anon-` and eight letters and digits, so two in a class are never equal in practice.
    """
    secret = book.facts.secret.encode()

    def pseudonym(student: str) -> str:
        digest = hmac.digest(secret, student.encode("utf-8", "surrogatepass"), "sha256")
        return "anon-" + base64.b32encode(digest[:5]).decode().lower()

    return pseudonym


def student_of(book: Gradebook, pseudonym: str) -> StudentInfo | None:
    """Return the student with this pseudonym; None if there is none."""
    named = pseudonyms_of(book)
    return next((student for student in book.students() if named(student.id) == pseudonym), None)


class AnonymousBook:
    """A gradebook without names; open it with `AnonymousBook.open`.

    `shown` replaces ids by pseudonyms, and `_Hiding` names in texts and files. Use the gradebook itself,
    `book`, only for facts that name no student.
    """

    def __init__(self, book: Gradebook) -> None:
        self.book = book
        self._of = pseudonyms_of(book)
        self._real = {self._of(student.id): student for student in book.students()}
        self._hidings: dict[str, _Hiding] = {}

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, assignment: str | None = None) -> Iterator[AnonymousBook]:
        """Open a gradebook, as `Gradebook.open` does."""
        with Gradebook.open(folder, assignment) as book:
            yield cls(book)

    def shown(self, value: T, student: str = "") -> T:
        """Return a value without names: pseudonyms replace ids, and names in texts about their student.

        A value belongs to the student that its struct names, else to `student`.
        """
        return cast(T, self._shown(value, student))

    def _shown(self, value: Any, student: str) -> Any:
        match value:
            case StudentInfo():
                return StudentInfo(id=self._of(value.id))
            case SubmissionInfo():
                return msgspec.structs.replace(value, name=self._of(student))
            case Entry() if value.origin:
                return self._shown(msgspec.structs.replace(value, origin=""), student)
            case msgspec.Struct():
                of = getattr(value, "student", student)
                student = of.id if isinstance(of, StudentInfo) else of
                fields = {
                    name: self._field(name, getattr(value, name), student)
                    for name in value.__struct_fields__
                }
                return msgspec.structs.replace(value, **fields)
            case list() | tuple():
                return type(value)(self._shown(item, student) for item in value)
        return value

    def _field(self, name: str, value: Any, student: str) -> Any:
        if name in _TEXTS:
            return self._hiding(student).texts(value)
        if name in _IDS and isinstance(value, str):
            return self._of(value)
        if name in _IDS and isinstance(value, tuple):
            return tuple(sorted(map(self._of, value)))
        return self._shown(value, student)

    @property
    def unfinished(self) -> str:
        """The warning of `Gradebook.unfinished` without the paths of downloads, which may name students."""
        if not self.book.unfinished:
            return ""
        return (
            "A grading of this class did not finish; students may be missing. Let it end, or run `grade batch` "
            "with the same path again."
        )

    def students(self) -> list[StudentInfo]:
        """Return every student, sorted by pseudonym, which does not reveal the order of ids."""
        return [StudentInfo(id=name) for name in sorted(self._real)]

    def names(self) -> dict[str, str]:
        """Return no names."""
        return {}

    def absent(self) -> list[StudentInfo]:
        """Return the students of the roster who handed in nothing."""
        return sorted(self.shown(self.book.absent()), key=lambda student: student.id)

    def attempt_counts(self) -> dict[str, int]:
        """Return the number of attempts of each student."""
        return {self._of(name): count for name, count in self.book.attempt_counts().items()}

    def totals_before(self) -> dict[str, float]:
        """Return the points of the grading before the last one, by pseudonym."""
        return {self._of(name): points for name, points in self.book.totals_before().items()}

    def attention(self) -> tuple[Attention, ...]:
        """Return the entries for a person to look at."""
        return self.shown(self.book.attention())

    def requests(self) -> list[Request]:
        """Return the regrade requests with their answers."""
        return self.shown(self.book.requests())

    def entries(self) -> Iterator[Entry]:
        """Yield the entry of every student, by pseudonym."""
        for name in sorted(self._real):
            if (entry := self.entry_of(name)) is not None:
                yield entry

    def entry_of(self, student: str) -> Entry | None:
        """Return the entry of the student with this pseudonym; None if there is none."""
        real = self._real.get(student)
        entry = self.book.entry_of(real.id) if real is not None else None
        return self.shown(entry)

    def history(self, student: StudentInfo, least: int) -> dict[str, list[ExerciseResult]]:
        """Return the verdicts on a student's different files."""
        real = self._real[student.id]
        history = self.book.history(real, least)
        return {name: self.shown(results, real.id) for name, results in history.items()}

    def sources(self, entry: Entry) -> dict[str, bytes]:
        """Return the files of an entry, with the pseudonym instead of the student's names."""
        real = self._real[entry.student.id]
        sources = self.book.sources(msgspec.structs.replace(entry, student=real))
        return {name: self._hiding(real.id).source(source) for name, source in sources.items()}

    def similarity(self, similarity: Similarity) -> Similarity:
        """Return the findings with pseudonyms, and with digests of the files without names."""
        pairs = tuple(
            msgspec.structs.replace(
                pair,
                left_digest=self._digest(pair.left, pair.exercise, pair.left_digest),
                right_digest=self._digest(pair.right, pair.exercise, pair.right_digest),
            )
            for pair in similarity.pairs
        )
        corpus = tuple(
            msgspec.structs.replace(
                match, digest=self._digest(match.student, match.exercise, match.digest)
            )
            for match in similarity.corpus
        )
        return self.shown(msgspec.structs.replace(similarity, pairs=pairs, corpus=corpus))

    def _digest(self, student: str, exercise: str, digest: str) -> str:
        """Return the digest of a compared file without its student's names."""
        entry = self.book.entry_of(student)
        source = self.book.sources(entry).get(exercise, b"") if entry is not None else b""
        if source_digest(source) != digest:
            return digest
        return source_digest(self._hiding(student).source(source))

    def _hiding(self, student: str) -> _Hiding:
        """Return an object that removes a student's names from texts; other names stay."""
        if student not in self._hidings:
            real = self._real.get(self._of(student), StudentInfo(id=""))
            attempts = self.book.tables.attempts_of(real.id)
            # A file in a download is often named after its student; a server is not.
            origins = [attempt.origin for attempt in attempts if attempt.origin != SERVER]
            self._hidings[student] = _Hiding(self._of(student), real, origins)
        return self._hidings[student]


def _telling(names: Iterable[str]) -> set[str]:
    """Return the names that surely mean a person in a text, unlike Python's `max` and `list`."""
    pythons = {*dir(builtins), *keyword.kwlist}
    return {name for name in names if len(name) >= _SHORTEST and name not in pythons}


class _Hiding:
    """A replacement of a student's names in texts."""

    def __init__(self, pseudonym: str, real: StudentInfo, origins: list[str]) -> None:
        self._pseudonym = pseudonym
        parts = [part for name in origins for part in (name, name.partition(".")[0])]
        names = {real.id, real.name, real.email, real.email.partition("@")[0]}
        names |= {*real.other_ids.values(), *parts}
        # "Doe, Jane" may be "Jane Doe" in a comment, or only "Jane"; but `max` is not Max.
        words = {word for word in _WORDS.findall(real.name) if not word.islower()}
        self._patterns = [
            re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest))})(?![^\W_])", flags)
            for group, flags in ((names, re.IGNORECASE), (words, re.NOFLAG))
            if (longest := sorted(_telling(group), key=lambda name: (-len(name), name)))
        ]

    def texts(self, value: Any) -> Any:
        """Return texts with the pseudonym instead of names; also for a tuple or a dict of texts."""
        match value:
            case str():
                return self._text(value)
            case tuple():
                return tuple(map(self.texts, value))
            case dict():
                return {name: self.texts(text) for name, text in value.items()}
        return value

    def _text(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(self._pseudonym, text)
        return text

    def source(self, source: bytes) -> bytes:
        """Return a file with the pseudonym instead of names; unchanged if it is not in UTF-8."""
        try:
            return self._text(source.decode()).encode()
        except UnicodeDecodeError:
            return source
