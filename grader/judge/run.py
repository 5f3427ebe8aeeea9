"""Judge one exercise of one submission: call the tests of its suites, and make a result of their ends.

Theory of operation. A suite is a module of functions that take `student` and raise if something does not hold.
Its tests are known beforehand, from its syntax tree (`grader.course.suite`). A judge imports a suite once and
calls its functions for every submission, since a session of pytest would cost more than most exercises' tests.
If a declared test is missing or has become another function, or its end has no explanation, the grader is at
fault (`JudgeError`): such a test never passes, and costs the student nothing.
"""

from __future__ import annotations

import functools
import gc
import inspect
import re
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise, probe_of
from grader.course.mutants import WrongAnswer
from grader.course.suite import SuiteTest
from grader.course.suites import declared_tests, tests_of
from grader.errors import JudgeError
from grader.judge.assignment import AS_HANDED_IN, AuthorOptions, Forgery, GradingOptions, Judgment
from grader.judge.checks.promise import body_of
from grader.judge.forgery import Tape, forge_of, forged, taped
from grader.judge.modes import told_by_modes
from grader.judge.outcomes import SandboxDied, StudentError, SubmissionFailure, TimedOut
from grader.judge.recognition import Key, KnownMistakes, observation
from grader.judge.reports import reasons
from grader.judge.scoring import score_alike, score_exercise, score_test, weighed, without_unfounded
from grader.judge.session import TEST_PART, Session
from grader.judge.solution import Solution, Solved, session_of, solution_of
from grader.judge.student import Student
from grader.judge.suite_run import SuiteRun, TestEnd, fitting_hint, meaning_of, quiet
from grader.judge.text import TEXT, finding, telling, text, with_words_of
from grader.results import Cause, Finding, Outcome, Place, TestResult, Visibility
from grader.sandbox.client import SandboxSource
from grader.submissions.odd_code import ordinary_in
from grader.submissions.source import used_names
from grader.text import clean_lines, nearest

MAX_OUTPUT = 8_000
# In one test; the total is bounded by the sandbox's output.
MAX_PRINTED = 2_000


def judge_exercise(
    course: Course,
    exercise: Exercise,
    source: bytes,
    options: GradingOptions,
    *,
    sandboxes: SandboxSource,
    suites: Suites,
    mistakes: KnownMistakes | None = None,
    done: Callable[[TestResult], None] = lambda result: None,
    author: AuthorOptions = AS_HANDED_IN,
) -> Judgment:
    """Judge the source of one exercise file; `done` is called with every test as it ends.

    Pass the same `suites` and `mistakes` to every call: they keep imported suites, and observations of wrong
    answers.

    Raises GraderError for a fault of the grader.
    """
    begin = time.monotonic()
    if author.seconds is not None:
        exercise = msgspec.structs.replace(exercise, seconds=author.seconds)
    tests = tests_of(course, exercise, options.suites)
    own_sandboxes: SandboxSource = sandboxes
    if author.forgery is not None:
        tape = _recorded(course, exercise, source, author.forgery, options, sandboxes, suites)
        own_sandboxes = forged(sandboxes, forge_of(author.forgery, source, tape))
        done = _then(tape.next_test, done)
    solution = solution_of(course, exercise, options, sandboxes, suites.solved)
    stub = course.stub(exercise).source
    try:
        session = session_of(course, exercise, source, options, own_sandboxes, solution, stub=stub)
    except SyntaxError as error:
        # `settle` refuses such a file earlier, unless parsing it takes about as long as is allowed.
        why = f"{exercise.file} is not valid Python: line {error.lineno}: {error.msg}."
        return Judgment(score_alike(exercise, tests, Outcome.ERROR, why), options.required_walls)
    try:
        # The sandbox starts while this process imports the suites.
        session.begin()
        functions = _functions(course, exercise, options.suites, suites)
        own_tests = weighed(exercise, tests)
        if author.stop_at_first_failure:
            own_tests = suites.likeliest_first(own_tests)
        run = SuiteRun(session, own_tests, options.seed)
        message, results, provoked = _run(
            exercise,
            functions,
            run,
            solution,
            done,
            stop_at_first_failure=author.stop_at_first_failure,
        )
        if author.stop_at_first_failure:
            suites.remember_failure(results)
        anew = functools.partial(
            session_of,
            course,
            exercise,
            source,
            options,
            own_sandboxes,
            solution,
            default_modes=True,
        )
        passes = functools.partial(_passing, functions, run, anew)
        results = told_by_modes(session.modes, session.file.tree, exercise.file, results, passes)
        results = without_unfounded(own_tests, results)
        results = _with_uses(session, own_tests, results)
    finally:
        session.close()
    seconds = time.monotonic() - begin
    if options.recognize and mistakes is not None and not message:
        observe = functools.partial(
            _observed, course, exercise, options=options, sandboxes=sandboxes, suites=suites
        )
        results = mistakes.named(course, exercise, options.seed, results, observe, seconds=seconds)
    # Again at the end, since recognition replaces results.
    results = without_unfounded(own_tests, results)
    suites.freeze()
    output = clean_lines(session.output.text(), MAX_OUTPUT)
    result = score_exercise(exercise, results, message=message, output=output, seconds=seconds)
    ordinary = ordinary_in(exercise, stub)
    held = reasons(session.reports, source.count(b"\n") + 1, ordinary)
    result = msgspec.structs.replace(result, held=held)
    return Judgment(result, session.walls, tuple(provoked))


