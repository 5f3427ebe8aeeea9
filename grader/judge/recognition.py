"""Recognition of known mistakes by their results.

A wrong answer of the course (`grader.course.mutants`) is a change to a right answer, with a sentence for
students. If a submission fails a test, the wrong answers that this test catches are run in it with the same
seed. If the test has the same observation of one, the submission makes the same mistake, and the student reads
its sentence. An observation is the check's own finding, with its values.

Recognition never changes points, and costs a right answer no time.

A judge keeps its observations of wrong answers in the user's cache, by the digests of everything they depend
on, so a class pays for them once. Each wrong answer belongs to the course and runs in a sandbox of its own,
where no student's code ever ran. Observations contain hidden values and never enter a result.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.course.mutants import WrongAnswer, wrong_answers
from grader.findings import details_of, escaped, first_line, message_of, without_values
from grader.judge import cache
from grader.judge.own_code import judging_files
from grader.results import Cause, ExerciseResult, Finding, Outcome, TestResult, Visibility

# All wrong answers of a submission may together take this long, or as long as the submission itself took: a
# busy machine is slow for both. Answers that ran are known for the next submission.
MAX_SECONDS = 1.0
# Reordered sums differ by less, other mistakes by more.
_RELATIVE, _ABSOLUTE = 1e-4, 1e-6
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")

Key = tuple[Visibility, str]
# Returns the tests' observations of a wrong answer; None if a test passed, or has nothing to compare.
Observe = Callable[[WrongAnswer, Sequence[Key]], Mapping[Key, Finding | None]]
# Returns whether these observations are known, so that nothing has to run.
IsKnown = Callable[[WrongAnswer, Sequence[Key]], bool]

# The files of wrong answers, with the times of their last change.
_Stamp = tuple[tuple[Path, int], ...]

# The place of an exception differs between answers with the same mistake.
_OF_PLACE = frozenset(("at_line", "in_function"))
# Causes whose messages only say that something differs, or ended, and do not name the mistake.
_UNNAMED = frozenset(
    (Cause.VALUES, Cause.SHAPE, Cause.TYPE, Cause.NOTHING, Cause.GRADIENT, Cause.RAISE, Cause.OTHER)
)


class Recognition(msgspec.Struct, frozen=True):
    """A wrong answer, and the failed tests of the submission in which it has the same observation."""

    answer: WrongAnswer
    tests: tuple[Key, ...]


def observation(
    outcome: Outcome, finding: Finding | None, *, refused: bool = False
) -> Finding | None:
    """Return a test's observation of an answer; None if the test passed or its end names no mistake."""
    if refused or outcome not in (Outcome.FAILED, Outcome.ERROR):
        return None
    if finding is None or not (finding.sentence or finding.details):
        return None
    return finding


def alike(left: Finding | None, right: Finding | None) -> bool:
    """Whether two observations have the same words, and values that are equal up to the last digits."""
    if left is None or right is None:
        return False
    if (left.sentence, left.details) != (right.sentence, right.details):
        return False
    names = (left.values.keys() | right.values.keys()) - _OF_PLACE
    return all(_near(left.values.get(name, ""), right.values.get(name, "")) for name in names)


def _near(left: str, right: str) -> bool:
    """Whether two values are equal, up to small differences of the numbers in them."""
    if left == right:
        return True
    if _NUMBER.sub("", left) != _NUMBER.sub("", right):
        return False
    pairs = zip(_NUMBER.findall(left), _NUMBER.findall(right), strict=False)
    return all(
        abs(one - other) <= _ABSOLUTE + _RELATIVE * max(abs(one), abs(other))
        for one, other in (map(float, pair) for pair in pairs)
    )


def recognize(
    results: Iterable[TestResult],
    answers: Sequence[WrongAnswer],
    observe: Observe,
    *,
    seconds: float = MAX_SECONDS,
    is_known: IsKnown = lambda answer, keys: False,
) -> list[Recognition]:
    """Return the known mistakes of a submission with these results, each with the tests that it explains.

    If every failure already names its mistake, there is nothing to do. A wrong answer is possible only if the
    submission fails all of its tests. Known ones are compared first, then the likeliest; none is started after
    `seconds`.
    """
    failed = [test for test in results if test.outcome is not Outcome.PASSED]
    names = {test.name for test in failed}
    seen = {
        (test.visibility, test.name): finding
        for test in failed
        if (finding := observation(test.outcome, test.finding, refused=test.refused))
    }
    possible = [
        answer for answer in answers if answer.caught_by and names.issuperset(answer.caught_by)
    ]
    # First the wrong answers that explain most of the failed tests.
    possible.sort(key=lambda answer: (-len(answer.caught_by), answer.id))
    end = time.monotonic() + seconds
    recognitions: list[Recognition] = []
    waiting = {test.name for test in failed if test.outcome in (Outcome.SKIPPED, Outcome.TIMEOUT)}
    # A test that names its mistake is compared as well: it may be the one that must catch a wrong answer.
    left = list(seen) if any(map(is_unnamed, failed)) else []
    while left:
        key = left[0]
        # Known ones first; the others stay in order.
        in_turn = sorted(possible, key=lambda answer: not is_known(answer, [key]))
        best = _best(left, seen, in_turn, waiting, observe, is_known, end)
        if best is None:
            left.pop(0)
        else:
            recognitions.append(best)
            left = [key for key in left if key not in best.tests]
    return recognitions


