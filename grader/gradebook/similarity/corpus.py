"""A corpus of former classes' work and published answers, compared with a class and named only by digests."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.errors import GraderError, SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.database import FILE
from grader.gradebook.similarity.comparison import Comparison, SourceFile
from grader.gradebook.similarity.evidence import LEAST_FILES, LEAST_SIMILARITY, learned_bulk
from grader.gradebook.similarity.findings import CorpusMatch, CorpusSurvey, source_digest
from grader.gradebook.similarity.fingerprints import Reader
from grader.gradebook.similarity.survey import SAMPLED_PAIRS, THRESHOLD, answers
from grader.results import Entry
from grader.submissions.submission import MAX_FILE_BYTES

_MAX_FILES = 200_000
# Including names that Canvas and browsers give to copies: `glu-1.py`, `glu (1).py`.
_NAME = re.compile(r"(?P<stem>.+?)(?:-\d{1,3}| ?\(\d{1,3}\))?\.py", re.IGNORECASE | re.DOTALL)


class CorpusFile(msgspec.Struct, frozen=True):
    """A file of a corpus; `owners` are the ids of students in former gradebooks who handed it in."""

    exercise: str
    source: bytes
    owners: frozenset[str] = frozenset()


def read_corpus(
    folders: Iterable[Path], exercises: Collection[str], without: Path
) -> list[CorpusFile]:
    """Return the files of these exercises below some folders, each content once.

    From a gradebook, take the files that count. Elsewhere, take each file that is named after an exercise, such
    as `glu.py` and `zoe_glu.py`, or is in a folder of that name. Skip links, archives and the gradebook
    `without`.

    Raises SubmissionError if there is no file, GraderError if one cannot be read.
    """
    owners: dict[tuple[str, bytes], set[str]] = {}
    named = list(folders)
    for folder in named:
        for exercise, source, owner in _files(folder, exercises, without):
            owners.setdefault((exercise, source), set()).update({owner} - {""})
    if not owners:
        raise SubmissionError(
            f"There is no file of {', '.join(sorted(exercises)[:5])} below {', '.join(map(str, named))}: name "
            "files after their exercise, or put them into a folder with its name. Unpack archives first."
        )
    return [CorpusFile(name, source, frozenset(ids)) for (name, source), ids in owners.items()]


def _files(
    folder: Path, exercises: Collection[str], without: Path
) -> Iterator[tuple[str, bytes, str]]:
    """Yield the exercise, the source and the owner of each file below a folder."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        if FILE in names:
            # The other files of a RESULTS folder are made from the gradebook.
            folders.clear()
            if not Path(place).samefile(without):
                with Gradebook.open(Path(place)) as book:
                    for exercise, student, source in answers(book.entries(), book.sources, {}):
                        if exercise in exercises:
                            yield exercise, source, student
            continue
        for name in sorted(names):
            count += 1
            if count > _MAX_FILES:
                raise SubmissionError(f"{folder} has more than {_MAX_FILES:,} files.")
            path = Path(place, name)
            named_after = _exercise_of(path, exercises)
            if named_after and path.is_file() and not path.is_symlink():
                yield named_after, _read(path), ""


def _exercise_of(path: Path, exercises: Collection[str]) -> str | None:
    """Return the exercise in the name of a file or its folder; None if neither has one."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return None
    stem = match["stem"].lower()
    # The longest name counts: `zoe_batch_norm` is not of `norm`. A platform or student may write a prefix.
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
    """Find the most alike file of the corpus for each student and exercise, if it is unusually alike.

    Unless a `threshold` (0 to 1) is given, the usual similarity is learned from pairs of a file of the class
    and one of the corpus. Students' own earlier work is not compared.
    """
    of_class: dict[str, list[tuple[str, bytes]]] = {exercise: [] for exercise in stubs}
    for exercise, student, source in answers(entries, sources, stubs):
        if exercise in stubs:
            of_class[exercise].append((student, source))
    matches: list[CorpusMatch] = []
    surveys: list[CorpusSurvey] = []
    for exercise, stub in stubs.items():
        others = [f for f in corpus if f.exercise == exercise and f.source != stub]
        if others and (own := sorted(of_class[exercise])):
            of_exercise, survey = _compared(exercise, stub, own, others, threshold)
            matches += of_exercise
            surveys.append(survey)
    matches.sort(key=lambda match: (-match.similarity, match.student, match.exercise))
    return matches, surveys


def _compared(
    exercise: str,
    stub: bytes,
    own: Sequence[tuple[str, bytes]],
    others: Sequence[CorpusFile],
    threshold: float | None,
) -> tuple[list[CorpusMatch], CorpusSurvey]:
    """Return the unusually alike files of the corpus for an exercise, at most one for each student."""
    reader, count = Reader(stub), len(own)
    # First the files of the class, as `Comparison.nearest` requires.
    files = [
        SourceFile(student, source_digest(source), reader.read(source))
        for student, source in (*own, *(("", other.source) for other in others))
    ]
    comparison = Comparison(files, reader.read(stub))
    learned = _learned(comparison, count) if threshold is None else None
    if threshold is None:
        threshold = THRESHOLD if learned is None else learned
    best: dict[int, tuple[float, int]] = {}
    for mine, other, similarity in comparison.nearest(count):
        if files[mine].student in others[other - count].owners:
            continue
        if similarity >= threshold and similarity > best.get(mine, (0.0, 0))[0]:
            best[mine] = similarity, other
    matches = [
        CorpusMatch(
            exercise=exercise,
            student=files[mine].student,
            similarity=similarity,
            lines=comparison.shared_lines(mine, other),
            corpus_lines=comparison.shared_lines(other, mine),
            digest=files[mine].digest,
            corpus_digest=files[other].digest,
        )
        for mine, (similarity, other) in best.items()
    ]
    return matches, CorpusSurvey(
        exercise=exercise, files=len(others), threshold=threshold, learned=learned is not None
    )


def _learned(comparison: Comparison, count: int) -> float | None:
    """Return the least unusual similarity between own and other files; None for too few files."""
    numbers = [n for n in range(len(comparison.files)) if not comparison.is_short[n]]
    own, others = [n for n in numbers if n < count], [n for n in numbers if n >= count]
    pairs = len(own) * len(others)
    if min(len(own), len(others)) < LEAST_FILES:
        return None
    # Draw random pairs, but always the same for the same files.
    draw = random.Random(0)  # noqa: S311  # no secret
    drawn = [
        comparison.similarity(draw.choice(own), draw.choice(others))
        for _ in range(min(pairs, SAMPLED_PAIRS))
    ]
    return min(max(learned_bulk(drawn, pairs).end, LEAST_SIMILARITY), 1.0)
