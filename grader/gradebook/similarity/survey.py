"""The survey of a class, for `grade similar`: compare its files, and gather unusually alike pairs in groups."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from grader.gradebook.similarity.comparison import Comparison, SourceFile
from grader.gradebook.similarity.evidence import (
    LEAST_FILES,
    LEAST_SIMILARITY,
    Bulk,
    Pair,
    joint_evidence,
    learned_bulk,
    learned_sum,
)
from grader.gradebook.similarity.findings import (
    AlikeCircle,
    AlikeGroup,
    Basis,
    ExerciseSurvey,
    GroupExercise,
    Similarity,
    SimilarPair,
    source_digest,
)
from grader.gradebook.similarity.fingerprints import Reader
from grader.results import Entry

# For classes that are too small to learn from.
THRESHOLD = 0.6
MAX_PAIRS = 200
# In per cent; each exercise's survey counts the pairs that these thresholds would report.
OTHER_THRESHOLDS = (80, 60)
# A sample of this many pairs shows the ordinary similarities.
SAMPLED_PAIRS = 2000


def find_similar(
    entries: Iterable[Entry],
    sources: Callable[[Entry], Mapping[str, bytes]],
    stubs: Mapping[str, bytes],
    *,
    threshold: float | None = None,
    most_pairs: int = MAX_PAIRS,
    of_teams: Collection[str] = (),
) -> Similarity:
    """Find the alike pairs among the counted attempts of a class.

    Args:
        entries: the attempts, one for each student.
        sources: a function that returns the files of an entry, by exercise.
        stubs: the given files, by exercise in the order of the course.
        threshold: the similarity, 0 to 1, from which a pair is reported; by default, each exercise has its
            own, learned from the class.
        most_pairs: the number of most alike pairs to keep for each exercise.
        of_teams: the exercises in which members of a team have the same file, so that one represents all.
    """
    readers = {exercise: Reader(stub) for exercise, stub in stubs.items()}
    files: dict[str, list[SourceFile]] = {exercise: [] for exercise in stubs}
    for exercise, student, source in answers(entries, sources, stubs, of_teams=of_teams):
        reader = readers.setdefault(exercise, Reader(b""))
        file = SourceFile(student, source_digest(source), reader.read(source))
        files.setdefault(exercise, []).append(file)
    surveyed = [
        _Exercise(exercise, compared, readers[exercise], stubs.get(exercise, b""), threshold)
        for exercise, compared in files.items()
    ]
    together = {} if threshold is not None else _told_together(surveyed)
    reported: dict[Pair, dict[str, float]] = defaultdict(dict)
    for done in surveyed:
        for pair, similarity in done.similarities.items():
            if done.tells(pair) or done.id in together.get(pair, ()):
                reported[pair][done.id] = similarity
    pairs = [pair for e in surveyed for pair in e.pairs(reported, most_pairs)]
    return Similarity(
        threshold=threshold,
        exercises=tuple(exercise.survey() for exercise in surveyed),
        pairs=tuple(pairs),
        groups=tuple(_groups(reported, {e.id: e for e in surveyed})),
    )


def answers(
    entries: Iterable[Entry],
    sources: Callable[[Entry], Mapping[str, bytes]],
    stubs: Mapping[str, bytes],
    *,
    of_teams: Collection[str] = (),
) -> Iterator[tuple[str, str, bytes]]:
    """Yield the exercise, the student and the source of each file that differs from the stub.

    Of the exercises `of_teams`, one member represents a team, whose members have the same file.
    """
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        team = entry.student.team
        untouched = {e.name for e in entry.result.exercises if not e.attempted}
        for exercise, source in sources(entry).items():
            if exercise in untouched or source == stubs.get(exercise) or (team, exercise) in seen:
                continue
            if team and exercise in of_teams:
                seen.add((team, exercise))
            yield exercise, entry.student.id, source


class _Exercise:
    """The comparison of one exercise, and the threshold from which it reports a pair."""

    def __init__(
        self,
        id_: str,
        files: list[SourceFile],
        reader: Reader,
        stub: bytes,
        threshold: float | None,
    ) -> None:
        # Sorted, so that the result does not depend on the order of the class.
        files.sort(key=lambda file: file.student)
        self.id, self.files = id_, files
        self._comparison = Comparison(files, reader.read(stub))
        self._numbers = {file.student: number for number, file in enumerate(files)}
        numbers = [n for n in range(len(files)) if not self._comparison.is_short[n]]
        self.compared = [files[n].student for n in numbers]
        self.similarities: dict[Pair, float] = {}
        for left, right, similarity in self._comparison.nearest():
            self.similarities[files[left].student, files[right].student] = similarity
        self._bulk = _bulk(self._comparison, numbers) if threshold is None else None
        if threshold is not None:
            self.basis, self._threshold = Basis.GIVEN, threshold
        elif self._bulk is None:
            self.basis, self._threshold = Basis.FIXED, THRESHOLD
        elif self._bulk.end >= 1:
            self.basis, self._threshold = Basis.NONE, 1.0
            self._equal = _equal(self.similarities, len(numbers))
        else:
            self.basis, self._threshold = Basis.LEARNED, max(self._bulk.end, LEAST_SIMILARITY)

    def tells(self, pair: Pair) -> bool:
        """Whether this exercise alone reports a pair."""
        if self.basis is Basis.NONE:
            return pair in self._equal
        return self.similarities[pair] >= max(self._threshold, 1e-9)

    def survey(self) -> ExerciseSurvey:
        """Return the numbers of the comparison, and its threshold."""
        return ExerciseSurvey(
            exercise=self.id,
            files=len(self.files),
            short=len(self.files) - len(self.compared),
            alike=sum(map(self.tells, self.similarities)),
            at_other_thresholds={
                f"{percent} %": sum(
                    100 * similarity >= percent for similarity in self.similarities.values()
                )
                for percent in OTHER_THRESHOLDS
            },
            basis=self.basis,
            threshold=self._threshold,
            median=self._bulk.median if self._bulk else None,
            bulk_end=self._bulk.end if self._bulk else None,
        )

    def pairs(
        self, reported: Mapping[Pair, Mapping[str, float]], most: int
    ) -> Iterator[SimilarPair]:
        """Yield the reported pairs of this exercise, the most alike first, with their shared lines."""
        mine = [(-reported[pair][self.id], pair) for pair in reported if self.id in reported[pair]]
        for _, (left, right) in sorted(mine)[:most]:
            first, second = self._numbers[left], self._numbers[right]
            similarity = self.similarities[left, right]
            yield SimilarPair(
                exercise=self.id,
                left=left,
                right=right,
                similarity=similarity,
                alone=self.tells((left, right)),
                left_lines=self._comparison.shared_lines(first, second),
                right_lines=self._comparison.shared_lines(second, first),
                left_digest=self.files[first].digest,
                right_digest=self.files[second].digest,
            )


def _bulk(comparison: Comparison, numbers: list[int]) -> Bulk | None:
    """Return the bulk of similarities among these files, from a sample of the pairs of a large class."""
    if len(numbers) < LEAST_FILES:
        return None
    every = list(itertools.combinations(numbers, 2))
    # Draw random pairs, but always the same for the same class.
    seen = random.Random(0).sample(  # noqa: S311  # no secret
        every, min(len(every), SAMPLED_PAIRS)
    )
    similarities = [comparison.similarity(left, right) for left, right in seen]
    return learned_bulk(similarities, len(every))


def _equal(similarities: Mapping[Pair, float], files: int) -> set[Pair]:
    """Return the pairs of equal files, except files that a third of the class has, which are ordinary."""
    equal = {pair for pair, similarity in similarities.items() if similarity >= 1}
    group_of: dict[str, set[str]] = {}
    for left, right in equal:
        joined = group_of.get(left, {left}) | group_of.get(right, {right})
        group_of.update(dict.fromkeys(joined, joined))
    return {pair for pair in equal if 3 * len(group_of[pair[0]]) < files}


def _told_together(exercises: list[_Exercise]) -> dict[Pair, set[str]]:
    """Map each pair that only several exercises together report to these exercises."""
    learned = [e for e in exercises if e.basis in (Basis.LEARNED, Basis.NONE)]
    evidence = joint_evidence(
        {e.id: e.similarities for e in learned}, {e.id: len(e.compared) for e in learned}
    )
    end = learned_sum(evidence, {student for e in learned for student in e.compared})
    return {
        pair: set(counts)
        for pair, counts in evidence.items()
        if len(counts) > 1 and sum(counts.values()) > end
    }


def _groups(
    reported: Mapping[Pair, Mapping[str, float]], exercises: Mapping[str, _Exercise]
) -> list[AlikeGroup]:
    """Return the groups; those alike in most exercises, and most alike there, come first."""
    groups: list[tuple[float, AlikeGroup]] = []
    for students in grouped({pair: sum(shares.values()) for pair, shares in reported.items()}):
        members = set(students)
        by_exercise: dict[str, dict[Pair, float]] = defaultdict(dict)
        alone: set[str] = set()
        for pair, similarities in reported.items():
            if members.issuperset(pair):
                for exercise, similarity in similarities.items():
                    by_exercise[exercise][pair] = similarity
                alone |= {name for name in similarities if exercises[name].tells(pair)}
        parts = [
            GroupExercise(
                exercise=exercise,
                pairs=len(values),
                lowest=min(values.values()),
                highest=max(values.values()),
                alone=exercise in alone,
                circles=tuple(circles(values)),
            )
            for exercise, values in by_exercise.items()
        ]
        parts.sort(key=lambda part: (-part.highest, part.exercise))
        strength = sum(sum(values.values()) / len(values) for values in by_exercise.values())
        groups.append((strength, AlikeGroup(students=students, exercises=tuple(parts))))
    groups.sort(key=lambda item: (-item[0], item[1].students))
    return [group for _, group in groups]


def circles(similarities: Mapping[Pair, float]) -> list[AlikeCircle]:
    """Return circles in which all students are alike; each pair is in one.

    Each circle begins with the most alike pair that is in no circle yet.
    """
    similarities = {(min(pair), max(pair)): value for pair, value in similarities.items()}
    partners: dict[str, set[str]] = defaultdict(set)
    for left, right in similarities:
        partners[left].add(right)
        partners[right].add(left)
    made: list[AlikeCircle] = []
    told: set[Pair] = set()
    for pair in sorted(similarities, key=lambda pair: (-similarities[pair], pair)):
        if pair in told:
            continue
        members = [*pair]
        others = partners[pair[0]] & partners[pair[1]]
        while others:
            members.append(min(others))
            others &= partners[members[-1]]
        students = tuple(sorted(members))
        inside = [p for p in itertools.combinations(students, 2) if p in similarities]
        told.update(inside)
        values = [similarities[p] for p in inside]
        made.append(AlikeCircle(students=students, lowest=min(values), highest=max(values)))
    return sorted(made, key=lambda circle: (-len(circle.students), -circle.highest))


# --- pairs gathered into groups: five students who share one file are one group, not ten pairs ---

# Two groups are joined if at least this share of the pairs between them is alike, so chains form no group.
LINKED_SHARE = 0.5


def grouped(strengths: Mapping[Pair, float]) -> list[tuple[str, ...]]:
    """Return the groups of these pairs; every pair is in one, and a student may be in several.

    The strongest pairs are joined first, by average linkage.
    """
    ordered = sorted(strengths, key=lambda pair: (-strengths[pair], pair))
    # A cluster is named by one of its students; `links` counts the alike pairs between two of them.
    cluster_of = {student: student for pair in ordered for student in pair}
    members = {student: [student] for student in cluster_of}
    links: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for left, right in ordered:
        links[left][right] += 1
        links[right][left] += 1

    def joined(pair: Pair) -> bool:
        """Join the clusters of a pair if enough of their pairs are alike; return whether it joined them."""
        into, other = (cluster_of[student] for student in pair)
        possible = len(members[into]) * len(members[other])
        if into == other or links[into][other] < LINKED_SHARE * possible:
            return False
        for student in members.pop(other):
            cluster_of[student] = into
            members[into].append(student)
        for third, count in links.pop(other).items():
            del links[third][other]
            if third != into:
                links[into][third] += count
                links[third][into] += count
        return True

    # A late join may link groups that could not be joined before.
    while sum(map(joined, ordered)):
        pass
    groups: set[tuple[str, ...]] = set()
    for left, right in ordered:
        together = cluster_of[left] == cluster_of[right]
        groups.add(tuple(sorted(members[cluster_of[left]] if together else (left, right))))
    return sorted(groups)