def late_imports(
    course: Course,
    exercise: Exercise,
    options: GradingOptions,
    *,
    sandboxes: SandboxSource,
    suites: Suites,
) -> tuple[str, ...] | None:
    """Return the late imports of the course's own solution in all of its tests, None if this is not known.

    Raises GraderError for a fault of the grader.
    """
    source, visibilities = course.solution_source(exercise), tuple(Visibility)
    if source is None:
        return None
    tests = tests_of(course, exercise, visibilities)
    # The solution is compared with itself; only its imports matter here.
    solution = solution_of(course, exercise, options, sandboxes, suites.solved)
    try:
        session = session_of(
            course, exercise, source, options, sandboxes, solution, watch_imports=True
        )
    except SyntaxError:
        return None
    try:
        session.begin()
        functions = _functions(course, exercise, visibilities, suites)
        for _ in _ends(SuiteRun(session, tests, options.seed), functions):
            pass  # only the imports matter
        return session.imports()
    except (StudentError, TimedOut, SandboxDied):
        return None  # `grade verify` complains about a solution that fails
    finally:
        session.close()


def _recorded(
    course: Course,
    exercise: Exercise,
    source: bytes,
    forgery: Forgery,
    options: GradingOptions,
    sandboxes: SandboxSource,
    suites: Suites,
) -> Tape:
    """Return a tape of the source's replies under the next seed, in the tests that the forgery knows."""
    suites_of = {Forgery.REPLAY: options.suites, Forgery.PUBLIC: (Visibility.PUBLIC,)}
    visibilities = suites_of.get(forgery, ())
    tape = Tape()
    if not visibilities:
        return tape
    solution = solution_of(course, exercise, options, sandboxes, suites.solved)
    session = session_of(course, exercise, source, options, taped(sandboxes, tape), solution)
    try:
        session.begin()
        functions = _functions(course, exercise, visibilities, suites)
        tests = tests_of(course, exercise, visibilities)
        for _ in _ends(SuiteRun(session, tests, options.seed + 1), functions):
            tape.next_test()
    finally:
        session.close()
    tape.rewind()
    return tape


# For one test: a student must not wait for an endless mutant. Half a second is needed for processes to start
# and connect.
_MUTANT_SECONDS = 2.0
_LONGEST_CAUSE = 300


def _observed(
    course: Course,
    exercise: Exercise,
    answer: WrongAnswer,
    keys: Sequence[Key],
    *,
    options: GradingOptions,
    sandboxes: SandboxSource,
    suites: Suites,
) -> dict[Key, Finding | None]:
    """Return these tests' observations of a wrong answer, which runs like a submission.

    Tests are omitted if they timed out or there was a fault of the sandbox: later they may observe more.
    """
    seconds = min(exercise.seconds, _MUTANT_SECONDS / TEST_PART)
    exercise = msgspec.structs.replace(exercise, seconds=seconds)
    visibilities = tuple(dict.fromkeys(visibility for visibility, _ in keys))
    functions = _functions(course, exercise, visibilities, suites)
    declared = declared_tests(course, exercise, visibilities)
    tests = [test for test in declared if (test.visibility, test.name) in keys]
    alone = [msgspec.structs.replace(test, requires=()) for test in tests]
    seen: dict[Key, Finding | None] = {}
    solution = solution_of(course, exercise, options, sandboxes, suites.solved)
    session = session_of(course, exercise, answer.source, options, sandboxes, solution)
    try:
        session.begin()
        run = SuiteRun(session, alone, options.seed)
        for test, end in _ends(run, functions):
            if run.fault is not None:
                break
            if end.outcome is not Outcome.TIMEOUT:
                own = observation(end.outcome, end.finding, refused=end.refused)
                seen[test.visibility, test.name] = None if end.fault else own
    except (SubmissionFailure, SyntaxError):
        pass  # a file that cannot be imported fails all tests alike, which names no mistake
    finally:
        session.close()
    return seen