def _best(
    left: Sequence[Key],
    seen: Mapping[Key, Finding],
    possible: Iterable[WrongAnswer],
    waiting: Collection[str],
    observe: Observe,
    is_known: IsKnown,
    end: float,
) -> Recognition | None:
    """Return the wrong answer with the submission's observation in the first of these tests.

    Among several, return the one that explains most tests. Its observation must not differ in any test that
    the submission fails.
    """
    first, best = left[0], None
    for answer in possible:
        if first[1] not in answer.caught_by:
            continue
        if time.monotonic() > end and not is_known(answer, list(seen)):
            continue
        if not alike(observe(answer, [first])[first], seen[first]):
            continue
        findings = {key: one for key, one in observe(answer, list(seen)).items() if one is not None}
        if not all(alike(one, seen[key]) for key, one in findings.items()):
            continue
        # Too little is known if half of its tests or more were skipped or timed out.
        explained = {name for _, name in findings}.intersection(answer.caught_by)
        if len(explained) <= sum(name in waiting for name in answer.caught_by):
            continue
        if best is None or len(findings) > len(best.tests):
            best = Recognition(answer, tuple(findings))
        if len(findings) == len(seen):
            break
    return best


def with_sentences(
    results: Sequence[TestResult], mistakes: Iterable[Recognition]
) -> list[TestResult]:
    """Return the results with each known mistake's number, and its sentence above messages that name none."""
    by_key = {(test.visibility, test.name): test for test in results}
    sentences: dict[Key, str] = {}
    for number, mistake in enumerate(mistakes, start=1):
        if sentence := _sentence(mistake.answer, [by_key[key] for key in mistake.tests]):
            sentences |= dict.fromkeys(mistake.tests, sentence)
        for key in mistake.tests:
            by_key[key] = msgspec.structs.replace(by_key[key], mistake=number)
    return [
        with_sentence(test, sentences[key]) if key in sentences and is_unnamed(test) else test
        for key, test in by_key.items()
    ]


def _sentence(answer: WrongAnswer, tests: Iterable[TestResult]) -> str:
    """Return the sentence of a known mistake: its own, else the message of a test that names the mistake.

    Empty if there is none: the author's title of a wrong answer is not for students.
    """
    if not answer.says:
        for test in tests:
            if test.finding is not None and test.cause is Cause.MISTAKE:
                hidden = test.visibility is Visibility.HIDDEN
                return first_line(without_values(test.finding) if hidden else test.finding)
    return answer.says


def is_unnamed(test: TestResult) -> bool:
    """Whether a test failed, and its message says only that something differs, or ended."""
    return test.outcome in (Outcome.FAILED, Outcome.ERROR) and test.cause in _UNNAMED


def with_sentence(test: TestResult, sentence: str) -> TestResult:
    """Return the test with the sentence of a known mistake above its message."""
    own = test.finding or Finding("")
    plain = without_values(own)
    found = Finding(
        escaped(sentence),
        (own.sentence, *own.details) if own.sentence else own.details,
        own.values,
        Cause.MISTAKE,
        (sentence, first_line(plain), *details_of(plain)),
    )
    return msgspec.structs.replace(test, message=message_of(found), finding=found)


class ObservedMistake(msgspec.Struct, frozen=True):
    """A wrong answer without its source; `seen` has its observations by test ("hidden/test_x")."""

    id: str
    sentence: str
    caught_by: tuple[str, ...]
    seen: dict[str, Finding]


class ObservedMistakes(msgspec.Struct, frozen=True):
    """Observations of an exercise's wrong answers, valid for one seed and the exercise's `digest`."""

    digest: str
    seed: int
    mistakes: tuple[ObservedMistake, ...]


def observed(answer: WrongAnswer, result: ExerciseResult) -> ObservedMistake:
    """Return the observations of a wrong answer that was judged, with the tests of `caught_by` that ran."""
    seen = {
        _text((test.visibility, test.name)): finding
        for test in result.tests
        if (finding := observation(test.outcome, test.finding, refused=test.refused))
    }
    run = {test.name for test in result.tests}
    caught_by = tuple(name for name in answer.caught_by if name in run)
    if not caught_by:
        caught_by = tuple(key.partition("/")[2] for key in seen)
    return ObservedMistake(answer.id, answer.says, caught_by, seen)


_Kept = dict[str, dict[str, Finding | None]]


