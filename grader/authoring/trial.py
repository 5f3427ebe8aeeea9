"""Try out a course before handing it out: the stubs must earn nothing, the solutions everything."""

from __future__ import annotations

from grader.course.manifest import Course
from grader.errors import CourseError, GraderError
from grader.grading import grade
from grader.results import ExerciseResult, Outcome, Status
from grader.submissions import ExerciseFile, Submission

_FAILED = "Nothing was written, because a trial run of it failed:"


def try_out(handed_out: Course, course: Course, *, seed: int = 0) -> None:
    """Grade the stubs and the solutions of `course` by a course that was made from it.

    Exercises without a solution are tried only with their stub.

    Raises:
        CourseError: it cannot grade anybody, or a stub or solution does not earn the expected points.
    """
    solutions = {e.id: course.solution_source(e) for e in course.exercises}
    stubs = {e.id: course.stub(e).source for e in course.exercises}
    for what, sources in (("solution", solutions), ("stub", stubs)):
        files = {id_: ExerciseFile(source) for id_, source in sources.items() if source is not None}
        if not files:
            continue
        submission = Submission(what, files)
        try:
            result = grade(submission, course=handed_out, exercises=files, seed=seed)
        except GraderError as error:
            fault = _at_home(str(error), handed_out, course)
            raise CourseError(f"{_FAILED} no {what} can be graded. {fault}") from error
        for exercise in result.exercises:
            if complaint := _complaint(exercise, is_right=what == "solution"):
                fault = _at_home(complaint, handed_out, course)
                raise CourseError(f"{_FAILED} the {what} of {exercise.name!r} {fault}")


def _complaint(exercise: ExerciseResult, *, is_right: bool) -> str:
    """Return the problem with the result of a solution or a stub, as the end of a sentence; else empty."""
    if exercise.status is Status.UNJUDGED:
        return f"cannot be graded: {exercise.message}"
    earned = f"earns {exercise.score:g} of {exercise.max_score:g} points"
    advice = f"`grade verify {exercise.name}` shows why."
    if not is_right:
        return f"{earned}. {advice}" if exercise.score else ""
    lost = next((test for test in exercise.tests if test.outcome is not Outcome.PASSED), None)
    if exercise.status is Status.PASSED or lost is None:
        return ""
    if lost.outcome is Outcome.TIMEOUT:
        advice = "Try again when the machine is less busy."
    return f"{earned}, for “{lost.title}” does not pass. {advice}"


def _at_home(text: str, handed_out: Course, course: Course) -> str:
    """Return the text with the files of the author's course instead of their temporary copies."""
    return text.replace(str(handed_out.root), str(course.root))