def _then(
    first: Callable[[], None], done: Callable[[TestResult], None]
) -> Callable[[TestResult], None]:
    def both(result: TestResult) -> None:
        first()
        done(result)

    return both


_Test = Callable[[Student], None]
# Tests as functions, each with its suite.
_Functions = Mapping[Key, tuple[Path, _Test]]


def _functions(
    course: Course, exercise: Exercise, visibilities: tuple[Visibility, ...], suites: Suites
) -> _Functions:
    """Return all tests that these suites declare."""
    functions: dict[Key, tuple[Path, _Test]] = {}
    tests = declared_tests(course, exercise, visibilities)
    for visibility, path in course.suites(exercise).items():
        if visibility in visibilities:
            names = [test.name for test in tests if test.visibility is visibility]
            own = zip(names, suites.functions(path, names), strict=True)
            functions.update({(visibility, name): (path, test) for name, test in own})
    return functions


def _ends(run: SuiteRun, functions: _Functions) -> Iterator[tuple[SuiteTest, TestEnd]]:
    """Load the module and call its tests; yield each with the meaning of its end."""
    run.session.load()
    for test in run.tests.values():
        suite, function = functions[test.visibility, test.name]
        yield test, _end_of(run, test, suite, function)


def _end_of(run: SuiteRun, test: SuiteTest, suite: Path, function: _Test) -> TestEnd:
    """Call a test, and return the meaning of its end."""
    end = run.judged(test, suite, function)
    if end.finding is None:
        return end
    return msgspec.structs.replace(end, finding=with_words_of(end.finding, suite))


def _run(
    exercise: Exercise,
    functions: _Functions,
    run: SuiteRun,
    solution: Solution | None,
    done: Callable[[TestResult], None],
    *,
    stop_at_first_failure: bool,
) -> tuple[str, list[TestResult], list[tuple[str, str]]]:
    """Run the tests; return a message if the module cannot be imported, the results, and provoked faults.

    If a test has a fault or raised, it also runs with the `solution`. If the solution does not pass, the test
    is at fault. If it passes, the answer provoked the fault; the third value has each such test with its fault.

    Raises JudgeError if a test is at fault.
    """
    tests = list(run.tests.values())
    try:
        run.session.load()
    except (StudentError, TimedOut, SandboxDied) as error:
        return *_not_loaded(exercise, tests, error), []
    results: list[TestResult] = []
    doubtful: dict[int, TestEnd] = {}
    for test in tests:
        path, function = functions[test.visibility, test.name]
        begin = time.perf_counter()
        run.session.output.begin_part()
        end = _end_of(run, test, path, function)
        if end.fault or (end.outcome in _DOUBTFUL and end.raised):
            doubtful[len(results)] = end
        seconds = time.perf_counter() - begin
        printed = clean_lines(run.session.output.part(), MAX_PRINTED).strip("\n")
        result = _judged(exercise, test, end, function, seconds)
        results.append(msgspec.structs.replace(result, printed=printed))
        done(results[-1])
        if stop_at_first_failure and end.outcome is not Outcome.PASSED:
            end = TestEnd(Outcome.SKIPPED, finding(["Not judged: an earlier test did not pass."]))
            results += [_result(exercise, test, end, 0.0) for test in tests[len(results) :]]
            break
    if run.fault is not None:
        raise run.fault
    # One sandbox at a time: the submission's ends before the solution's starts.
    run.session.close()
    provoked, faults = [], []
    for at, end in doubtful.items():
        test, path_and_function = tests[at], functions[tests[at].visibility, tests[at].name]
        if end.certain or (end.fault and solution is None):
            # Without a solution, the answer may have provoked the fault: its text could be the answer's.
            fault = end.fault if end.certain else end.fault.partition(": ")[0]
            faults.append(f"{test.name}: {fault}")
        elif solution is not None:
            own = solution.end(test, *path_and_function)
            if end.fault and own.outcome is not Outcome.PASSED:
                faults.append(f"{test.name}: {end.fault}")
            elif own.outcome not in (Outcome.PASSED, Outcome.TIMEOUT):
                faults.append(f"{test.name}: {own.fault}")
            elif end.fault:
                provoked.append((test.name, end.fault))
                results[at] = _provoked(exercise, test, results[at], path_and_function[1])
    if faults:
        raise JudgeError(
            f"The suite of {exercise.id!r} is at fault in {_sentence(faults[0])} "
            "This is not about the submission and costs it no points; tell the course's author."
        )
    return "", results, provoked


