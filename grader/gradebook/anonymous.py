"""A gradebook without names: a student has a pseudonym, the same one in every output of that gradebook.

A pseudonym is drawn from the student's id and a secret of the gradebook, so that a list of ids does
not tell whose it is; the gradebook does (`grade show RESULTS PSEUDONYM`). What a student wrote
is searched for that student's ids, names and addresses, and may give a student away in other words.
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

import msgspec

from grader.gradebook.batch import BatchSummary, ScoreChange
from grader.gradebook.book import Gradebook
from grader.gradebook.review import Attention
from grader.gradebook.similarity.findings import Similarity, SimilarPair, source_digest
from grader.gradebook.store import PSEUDONYMS
from grader.gradebook.work import KeptRequest
from grader.results import Entry, ExerciseResult, Finding, StudentInfo

# Shorter names are words of every text.
_SHORTEST = 3
_WORDS = re.compile(r"[^\W_]+")


def pseudonyms_of(book: Gradebook) -> Callable[[str], str]:
    """The function from a student's id to the pseudonym, by the secret that was drawn with the gradebook.

    A pseudonym is `anon-` and eight letters and digits, so that two of a class are never alike in practice.
    """
    secret = book.fact(PSEUDONYMS).encode()

    def pseudonym(student: str) -> str:
        digest = hmac.digest(secret, student.encode("utf-8", "surrogatepass"), "sha256")
        return "anon-" + base64.b32encode(digest[:5]).decode().lower()

    return pseudonym


class AnonymousBook:
    """What commands ask a gradebook, by pseudonyms in the place of students; open it with `AnonymousBook.open`.

    What names no student is asked of `book`, the gradebook itself.
    """

    def __init__(self, book: Gradebook) -> None:
        self.book = book
        self._of = pseudonyms_of(book)
        self._real = {self._of(student.id): student for student in book.students()}

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, assignment: str | None = None) -> Iterator[AnonymousBook]:
        """As `Gradebook.open`."""
        with Gradebook.open(folder, assignment) as book:
            yield cls(book)

    def students(self) -> list[StudentInfo]:
        """Every student, by pseudonym: the order of the ids tells nothing."""
        return [StudentInfo(id=name) for name in sorted(self._real)]

    def names(self) -> dict[str, str]:
        """No names."""
        return {}

    def requests(self) -> list[KeptRequest]:
        """The regrade requests and their answers, of pseudonyms, without the names in their texts."""
        hidden = []
        for request in self.book.requests():
            name = self._of(request.student)
            hide = self._hiding(name)
            answers = (
                msgspec.structs.replace(answer, text=hide.text(answer.text))
                for answer in request.answers
            )
            message = hide.text(request.message)
            hidden.append(
                msgspec.structs.replace(
                    request, student=name, message=message, answers=tuple(answers)
                )
            )
        return hidden

    def absent(self) -> list[StudentInfo]:
        """The students of the roster who handed in nothing."""
        names = sorted(self._of(student.id) for student in self.book.absent())
        return [StudentInfo(id=name) for name in names]

    def attempt_counts(self) -> dict[str, int]:
        """The number of attempts of each student."""
        return {self._of(name): count for name, count in self.book.attempt_counts().items()}

    def entries(self) -> Iterator[Entry]:
        """What counts of every student, by pseudonym."""
        for name in sorted(self._real):
            if (entry := self.entry_of(name)) is not None:
                yield entry

    def entry_of(self, student: str) -> Entry | None:
        """What counts of a student; None where there is no such one."""
        real = self._real.get(student)
        if real is None or (entry := self.book.entry_of(real.id)) is None:
            return None
        hide = self._hiding(student)
        result = entry.result
        return Entry(
            student=StudentInfo(id=student),
            attempt=entry.attempt,
            submitted_at=entry.submitted_at,
            late=entry.late,
            result=msgspec.structs.replace(
                result,
                submission=msgspec.structs.replace(result.submission, name=student),
                exercises=tuple(map(hide.exercise, result.exercises)),
            ),
        )

    def history(self, student: StudentInfo, least: int) -> dict[str, list[ExerciseResult]]:
        """The verdicts on a student's different files."""
        real, hide = self._real[student.id], self._hiding(student.id)
        history = self.book.history(real, least)
        return {name: [*map(hide.exercise, results)] for name, results in history.items()}

    def totals_before(self) -> dict[str, float]:
        """The points of the grading before the last one, by pseudonym."""
        return {self._of(name): points for name, points in self.book.totals_before().items()}

    def sources(self, entry: Entry) -> dict[str, bytes]:
        """The files of an entry; what names the student in them is the pseudonym."""
        real = msgspec.structs.replace(entry, student=self._real[entry.student.id])
        hide = self._hiding(entry.student.id)
        return {name: hide.source(source) for name, source in self.book.sources(real).items()}

    def attention(self) -> tuple[Attention, ...]:
        """What a person should look at."""
        return tuple(map(self.hidden, self.book.attention()))

    def hidden(self, entry: Attention) -> Attention:
        """An entry of what a person should look at, of a student by the id."""
        name = self._of(entry.student)
        what = self._hiding(name).text(entry.what) if name in self._real else entry.what
        return msgspec.structs.replace(entry, student=name, what=what)

    def summary(self, summary: BatchSummary) -> BatchSummary:
        """The summary of a batch, by pseudonyms."""
        return msgspec.structs.replace(
            summary,
            attention=tuple(map(self.hidden, summary.attention)),
            undated=tuple(map(self._of, summary.undated)),
            older=tuple(map(self._of, summary.older)),
        )

    def change(self, change: ScoreChange) -> ScoreChange:
        """A changed score, by pseudonym."""
        return msgspec.structs.replace(change, student=self._of(change.student))

    def similarity(self, similarity: Similarity) -> Similarity:
        """The alike pairs by pseudonyms; their lines are still found in the files as they are shown."""
        groups = (
            msgspec.structs.replace(
                group,
                students=self._all_of(group.students),
                exercises=tuple(
                    msgspec.structs.replace(
                        part,
                        circles=tuple(
                            msgspec.structs.replace(circle, students=self._all_of(circle.students))
                            for circle in part.circles
                        ),
                    )
                    for part in group.exercises
                ),
            )
            for group in similarity.groups
        )
        return msgspec.structs.replace(
            similarity,
            pairs=tuple(self._pair(pair) for pair in similarity.pairs),
            groups=tuple(groups),
            corpus=tuple(
                msgspec.structs.replace(
                    match,
                    student=(name := self._of(match.student)),
                    digest=self._digest(name, match.exercise, match.digest),
                )
                for match in similarity.corpus
            ),
        )

    def _all_of(self, students: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(map(self._of, students)))

    def _pair(self, pair: SimilarPair) -> SimilarPair:
        """A pair of alike files, by pseudonyms and by the digests of the files as they are shown."""
        left, right = self._of(pair.left), self._of(pair.right)
        return msgspec.structs.replace(
            pair,
            left=left,
            right=right,
            left_digest=self._digest(left, pair.exercise, pair.left_digest),
            right_digest=self._digest(right, pair.exercise, pair.right_digest),
        )

    def _digest(self, student: str, exercise: str, digest: str) -> str:
        """The digest of a compared file after its student's names are out of it."""
        real = self._real.get(student)
        entry = self.book.entry_of(real.id) if real is not None else None
        source = self.book.sources(entry).get(exercise, b"") if entry is not None else b""
        if source_digest(source) != digest:
            return digest
        return source_digest(self._hiding(student).source(source))

    def _hiding(self, student: str) -> _Hiding:
        real = self._real[student]
        origins = [attempt.origin for attempt in self.book.work(real).attempts]
        return _Hiding(student, real, origins)


