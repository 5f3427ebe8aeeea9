"""Judge one exercise of one submission: call the tests of its suites and turn what happened into a result.

Theory of operation. A suite is a module of functions that take `student` and raise where something does not
hold; which there are is known beforehand, from its syntax tree (`grader.course.suite`). A judge imports a suite
once and calls its functions for every submission: pytest's session around them would cost more than most
exercises' tests. A declared test that is not there, or is another function by now, and an end of a test that
has no explanation are faults of the grader (`JudgeError`), never a pass and never the student's loss.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import io
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise, probe_of
from grader.course.mutants import WrongAnswer
from grader.course.suite import SuiteTest, declared_tests, tests_of
from grader.errors import JudgeError
from grader.judge.assignment import Forgery, GradingOptions, Judgment
from grader.judge.checks.assertions import recorded_sentences
from grader.judge.forgery import Tape, forge_of, forged, taped
from grader.judge.naming import named_mistake
from grader.judge.outcomes import SandboxDied, StudentError, SubmissionFailure, TimedOut
from grader.judge.recognition import Key, KnownMistakes, observation
from grader.judge.scoring import score_alike, score_exercise, score_test, weighed, without_unfounded
from grader.judge.session import TEST_PART, Session
from grader.judge.student import Student
from grader.judge.suite_run import SuiteRun, TestEnd, fitting_hint, meaning_of
from grader.results import Cause, Outcome, Place, TestResult, Visibility
from grader.sandbox.client import SandboxSource
from grader.text import clean, clean_lines

MAX_OUTPUT = 8_000
# In one test; all of them together are bounded by what the sandbox keeps.
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
) -> Judgment:
    """Judge the source of one exercise file; `done` is called with every test as it ends.

    `suites` are those that the judge has imported, and `mistakes` what it saw of wrong answers, both kept from
    one call to the next.

    Raises GraderError for a fault of the grader.
    """
    begin = time.monotonic()
    if options.seconds is not None:
        exercise = msgspec.structs.replace(exercise, seconds=options.seconds)
    tests = tests_of(course, exercise, options.suites)
    own_sandboxes: SandboxSource = sandboxes
    if options.forgery is not None:
        tape = _recorded(course, exercise, source, options, sandboxes, suites)
        own_sandboxes = forged(sandboxes, forge_of(options.forgery, source, tape))
        done = _then(tape.next_test, done)
    try:
        session = Session(own_sandboxes, exercise, source, options.required_walls)
    except SyntaxError as error:
        # `settle` refuses it before, except a file that takes about as long to parse as is allowed.
        text = f"{exercise.file} is not valid Python: line {error.lineno}: {error.msg}."
        return Judgment(score_alike(exercise, tests, Outcome.ERROR, text), options.required_walls)
    try:
        # In this process the suites are imported meanwhile.
        session.begin()
        functions = _functions(course, exercise, options.suites, suites)
        reference = course.solution_source(exercise)
        solution = None
        if reference is not None:
            walls = options.required_walls
            solution = functools.partial(Session, sandboxes, exercise, reference, walls)
        own_tests = weighed(exercise, tests)
        run = SuiteRun(session, own_tests, options.seed)
        with recorded_sentences(on=options.record) as sentences:
            message, results, provoked = _run(
                exercise,
                functions,
                run,
                solution,
                done,
                stop_at_first_failure=options.stop_at_first_failure,
            )
        results = without_unfounded(own_tests, results)
    finally:
        session.close()
    seconds = time.monotonic() - begin
    if options.recognize and mistakes is not None and not message:
        observe = functools.partial(
            _observed, course, exercise, options=options, sandboxes=sandboxes, suites=suites
        )
        results = mistakes.named(
            course, exercise, options.seed, tests, results, observe, seconds=seconds
        )
    suites.freeze()
    output = clean_lines(session.output.text(), MAX_OUTPUT)
    result = score_exercise(exercise, results, message=message, output=output, seconds=seconds)
    made = mistakes.news() if mistakes is not None else ()
    return Judgment(result, session.walls, tuple(sentences), tuple(provoked), made)


def late_imports(
    course: Course,
    exercise: Exercise,
    options: GradingOptions,
    *,
    sandboxes: SandboxSource,
    suites: Suites,
) -> tuple[str, ...] | None:
    """What the course's own solution imports late, in all of its tests; None where that is not found out.

    Raises GraderError for a fault of the grader.
    """
    reference, visibilities = course.solution_source(exercise), tuple(Visibility)
    if reference is None:
        return None
    tests = tests_of(course, exercise, visibilities)
    session = Session(sandboxes, exercise, reference, options.required_walls, watch_imports=True)
    try:
        session.begin()
        functions = _functions(course, exercise, visibilities, suites)
        for _ in _ends(SuiteRun(session, tests, options.seed), functions):
            pass  # only what they import is asked for
        return session.imports()
    except (StudentError, TimedOut, SandboxDied):
        return None  # a solution that fails is a complaint of `grade verify`
    finally:
        session.close()


def _recorded(
    course: Course,
    exercise: Exercise,
    source: bytes,
    options: GradingOptions,
    sandboxes: SandboxSource,
    suites: Suites,
) -> Tape:
    """What the sandboxes of this source answer under the next seed, in the tests that the forgery knows."""
    suites_of = {Forgery.REPLAY: options.suites, Forgery.PUBLIC: (Visibility.PUBLIC,)}
    visibilities = suites_of.get(options.forgery or Forgery.NONE, ())
    tape = Tape()
    if not visibilities:
        return tape
    session = Session(taped(sandboxes, tape), exercise, source, options.required_walls)
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


# In a test: a mutant that never ends is not what a student waits for. Processes that start and find each other
# take half a second.
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
) -> dict[Key, str]:
    """What these tests see of a wrong answer, which is run as any submission.

    Left out are tests in which time ran out, or a sandbox did not hold: on a quiet machine they may see more.
    """
    seconds = min(exercise.seconds, _MUTANT_SECONDS / TEST_PART)
    exercise = msgspec.structs.replace(exercise, seconds=seconds)
    visibilities = tuple(dict.fromkeys(visibility for visibility, _ in keys))
    functions = _functions(course, exercise, visibilities, suites)
    declared = declared_tests(course, exercise, visibilities)
    tests = [test for test in declared if (test.visibility, test.name) in keys]
    alone = [msgspec.structs.replace(test, requires=()) for test in tests]
    seen: dict[Key, str] = {}
    session = Session(sandboxes, exercise, answer.source, options.required_walls)
    try:
        session.begin()
        run = SuiteRun(session, alone, options.seed)
        for test, end in _ends(run, functions):
            if run.fault is not None:
                break
            if end.outcome is not Outcome.TIMEOUT:
                what = observation(end.outcome, end.message, refused=end.refused)
                seen[test.visibility, test.name] = "" if end.fault else what
    except (SubmissionFailure, SyntaxError):
        pass  # of what cannot be imported each test sees the same, which names nothing
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
    """All tests that these suites declare."""
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
        yield test, run.end(test, _error_of(run, test, *functions[test.visibility, test.name]))


def _run(
    exercise: Exercise,
    functions: _Functions,
    run: SuiteRun,
    solution: Callable[[], Session] | None,
    done: Callable[[TestResult], None],
    *,
    stop_at_first_failure: bool,
) -> tuple[str, list[TestResult], list[tuple[str, str]]]:
    """The message and the results of the tests; one message for all where the module fails.

    Where a suite is at fault, the session of the `solution` shows whether the answer provoked it: such
    tests come third, each with the fault.
    """
    tests = list(run.tests.values())
    try:
        run.session.load()
    except (StudentError, TimedOut, SandboxDied) as error:
        return *_not_loaded(exercise, tests, error), []
    results: list[TestResult] = []
    provoked = []
    faults = []
    for test in tests:
        path, function = functions[test.visibility, test.name]
        begin = time.perf_counter()
        run.session.output.begin_part()
        end = run.end(test, _error_of(run, test, path, function))
        if end.fault and run.fault is None and solution is not None:
            run.session.close()
            if _passes(run, solution(), test, path, function):
                provoked.append((test.name, end.fault))
                end = TestEnd(Outcome.ERROR, PROVOKED, named=PROVOKED, cause=Cause.TYPE)
        seconds = time.perf_counter() - begin
        if test.visibility is Visibility.HIDDEN:
            end = msgspec.structs.replace(end, named=named_mistake(end, path))
        printed = clean_lines(run.session.output.part(), MAX_PRINTED).strip("\n")
        result = _result(exercise, fitting_hint(test, end, function), end, seconds)
        result = msgspec.structs.replace(result, printed=printed)
        results.append(result)
        done(result)
        if end.fault:
            # Without a solution nothing tells whether the answer provoked it: the text may be the answer's.
            text = end.fault if solution is not None else end.fault.partition(": ")[0]
            faults.append(f"{test.name}: {text}")
        if stop_at_first_failure and end.outcome is not Outcome.PASSED:
            end = TestEnd(Outcome.SKIPPED, "Not judged: an earlier test did not pass.")
            results += [_result(exercise, test, end, 0.0) for test in tests[len(results) :]]
            break
    if run.fault is not None:
        raise run.fault
    if faults:
        raise JudgeError(
            f"The suite of {exercise.id!r} is at fault in {faults[0]}. "
            "This is not about the submission, and costs it nothing; tell the course's author."
        )
    return "", results, provoked


PROVOKED = (
    "Your code gave an answer that cannot be read: the test could do nothing with it. Compare its type and "
    "form with what the exercise promises."
)


def _passes(run: SuiteRun, session: Session, test: SuiteTest, suite: Path, function: _Test) -> bool:
    """Whether a test passes with another session, of the same seed: the solution's.

    It has a sandbox of its own; the submission's is gone before, and is started again when it is needed.
    """
    try:
        alone = msgspec.structs.replace(test, requires=())
        return _error_of(SuiteRun(session, [alone], run.seed), alone, suite, function) is None
    finally:
        session.close()


def _error_of(run: SuiteRun, test: SuiteTest, suite: Path, function: _Test) -> BaseException | None:
    """What a test raised; None if it returned."""
    try:
        run.begin(test)
        with _quiet():
            function(Student(run.session, probe_of(suite)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if _is_out_of_memory(error):
            raise MemoryError from error
        return error
    return None


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether the judge itself has no memory left; torch raises a RuntimeError for that."""
    if isinstance(error, StudentError):
        return False
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def _not_loaded(
    exercise: Exercise, tests: list[SuiteTest], error: StudentError | TimedOut | SandboxDied
) -> tuple[str, list[TestResult]]:
    """The module itself does not run: one message for the exercise, and every test shares its end."""
    end = meaning_of(error)
    message = f"{exercise.file} cannot be imported. {end.message}"
    frames = error.frames if isinstance(error, StudentError) else ()
    if len(frames) > 1 and frames[0].function == "<module>":
        message += (
            f" Line {frames[0].line} runs it as the file is imported: a trial of your own belongs below "
            '`if __name__ == "__main__":`.'
        )
    # Unfinished work at the top of a file is an error there, not a part still to be written.
    outcome = Outcome.ERROR if end.outcome is Outcome.NOT_IMPLEMENTED else end.outcome
    end = msgspec.structs.replace(end, message=message, outcome=outcome)
    return message, [_result(exercise, fitting_hint(test, end), end, 0.0) for test in tests]