def _sentence(text: str) -> str:
    return text if text.endswith(("?", ".")) else f"{text}."


def _with_uses(
    session: Session, tests: Sequence[SuiteTest], results: Sequence[TestResult]
) -> list[TestResult]:
    """Return the results; failed ones get their subject and the wrong functions that it uses.

    A function that the solution replaced does not count as used.
    """
    failed = {
        test.subject
        for test, result in zip(tests, results, strict=True)
        if result.outcome is not Outcome.PASSED
    }
    uses = {
        subject: tuple(name for name in used_names(session.file.tree, subject) if name in failed)
        for subject in failed
    }
    told = []
    for test, result in zip(tests, results, strict=True):
        if result.outcome is not Outcome.PASSED:
            used = tuple(name for name in uses[test.subject] if name not in result.stood_in)
            result = msgspec.structs.replace(result, subject=test.subject, uses=used)
        told.append(result)
    return told


PROVOKED = (
    "Your code gave an answer that cannot be read: the test cannot use it. Compare its type and form with the "
    "exercise's text."
)
# After these ends of a test, the exception may be the test's own.
_DOUBTFUL = (Outcome.FAILED, Outcome.ERROR)


def _provoked(
    exercise: Exercise, test: SuiteTest, result: TestResult, function: _Test
) -> TestResult:
    """Return the result of a test that raised because of the answer; the solution passes it."""
    end = TestEnd(Outcome.ERROR, finding([PROVOKED], Cause.TYPE, PROVOKED))
    told = _judged(exercise, test, end, function, result.duration_seconds)
    return msgspec.structs.replace(told, printed=result.printed)


def _passing(
    functions: _Functions,
    run: SuiteRun,
    anew: Callable[[], Session],
    results: Sequence[TestResult],
) -> set[Key]:
    """Return the tests that pass in a session `anew`, with the seed of the run."""
    run.session.close()
    session = anew()
    keys = [(result.visibility, result.name) for result in results]
    alone = [msgspec.structs.replace(run.tests[key], requires=()) for key in keys]
    try:
        again = SuiteRun(session, alone, run.seed)
        return {
            (test.visibility, test.name)
            for test, end in _ends(again, functions)
            if end.outcome is Outcome.PASSED
        }
    except (StudentError, TimedOut, SandboxDied):
        return set()
    finally:
        session.close()


def _not_loaded(
    exercise: Exercise, tests: list[SuiteTest], error: StudentError | TimedOut | SandboxDied
) -> tuple[str, list[TestResult]]:
    """Return the message about a module that cannot be imported, and the results, which all have this end."""
    end = meaning_of(error)
    frames = error.frames if isinstance(error, StudentError) else ()
    runs = ""
    if len(frames) > 1 and frames[0].function == "<module>":
        runs = text(
            " Line {line} runs it when the file is imported: put your own trials below "
            '`if __name__ == "__main__":`.',
            frames[0].line,
        )
    message = text("{file} cannot be imported. {error}{runs}", exercise.file, end.message, runs)
    # At the top level of a file, NotImplementedError is an error, not a part still to be written.
    outcome = Outcome.ERROR if end.outcome is Outcome.NOT_IMPLEMENTED else end.outcome
    end = msgspec.structs.replace(end, finding=finding([message], end.cause), outcome=outcome)
    return str(message), [_result(exercise, fitting_hint(test, end), end, 0.0) for test in tests]


def _judged(
    exercise: Exercise, test: SuiteTest, end: TestEnd, function: _Test, seconds: float
) -> TestResult:
    """Return the result of a test that ran, with its hint if it fits."""
    return _result(exercise, fitting_hint(test, end, body_of(function)), end, seconds)


def _result(exercise: Exercise, test: SuiteTest, end: TestEnd, seconds: float) -> TestResult:
    place = Place(exercise.file, end.line, end.function) if end.line else None
    result = score_test(test, end.outcome, end.message, place, seconds)
    return msgspec.structs.replace(
        result, refused=end.refused, finding=end.finding, stood_in=end.stood_in
    )


# --- suites ---------------------------------------------------------------------------------------


# Names of tests, maybe of several exercises.
_KEPT = 200


