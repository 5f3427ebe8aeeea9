"""Prove a course: stubs and junk earn nothing, right answers everything, wrong ones are caught and named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from grader.authoring.consistency import dangling, drift
from grader.authoring.junk import junk_of
from grader.course.caught import write_caught
from grader.course.manifest import Course, Exercise
from grader.course.mutants import WrongAnswer, WrongAnswers, wrong_answers
from grader.course.suites import declared_tests, tests_of
from grader.errors import CourseError, GraderError
from grader.findings import first_line
from grader.grading import settle
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.pool import Judges
from grader.judge.recognition import Key, observation, recognize, with_sentences
from grader.judge.scoring import kept
from grader.results import Cause, ExerciseResult, Finding, Outcome, Status, Visibility
from grader.submissions import ExerciseFile
from grader.submissions.source import parse
from grader.text import nearest

SEEDS = 5
# The most that a mistake central to a function may keep of its points, and that any other may cost.
_CENTRAL = 0.5
_DEAREST = 1 / 3
# More lenient than the mark of `--points`: nobody should have to balance a suite to the last percent.
_TOO_DEAR = 0.4
# The least that a central mistake should leave: the rest of the exercise has some worth, too.
_LEAST = 0.25
# How a test that did not pass ended.
_ENDS = {
    Outcome.FAILED: "fails",
    Outcome.ERROR: "ends with an error",
    Outcome.TIMEOUT: "runs out of time",
    Outcome.NOT_IMPLEMENTED: "calls an unwritten part",
}
_CAUGHT = tuple(_ENDS)


class CaughtAnswer(msgspec.Struct, frozen=True):
    """A judged wrong answer: its mistake, and the failing tests with the student's messages.

    `kept` is the share of the exercise's points that it earns, 0 to 1.
    """

    name: str
    title: str
    messages: tuple[tuple[str, str], ...]
    kept: float
    is_central: bool

    @property
    def is_dear(self) -> bool:
        """Whether one missed idea costs more than a third of the points, and is not the central one."""
        return not self.is_central and 1 - self.kept > _DEAREST

    @property
    def is_harsh(self) -> bool:
        """Whether a mistake that is marked as central keeps less than a quarter of the points."""
        return self.is_central and self.kept < _LEAST


class TestWorth(msgspec.Struct, frozen=True):
    """The worth of a test: the number of wrong answers that fail it, that fail it `alone`, and its seconds.

    The seconds are the solution's, in a warm judge.
    """

    __test__ = False

    visibility: Visibility
    name: str
    caught: int
    alone: int
    seconds: float


class ExerciseProof(msgspec.Struct, frozen=True):
    """One exercise, proved or not: the numbers judged, the answers caught, and every complaint.

    `unproved` are the shares that could not be judged, with the packages that they need; `written` is the file
    of the tests that catch each wrong answer, if it was written and changed.
    """

    exercise: str
    right: int
    wrong: int
    tests: int
    complaints: tuple[str, ...]
    caught: tuple[CaughtAnswer, ...] = ()
    unproved: str = ""
    worth: tuple[TestWorth, ...] = ()
    written: tuple[str, ...] = ()


def verify(
    course: Course,
    exercises: Sequence[Exercise],
    *,
    jobs: int = 1,
    seeds: int = SEEDS,
    write: bool = False,
    shared: Judges | None = None,
    done: Callable[[Exercise, str], None] = lambda exercise, what: None,
) -> Iterator[ExerciseProof]:
    """Prove the exercises one after the other, with the judges `shared` or `jobs` new ones.

    `done` is called for every judged module.

    The stub is judged too, although grading recognizes it without a judge. With `write`, the tests that catch
    each wrong answer under each of the `seeds` are written (`grader.course.caught`) before they are checked.
    Raises CourseError for an exercise without a solution.
    """
    for exercise in exercises:
        if not course.solution(exercise).is_file():
            path = course.solution(exercise)
            raise CourseError(f"There is nothing to prove {exercise.id!r} with: {path} is missing.")
    with Judges.shared_or_new(shared, course, exercises, jobs) as judges:
        judges.start()
        provers = (_Prover(course, e, judges, seeds, write, done) for e in exercises)
        # The judges get the next exercise before we look at the results of this one, so none of them waits.
        begun: list[_Prover] = []
        for prover in provers:
            prover.begin()
            begun.append(prover)
            if len(begun) > 1:
                yield begun.pop(0).prove()
        for prover in begun:
            yield prover.prove()


class _Run(msgspec.Struct, frozen=True):
    """A module to judge with a seed."""

    name: str
    source: bytes
    options: GradingOptions = GradingOptions()


class _Outcomes(msgspec.Struct, frozen=True):
    """The results of runs, by module and seed, and complaints."""

    results: Mapping[str, Mapping[int, ExerciseResult]]
    complaints: tuple[str, ...]


class _Prover:
    """Has the modules of one exercise judged, several at a time, and collects the complaints."""

    def __init__(
        self,
        course: Course,
        exercise: Exercise,
        judges: Judges,
        seeds: int,
        write: bool,
        done: Callable[[Exercise, str], None],
    ) -> None:
        self._course, self._exercise = course, exercise
        self._judges = judges
        self._seeds, self._write, self._done = seeds, write, done
        self._tests = tests_of(course, exercise, tuple(Visibility))
        self._stub = course.stub(exercise).source
        self._stub_name = course.name_of(course.folder / exercise.file)
        self._rights = {course.name_of(path): path.read_bytes() for path in course.rights(exercise)}
        self._wrongs = wrong_answers(course, exercise)
        self._junk = {f"code that {does}": s for does, s in junk_of(self._stub).items()}
        self._outcomes: Iterator[tuple[_Run, Judgment | str]] = iter(())

    @property
    def _is_unreadable(self) -> bool:
        # The file of the tests that catch them is overwritten.
        own = (self._course.caught(self._exercise),) if self._write else ()
        return bool(set(self._wrongs.unreadable) - set(own))

    def begin(self) -> None:
        """Have the stub and all answers judged, several at a time; `prove` waits for the results."""
        if not self._is_unreadable:
            runs = self._runs(_judgeable(self._wrongs, self._left_out()))
            self._outcomes = zip(runs, self._judges.threads.map(self._judge, runs), strict=True)

    def prove(self) -> ExerciseProof:
        """Complain about unexpected results."""
        course, exercise = self._course, self._exercise
        stub, stub_name, rights, junk = self._stub, self._stub_name, self._rights, self._junk
        all_wrongs = self._wrongs
        if self._is_unreadable:
            told = all_wrongs.complaints
            return ExerciseProof(exercise.id, len(rights), 0, len(self._tests), told)
        wrongs = _judgeable(all_wrongs, self._left_out())
        judged = self._judged()
        results = judged.results
        declared = declared_tests(course, exercise, tuple(Visibility))
        # Modules that could not be judged come first: the rest may follow from them.
        complaints = [*judged.complaints, *drift(course, exercise)]
        complaints += dangling(course, exercise, declared)
        written: tuple[str, ...] = ()
        if self._write:
            written = write_caught(course, exercise, self._lists(all_wrongs, results))
            wrongs = _judgeable(wrong_answers(course, exercise), self._left_out())
        complaints += wrongs.complaints
        complaints += self._stub_complaints(stub_name, stub, results[stub_name].get(0))
        complaints += self._junk_complaints({name: results[name] for name in junk})
        for name in rights:
            complaints += _right_complaints(name, results[name])
        caught = [
            (wrong, results[wrong.name][0])
            for wrong in wrongs.answers
            if 0 in results.get(wrong.name, {})
        ]
        complaints += self._unwritten(caught)
        caught = _recognized(caught)
        for wrong, result in caught:
            complaints += _wrong_complaints(wrong, result)
            complaints += self._central_complaints(wrong, result)
            complaints += _dear_complaints(wrong, result)
        # If no wrong answer could be judged, complain about that, and not about unproved tests.
        if caught or not wrongs.answers:
            failed = [result for _, result in caught]
            complaints += self._unproven(failed)
            complaints += self._unseen(failed)
        return ExerciseProof(
            exercise.id,
            len(rights),
            len(wrongs.answers),
            len(self._tests),
            tuple(complaints),
            tuple(_caught(wrong, result) for wrong, result in caught),
            ", ".join(f"{n.share} (needs {' and '.join(n.packages)})" for n in exercise.unmet),
            _worth(
                [result for _, result in caught],
                results[course.name_of(course.solution(exercise))].get(0),
            ),
            written,
        )

    def _runs(self, wrongs: WrongAnswers) -> list[_Run]:
        """Return the modules to judge: right answers with every seed, wrong ones too if lists are written."""
        runs = [_Run(self._stub_name, self._stub)]
        runs += [
            _Run(name, source, GradingOptions(seed))
            for name, source in self._rights.items()
            for seed in range(self._seeds)
        ]
        runs += [
            _Run(wrong.name, wrong.source, GradingOptions(seed))
            for wrong in wrongs.answers
            for seed in range(self._seeds if self._write else 1)
        ]
        # Last, since a fault is reported with the first answer that has it.
        return runs + [_Run(name, source) for name, source in self._junk.items()]

    def _judged(self) -> _Outcomes:
        """Wait for the results of all modules."""
        results: dict[str, dict[int, ExerciseResult]] = {}
        provoked: list[str] = []
        faults: dict[str, list[str]] = {}
        for run, outcome in self._outcomes:
            results.setdefault(run.name, {})
            if isinstance(outcome, Judgment):
                results[run.name][run.options.seed] = outcome.result
                provoked += [
                    f"{run.name}: it makes {' raise '.join(parts)}. Its student reads nothing useful: check "
                    "the answer before you use it."
                    for parts in outcome.provoked
                ]
            elif run.name not in faults.setdefault(outcome, []):
                faults[outcome].append(run.name)
        complaints = [_fault(fault, names) for fault, names in faults.items()]
        return _Outcomes(results, (*complaints, *provoked))

    def _lists(
        self, wrongs: WrongAnswers, results: Mapping[str, Mapping[int, ExerciseResult]]
    ) -> dict[str, tuple[str, ...]]:
        """Return the tests that catch each wrong answer under every seed, by its id, in order.

        A test that cannot run here stays in its list, and so does the list of an answer that could not be
        judged. An answer that no test catches has no list and makes a complaint.
        """
        left_out = self._left_out()
        declared = declared_tests(self._course, self._exercise, tuple(Visibility))
        order = list(dict.fromkeys(test.name for test in declared))
        lists = {}
        for wrong in wrongs.answers:
            judged = results.get(wrong.name, {}).values()
            failed = [{t.name for t in r.tests if t.outcome in _CAUGHT} for r in judged]
            names = set[str].intersection(*failed) if failed else set(wrong.caught_by)
            if names:
                names |= left_out.intersection(wrong.caught_by)
                lists[wrong.id] = tuple(name for name in order if name in names)
        return lists

    def _left_out(self) -> set[str]:
        """Return the names of tests that need a package which is not installed."""
        tests = declared_tests(self._course, self._exercise, tuple(Visibility))
        return {test.name for test in tests} - {test.name for test in self._tests}

    def _unwritten(self, caught: Sequence[tuple[WrongAnswer, ExerciseResult]]) -> list[str]:
        """Return a complaint about wrong answers without a list of the tests that catch them."""
        ids = [
            wrong.id
            for wrong, result in caught
            if not wrong.caught_by and any(test.outcome in _CAUGHT for test in result.tests)
        ]
        if not ids:
            return []
        file = self._course.name_of(self._course.caught(self._exercise))
        command = f"`grade verify {self._exercise.id} --write`"
        return [f"{file}: which tests catch {', '.join(ids)} is not in it: {command} writes it."]

    def _judge(self, run: _Run) -> Judgment | str:
        """Return the judgment of a run, or the reason why there is none."""
        try:
            parse(run.source)
        except SyntaxError as error:
            self._done(self._exercise, run.name)
            return f"line {error.lineno or 1} is not valid Python: {error.msg}."
        try:
            return self._judges.judge(self._course, self._exercise, run.source, run.options)
        except GraderError as error:
            return str(error)
        finally:
            self._done(self._exercise, run.name)

    def _stub_complaints(self, name: str, stub: bytes, result: ExerciseResult | None) -> list[str]:
        """Return complaints about the stub; `result` is None if it could not be judged."""
        course, exercise = self._course, self._exercise
        settled = settle(course, exercise, ExerciseFile(stub), GradingOptions())
        complaints = []
        if settled is None or settled.status is not Status.NOT_ATTEMPTED:
            complaints.append(f"{name}: the stub is not recognized as untouched.")
        kept, working = course.kept_stub(exercise), course.folder / exercise.file
        # Stubs from markers are compared by `drift`.
        if course.derived_stub(exercise) is None:
            if not kept.is_file():
                complaints.append(
                    f"{course.name_of(kept)} is missing: mark in the solution what students write, or copy "
                    "the stub to it, as it is handed out."
                )
            elif not working.is_file() or working.read_bytes() != stub:
                complaints.append(
                    f"{course.name_of(kept)}: it is not the same as {name}; copy one."
                )
        if result is None:
            return complaints
        complaints += [
            f"{name}: the stub passes {test.name}, which is worth points."
            for test in result.tests
            if test.score
        ]
        # If nothing is left to write, the stub is a program to mend: it fails, and earns nothing.
        is_complete = b"NotImplementedError" not in stub
        if result.status is not Status.NOT_ATTEMPTED and not (is_complete and result.score == 0):
            reason = f" ({result.message})" if result.message else ""
            complaints.append(
                f"{name}: judged, the stub is {result.status.value}{reason}: let all that a student "
                "writes raise NotImplementedError."
            )
        return complaints

    def _junk_complaints(self, junk: Mapping[str, Mapping[int, ExerciseResult]]) -> list[str]:
        """Complain about tests that have points although code without work passes them.

        A test that nothing fails says so itself (`unproven`).
        """
        unproven = {(test.visibility, test.name) for test in self._tests if test.unproven}
        earning: dict[str, list[str]] = {}
        for name, results in junk.items():
            for test in results[0].tests if 0 in results else ():
                if test.score and (test.visibility, test.name) not in unproven:
                    earning.setdefault(f"{test.visibility.value} {test.name}", []).append(name)
        return [
            f"{self._exercise.id}: {' and '.join(names)} passes {test}, which is worth points: mark the test "
            "with `word=`."
            for test, names in earning.items()
        ]

    def _central_complaints(self, wrong: WrongAnswer, result: ExerciseResult) -> Iterator[str]:
        """Yield a complaint if a mistake central to a function keeps more than half of its worth."""
        if not wrong.central:
            return
        owners = {(t.visibility, t.name): t.share or t.place.partition(".")[0] for t in self._tests}
        tests = [t for t in result.tests if owners[t.visibility, t.name] == wrong.central]
        if not tests:
            names = sorted({owner for owner in owners.values() if owner})
            yield (
                f"{wrong.name}: it is central to {wrong.central!r}, but no test is about it. "
                f"{nearest(wrong.central, names)}"
            )
        elif (part := kept(tests)) > _CENTRAL:
            passed = ", ".join(test.name for test in tests if test.score)
            yield (
                f"{wrong.name}: this central mistake keeps {part:.0%} of the share of {wrong.central}, and "
                f"may keep {_CENTRAL:.0%}: give more points to the tests that catch it. Still passing: "
                f"{passed}."
            )

    def _unproven(self, results: Sequence[ExerciseResult]) -> list[str]:
        """Return complaints about tests that no wrong answer fails, unless they are rightly marked unproven."""
        failed = {
            (test.visibility, test.name)
            for result in results
            for test in result.tests
            if test.outcome in _CAUGHT
        }
        complaints = []
        for test in self._tests:
            label = f"{test.visibility.value} {test.name}"
            if (test.visibility, test.name) not in failed and not test.unproven:
                complaints.append(f"{self._exercise.id}: no wrong answer fails {label}.")
            elif (test.visibility, test.name) in failed and test.unproven:
                complaints.append(f"{self._exercise.id}: {label} is marked unproven, yet fails.")
        return complaints

    def _unseen(self, results: Sequence[ExerciseResult]) -> list[str]:
        """Return complaints about hints that no wrong answer's student reads."""
        failed = [test for result in results for test in result.tests if test.outcome in _CAUGHT]
        # If a sentence names the mistake, no hint is needed.
        hinted = {
            (test.visibility, test.name)
            for test in failed
            if test.hint or test.cause is Cause.MISTAKE
        }
        return [
            f"{self._exercise.id}: the hint of {test.visibility.value} {test.name} is never shown: where the "
            "test fails, something is used that is not allowed. Add a wrong answer that fails in another way."
            for test in self._tests
            if test.hint and (test.visibility, test.name) not in hinted
            if any((test.visibility, test.name) == (t.visibility, t.name) for t in failed)
        ]