def _telling(names: Iterable[str]) -> set[str]:
    """The names that are surely somebody's in a text: `max` and `list` are Python's."""
    pythons = {*dir(builtins), *keyword.kwlist}
    return {name for name in names if len(name) >= _SHORTEST and name not in pythons}


class _Hiding:
    """Takes what names a student out of texts."""

    def __init__(self, pseudonym: str, real: StudentInfo, origins: list[str]) -> None:
        self._pseudonym = pseudonym
        parts = [part for name in origins for part in (name, name.partition(".")[0])]
        names = {real.id, real.name, real.email, real.email.partition("@")[0]}
        names |= {*real.other_ids.values(), *parts}
        # "Doe, Jane" is "Jane Doe" in a comment, or "Jane" alone; `max` is no Max.
        words = {word for word in _WORDS.findall(real.name) if not word.islower()}
        self._patterns = [
            re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest))})(?![^\W_])", flags)
            for group, flags in ((names, re.IGNORECASE), (words, re.NOFLAG))
            if (longest := sorted(_telling(group), key=lambda name: (-len(name), name)))
        ]

    def text(self, text: str) -> str:
        """A text with the pseudonym in the place of names."""
        for pattern in self._patterns:
            text = pattern.sub(self._pseudonym, text)
        return text

    def source(self, source: bytes) -> bytes:
        """A file with the pseudonym in the place of names; as it is where it is no UTF-8."""
        try:
            return self.text(source.decode()).encode()
        except UnicodeDecodeError:
            return source

    def _finding(self, finding: Finding | None) -> Finding | None:
        if finding is None:
            return None
        return Finding(
            self.text(finding.sentence),
            tuple(map(self.text, finding.details)),
            {name: self.text(value) for name, value in finding.values.items()},
            finding.cause,
            tuple(map(self.text, finding.plain)),
        )

    def exercise(self, result: ExerciseResult) -> ExerciseResult:
        """A result without names in its texts."""
        mark = result.mark
        if mark is not None:
            mark = msgspec.structs.replace(
                mark, reasons=tuple(map(self.text, mark.reasons)), comment=self.text(mark.comment)
            )
        return msgspec.structs.replace(
            result,
            held=tuple(map(self.text, result.held)),
            message=self.text(result.message),
            output=self.text(result.output),
            tests=tuple(
                msgspec.structs.replace(
                    t,
                    message=self.text(t.message),
                    printed=self.text(t.printed),
                    finding=self._finding(t.finding),
                )
                for t in result.tests
            ),
            mark=mark,
            requests=tuple(
                msgspec.structs.replace(r, message=self.text(r.message), answer=self.text(r.answer))
                for r in result.requests
            ),
        )