class Suites:
    """The suites that a judge has imported, by their files; an edited suite is imported again."""

    def __init__(self) -> None:
        self._modules: dict[Path, tuple[bytes, types.ModuleType]] = {}
        # The results of the course's own solution.
        self.solved = Solved()
        # The tests that mutants failed, latest first.
        self._failed: list[str] = []
        self._frozen = 0
        self._imported = 0

    def functions(self, suite: Path, names: Sequence[str]) -> list[_Test]:
        """Return the tests of a suite, by the names that its source declares.

        Raises JudgeError if the suite cannot be imported, or has other tests than it declares.
        """
        source = suite.read_bytes()
        if suite not in self._modules or self._modules[suite][0] != source:
            self._modules[suite] = source, _imported(suite, source)
            self._imported += 1
        members = vars(self._modules[suite][1])
        for name, member in members.items():
            if name in names:
                if not _is_test(member, name, suite):
                    raise JudgeError(f"{suite}: {name} is no longer the function that it declares.")
            elif name.startswith("test") and callable(member):
                raise JudgeError(
                    f"{suite}: {name} is a test, but no `def` at the top level declares it."
                )
        if missing := [name for name in names if name not in members]:
            raise JudgeError(
                f"{suite}: {', '.join(missing)} is declared, but missing after the import."
            )
        return [members[name] for name in names]

    def likeliest_first(self, tests: Sequence[SuiteTest]) -> list[SuiteTest]:
        """Return the tests without prerequisites, the likeliest to fail for a mutant first.

        Mutants come line by line: the test that failed the last one is likely to fail the next.
        """
        alone = [msgspec.structs.replace(test, requires=()) for test in tests]
        places = {name: place for place, name in enumerate(self._failed)}
        return sorted(alone, key=lambda test: places.get(test.name, len(places)))

    def remember_failure(self, results: Iterable[TestResult]) -> None:
        """Remember the test that a mutant failed."""
        for result in results:
            if result.outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT):
                self._failed = [result.name, *(n for n in self._failed if n != result.name)][:_KEPT]

    def freeze(self) -> None:
        """Exclude imported objects from garbage collection.

        Torch alone has half a million. Scanning them repeatedly is a sixth of a warm judgment.
        """
        if self._frozen != self._imported:
            self._frozen = self._imported
            gc.collect()
            gc.freeze()


def _is_test(member: object, name: str, suite: Path) -> bool:
    """Whether `member` is the function of this name in the suite's own file, and not a generator."""
    if not isinstance(member, types.FunctionType) or inspect.isgeneratorfunction(member):
        return False
    member = body_of(member)
    return (member.__code__.co_name, member.__code__.co_filename) == (name, str(suite))


def _imported(suite: Path, source: bytes) -> types.ModuleType:
    """Import a suite from these bytes; raises JudgeError if it cannot be imported."""
    name = ".".join((*suite.parent.parts[-3:], suite.stem))
    module = types.ModuleType(name)
    module.__file__ = str(suite)
    vars(module)[TEXT] = text
    sys.modules[name] = module
    try:
        with quiet():
            # Compile these bytes: Python's cached bytecode may be of another version.
            code = compile(telling(source), suite, "exec", dont_inherit=True)
            exec(code, vars(module))  # noqa: S102 (a suite is the course author's, and trusted)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise JudgeError(_not_importable(suite, error)) from error
    return module


_MISSING_NAME = re.compile(r"cannot import name '(\w+)' from")


def _public(module: str | None) -> list[str]:
    """Return the public names of a module."""
    names = vars(sys.modules[module]) if module in sys.modules else ()
    return sorted(name for name in names if not name.startswith("_"))


def _not_importable(suite: Path, error: BaseException) -> str:
    """Return the reason why a suite cannot be imported: its line, the exception, and advice on imports."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if frame.filename == str(suite)]
    (*_, last) = traceback.TracebackException.from_exception(error).format_exception_only()
    advice = ""
    if isinstance(error, ImportError) and (name := _MISSING_NAME.match(str(error))) is not None:
        last = f"{error.name} has no {name[1]!r}. {nearest(name[1], _public(error.name))}"
    elif isinstance(error, ImportError):
        advice = (
            " A suite may import torch, pytest, grader.judge.checks, grader.judge.student and other installed "
            "packages, but no file of the course. Write a helper into the suite itself, and functions that run "
            f"beside the student's code into {probe_of(suite).name}."
        )
    return (
        f"The suite {'/'.join(suite.parts[-4:])} cannot be imported: "
        f"{f'line {own[-1]}: ' if own else ''}{_sentence(last.strip())}{advice}"
    )