def _fault(fault: str, names: Sequence[str]) -> str:
    """Return a complaint about modules that could not be judged; a suite's fault is the same for many."""
    return f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {fault}"


def _right_complaints(name: str, results: Mapping[int, ExerciseResult]) -> list[str]:
    """Return complaints about tests that a right answer does not pass, with seeds, and about held points."""
    # Numbers in a message may differ with the seed: the first message is shown.
    seeds: dict[tuple[str, str], list[int]] = {}
    messages: dict[tuple[str, str], str] = {}
    for seed, result in results.items():
        for test in result.tests:
            # A test is skipped because another one failed.
            if test.outcome not in (Outcome.PASSED, Outcome.SKIPPED):
                failure = (test.name, _ENDS[test.outcome])
                seeds.setdefault(failure, []).append(seed)
                messages.setdefault(failure, test.message)
    held = dict.fromkeys(reason for result in results.values() for reason in result.held)
    return [
        *(
            f"{name} is right, but {test} {ends} with {_seeds(under)}: {messages[test, ends]}"
            for (test, ends), under in seeds.items()
        ),
        *(
            f"{name} is right, but its points would be held: {reason}. If answers of this exercise need that, "
            "name it in `ordinary`."
            for reason in held
        ),
    ]


def _judgeable(wrongs: WrongAnswers, left_out: set[str]) -> WrongAnswers:
    """Return the wrong answers that should be caught by tests that are not left out."""
    answers = [
        msgspec.structs.replace(
            wrong, caught_by=tuple(test for test in wrong.caught_by if test not in left_out)
        )
        for wrong in wrongs.answers
        if not wrong.caught_by or not left_out.issuperset(wrong.caught_by)
    ]
    return msgspec.structs.replace(wrongs, answers=tuple(answers))


def _recognized(
    caught: Sequence[tuple[WrongAnswer, ExerciseResult]],
) -> list[tuple[WrongAnswer, ExerciseResult]]:
    """Return the wrong answers as their students would read of them, each recognized among all of them."""
    seen = {
        wrong.name: {
            (test.visibility, test.name): observation(
                test.outcome, test.finding, refused=test.refused
            )
            for test in result.tests
        }
        for wrong, result in caught
    }
    answers = [wrong for wrong, _ in caught]

    def observe(answer: WrongAnswer, keys: Sequence[Key]) -> Mapping[Key, Finding | None]:
        return {key: seen[answer.name].get(key) for key in keys}

    named = []
    for wrong, result in caught:
        mistakes = recognize(result.tests, answers, observe, seconds=math.inf)
        tests = tuple(with_sentences(result.tests, mistakes))
        named.append((wrong, msgspec.structs.replace(result, tests=tests)))
    return named


def _dear_complaints(wrong: WrongAnswer, result: ExerciseResult) -> Iterator[str]:
    """Yield a complaint if a mistake that is not central costs far more than a third of the points."""
    if not wrong.central and (cost := 1 - kept(result.tests)) > _TOO_DEAR:
        yield (
            f"{wrong.name}: this mistake costs {cost:.0%} of the points, and a single mistake should cost at "
            "most about a third. Let fewer tests depend on it, list functions that others use in builds_on, or "
            "mark the mistake as central to a function."
        )


def _wrong_complaints(wrong: WrongAnswer, result: ExerciseResult) -> list[str]:
    """Return complaints about tests that fail to catch a wrong answer, and about missing words."""
    name = wrong.name
    if not wrong.title:
        return [f"{name}: its first line must read '# wrong: ' and what its student reads."]
    if not wrong.caught_by:
        seen = any(test.outcome in _CAUGHT for test in result.tests)
        # If one does, `_unwritten` complains about the file.
        return [] if seen else [f"{name}: no test catches it."]
    tests = {test.name: test for test in result.tests}
    complaints = [
        f"{name}: there is no test {test!r}. {nearest(test, list(tests))}"
        for test in wrong.caught_by
        if test not in tests
    ]
    named = [tests[test] for test in wrong.caught_by if test in tests]
    complaints += [
        f"{name}: {test.name} does not catch it ({test.outcome.value})."
        for test in named
        if test.outcome not in _CAUGHT
    ]
    # The sentence of the mistake may be at any test that fails by it.
    about = named if wrong.told else result.tests
    messages = [test.message for test in about if test.outcome in _CAUGHT]
    words = wrong.told or wrong.says
    if not any(words.lower() in message.lower() for message in messages):
        first = [first_line(test.finding) for test in about if test.outcome in _CAUGHT]
        read = " / ".join(filter(None, first)) or "nothing"
        complaints.append(f"{name}: no message has the words {words!r}; the student reads: {read}")
    return complaints


def _caught(wrong: WrongAnswer, result: ExerciseResult) -> CaughtAnswer:
    failed = [test for test in result.tests if test.outcome in _CAUGHT]
    messages = tuple((test.name, test.message) for test in failed)
    return CaughtAnswer(wrong.name, wrong.title, messages, kept(result.tests), bool(wrong.central))


def _worth(caught: Sequence[ExerciseResult], right: ExerciseResult | None) -> tuple[TestWorth, ...]:
    """Return the catches and the cost of each test; nothing if the solution could not be judged."""
    failed = [
        {(t.visibility, t.name) for t in result.tests if t.outcome in _CAUGHT} for result in caught
    ]
    return tuple(
        TestWorth(
            test.visibility,
            test.name,
            caught=sum(key in names for names in failed),
            alone=failed.count({key}),
            seconds=test.duration_seconds,
        )
        for test in (right.tests if right is not None else ())
        for key in [(test.visibility, test.name)]
    )


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
