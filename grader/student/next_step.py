"""The next step after a result, with paths and commands as the student types them."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from grader.course.manifest import Course
from grader.results import ExerciseResult, Outcome, Place, Status
from grader.student.blocks import problems
from grader.student.progress import Standing, first_open, next_open
from grader.submissions import State, file_of, read_submission
from grader.text import clean

_LONGEST_PATH = 1000


def shown_path(path: Path) -> str:
    """Return a path to click and paste: relative to the current folder if that is shorter."""
    absolute = os.path.abspath(path)  # noqa: PTH100  # resolve() would follow the student's links
    try:
        shown = min(os.path.relpath(absolute), absolute, key=len)
    except ValueError:  # another drive
        shown = absolute
    return clean(shown, _LONGEST_PATH)


def _command(text: str) -> str:
    return f"`{clean(text, _LONGEST_PATH)}`"


class Asked(enum.Enum):
    """How the judging was requested, and can be requested again."""

    BY_NAME = "grade run glu"
    BARE = "grade"
    WATCHING = "grade watch"
    WATCHING_WITHOUT_KEYS = "grade watch | tee log"

    @property
    def by_saving(self) -> bool:
        """Whether a save is enough."""
        return self in (Asked.WATCHING, Asked.WATCHING_WITHOUT_KEYS)


class Guide(msgspec.Struct, frozen=True):
    """The folder of the files, and commands with the caller's options.

    `standings` are the states of all exercises in the student's own folder; another student's submission has
    none. `by_all_tests` is set if a server judged with the hidden suites that this copy of the course lacks:
    then an exercise is done with full marks from the server. `submit_key` is the key that hands in, if there is
    one.
    """

    course: Course
    submission: Path
    run_options: str = ""
    hint_options: str = ""
    asked: Asked = Asked.BY_NAME
    standings: dict[str, Standing] = {}
    by_all_tests: bool = False
    submit_key: str = ""

    @property
    def is_public(self) -> bool:
        """Whether only public tests judged, so that other tests decide about marks."""
        return self.course.is_public and not self.by_all_tests

    @property
    def done(self) -> set[str]:
        """The exercises that are done."""
        return {e for e, standing in self.standings.items() if self._is_done(standing)}

    def _is_done(self, standing: Standing) -> bool:
        if self.by_all_tests or self.submit_key:
            return standing is Standing.FULL_MARKS
        return standing.is_done

    @property
    def all_done(self) -> str:
        """The sentence that every exercise is done, or with only public tests, passes these."""
        exams = self.course.not_proposed & (self.standings.keys() - self.done)
        which = "exercise outside of exams" if exams else "exercise"
        if self.by_all_tests:
            return f"Full marks for every {which}"
        if self.is_public:
            return f"Every {which} passes its public tests"
        return f"Every {which} is done"

    @property
    def _done(self) -> str:
        if self.by_all_tests:
            return "Full marks"
        return "Public tests passed" if self.is_public else "Done"

    def where(self, exercise_id: str, place: Place | None = None) -> str:
        """Return the file of an exercise as a place to click: `exercises/modules/glu.py:31`."""
        line = f":{place.line}" if place is not None else ""
        return shown_path(self._file(exercise_id)) + line

    def fault(self, exercise: ExerciseResult) -> str:
        """Return the fault of the file as a whole.

        A missing file must be handed in under its name; in the student's own folder, where nothing is handed
        in, its stub must be restored. There, an empty file can be, too.
        """
        if not self.standings:
            return exercise.message
        stub = _command(f"grade reset {exercise.name}{self.hint_options}")
        if self._is_missing(exercise.name):
            file = self.course.exercise(exercise.name).file
            return f"{file} is missing: {stub} restores the stub."
        # A file without work that is not the stub.
        is_empty = self.standings.get(exercise.name) is Standing.OPEN and exercise.settled
        return f"{exercise.message} {stub} restores the stub." if is_empty else exercise.message

    def judge(self, exercise_id: str) -> str:
        """Return the command that judges an exercise again."""
        verb = "submit" if self.by_all_tests else "run"
        return _command(f"grade {verb} {exercise_id}{self.run_options}")

    def show_all(self, exercise_id: str) -> str:
        """Return the command that shows every test; after a server's verdict, it hands in nothing."""
        if self.by_all_tests:
            return _command(f"grade submit --status{self.run_options} -v")
        return _command(f"grade run {exercise_id}{self.run_options} -v")

    def begun_elsewhere(self, exercise_id: str) -> list[str]:
        """Return the other exercises that were begun and are not done."""
        return [
            e
            for e, standing in self.standings.items()
            if not standing.is_done and standing.has_work and e != exercise_id
        ]

    def next_step(self, exercises: Sequence[ExerciseResult]) -> str:
        """Return the next step: finish begun exercises before starting a new one."""
        done = (Status.PASSED, Status.UNJUDGED)
        unfinished = [exercise for exercise in exercises if exercise.status not in done]
        for exercise in unfinished:
            if not exercise.untouched:
                return self._mend(exercise)
        if unfinished:
            first = len(unfinished) == len(exercises) and not self.done
            return self._start(unfinished[0].name, "Start" if first else "Next")
        if any(exercise.status is Status.UNJUDGED for exercise in exercises):
            doctor = _command("grade doctor")
            return f"Not everything was judged because of a fault of the grader: {doctor} may help."
        standing = self.standings.get(exercises[0].name)
        if self.submit_key and standing is Standing.DONE:
            return f"{self._done}. Press {self.submit_key} to hand it in."
        if self.submit_key and standing not in (None, Standing.FULL_MARKS):
            return "You changed the file since: it is being judged again."
        if len(exercises) == len(self.course.exercises):
            if self.is_public:
                return f"{self.all_done}. Well done! Other tests decide about marks."
            return "Full marks: every test of every exercise passes. Well done!"
        if (further := self._further(exercises)) is not None:
            return self._go_on(further)
        if self.submission.suffix == ".py":  # one file, and it is judged
            return f"{self._done}: everything that was judged passes."
        if self.by_all_tests:
            return f"{self.all_done}. Well done!"
        whole = _command(f"grade run --all{self.run_options}")
        if self.standings and len(self.done) == len(self.standings):
            return f"{self.all_done}. Well done! {whole} judges them together."
        return f"{self._done}: everything that was judged passes. {whole} judges the whole course."

    def _mend(self, exercise: ExerciseResult) -> str:
        """Return the step that fixes the first finding of an exercise, or restores its file."""
        first = next((finding.first for finding in problems(exercise)), None)
        where = self.where(exercise.name, first.place if first is not None else None)
        if self._is_missing(exercise.name):
            what = "your file or the stub" if self.standings else "your file"
            return f"Next: put {what} at {where}{self._again(exercise.name)}."
        unwritten = first is not None and first.outcome is Outcome.NOT_IMPLEMENTED
        verb = "finish" if unwritten else "fix"
        return f"Next: {verb} {where}{self._again(exercise.name)}."

    def _again(self, exercise_id: str) -> str:
        if self.asked.by_saving:
            return " and save"
        bare = _command(f"grade{self.run_options}")
        return f", then run {bare if self.asked is Asked.BARE else self.judge(exercise_id)}"

    def _start(self, exercise_id: str, how: str) -> str:
        """Return the step that begins an exercise; `how` begins the sentence."""
        where = self.where(exercise_id)
        if self.asked.by_saving:
            return f"{how}: open {where}, write, and save."
        if not self.standings:
            hint = _command(f"grade hint {exercise_id}{self.hint_options}")
            start = how if how == "Start" else f"{how}: start"
            return f"{start} with {where}; {hint} helps."
        watch = _command(f"grade watch{self._named(exercise_id)}{self.hint_options}")
        return f"{how}: open {where} and run {watch}: it answers every save."

    def _go_on(self, exercise_id: str) -> str:
        """Return the step after an exercise is done, to the next open one."""
        if self.asked is Asked.WATCHING:
            return f"{self._done}. Press n for the next one: {self.course.exercise(exercise_id).title}."
        if self.by_all_tests and self.standings.get(exercise_id) is Standing.DONE:
            what = "passes the public tests: hand it in with"
            return f"{self._done}. Next: {exercise_id} {what} {self.judge(exercise_id)}."
        if self.asked.by_saving or self.standings.get(exercise_id) in (None, Standing.OPEN):
            return self._start(exercise_id, f"{self._done}. Next")
        named = self.by_all_tests or self._named(exercise_id)
        again = self.judge(exercise_id) if named else _command(f"grade{self.hint_options}")
        return f"{self._done}. Next: go on with {self.where(exercise_id)}, then run {again}."

    def _named(self, exercise_id: str) -> str:
        """Return the id if it must be given: a bare command takes the `first_open` exercise."""
        return "" if first_open(self.course, self.standings) == exercise_id else f" {exercise_id}"

    def _further(self, exercises: Sequence[ExerciseResult]) -> str | None:
        """Return an exercise to continue with that was neither judged nor done."""
        judged = {exercise.name for exercise in exercises}
        if self.standings:
            # While watching, the key n visits all exercises in turn.
            in_turn = self.asked is Asked.WATCHING
            done = self.done | judged
            begun = {e for e, standing in self.standings.items() if standing.has_work}
            following = next_open(
                self.course, done, exercises[-1].name, begun=begun, in_turn=in_turn
            )
            return None if following is None else following.id
        only = self.course.exercise(exercises[0].name)
        read = read_submission(self.submission, self.course, only=only, allow_empty=True)
        files = read.files
        for exercise in self.course.exercises:
            if exercise.id in files and exercise.id not in judged | self.course.not_proposed:
                state = files[exercise.id].state(self.course.stub(exercise))
                if state is State.UNTOUCHED:
                    return exercise.id
        return None

    def _is_missing(self, exercise_id: str) -> bool:
        return not os.path.lexists(self._file(exercise_id))

    def _file(self, exercise_id: str) -> Path:
        return file_of(self.submission, self.course.exercise(exercise_id))