def _result(exercise: Exercise, test: SuiteTest, end: TestEnd, seconds: float) -> TestResult:
    place = Place(exercise.file, end.line, end.function) if end.line else None
    result = score_test(test, end.outcome, end.message, place, seconds)
    named = end.named if test.visibility is Visibility.HIDDEN else ""
    return msgspec.structs.replace(result, refused=end.refused, named=named, cause=end.cause)


# --- suites ---------------------------------------------------------------------------------------


class Suites:
    """The suites that a judge has imported, by their files; an edited one is imported anew."""

    def __init__(self) -> None:
        self._modules: dict[Path, tuple[bytes, types.ModuleType]] = {}
        self._frozen = 0
        self._imported = 0

    def functions(self, suite: Path, names: Sequence[str]) -> list[_Test]:
        """The tests of a suite, by the names that its source declares.

        Raises JudgeError where the suite cannot be imported, or holds other tests than it declares.
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
                    f"{suite}: {name} is a test that stands in no `def` of the module."
                )
        if missing := [name for name in names if name not in members]:
            raise JudgeError(f"{suite}: {', '.join(missing)} is declared, and not there.")
        return [members[name] for name in names]

    def freeze(self) -> None:
        """Keep the collector away from what was imported: torch's half a million objects.

        Looking through them again and again is a sixth of a warm judgment.
        """
        if self._frozen != self._imported:
            self._frozen = self._imported
            gc.collect()
            gc.freeze()


def _is_test(member: object, name: str, suite: Path) -> bool:
    """Whether it is the function of this name in the suite's own file, which runs when it is called."""
    if not isinstance(member, types.FunctionType) or inspect.isgeneratorfunction(member):
        return False
    return (member.__code__.co_name, member.__code__.co_filename) == (name, str(suite))


