"""A corpus: work of former classes and published answers, compared with a class and named by digests alone."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.errors import GraderError, SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.similarity.comparison import Comparison, SourceFile
from grader.gradebook.similarity.evidence import LEAST_FILES, LEAST_SIMILARITY, learned_bulk
from grader.gradebook.similarity.findings import CorpusMatch, CorpusSurvey, source_digest
from grader.gradebook.similarity.fingerprints import Reader
from grader.gradebook.similarity.survey import SAMPLED_PAIRS, THRESHOLD, answers
from grader.gradebook.store import FILE
from grader.results import Entry
from grader.submissions.submission import MAX_FILE_BYTES

_MOST_FILES = 200_000
# With the copies of Canvas and of browsers: `glu-1.py`, `glu (1).py`.
_NAME = re.compile(r"(?P<stem>.+?)(?:-\d{1,3}| ?\(\d{1,3}\))?\.py", re.IGNORECASE | re.DOTALL)


class CorpusFile(msgspec.Struct, frozen=True):
    """A file of a corpus; `owners` are the ids of the students of former gradebooks who handed it in."""

    exercise: str
    source: bytes
    owners: frozenset[str] = frozenset()


def read_corpus(
    folders: Iterable[Path], exercises: Collection[str], without: Path
) -> list[CorpusFile]:
    """The files of these exercises below some folders, each content once.

    In a gradebook they are those that count. Elsewhere it is each file that is named after an exercise, as
    `glu.py` and `zoe_glu.py`, or lies in a folder of that name. Links, archives and the gradebook `without`
    are left alone.

    Raises SubmissionError where there is none, GraderError where something cannot be read.
    """
    owners: dict[tuple[str, bytes], set[str]] = {}
    named = list(folders)
    for folder in named:
        for exercise, source, owner in _found(folder, exercises, without):
            owners.setdefault((exercise, source), set()).update({owner} - {""})
    if not owners:
        raise SubmissionError(
            f"There is no file of {', '.join(sorted(exercises)[:5])} below {', '.join(map(str, named))}: name "
            "files after their exercise, or put them into a folder of its name; unpack archives."
        )
    return [CorpusFile(name, source, frozenset(ids)) for (name, source), ids in owners.items()]


def _found(
    folder: Path, exercises: Collection[str], without: Path
) -> Iterator[tuple[str, bytes, str]]:
    """The exercise, the source and the owner of each file below a folder."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        if FILE in names:
            # The rest of a RESULTS folder is made from it.
            folders.clear()
            if Path(place).samefile(without):
                continue
            yield from _in_gradebook(Path(place), exercises)
            continue
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                raise SubmissionError(f"{folder} holds more than {_MOST_FILES:,} files.")
            path = Path(place, name)
            exercise = _exercise_of(path, exercises)
            if exercise and path.is_file() and not path.is_symlink():
                yield exercise, _read(path), ""


def _in_gradebook(folder: Path, exercises: Collection[str]) -> Iterator[tuple[str, bytes, str]]:
    with Gradebook.open(folder) as book:
        for exercise, student, source in answers(book.entries(), book.sources, {}):
            if exercise in exercises:
                yield exercise, source, student


def _exercise_of(path: Path, exercises: Collection[str]) -> str | None:
    """The exercise that a file is named after, or whose folder it lies in; None where there is neither."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    stem = match["stem"].lower()
    # Of `zoe_batch_norm` the exercise is no `norm`; before it stands what a platform or a student wrote.
    words = f"_{stem}".replace("-", "_")
    named = [exercise for exercise in exercises if words.endswith(f"_{exercise}")]
    if named:
        return max(named, key=len)
    return path.parent.name if path.parent.name in exercises else None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError as error:
        raise GraderError(f"{path} cannot be read: {error.strerror}.") from error


def find_in_corpus(
    entries: Iterable[Entry],
    sources: Callable[[Entry], Mapping[str, bytes]],
    stubs: Mapping[str, bytes],
    corpus: Sequence[CorpusFile],
    threshold: float | None = None,
) -> tuple[list[CorpusMatch], list[CorpusSurvey]]:
    """Of each student and exercise the file of the corpus that is the most alike, if it is unusually so.

    What is usual is learned from the pairs of a file of the class and one of the corpus; a `threshold`, 0 to 1,
    takes its place. A student's own earlier work is not compared.
    """
    of_class: dict[str, list[tuple[str, bytes]]] = {exercise: [] for exercise in stubs}
    for exercise, student, source in answers(entries, sources, stubs):
        if exercise in stubs:
            of_class[exercise].append((student, source))
    matches: list[CorpusMatch] = []
    surveys: list[CorpusSurvey] = []
    for exercise, stub in stubs.items():
        others = [f for f in corpus if f.exercise == exercise and f.source != stub]
        if others and of_class[exercise]:
            compared = _Compared(exercise, stub, sorted(of_class[exercise]), others, threshold)
            matches += compared.matches()
            surveys.append(compared.survey())
    matches.sort(key=lambda match: (-match.similarity, match.student, match.exercise))
    return matches, surveys


class _Compared:
    """The files of one exercise: first those of the class, then those of the corpus."""

    def __init__(
        self,
        exercise: str,
        stub: bytes,
        own: Sequence[tuple[str, bytes]],
        others: Sequence[CorpusFile],
        threshold: float | None,
    ) -> None:
        reader = Reader(stub)
        self._exercise, self._count = exercise, len(own)
        self._owners = [other.owners for other in others]
        pairs = [*own, *(("", other.source) for other in others)]
        self._files = [
            SourceFile(student, source_digest(source), reader.read(source))
            for student, source in pairs
        ]
        self._comparison = Comparison(self._files, reader.read(stub))
        self.threshold, self._is_learned = self._learned(threshold)

    def _learned(self, threshold: float | None) -> tuple[float, bool]:
        """The similarity from which a pair is told, and whether these files themselves said so."""
        if threshold is not None:
            return threshold, False
        short = self._comparison.is_short
        own = [n for n in range(self._count) if not short[n]]
        others = [n for n in range(self._count, len(self._files)) if not short[n]]
        if min(len(own), len(others)) < LEAST_FILES:
            return THRESHOLD, False
        # By chance, but the same for the same files.
        draw = random.Random(0)  # noqa: S311  # no secret
        drawn = [
            self._comparison.similarity(draw.choice(own), draw.choice(others))
            for _ in range(min(len(own) * len(others), SAMPLED_PAIRS))
        ]
        end = learned_bulk(drawn, len(own) * len(others)).end
        return min(max(end, LEAST_SIMILARITY), 1.0), True

    def matches(self) -> Iterator[CorpusMatch]:
        """The most alike file of the corpus for each student for whom one is told."""
        best: dict[int, tuple[float, int]] = {}
        for own, other, similarity in self._comparison.nearest(self._count):
            if self._files[own].student in self._owners[other - self._count]:
                continue
            if similarity >= self.threshold and similarity > best.get(own, (0.0, 0))[0]:
                best[own] = similarity, other
        for own, (similarity, other) in best.items():
            yield CorpusMatch(
                exercise=self._exercise,
                student=self._files[own].student,
                similarity=similarity,
                lines=self._comparison.shared_lines(own, other),
                corpus_lines=self._comparison.shared_lines(other, own),
                digest=self._files[own].digest,
                corpus_digest=self._files[other].digest,
            )

    def survey(self) -> CorpusSurvey:
        """What was compared."""
        return CorpusSurvey(
            exercise=self._exercise,
            files=len(self._files) - self._count,
            threshold=self.threshold,
            learned=self._is_learned,
        )