class _Seen:
    """Observations of an exercise's wrong answers with one seed, by the answer's digest, kept in a file.

    Several judges share the file. If two write at once, an observation may be lost and made again.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, 0
        self._seen: dict[str, dict[str, Finding | None]] = {}
        self._is_new = False

    def of(self, answer: str) -> dict[str, Finding | None]:
        """Return the observations of a wrong answer by test ("hidden/test_x"), None where there is none."""
        return self._seen.setdefault(answer, {})

    def add(self, answer: str, seen: Mapping[str, Finding | None]) -> None:
        """Add observations of a wrong answer."""
        self.of(answer).update(seen)
        self._is_new = self._is_new or bool(seen)

    def read(self) -> None:
        """Add the observations that other judges wrote since the last read."""
        try:
            stamp = self._path.stat().st_mtime_ns
            if stamp == self._stamp:
                return
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError):
            return  # the observations are made again
        self._stamp = stamp
        for answer, seen in kept.items():
            self.of(answer).update(seen)

    def write(self) -> None:
        """Write new observations for other judges."""
        if self._is_new:
            self.read()
            cache.keep(self._path, msgspec.json.encode(self._seen))
            self._is_new = False


class KnownMistakes:
    """The known mistakes of exercises, with this judge's observations so far.

    With the course's wrong answers at hand, they run when needed. A package of the course has their
    observations instead, which hold for one seed.
    """

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}
        self._answers: dict[tuple[Path, str], tuple[_Stamp, tuple[WrongAnswer, ...]]] = {}

    def named(
        self,
        course: Course,
        exercise: Exercise,
        seed: int,
        results: list[TestResult],
        observe: Observe,
        *,
        seconds: float = 0.0,
    ) -> list[TestResult]:
        """Return the results with the sentences of the submission's known mistakes.

        `seconds` is the time that judging took. A test that `observe` omits counts as no observation, and is
        not cached.
        """
        if all(test.outcome is Outcome.PASSED for test in results):
            return results
        digest = exercise_digest(course, exercise)
        if not _files(course, exercise):
            observed_mistakes = _read(course.observed(exercise))
            if observed_mistakes is None or (observed_mistakes.digest, observed_mistakes.seed) != (
                digest,
                seed,
            ):
                return results
            return with_sentences(results, recognize(results, *_kept(observed_mistakes)))

        answers = self._answers_of(course, exercise)
        digests = {each.id: hashlib.sha256(each.source).hexdigest() for each in answers}

        path = cache.file_of("mistakes", digest, str(seed), judging_files())
        kept = self._seen.setdefault(path, _Seen(path))
        kept.read()

        def is_known(answer: WrongAnswer, keys: Sequence[Key]) -> bool:
            return kept.of(digests[answer.id]).keys() >= set(map(_text, keys))

        def seen(answer: WrongAnswer, keys: Sequence[Key]) -> dict[Key, Finding | None]:
            known = kept.of(digests[answer.id])
            missing = [key for key in keys if _text(key) not in known]
            if missing:
                made = {_text(key): finding for key, finding in observe(answer, missing).items()}
                kept.add(digests[answer.id], made)
                known |= {**dict.fromkeys(map(_text, missing)), **made}
            return {key: known[_text(key)] for key in keys}

        mistakes = recognize(
            results, answers, seen, seconds=max(MAX_SECONDS, seconds), is_known=is_known
        )
        kept.write()
        return with_sentences(results, mistakes)

    def _answers_of(self, course: Course, exercise: Exercise) -> tuple[WrongAnswer, ...]:
        """Return the wrong answers of an exercise; read them again if one of their files changed."""
        files = _files(course, exercise)
        stamp = tuple((path, path.stat().st_mtime_ns) for path in files)
        key = course.root, exercise.id
        if key not in self._answers or self._answers[key][0] != stamp:
            self._answers[key] = stamp, wrong_answers(course, exercise).answers
        return self._answers[key][1]


def _text(key: Key) -> str:
    """Return the key of a test in files, such as "hidden/test_x"."""
    visibility, name = key
    return f"{visibility.value}/{name}"


def _files(course: Course, exercise: Exercise) -> list[Path]:
    """Return the files of an exercise's wrong answers and of the right answers that they change."""
    wrong = [course.mutants(exercise), *course.variants(exercise, "wrong")]
    if not any(map(Path.is_file, wrong)):
        return []
    files = [*wrong, course.caught(exercise), *course.rights(exercise)]
    return [path for path in files if path.is_file()]


def _read(path: Path) -> ObservedMistakes | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ObservedMistakes)
    except (OSError, msgspec.DecodeError):
        return None  # no mistake is named then


def _kept(observed_mistakes: ObservedMistakes) -> tuple[list[WrongAnswer], Observe]:
    """Return a package's wrong answers, and a function that looks up their observations."""
    answers = [
        WrongAnswer(mistake.id, mistake.id, b"", caught_by=mistake.caught_by, says=mistake.sentence)
        for mistake in observed_mistakes.mistakes
    ]
    seen = {mistake.id: mistake.seen for mistake in observed_mistakes.mistakes}

    def observe(answer: WrongAnswer, keys: Sequence[Key]) -> dict[Key, Finding | None]:
        return {key: seen[answer.id].get(_text(key)) for key in keys}

    return answers, observe