def _imported(suite: Path, source: bytes) -> types.ModuleType:
    """Import a suite from these bytes; raises JudgeError where it cannot be run."""
    name = ".".join((*suite.parent.parts[-3:], suite.stem))
    module = types.ModuleType(name)
    module.__file__ = str(suite)
    sys.modules[name] = module
    try:
        with _quiet():
            # These bytes: what Python keeps of an earlier compilation may be that of another source.
            exec(compile(source, suite, "exec", dont_inherit=True), vars(module))  # noqa: S102 (a suite is the course author's, and trusted)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        name = suite.stem.removeprefix("test_")
        raise JudgeError(
            f"The judge could not run the suites of {name!r}: {_cause(suite, error)}"
        ) from error
    return module


def _cause(suite: Path, error: BaseException) -> str:
    """What ended the import of a suite, and the last line of its author's that led there, on one line."""
    # Where the files of the suites' author are, in tests/hidden/CHAPTER.
    root = suite.parents[2]
    files = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        files.append((error.filename, error.lineno))
    own = [(Path(file), line) for file, line in files if Path(file).is_relative_to(root)]
    file, line = own[-1] if own else (suite, None)
    where = file.relative_to(root.parent).as_posix() + (f", line {line}" if line else "")
    text = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return clean(f"{where}: {text.rstrip(': .')}.", _LONGEST_CAUSE)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Discard what a suite prints."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield
